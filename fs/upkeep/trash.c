/* SPDX-License-Identifier: MIT */

/*
 * The trash: sessions that were removed and may come back for a while.
 *
 * What happens to a session
 *
 *   It leaves in one transaction and comes back in one, whole, with its times, modes, attributes
 *   and inode numbers.  In between neither the tree nor a program that reads the rows can see it.
 *
 *     the directory's entry   goes from the root to a directory that no name leads to
 *                             (BACKEND_TRASH); there it is called "REMOVED UNTIL NAME", both in
 *                             nanoseconds since 1970.  With a layout NAME is a path, and a session
 *                             may have several such homes, or be a file (fs/api/trash.h)
 *     the rows of its files   are hidden, each with its file's node (BACKEND_KEY_HIDE)
 *     nodes of state files,   are of kind BACKEND_ORDINARY for that time, so that they are not
 *     and of the directory    found by session and key, which they keep.  Their names say which
 *                             kind they were.
 *     everything else         stays as it is: names below it, chunks, pieces, marks, attributes
 *
 *   A version without a trash finds ordinary files in a directory that cannot be reached, and
 *   leaves them alone.
 *
 *   To the running tree it is as if all of the session had been unlinked: its inodes are gone, and
 *   the kernel forgets the name.  So a session with an open file stays: before a file is opened,
 *   its mount says that it has it in use (backend_use()), and the batch has the condition that no
 *   mount uses any.  A process that works in one of its directories finds nothing there any more,
 *   as after an rm -r.
 *
 *   A purge first renames it to "REMOVED 0 NAME", which a removal without grace does at once: from
 *   then on it cannot come back, and the next purge removes what a crash has left of it.  Then it
 *   is deleted in parts, files before the directory that they are in.
 *
 *   Orders come one at a time (tree.upkeep.trash_lock, before tree.lock).
 *
 *   Single files and directories that were removed lie here, too (fs/inode/trashed.h), and come
 *   back singly: a file as what its path says, with missing directories made above it.
 *
 * Age
 *
 *   A session is as old as its last change: of a row, of a file, or its return from the trash.
 *   Times of directories do not count, unless there is nothing else: they move when a store is
 *   adopted.
 */
#include "fs/base/names.h"
#include "fs/base/packed.h"
#include "fs/base/ttl.h"
#include "fs/inode/aparts.h"
#include "fs/inode/commit.h"
#include "fs/inode/trashed.h"
#include "fs/tree/tree.h"
#include "fs/inode/waiting.h"
#include "fs/upkeep/upkeep.h"
#include "fs/upkeep/trash-internal.h"
#include "backend/base/array.h"
#include "backend/base/tick.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

static const int64_t USES_NS = INT64_C(3000000000); /* for a mount to say what it has in use */
static const struct timespec USES_PAUSE = { .tv_nsec = 5000000 };

/* A home of the session (fs/api/trash.h). */
struct home {
	struct inode *inode;  /* counted, as the next one */
	struct inode *parent; /* the directory that it lies in */
	struct buf path;
	struct buf session; /* of a packed transcript, which has none of its own, */
	struct buf key;	    /* and the key that it keeps in the trash; empty: it is not packed */
	uint64_t entry;
};

struct trashing {
	struct tree *tree;
	struct bytes path;
	int64_t since;
	int64_t grace;
	struct view view;
	struct home *home;
	size_t count;
	size_t room;
	struct entries family; /* below the directories among them */
	struct batch batch;
	struct notes *notes;
};

static void trashing_done(struct trashing *trashing)
{
	view_end(&trashing->view);
	batch_done(&trashing->batch);
	entries_done(&trashing->family);
	for (size_t i = 0; i < trashing->count; i++) {
		struct home *home = &trashing->home[i];

		if (home->inode)
			inode_forget(trashing->tree, home->inode, 1);
		if (home->parent)
			inode_forget(trashing->tree, home->parent, 1);
		buf_done(&home->path);
		buf_done(&home->session);
		buf_done(&home->key);
	}
	free(trashing->home);
}

