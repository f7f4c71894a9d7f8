/* SPDX-License-Identifier: MIT */

/*
 * The trash: sessions that were removed and may come back for a while.
 *
 * What happens to a session
 *
 *   It leaves in one transaction and comes back in one, whole, with its times, modes, attributes
 *   and inode numbers.  In between nobody sees it: not the tree, nor a program that reads the
 *   rows.
 *
 *     the directory's entry   goes from the root to a directory that no name leads to
 *                             (BACKEND_TRASH); there it is called "REMOVED UNTIL NAME", both in
 *                             nanoseconds since 1970
 *     the rows of its files   are kept apart, each with its file's node (BACKEND_KEY_HIDE)
 *     nodes of state files    are of kind BACKEND_ORDINARY for that time, and of the session's
 *                             directory as well, so that nothing finds them by session and key;
 *                             both they still have.  What kind they were their names tell.
 *     everything else         stays as it is: names below it, chunks, pieces, marks, attributes
 *
 *   A version that knows no trash finds ordinary files in a directory that nothing leads to, and
 *   leaves them alone.
 *
 *   To the running tree it is as if all of the session had been unlinked: its inodes are gone, and
 *   the kernel forgets the name.  So a session of which somebody has a file open stays, on whatever
 *   mount: before a file is opened, its mount says that it has it in use (backend_use()), and the
 *   batch depends on nobody having any.  Who works in one of its directories finds nothing there
 *   any more, as after an rm -r.
 *
 *   What is purged gets "REMOVED 0 NAME" first: from then on it cannot come back, and what is
 *   left of it after a crash goes the next time.  Then it goes in parts, files before the
 *   directory that they are in.
 *
 *   Orders come one at a time (tree.trash_lock, before tree.lock).
 *
 * Age
 *
 *   A session is as old as its last change: of a row, of a file, or its return from the trash.
 *   Times of directories do not count, unless there is nothing else: they move when a store is
 *   adopted.
 */
#include "fs/base/ttl.h"
#include "fs/inode/aparts.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/trash-internal.h"
#include "src/base/tick.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

static const int64_t TELL_NS = INT64_C(3000000000); /* for a mount to tell what it has in use */
static const struct timespec TELL_PAUSE = { .tv_nsec = 5000000 };

struct trashing {
	struct tree *tree;
	struct bytes name; /* in the root */
	int64_t since;
	int64_t grace;
	struct view view;
	struct inode *dir;
	uint64_t entry;
	uint64_t entry_to; /* in the trash */
	struct entries family;
	struct batch batch;
	struct notes *notes;
};

static void trashing_done(struct trashing *trashing)
{
	view_end(&trashing->view);
	batch_done(&trashing->batch);
	entries_done(&trashing->family);
	if (trashing->dir)
		inode_forget(trashing->tree, trashing->dir, 1);
}

/* What only memory knows is newer; and nobody may be at work in it. */
static int take_memory(struct trashing *trashing)
{
	for (size_t i = 0; i < trashing->family.count; i++) {
		struct backend_node *node = &trashing->family.item[i].node;
		struct inode *inode;
		bool busy;

		if (kind_is_state(node->kind) &&
		    apart_has(trashing->tree, node->session, node->key))
			return -EIO;
		inode = inode_known(trashing->tree, node->ino);
		if (!inode)
			continue;
		busy = inode->open || inode->buffered;
		trashing->family.item[i].noted = true; /* its times are those in memory */
		node->mtime = inode->node.mtime;
		node->ctime = inode->node.ctime;
		node->atime = inode->node.atime;
		inode_forget(trashing->tree, inode, 1);
		if (busy)
			return -EBUSY;
	}
	return 0;
}

