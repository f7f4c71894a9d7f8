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
 *   the kernel forgets the name.  So a session of which somebody has a file open stays.  Who works
 *   in one of its directories finds nothing there any more, as after an rm -r.
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
#include "fs/model/trash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/model/names.h"
#include "fs/model/namespace.h"
#include "fs/model/ttl.h"
#include "src/base/log.h"

static const int64_t second = 1000000000;

/* Words. */

/* A number with a blank behind it. */
static bool take_word(struct bytes *text, int64_t *ret_number)
{
	uint64_t number;

	if (!number_take(text, INT64_MAX, &number) || !text->size || *text->data != ' ')
		return false;
	*text = bytes_make(text->data + 1, text->size - 1);
	*ret_number = (int64_t)number;
	return true;
}

/* All that is in a directory, each before what it holds. */

struct member {
	uint64_t parent;
	uint64_t entry;
	char *name;
	size_t name_size;
	struct backend_node node;
	bool known; /* its times are those in memory */
};

struct family {
	struct member *member;
	size_t count;
	size_t room;
};

static void family_done(struct family *family)
{
	for (size_t i = 0; i < family->count; i++) {
		free(family->member[i].name);
		backend_node_done(&family->member[i].node);
	}
	free(family->member);
	*family = (struct family){ 0 };
}

static struct bytes member_name(const struct member *member)
{
	return bytes_make(member->name, member->name_size);
}

static int keep_member(void *arg, const struct backend_entry *entry,
		       const struct backend_node *node)
{
	struct family *family = arg;
	struct member *member;

	/* A directory has one name; in a damaged store another one may seem to lead to it. */
	if (S_ISDIR(node->mode) && (node->parent != entry->parent || node->entry != entry->id))
		return 0;
	if (family->count == family->room) {
		size_t room = family->room ? family->room * 2 : 16;

		member = reallocarray(family->member, room, sizeof(*member));
		if (!member)
			return -ENOMEM;
		family->member = member;
		family->room = room;
	}
	member = &family->member[family->count];
	*member = (struct member){ .parent = entry->parent,
				   .entry = entry->id,
				   .name = bytes_dup(entry->name),
				   .name_size = entry->name.size };
	if (!member->name)
		return -ENOMEM;
	if (backend_node_copy(node, &member->node) < 0) {
		free(member->name);
		return -ENOMEM;
	}
	family->count++;
	return 0;
}

static int family_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t dir,
		       struct family *family)
{
	int r = backend->ops->entry_list(backend, snapshot, dir, 0, keep_member, family);

	for (size_t i = 0; r == 0 && i < family->count; i++) {
		const struct backend_node *node = &family->member[i].node;

		/* In a damaged store it may lie in itself. */
		if (node->ino == dir)
			r = -EIO;
		else if (S_ISDIR(node->mode))
			r = backend->ops->entry_list(backend, snapshot, node->ino, 0, keep_member,
						     family);
	}
	return r;
}

/* Looking. */

/* A number that is an attribute, or 0. */
static int get_number(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      const char *name, int64_t *ret_number)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct bytes text;
	uint64_t number;
	int r = backend->ops->xattr_get(backend, snapshot, ino, bytes_str(name), &value);

	*ret_number = 0;
	text = buf_bytes(&value);
	if (r == 0 && number_take(&text, (uint64_t)(INT64_MAX / second), &number))
		*ret_number = (int64_t)number;
	return r == -ENODATA ? 0 : r;
}

static int look_ttl(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct session_look *look)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = backend->ops->xattr_get(backend, snapshot, ino, BYTES(TRASH_TTL), &value);

	if (r == 0)
		look->has_ttl = ttl_parse(buf_bytes(&value), &look->ttl) == 0;
	return r == -ENODATA ? 0 : r;
}

static void look_at_files(const struct family *family, struct session_look *look)
{
	for (size_t i = 0; i < family->count; i++) {
		const struct backend_node *node = &family->member[i].node;

		if (S_ISDIR(node->mode))
			continue;
		look->changed = MAX(look->changed, node->mtime);
		look->bytes += node->size;
	}
}