/* Times that only memory has are newer; and the session must not be in use. */
static int take_node(struct trashing *trashing, struct backend_node *node, bool *ret_noted)
{
	struct inode *inode;
	bool busy;

	if (kind_is_state(node->kind) && apart_has(trashing->tree, node->session, node->key))
		return -EIO;
	inode = inode_known(trashing->tree, node->ino);
	if (!inode)
		return 0;
	busy = inode->open || inode->buffered;
	*ret_noted = true; /* its times are those in memory */
	node->mtime = inode->node.mtime;
	node->ctime = inode->node.ctime;
	node->atime = inode->node.atime;
	inode_forget(trashing->tree, inode, 1);
	return busy ? -EBUSY : 0;
}

static int take_memory(struct trashing *trashing)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < trashing->family.count; i++) {
		struct entry_copy *member = &trashing->family.item[i];

		r = take_node(trashing, &member->node, &member->noted);
	}
	for (size_t i = 0; r == 0 && i < trashing->count; i++) {
		struct backend_node node = trashing->home[i].inode->node;
		bool noted;

		if (!S_ISDIR(node.mode))
			r = take_node(trashing, &node, &noted);
	}
	return r;
}

/* Files that were unlinked a moment ago still have their rows, which would stay behind. */
static int end_ghosts(struct trashing *trashing)
{
	struct tree *tree = trashing->tree;
	int r = 0;

	if (!tree->ghosts)
		return 0;
	view_end(&trashing->view);
	for (size_t i = 0; r == 0 && i < trashing->count; i++)
		r = ghosts_end(tree, true,
			       inode_is_dir(trashing->home[i].inode) ? trashing->home[i].inode :
								       trashing->home[i].parent);
	return r < 0 ? r : view_begin(tree, 0, &trashing->view);
}

static struct home *add_home(struct trashing *trashing)
{
	if (ARRAY_ROOM(trashing->home, trashing->count, trashing->room) < 0)
		return NULL;
	trashing->home[trashing->count] = (struct home){ 0 };
	return &trashing->home[trashing->count++];
}

/* Whether it is a transcript that the client has packed. */
static int judge_packed(struct trashing *trashing, struct home *home)
{
	int r = 0;

	if (S_ISREG(home->inode->node.mode) && home->inode->node.kind == BACKEND_ORDINARY)
		r = packed_judge(trashing->tree->layout, buf_bytes(&home->path), &home->session,
				 &home->key);
	if (r <= 0)
		buf_clear(&home->key);
	return r <= 0 ? r : buf_append_str(&home->key, PACKED_SUFFIX);
}

/* Its node, with the session that it is of. */
static struct backend_node home_node(const struct home *home)
{
	struct backend_node node = home->inode->node;

	if (home->key.size) {
		node.session = buf_bytes(&home->session);
		node.key = buf_bytes(&home->key);
	}
	return node;
}

/* The home that was named. */
static int find_named(struct trashing *trashing)
{
	struct tree *tree = trashing->tree;
	struct view *view = &trashing->view;
	struct home *home = add_home(trashing);
	struct bytes name;
	int r = home ? buf_append_bytes(&home->path, trashing->path) : -ENOMEM;

	if (r == 0)
		r = path_parent(tree, view, trashing->path, &home->parent, &name);
	if (r == 0)
		r = entry_open(tree, view, home->parent, name, &home->entry, &home->inode);
	if (r == 0)
		r = judge_packed(trashing, home);
	if (r < 0)
		return r == -EEXIST ? -ENOTDIR : r;
	return home->inode->node.kind == BACKEND_SESSION || home->key.size ||
			       (inode_is_state(home->inode) && !inode_session(home->parent)) ?
		       0 :
		       -ENOTDIR;
}