/* Files that were unlinked a moment ago still have their rows, which would stay behind. */
static int end_ghosts(struct trashing *trashing)
{
	struct tree *tree = trashing->tree;
	int r;

	if (!tree->ghosts)
		return 0;
	view_end(&trashing->view);
	r = ghosts_end(tree, true, trashing->dir);
	return r < 0 ? r : view_begin(tree, 0, &trashing->view);
}

static int find_session(struct trashing *trashing)
{
	struct tree *tree = trashing->tree;
	int r = view_begin(tree, 0, &trashing->view);

	if (r == 0)
		r = entry_open(tree, &trashing->view, tree->root, trashing->name, &trashing->entry,
			       &trashing->dir);
	if (r < 0)
		return r;
	return trashing->dir->node.kind == BACKEND_SESSION ? 0 : -ENOTDIR;
}

static int judge_session(struct trashing *trashing)
{
	struct view *view = &trashing->view;
	struct session_look look = { 0 };
	int r = session_heed(trashing->tree, view, trashing->dir);

	if (r == 0)
		r = family_find(view, trashing->dir->ino, &trashing->family);
	if (r == 0)
		r = end_ghosts(trashing);
	if (r == 0)
		r = take_memory(trashing);
	if (r == 0)
		r = family_look(view, &trashing->dir->node, NULL, &trashing->family, &look);
	return r < 0 ? r : look.changed > trashing->since ? -ECANCELED : 0;
}

/* The trash itself is made when it is first needed. */
static int emit_trash(struct view *view, struct batch *batch)
{
	int64_t now = time_now();
	const struct backend_node trash = {
		.ino = BACKEND_TRASH,
		.mode = S_IFDIR | 0700,
		.nlink = 2,
		.atime = now,
		.mtime = now,
		.ctime = now,
		.btime = now,
	};
	struct backend_node there;
	int r = ASK(view, node_get, BACKEND_TRASH, &there);

	if (r == 0)
		backend_node_done(&there);
	else if (r == -ENOENT)
		batch_node_put(batch, &trash);
	return r == -ENOENT ? 0 : r;
}

static void emit_files(struct trashing *trashing)
{
	for (size_t i = 0; i < trashing->family.count; i++) {
		const struct entry_copy *member = &trashing->family.item[i];
		struct backend_node node = member->node;

		if (kind_is_state(node.kind))
			emit_key(&trashing->batch, BACKEND_KEY_HIDE, &node);
		else if (!member->noted)
			continue;
		node.kind = BACKEND_ORDINARY;
		batch_node_put(&trashing->batch, &node);
	}
}

/* Other mounts may be at work in it as well, and make or change something. */
static void guard_family(struct trashing *trashing)
{
	for (size_t i = 0; i < trashing->family.count; i++)
		batch_guard_unused(&trashing->batch, trashing->family.item[i].node.ino);
}

/* Gone to who still has it in mind. */
static void lose(struct tree *tree, uint64_t ino)
{
	struct inode *inode = inode_known(tree, ino);

	if (!inode)
		return;
	/* What has another name elsewhere lives on. */
	if (inode_is_dir(inode) || inode->node.nlink <= 1) {
		inode->gone = true;
		inode->node.nlink = 0;
		inode->loaded = inode->stored_known = false;
		inode->version++;
	}
	inode_forget(tree, inode, 1);
}

static int trash_commit(struct trashing *trashing)
{
	struct tree *tree = trashing->tree;
	struct backend_node node = trashing->dir->node, root;
	int64_t removed = time_now();
	int r = emit_trash(&trashing->view, &trashing->batch);

	if (r < 0)
		return r;
	view_end(&trashing->view);
	guard_family(trashing);
	emit_files(trashing);
	node.kind = BACKEND_ORDINARY;
	node.parent = BACKEND_TRASH;
	node.entry = trashing->entry_to;
	batch_node_put(&trashing->batch, &node);
	batch_entry_delete(&trashing->batch, BACKEND_ROOT, trashing->entry);
	emit_trashed(&trashing->batch, node.entry, removed,
		     trashing->grace > INT64_MAX - removed ? INT64_MAX : removed + trashing->grace,
		     trashing->name, node.ino);
	dir_changed(tree->root, -1, &root);
	batch_node_put(&trashing->batch, &root);
	/* tree.lock is kept: nobody may come to be at work in it meanwhile. */
	r = batch_commit(&trashing->batch, tree->backend, BACKEND_FREES);
	if (r == 0)
		dir_apply(tree->root, &root);
	return r;
}