static int look_at_family(struct backend *backend, struct backend_snapshot *snapshot,
			  const struct backend_node *dir, const struct backend_session_stat *rows,
			  const struct family *family, struct session_look *look)
{
	struct backend_session_stat stat = { 0 };
	int64_t restored;
	int r = 0;

	if (!rows) {
		r = backend->ops->session_stat(backend, snapshot, dir->session, &stat);
		rows = &stat;
	}
	if (r == 0 || r == -ENOENT)
		r = get_number(backend, snapshot, dir->ino, TRASH_RESTORED, &restored);
	if (r < 0)
		return r;
	look->bytes = rows->bytes;
	look->changed = MAX(rows->items ? rows->updated : 0, restored * second);
	look_at_files(family, look);
	if (!look->changed)
		look->changed = dir->mtime;
	return look_ttl(backend, snapshot, dir->ino, look);
}

int session_look(struct backend *backend, struct backend_snapshot *snapshot,
		 const struct backend_node *dir, const struct backend_session_stat *rows,
		 struct session_look *ret_look)
{
	_cleanup_(family_done) struct family family = { 0 };
	struct session_look look = { 0 };
	int r = family_find(backend, snapshot, dir->ino, &family);

	if (r == 0)
		r = look_at_family(backend, snapshot, dir, rows, &family, &look);
	if (r == 0)
		*ret_look = look;
	return r;
}

int session_ttl(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		struct buf *text)
{
	struct bytes none = { 0 };
	struct backend_node node;
	int r = backend->ops->node_find(backend, snapshot, session, none, &node);

	if (r < 0)
		return r == -ENOENT ? -ENODATA : r;
	r = backend->ops->xattr_get(backend, snapshot, node.ino, BYTES(TRASH_TTL), text);
	backend_node_done(&node);
	return r;
}

static bool trash_parse(uint64_t id, uint64_t ino, struct bytes name, struct trash_item *item)
{
	*item = (struct trash_item){ .id = id, .ino = ino };
	if (!take_word(&name, &item->removed) || !take_word(&name, &item->until))
		return false;
	item->name = name;
	return true;
}

struct trash_listing {
	trash_fn *fn;
	void *arg;
};

static int list_item(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	const struct trash_listing *listing = arg;
	struct trash_item item;

	return trash_parse(entry->id, node->ino, entry->name, &item) ?
		       listing->fn(listing->arg, &item) :
		       0;
}

int trash_list(struct backend *backend, struct backend_snapshot *snapshot, trash_fn *fn, void *arg)
{
	struct trash_listing listing = { fn, arg };

	return backend->ops->entry_list(backend, snapshot, BACKEND_TRASH, 0, list_item, &listing);
}

/* Removing. */

struct trashing {
	struct tree *tree;
	struct bytes name; /* in the root */
	int64_t since;
	int64_t grace;
	struct view view;
	struct inode *dir;
	uint64_t entry;
	struct family family;
	struct batch batch;
	struct notes *notes;
};

static void trashing_done(struct trashing *trashing)
{
	view_end(&trashing->view);
	batch_done(&trashing->batch);
	family_done(&trashing->family);
	if (trashing->dir)
		inode_forget(trashing->tree, trashing->dir, 1);
}