/* Another home. */
static int find_other(struct trashing *trashing, const struct backend_node *node)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	struct view *view = &trashing->view;
	struct tree *tree = trashing->tree;
	struct home *home = add_home(trashing);
	int r = home ? inode_get(tree, view, node->ino, &home->inode) : -ENOMEM;

	if (r == 0)
		r = inode_get_dir(tree, view, home->inode->node.parent, &home->parent);
	if (r < 0)
		return r;
	home->entry = home->inode->node.entry;
	r = ASK(view, entry_name, home->parent->ino, home->entry, &name);
	if (r == 0)
		r = inode_path(home->parent, buf_bytes(&name), &home->path);
	return r < 0 ? r : judge_packed(trashing, home);
}

static int find_session(struct trashing *trashing)
{
	_cleanup_(entries_done) struct entries homes = { 0 };
	struct tree *tree = trashing->tree;
	struct backend_node node;
	int r = view_begin(tree, 0, &trashing->view);

	if (r == 0)
		r = find_named(trashing);
	if (r < 0)
		return r;
	node = home_node(&trashing->home[0]);
	r = key_heed(tree, &trashing->view, node.session, (struct bytes){ 0 });
	if (r == 0)
		r = homes_of(&trashing->view, tree->layout, &node, node.session, &homes);
	for (size_t i = 1; r == 0 && i < homes.count; i++)
		r = find_other(trashing, &homes.item[i].node);
	return r;
}

static int judge_session(struct trashing *trashing)
{
	_cleanup_(entries_done) struct entries homes = { 0 };
	struct view *view = &trashing->view;
	struct session_look look = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < trashing->count; i++) {
		const struct inode *inode = trashing->home[i].inode;
		const struct backend_node node = home_node(&trashing->home[i]);

		r = entries_add(&homes, NULL, &node);
		if (r == 0 && inode_is_dir(inode))
			r = family_find(view, inode->ino, &trashing->family);
	}
	if (r == 0)
		r = end_ghosts(trashing);
	if (r == 0)
		r = take_memory(trashing);
	if (r == 0)
		r = family_look(view, &homes, NULL, &trashing->family, &look);
	return r < 0 ? r : look.changed > trashing->since ? -ECANCELED : 0;
}

static void emit_files(struct trashing *trashing)
{
	for (size_t i = 0; i < trashing->family.count; i++) {
		const struct entry_copy *member = &trashing->family.item[i];
		struct backend_node node = member->node;

		if (kind_is_state(node.kind))
			trash_rows(&trashing->batch, &node, trashing->grace);
		else if (!member->noted)
			continue;
		node.kind = BACKEND_ORDINARY;
		batch_node_put(&trashing->batch, &node);
	}
}

/* Mark an inode in memory as gone. */
static void lose(struct tree *tree, uint64_t ino)
{
	struct inode *inode = inode_known(tree, ino);

	if (!inode)
		return;
	/* A file with another name elsewhere lives on. */
	if (inode_is_dir(inode) || inode->node.nlink <= 1) {
		inode->gone = true;
		inode->node.nlink = 0;
		inode_unload(inode);
		inode->stored_known = false;
		inode->version++;
	}
	inode_forget(tree, inode, 1);
}

static int trash_commit(struct trashing *trashing)
{
	struct tree *tree = trashing->tree;
	_cleanup_(changed_dirs_done) struct changed_dirs parents = { 0 };
	const int64_t now = time_now();
	struct trash_item item = { .removed = now, .until = trash_until(now, trashing->grace) };
	int r = 0;

	/* Other mounts may be at work in it as well, and make or change something. */
	for (size_t i = 0; i < trashing->family.count; i++)
		batch_guard_unused(&trashing->batch, trashing->family.item[i].node.ino);
	for (size_t i = 0; i < trashing->count; i++)
		if (!inode_is_dir(trashing->home[i].inode))
			batch_guard_unused(&trashing->batch, trashing->home[i].inode->ino);
	emit_files(trashing);
	for (size_t i = 0; r == 0 && i < trashing->count; i++) {
		const struct home *home = &trashing->home[i];
		const struct backend_node node = home_node(home);

		item.name = buf_bytes(&home->path);
		batch_entry_delete(&trashing->batch, home->parent->ino, home->entry);
		r = trash_put(tree, &trashing->view, &node, item, &trashing->batch);
		if (r == 0)
			r = changed_dirs_add(&parents, home->parent, -inode_is_dir(home->inode));
	}
	view_end(&trashing->view);
	if (r < 0)
		return r;
	changed_dirs_emit(&parents, &trashing->batch);
	/* Keep the lock: the session must not come into use meanwhile. */
	r = tree_commit_locked(tree, &trashing->batch, BACKEND_FREES);
	if (r == 0)
		changed_dirs_apply(&parents);
	return r;
}