static int trash_once(struct tree *tree, struct bytes name, int64_t since, int64_t grace,
		      struct notes *notes)
{
	_cleanup_(trashing_done) struct trashing trashing = {
		.tree = tree, .name = name, .since = since, .grace = grace
	};
	WITH_WRITE_LOCK(tree);
	int r = number_entry(tree, &trashing.entry_to);

	if (r == 0)
		r = find_session(&trashing);
	if (r == 0)
		r = judge_session(&trashing);
	if (r == 0)
		r = trash_commit(&trashing);
	if (r < 0) {
		view_end(&trashing.view);
		return r;
	}
	lose(tree, trashing.dir->ino);
	for (size_t i = 0; i < trashing.family.count; i++)
		lose(tree, trashing.family.item[i].node.ino);
	notes_entry(notes, BACKEND_ROOT, name);
	notes_dir(notes, BACKEND_ROOT);
	name_happened(notes, tree, EVENT_REMOVE, trashing.dir, tree->root, name);
	return 0;
}

/* Until each mount has told what it has in use; one that is stopped is waited for only once. */
static int trash_now(struct tree *tree, struct bytes name, int64_t since, int64_t grace,
		     struct notes *notes)
{
	int64_t until = tree->untold ? 0 : tick_now() + TELL_NS;
	int r;

	while ((r = TREE_RETRY(tree, trash_once(tree, name, since, grace, notes))) == -EAGAIN &&
	       tick_now() < until)
		nanosleep(&TELL_PAUSE, NULL);
	tree->untold = r == -EAGAIN;
	return r == -EAGAIN ? -EBUSY : r;
}

int tree_trash(struct tree *tree, struct bytes name, int64_t since, int64_t grace)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	pthread_mutex_lock(&tree->trash_lock);
	r = trash_now(tree, name, since, grace, &notes);
	pthread_mutex_unlock(&tree->trash_lock);
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}

/* Orders. */

int order_trash(struct buf *order, struct bytes name, int64_t since, int64_t grace)
{
	int r = buf_printf(order, "trash %" PRId64 " %" PRId64 " ", MAX(since, 0), MAX(grace, 0));

	return r < 0 ? r : buf_append_bytes(order, name);
}

int order_undo(struct buf *order, uint64_t id)
{
	return buf_printf(order, "undo %" PRIu64, id);
}

int order_purge(struct buf *order, uint64_t id)
{
	return buf_printf(order, "purge %" PRIu64, id);
}

static bool take_verb(struct bytes *order, const char *verb)
{
	size_t size = strlen(verb);

	if (order->size < size || memcmp(order->data, verb, size) != 0)
		return false;
	*order = bytes_make(order->data + size, order->size - size);
	return true;
}

int tree_order(struct tree *tree, struct bytes order)
{
	int64_t since, grace;
	uint64_t id;

	if (take_verb(&order, "trash "))
		return word_take(&order, &since) && word_take(&order, &grace) && order.size ?
			       tree_trash(tree, order, since, grace) :
			       -EINVAL;
	if (take_verb(&order, "undo "))
		return number_take(&order, INT64_MAX, &id) && !order.size ?
			       tree_trash_undo(tree, id) :
			       -EINVAL;
	if (take_verb(&order, "purge "))
		return number_take(&order, INT64_MAX, &id) && !order.size ?
			       tree_trash_purge(tree, id) :
			       -EINVAL;
	return -EINVAL;
}