/* What only memory knows is newer; and nobody may be at work in it. */
static int take_memory(struct trashing *trashing)
{
	for (size_t i = 0; i < trashing->family.count; i++) {
		struct backend_node *node = &trashing->family.member[i].node;
		struct inode *inode = inode_known(trashing->tree, node->ino);
		bool busy;

		if (!inode)
			continue;
		busy = inode->open || inode->held;
		trashing->family.member[i].known = true;
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
	r = ghosts_end(tree, true, trashing->dir->ino);
	for (size_t i = 0; r == 0 && i < trashing->family.count; i++)
		if (S_ISDIR(trashing->family.member[i].node.mode))
			r = ghosts_end(tree, true, trashing->family.member[i].node.ino);
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
	int r = family_find(view->backend, view->snapshot, trashing->dir->ino, &trashing->family);

	if (r == 0)
		r = end_ghosts(trashing);
	if (r == 0)
		r = take_memory(trashing);
	if (r == 0)
		r = look_at_family(view->backend, view->snapshot, &trashing->dir->node, NULL,
				   &trashing->family, &look);
	return r < 0 ? r : look.changed > trashing->since ? -ECANCELED : 0;
}

static void emit_key(struct batch *batch, enum backend_op_type type,
		     const struct backend_node *node)
{
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return;
	op->session = node->session;
	op->key = node->key;
	op->ino = node->ino;
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
	int r = view->backend->ops->node_get(view->backend, view->snapshot, BACKEND_TRASH, &there);

	if (r == 0)
		backend_node_done(&there);
	else if (r == -ENOENT)
		batch_node_put(batch, &trash);
	return r == -ENOENT ? 0 : r;
}

static void emit_entry(struct batch *batch, uint64_t id, int64_t removed, int64_t until,
		       struct bytes name, uint64_t ino)
{
	_cleanup_(buf_done) struct buf whole = { 0 };

	/* buf_printf() is for text; a name may hold any byte. */
	if (buf_printf(&whole, "%" PRId64 " %" PRId64 " ", removed, until) < 0 ||
	    buf_append_bytes(&whole, name) < 0)
		batch->error = -ENOMEM;
	else
		batch_entry_put(batch, BACKEND_TRASH, id, batch_keep(batch, buf_bytes(&whole)),
				ino);
}

static void emit_files(struct trashing *trashing)
{
	for (size_t i = 0; i < trashing->family.count; i++) {
		const struct member *member = &trashing->family.member[i];
		struct backend_node node = member->node;

		if (kind_is_state(node.kind))
			emit_key(&trashing->batch, BACKEND_KEY_HIDE, &node);
		else if (!member->known)
			continue;
		node.kind = BACKEND_ORDINARY;
		batch_node_put(&trashing->batch, &node);
	}
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
	emit_files(trashing);
	node.kind = BACKEND_ORDINARY;
	node.parent = BACKEND_TRASH;
	node.entry = atomic_fetch_add(&tree->last_entry, 1) + 1;
	batch_node_put(&trashing->batch, &node);
	batch_entry_delete(&trashing->batch, BACKEND_ROOT, trashing->entry);
	emit_entry(&trashing->batch, node.entry, removed,
		   trashing->grace > INT64_MAX - removed ? INT64_MAX : removed + trashing->grace,
		   trashing->name, node.ino);
	dir_changed(tree->root, -1, &root);
	batch_node_put(&trashing->batch, &root);
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
	int r = find_session(&trashing);

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
		lose(tree, trashing.family.member[i].node.ino);
	notes_entry(notes, BACKEND_ROOT, name);
	notes_dir(notes, BACKEND_ROOT);
	return 0;
}

int tree_trash(struct tree *tree, struct bytes name, int64_t since, int64_t grace)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	pthread_mutex_lock(&tree->trash_lock);
	r = TREE_RETRY(tree, trash_once(tree, name, since, grace, &notes));
	pthread_mutex_unlock(&tree->trash_lock);
	notes_tell(&notes, tree, false);
	return r;
}

/* Bringing back. */

/* One entry of the trash, with copies of its own. */
struct trashed {
	uint64_t id;
	bool found;
	struct trash_item item;
	struct buf name;
	struct backend_node node;
};

static void trashed_done(struct trashed *trashed)
{
	buf_done(&trashed->name);
	backend_node_done(&trashed->node);
}

static int keep_trashed(void *arg, const struct backend_entry *entry,
			const struct backend_node *node)
{
	struct trashed *trashed = arg;
	int r;

	if (entry->id != trashed->id ||
	    !trash_parse(entry->id, node->ino, entry->name, &trashed->item))
		return 1;
	r = buf_append_bytes(&trashed->name, trashed->item.name);
	if (r == 0)
		r = backend_node_copy(node, &trashed->node);
	trashed->item.name = buf_bytes(&trashed->name);
	trashed->found = r == 0;
	return r < 0 ? r : 1;
}