static void home_lost(struct tree *tree, const struct home *home, struct notes *notes)
{
	struct bytes path = buf_bytes(&home->path), name = path;
	const char *slash = memrchr(path.data, '/', path.size);

	if (slash)
		name = bytes_make(slash + 1, path.size - (size_t)(slash + 1 - path.data));
	lose(tree, home->inode->ino);
	notes_entry(notes, home->parent->ino, name);
	notes_dir(notes, home->parent->ino);
	name_happened(notes, tree, EVENT_REMOVE, home->inode, home->parent, name);
}

static int trash_once(struct tree *tree, struct bytes path, int64_t since, int64_t grace,
		      struct notes *notes)
{
	_cleanup_(trashing_done) struct trashing trashing = {
		.tree = tree, .path = path, .since = since, .grace = grace
	};
	WITH_WRITE_LOCK(tree);
	int r = find_session(&trashing);

	if (r == 0)
		r = judge_session(&trashing);
	if (r == 0)
		r = trash_commit(&trashing);
	if (r < 0)
		return r;
	for (size_t i = 0; i < trashing.family.count; i++)
		lose(tree, trashing.family.item[i].node.ino);
	for (size_t i = 0; i < trashing.count; i++)
		home_lost(tree, &trashing.home[i], notes);
	return 0;
}

/* Mounts get time to say what they have in use; one that is stopped delays only one operation. */
int64_t uses_wait_until(const struct tree *tree)
{
	return tree->upkeep->uses_pending ? 0 : tick_now() + USES_NS;
}

bool uses_wait(struct tree *tree, int64_t until, int *r)
{
	tree->upkeep->uses_pending = *r == -EAGAIN;
	if (*r != -EAGAIN)
		return false;
	if (tick_now() < until) {
		nanosleep(&USES_PAUSE, NULL);
		return true;
	}
	*r = -EBUSY;
	return false;
}

int tree_trash(struct tree *tree, struct bytes name, int64_t since, int64_t grace)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	pthread_mutex_lock(&tree->upkeep->trash_lock);
	r = TRASH_RETRY(tree, trash_once(tree, name, since, grace, &notes));
	pthread_mutex_unlock(&tree->upkeep->trash_lock);
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

static bool take_verb(struct bytes *order, struct bytes verb)
{
	if (!bytes_starts_with(*order, verb))
		return false;
	*order = bytes_make(order->data + verb.size, order->size - verb.size);
	return true;
}

int tree_order(struct tree *tree, struct bytes order)
{
	int64_t since, grace;
	uint64_t id;
	bool undo;

	if (take_verb(&order, BYTES("trash ")))
		return word_take(&order, &since) && word_take(&order, &grace) && order.size ?
			       tree_trash(tree, order, since, grace) :
			       -EINVAL;
	if (take_verb(&order, BYTES("fork ")))
		return fork_order(tree, order);
	undo = take_verb(&order, BYTES("undo "));
	if (!undo && !take_verb(&order, BYTES("purge ")))
		return -EINVAL;
	if (!number_take(&order, INT64_MAX, &id) || order.size)
		return -EINVAL;
	return undo ? tree_trash_undo(tree, id) : tree_trash_purge(tree, id);
}