static int find_trashed(struct view *view, uint64_t id, struct trashed *trashed)
{
	int r;

	if (!id)
		return -ENOENT;
	trashed->id = id;
	r = view->backend->ops->entry_list(view->backend, view->snapshot, BACKEND_TRASH, id - 1,
					   keep_trashed, trashed);
	return r < 0 ? r : trashed->found ? 0 : -ENOENT;
}

static int is_free(struct tree *tree, struct view *view, const struct trashed *trashed)
{
	struct bytes none = { 0 };
	struct backend_node node;
	struct inode *there;
	uint64_t id;
	int r = entry_open(tree, view, tree->root, trashed->item.name, &id, &there);

	if (r == 0) {
		inode_forget(tree, there, 1);
		return -EEXIST;
	}
	if (r == -ENOENT)
		r = view->backend->ops->node_find(view->backend, view->snapshot,
						  trashed->node.session, none, &node);
	if (r == 0) {
		backend_node_done(&node);
		return -EEXIST;
	}
	return r == -ENOENT ? 0 : r;
}

static void emit_shown(struct family *family, struct batch *batch)
{
	for (size_t i = 0; i < family->count; i++) {
		struct backend_node *node = &family->member[i].node;
		uint32_t kind = names_split(member_name(&family->member[i])).kind;

		if (!S_ISREG(node->mode) || !node->key.data || !kind_is_state(kind))
			continue;
		node->kind = kind;
		batch_node_put(batch, node);
		emit_key(batch, BACKEND_KEY_SHOW, node);
	}
}

/* Takes the node over. */
static void regain(struct tree *tree, struct backend_node *node)
{
	struct inode *inode = inode_known(tree, node->ino);

	if (!inode)
		return;
	if (inode->gone) {
		inode->gone = false;
		inode_set_node(inode, node);
		inode->loaded = false;
		inode->version++;
	}
	inode_forget(tree, inode, 1);
}

static int undo_commit(struct tree *tree, struct trashed *trashed, struct family *family)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node *node = &trashed->node;
	struct backend_node root;
	char restored[24];
	int r;

	node->kind = BACKEND_SESSION;
	node->parent = BACKEND_ROOT;
	node->entry = atomic_fetch_add(&tree->last_entry, 1) + 1;
	node->ctime = time_now();
	snprintf(restored, sizeof(restored), "%" PRId64, node->ctime / second);
	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	batch_node_put(&batch, node);
	batch_entry_put(&batch, BACKEND_ROOT, node->entry, trashed->item.name, node->ino);
	batch_xattr_put(&batch, node->ino, BYTES(TRASH_RESTORED), bytes_str(restored));
	emit_shown(family, &batch);
	dir_changed(tree->root, 1, &root);
	batch_node_put(&batch, &root);
	r = batch_commit(&batch, tree->backend, BACKEND_FREES);
	if (r == 0)
		dir_apply(tree->root, &root);
	return r;
}

static int undo_once(struct tree *tree, uint64_t id, struct notes *notes)
{
	_cleanup_(family_done) struct family family = { 0 };
	_cleanup_(trashed_done) struct trashed trashed = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = view_begin(tree, 0, &view);

	if (r == 0)
		r = find_trashed(&view, id, &trashed);
	if (r == 0 && !trashed.item.until)
		r = -ENOENT;
	if (r == 0)
		r = is_free(tree, &view, &trashed);
	if (r == 0)
		r = family_find(view.backend, view.snapshot, trashed.node.ino, &family);
	view_end(&view);
	if (r == 0)
		r = undo_commit(tree, &trashed, &family);
	if (r < 0)
		return r;
	notes_entry(notes, BACKEND_ROOT, trashed.item.name);
	notes_dir(notes, BACKEND_ROOT);
	regain(tree, &trashed.node);
	for (size_t i = 0; i < family.count; i++)
		regain(tree, &family.member[i].node);
	return 0;
}

int tree_trash_undo(struct tree *tree, uint64_t id)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	pthread_mutex_lock(&tree->trash_lock);
	r = TREE_RETRY(tree, undo_once(tree, id, &notes));
	pthread_mutex_unlock(&tree->trash_lock);
	notes_tell(&notes, tree, false);
	return r;
}

/* Purging. */

enum { PURGE_OPS = 512 };

/* From now on it cannot come back. */
static int mark_purged(struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(batch_done) struct batch batch = { 0 };

	if (!trashed->item.until)
		return 0;
	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	emit_entry(&batch, trashed->id, trashed->item.removed, 0, trashed->item.name,
		   trashed->node.ino);
	return batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

/* One name less of a file that has others. */
static void emit_unlink(struct tree *tree, const struct member *member, struct batch *batch)
{
	struct inode *inode = inode_known(tree, member->node.ino);
	struct backend_node node = inode ? inode->node : member->node;

	node.nlink--;
	if (node.parent == member->parent && node.entry == member->entry)
		node.parent = node.entry = 0;
	batch_node_put(batch, &node);
	if (!inode)
		return;
	inode->node.nlink = node.nlink;
	inode->node.parent = node.parent;
	inode->node.entry = node.entry;
	inode_forget(tree, inode, 1);
}

static void emit_delete(uint64_t ino, struct batch *batch)
{
	struct backend_op *op = batch_add(batch, BACKEND_HIDDEN_DELETE);

	if (op) {
		op->ino = ino;
		op->at = INT64_MIN;
		op->to = INT64_MAX;
	}
	batch_node_delete(batch, ino);
}

static int purge_member(struct tree *tree, struct member *member)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node now = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	/* Another name may have gone since. */
	if (r == 0)
		r = view.backend->ops->node_get(view.backend, view.snapshot, member->node.ino,
						&now);
	view_end(&view);
	if (r == 0) {
		backend_node_done(&member->node);
		member->node = now;
	} else if (r != -ENOENT) {
		return r;
	}
	batch_entry_delete(&batch, member->parent, member->entry);
	if (r == 0 && !S_ISDIR(member->node.mode) && member->node.nlink > 1)
		emit_unlink(tree, member, &batch);
	else
		emit_delete(member->node.ino, &batch);
	return batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

/* Some of them at a time, the last ones first: nobody waits for long. */
static int purge_some(struct tree *tree, struct family *family)
{
	WITH_WRITE_LOCK(tree);
	int r = 0;

	for (unsigned done = 0; r == 0 && done < PURGE_OPS && family->count; done++) {
		struct member *member = &family->member[family->count - 1];

		r = purge_member(tree, member);
		if (r < 0)
			break;
		free(member->name);
		backend_node_done(&member->node);
		family->count--;
	}
	return r;
}

static int purge_begin(struct tree *tree, uint64_t id, struct trashed *trashed,
		       struct family *family)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = find_trashed(&view, id, trashed);
	if (r == 0)
		r = family_find(view.backend, view.snapshot, trashed->node.ino, family);
	view_end(&view);
	return r < 0 ? r : mark_purged(tree, trashed);
}

static int purge_end(struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_WRITE_LOCK(tree);

	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	batch_node_delete(&batch, trashed->node.ino);
	return batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

static int purge(struct tree *tree, uint64_t id)
{
	_cleanup_(trashed_done) struct trashed trashed = { 0 };
	_cleanup_(family_done) struct family family = { 0 };
	int r = purge_begin(tree, id, &trashed, &family);

	while (r == 0 && family.count)
		r = purge_some(tree, &family);
	return r < 0 ? r : purge_end(tree, &trashed);
}

int tree_trash_purge(struct tree *tree, uint64_t id)
{
	int r;

	if (tree->options.read_only)
		return -EROFS;
	pthread_mutex_lock(&tree->trash_lock);
	r = purge(tree, id);
	pthread_mutex_unlock(&tree->trash_lock);
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
		return take_word(&order, &since) && take_word(&order, &grace) && order.size ?
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
