/* SPDX-License-Identifier: MIT */

/*
 * Reconciling what other programs changed.
 *
 *   Others change rows and nothing else.  For each key that they changed, the tree is made to fit:
 *
 *     rows, no file    the key is adopted: a file for it, and the directories on the way
 *     rows and a file  what was known of the content (marks, size, draft) is dropped where it may
 *                      be wrong; a single that has become a list changes its name
 *     no rows, a file  the file goes, and directories that it leaves empty, up to the session
 *
 *   A draft yields to the other program's rows, which are newer, but not to their absence.  A torn
 *   line that another program's row now follows is closed off, so that no line is mixed.
 *
 *   Reconciling runs alone (tree.lock for writing), one commit a key, or for several that are
 *   adopted (adopt.c), each with the note that these keys are done: when it is interrupted, it goes
 *   on where it stopped.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/model/names.h"
#include "fs/model/namespace.h"
#include "fs/model/reconcile.h"
#include "src/base/log.h"

/* Collecting the keys. */

static int reconcile_add(struct reconciling *reconciling, struct bytes session, struct bytes key,
			 int64_t first, int64_t stamp, bool logged)
{
	struct changed_key *item;
	int r;

	if (reconciling->count == reconciling->room) {
		size_t room = reconciling->room ? reconciling->room * 2 : 16;

		item = reallocarray(reconciling->keys, room, sizeof(*item));
		if (!item)
			return -ENOMEM;
		reconciling->keys = item;
		reconciling->room = room;
	}
	item = &reconciling->keys[reconciling->count];
	*item = (struct changed_key){ .first = first, .stamp = stamp, .logged = logged };
	reconciling->count++;
	r = buf_reserve(&item->session, 1);
	if (r == 0)
		r = buf_append_bytes(&item->session, session);
	if (r == 0)
		r = buf_reserve(&item->key, 1);
	if (r == 0)
		r = buf_append_bytes(&item->key, key);
	return r;
}

static int keep_change(void *arg, const struct backend_change *change)
{
	struct reconciling *reconciling = arg;

	if (!change->session.data) {
		reconciling->all = true;
		reconciling->all_stamp = change->stamp;
		return 0;
	}
	return reconcile_add(reconciling, change->session, change->key, change->first,
			     change->stamp, true);
}

static int keep_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	(void)stat;
	return reconcile_add(arg, session, key, INT64_MIN, 0, false);
}

static int keep_state_node(void *arg, const struct backend_node *node)
{
	if (!kind_is_state(node->kind) || node->kind == BACKEND_LIST || !node->nlink)
		return 0;
	return reconcile_add(arg, node->session, node->key, INT64_MIN, 0, false);
}

static int reconcile_collect(struct reconciling *reconciling)
{
	struct view *view = &reconciling->view;
	const struct backend_ops *ops = view->backend->ops;
	struct bytes none = { 0 };
	int r;

	r = ops->change_list(view->backend, view->snapshot, keep_change, reconciling);
	if (r == 0 && reconciling->all)
		r = ops->key_list(view->backend, view->snapshot, none, none, keep_key, reconciling);
	if (r == 0 && reconciling->all)
		r = ops->node_list(view->backend, view->snapshot, 0, false, keep_state_node,
				   reconciling);
	return r;
}

int reconcile_commit(struct reconciling *reconciling, struct batch *batch)
{
	int r, renewed;

	view_end(&reconciling->view);
	r = batch_commit(batch, reconciling->tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
	renewed = view_begin(reconciling->tree, BACKEND_ANYWAY, &reconciling->view);
	if (r == 0)
		reconciling->view_error = renewed;
	return r < 0 ? r : 0;
}

void reconcile_done(const struct changed_key *key, struct batch *batch)
{
	if (key->logged)
		batch_change_done(batch, key_session(key), key_key(key), key->stamp);
}

/* Kinds. */

static bool is_hash_key(struct bytes key)
{
	return bytes_ends_with(key, names_hash_suffix);
}

/* What the rows of a key say that it is. */
static int reconcile_kind(struct reconciling *reconciling, struct bytes session, struct bytes key,
			  const struct backend_key_stat *stat, uint32_t *ret_kind)
{
	struct view *view = &reconciling->view;
	_cleanup_(buf_done) struct buf sidecar = { 0 };
	struct backend_key_stat other;
	int r;

	*ret_kind = BACKEND_LIST;
	if (is_hash_key(key)) {
		*ret_kind = BACKEND_HASH;
		return 0;
	}
	if (stat->first != 0 || stat->last != 0)
		return 0;
	r = buf_append_bytes(&sidecar, key);
	if (r == 0)
		r = buf_append_bytes(&sidecar, names_hash_suffix);
	if (r < 0)
		return r;
	r = view->backend->ops->key_stat(view->backend, view->snapshot, session,
					 buf_bytes(&sidecar), &other);
	if (r == -ENOENT)
		*ret_kind = BACKEND_SINGLE;
	return r == -ENOENT ? 0 : r;
}

/* Whether a single must be shown as a list from now on. */
static bool becomes_list(const struct backend_node *node, uint32_t kind,
			 const struct backend_key_stat *stat)
{
	if (node->kind != BACKEND_SINGLE || kind != BACKEND_LIST)
		return false;
	return stat->first != 0 || stat->last != 0 || (node->flags & BACKEND_ADOPTED);
}

/* Its new name: k.json is k.jsonl now, or, if there is such a file, k%~1.jsonl ... */
static int list_name(struct reconciling *reconciling, struct inode *dir, struct bytes name,
		     struct buf *new_name)
{
	struct bytes suffix = names_suffix(BACKEND_SINGLE);
	size_t stem = bytes_ends_with(name, suffix) ? name.size - suffix.size : name.size;
	struct inode *there;
	uint64_t id;
	int r = 0;

	for (unsigned attempt = 0; r == 0 && attempt < PATH_ATTEMPTS; attempt++) {
		buf_clear(new_name);
		r = buf_append(new_name, name.data, MIN(stem, (size_t)NAME_LIMIT - 16));
		if (r == 0 && attempt)
			r = buf_printf(new_name, "%%~%u", attempt);
		if (r == 0)
			r = buf_append_bytes(new_name, names_suffix(BACKEND_LIST));
		if (r < 0)
			return r;
		r = entry_open(reconciling->tree, &reconciling->view, dir, buf_bytes(new_name), &id,
			       &there);
		if (r == 0)
			inode_forget(reconciling->tree, there, 1);
	}
	return r == -ENOENT ? 0 : r < 0 ? r : -EEXIST;
}

/* The directory, counted, and its node as it will be are handed out for after the commit. */
static int reconcile_to_list(struct reconciling *reconciling, struct inode *inode,
			     struct backend_node *node, struct batch *batch, struct inode **ret_dir,
			     struct backend_node *ret_dir_node)
{
	struct view *view = &reconciling->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(buf_done) struct buf new_name = { 0 };
	struct inode *dir;
	int r;

	r = view->backend->ops->entry_name(view->backend, view->snapshot, inode->node.parent,
					   inode->node.entry, &name);
	if (r == 0)
		r = inode_get_dir(reconciling->tree, view, inode->node.parent, &dir);
	if (r < 0)
		return r;
	r = list_name(reconciling, dir, buf_bytes(&name), &new_name);
	if (r < 0) {
		inode_forget(reconciling->tree, dir, 1);
		return r;
	}
	node->kind = BACKEND_LIST;
	node->entry = atomic_fetch_add(&reconciling->tree->last_entry, 1) + 1;
	batch_entry_delete(batch, node->parent, inode->node.entry);
	batch_entry_put(batch, node->parent, node->entry, batch_keep(batch, buf_bytes(&new_name)),
			node->ino);
	dir_changed(dir, 0, ret_dir_node);
	batch_node_put(batch, ret_dir_node);
	notes_entry(&reconciling->notes, node->parent, buf_bytes(&name));
	notes_entry(&reconciling->notes, node->parent, buf_bytes(&new_name));
	notes_dir(&reconciling->notes, node->parent);
	*ret_dir = dir;
	return 0;
}

/* Changed content. */

struct sealing {
	struct batch *batch;
	uint64_t ino;
	int64_t last_row;
	int64_t index;
	int64_t seq;
	bool open; /* the pieces before row index do not end in a newline */
};

static void seal_group(struct sealing *sealing)
{
	if (sealing->open && sealing->index <= sealing->last_row)
		batch_piece_put(sealing->batch, sealing->ino, sealing->index, sealing->seq + 1,
				BYTES("\n"));
	sealing->open = false;
}

static int seal_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct sealing *sealing = arg;

	if (index != sealing->index)
		seal_group(sealing);
	sealing->index = index;
	sealing->seq = seq;
	sealing->open = data.size && data.data[data.size - 1] != '\n';
	return 0;
}

struct renumbering {
	struct batch *batch;
	uint64_t ino;
	int64_t index;
	int64_t seq;
	bool any;
};

static int renumber_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct renumbering *to = arg;

	if (index == to->index) {
		to->seq = seq + 1;
		return 0;
	}
	batch_piece_put(to->batch, to->ino, to->index, to->seq++, batch_keep(to->batch, data));
	to->any = true;
	return to->batch->error;
}

/* Pieces behind rows that others have deleted stand behind the last row: the next row gets the
 * number behind that. */
static int renumber_pieces(struct view *view, struct batch *batch, uint64_t ino, int64_t last)
{
	struct renumbering to = { .batch = batch, .ino = ino };
	int r;

	if (last >= INT64_MAX - 1)
		return 0;
	to.index = last + 1;
	r = view->backend->ops->piece_read(view->backend, view->snapshot, ino, to.index, INT64_MIN,
					   renumber_piece, &to);
	if (r == 0 && to.any)
		batch_piece_delete(batch, ino, to.index + 1, INT64_MIN);
	return r;
}

/* What was remembered of a list from row first on may be wrong. */
static int reconcile_list(struct reconciling *reconciling, const struct changed_key *key,
			  uint64_t ino, const struct backend_key_stat *stat, struct batch *batch)
{
	struct view *view = &reconciling->view;
	const struct backend_ops *ops = view->backend->ops;
	struct sealing sealing = { .batch = batch, .ino = ino, .last_row = stat->last };
	struct backend_mark mark = { 0 };
	int r;

	r = ops->mark_find_index(view->backend, view->snapshot, ino, key->first, &mark);
	if (r < 0 && r != -ENOENT)
		return r;
	batch_mark_delete(batch, ino, mark.offset + 1);
	r = ops->piece_read(view->backend, view->snapshot, ino, key->first, INT64_MIN, seal_piece,
			    &sealing);
	if (r < 0)
		return r;
	seal_group(&sealing);
	return renumber_pieces(view, batch, ino, stat->last);
}

static uint64_t known_size(const struct inode *inode)
{
	if (inode_is_draft(inode))
		return inode->node.size;
	if (!inode->loaded)
		return UINT64_MAX;
	return inode->node.kind == BACKEND_LIST ? inode->list.size : inode->size;
}

/* Whether all that changed of a list is behind what was there. */
static bool only_adds(const struct inode *inode, const struct changed_key *key)
{
	return inode->node.kind == BACKEND_LIST && inode->loaded && !inode_is_draft(inode) &&
	       key->first >= inode->list.next;
}

static int reconcile_changed(struct reconciling *reconciling, const struct changed_key *key,
			     struct inode *inode, uint32_t kind,
			     const struct backend_key_stat *stat)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node, dir_node;
	uint64_t size_before = known_size(inode);
	bool adds = only_adds(inode, key);
	struct inode *dir = NULL;
	int r = 0;

	node.mtime = node.ctime = time_now();
	if (node.flags & BACKEND_DRAFT) {
		node.size = 0;
		batch_chunk_delete(&batch, node.ino, 0, INT64_MAX);
	}
	node.flags &= (uint32_t)BACKEND_ADOPTED;
	if (becomes_list(&node, kind, stat))
		r = reconcile_to_list(reconciling, inode, &node, &batch, &dir, &dir_node);
	if (r == 0 && node.kind == BACKEND_LIST)
		r = reconcile_list(reconciling, key, node.ino, stat, &batch);
	if (r == 0) {
		batch_node_put(&batch, &node);
		reconcile_done(key, &batch);
		r = reconcile_commit(reconciling, &batch);
	}
	if (r == 0 && dir)
		dir_apply(dir, &dir_node);
	if (dir)
		inode_forget(reconciling->tree, dir, 1);
	if (r < 0)
		return r;
	inode->node = node;
	inode_node_changed(inode);
	inode->loaded = false;
	inode->version++;
	notes_change(&reconciling->notes, reconciling->tree, inode,
		     adds ? CHANGE_GREW : CHANGE_REPLACED, size_before, NULL);
	return reconciling->view_error;
}

/* Files whose rows went. */

static int reconcile_unlink(struct reconciling *reconciling, const struct changed_key *key,
			    struct inode *inode, struct inode *dir)
{
	struct view *view = &reconciling->view;
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(unlinking_done) struct unlinking unlinking = { 0 };
	struct backend_node dir_node;
	int r;

	r = view->backend->ops->entry_name(view->backend, view->snapshot, dir->node.ino,
					   inode->node.entry, &name);
	if (r < 0)
		return r;
	dir_changed(dir, inode_is_dir(inode) ? -1 : 0, &dir_node);
	batch_entry_delete(&batch, dir->node.ino, inode->node.entry);
	/* Its rows are gone already: there is nothing to keep, and nothing to delete, which a
	 * read-only mount could not. */
	unlinking.empty = true;
	r = unlinking_begin(reconciling->tree, view, inode, true, &unlinking, &batch);
	if (r < 0)
		return r;
	batch_node_put(&batch, &dir_node);
	if (key)
		reconcile_done(key, &batch);
	r = reconcile_commit(reconciling, &batch);
	if (r < 0)
		return r;
	dir_apply(dir, &dir_node);
	unlinking_apply(&unlinking);
	notes_entry(&reconciling->notes, dir->node.ino, buf_bytes(&name));
	notes_dir(&reconciling->notes, dir->node.ino);
	return reconciling->view_error;
}

/* The file, and directories that it leaves empty, up to the session. */
static int reconcile_remove(struct reconciling *reconciling, const struct changed_key *key,
			    struct inode *inode)
{
	struct tree *tree = reconciling->tree;
	struct inode *dir, *parent;
	int r;

	r = inode_get_dir(tree, &reconciling->view, inode->node.parent, &dir);
	if (r < 0)
		return r;
	r = reconcile_unlink(reconciling, key, inode, dir);
	while (r == 0 && dir->parent && dir_is_empty(&reconciling->view, dir->node.ino) == 1) {
		parent = inode_ref(tree, dir->parent);
		r = reconcile_unlink(reconciling, NULL, dir, parent);
		inode_forget(tree, dir, 1);
		dir = parent;
	}
	inode_forget(tree, dir, 1);
	return r;
}

/* One key. */

static int reconcile_only_done(struct reconciling *reconciling, const struct changed_key *key)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	int r;

	reconcile_done(key, &batch);
	if (!batch.count)
		return batch.error;
	r = adopt_settle(reconciling);
	if (r < 0)
		return r;
	r = reconcile_commit(reconciling, &batch);
	return r < 0 ? r : reconciling->view_error;
}

static int reconcile_file(struct reconciling *reconciling, const struct changed_key *key,
			  struct inode *inode, bool has_rows, uint32_t kind,
			  const struct backend_key_stat *stat)
{
	if (has_rows)
		return reconcile_changed(reconciling, key, inode, kind, stat);
	if (inode_is_draft(inode))
		return reconcile_only_done(reconciling, key);
	return reconcile_remove(reconciling, key, inode);
}

/* Rows of a file that was just unlinked belong to whoever has written to them since. */
static int reconcile_ghost(struct reconciling *reconciling, const struct changed_key *key)
{
	struct tree *tree = reconciling->tree;
	struct ghost *ghost = ghost_find(tree, key_session(key), key_key(key));
	_cleanup_(ghost_end_freep) struct ghost_end *end = NULL;
	_cleanup_(batch_done) struct batch batch = { 0 };
	int r;

	if (!ghost)
		return 0;
	r = adopt_settle(reconciling);
	if (r < 0)
		return r;
	r = ghost_end_begin(tree, &reconciling->view, ghost, true, &batch, &end);
	if (r == 0)
		r = reconcile_commit(reconciling, &batch);
	if (r < 0)
		return r;
	ghost_end_apply(tree, steal_ptr(end));
	return reconciling->view_error;
}

static int reconcile_one(struct reconciling *reconciling, const struct changed_key *key)
{
	struct view *view = &reconciling->view;
	const struct backend_ops *ops = view->backend->ops;
	struct backend_key_stat stat = { 0 };
	uint32_t kind = BACKEND_ORDINARY;
	struct backend_node node;
	struct inode *inode;
	bool has_rows;
	int r;

	r = reconcile_ghost(reconciling, key);
	if (r < 0)
		return r;
	r = ops->key_stat(view->backend, view->snapshot, key_session(key), key_key(key), &stat);
	if (r < 0 && r != -ENOENT)
		return r;
	has_rows = r == 0;
	if (has_rows) {
		r = reconcile_kind(reconciling, key_session(key), key_key(key), &stat, &kind);
		if (r < 0)
			return r;
	}
	r = ops->node_find(view->backend, view->snapshot, key_session(key), key_key(key), &node);
	if (r == -ENOENT && has_rows)
		return adopt_key(reconciling, key, kind, &stat);
	if (r == -ENOENT)
		return reconcile_only_done(reconciling, key);
	if (r == 0)
		r = inode_of_node(reconciling->tree, view, &node, &inode);
	if (r < 0)
		return r;
	r = adopt_settle(reconciling);
	if (r == 0)
		r = reconcile_file(reconciling, key, inode, has_rows, kind, &stat);
	inode_forget(reconciling->tree, inode, 1);
	return r;
}

/* A sidecar that came may make a list of the single beside it. */
static int reconcile_neighbour(struct reconciling *reconciling, const struct changed_key *key)
{
	struct changed_key other = { .first = INT64_MAX };
	struct view *view = &reconciling->view;
	struct bytes base = key_key(key);
	struct backend_node node;
	int r;

	if (!is_hash_key(base))
		return 0;
	base.size -= names_hash_suffix.size;
	r = view->backend->ops->node_find(view->backend, view->snapshot, key_session(key), base,
					  &node);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (node.kind == BACKEND_SINGLE && (node.flags & BACKEND_ADOPTED)) {
		r = buf_append_bytes(&other.session, key_session(key));
		if (r == 0)
			r = buf_append_bytes(&other.key, base);
		if (r == 0)
			r = reconcile_one(reconciling, &other);
		buf_done(&other.session);
		buf_done(&other.key);
	}
	backend_node_done(&node);
	return r;
}

/* Nothing of ours may be written: forget what is known, so that it is read again. */
static int reconcile_reload(struct reconciling *reconciling)
{
	struct tree *tree = reconciling->tree;
	struct view *view = &reconciling->view;
	struct inodes all = inodes_get(tree, NULL);

	for (size_t i = 0; i < all.count; i++) {
		struct inode *inode = all.inode[i];
		struct backend_node node;

		if (view->backend->ops->node_get(view->backend, view->snapshot, inode->node.ino,
						 &node) == 0)
			inode_set_node(inode, &node);
		inode->loaded = false;
		inode->version++;
		if (inode_is_dir(inode))
			notes_dir(&reconciling->notes, inode->ino);
		else
			notes_change(&reconciling->notes, tree, inode, CHANGE_REPLACED, UINT64_MAX,
				     NULL);
	}
	inodes_forget(tree, &all);
	return 0;
}

static int reconcile_all_done(struct reconciling *reconciling)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct bytes none = { 0 };

	batch_change_done(&batch, none, none, reconciling->all_stamp);
	/* Nobody needs the view any more. */
	return reconcile_commit(reconciling, &batch);
}

/* What was done before the error is kept. */
static int reconcile_settled(struct reconciling *reconciling, int error)
{
	int r = adopt_settle(reconciling);

	return error < 0 ? error : r;
}

static int reconcile_locked(struct reconciling *reconciling)
{
	int r;

	WITH_WRITE_LOCK(reconciling->tree);
	r = view_begin(reconciling->tree, BACKEND_ANYWAY, &reconciling->view);
	if (r == 0)
		r = reconcile_collect(reconciling);
	for (size_t i = 0; r == 0 && i < reconciling->count; i++) {
		r = reconcile_one(reconciling, &reconciling->keys[i]);
		if (r == 0)
			r = reconcile_neighbour(reconciling, &reconciling->keys[i]);
	}
	r = reconcile_settled(reconciling, r);
	if (r == 0 && reconciling->all)
		r = reconcile_all_done(reconciling);
	if (r == -EROFS)
		r = reconcile_reload(reconciling);
	view_end(&reconciling->view);
	return r;
}

static void reconcile_free(struct reconciling *reconciling)
{
	for (size_t i = 0; i < reconciling->count; i++) {
		buf_done(&reconciling->keys[i].session);
		buf_done(&reconciling->keys[i].key);
	}
	free(reconciling->keys);
}

/* As if another program had just written the rows of the keys that have no file; how many. */
static int64_t adopt_locked(struct reconciling *reconciling)
{
	struct view *view = &reconciling->view;
	struct bytes none = { 0 };
	struct backend_node node;
	int64_t adopted = 0;
	int r;

	WITH_WRITE_LOCK(reconciling->tree);
	r = view_begin(reconciling->tree, BACKEND_ANYWAY, view);
	if (r == 0)
		r = view->backend->ops->key_list(view->backend, view->snapshot, none, none,
						 keep_key, reconciling);
	for (size_t i = 0; r == 0 && i < reconciling->count; i++) {
		const struct changed_key *key = &reconciling->keys[i];

		r = view->backend->ops->node_find(view->backend, view->snapshot, key_session(key),
						  key_key(key), &node);
		if (r == 0) {
			backend_node_done(&node);
		} else if (r == -ENOENT) {
			r = reconcile_one(reconciling, key);
			adopted++;
		}
	}
	r = reconcile_settled(reconciling, r);
	view_end(view);
	return r < 0 ? r : adopted;
}

int64_t tree_adopt(struct tree *tree)
{
	struct reconciling reconciling = { .tree = tree };
	int64_t adopted = adopt_locked(&reconciling);

	reconcile_free(&reconciling);
	notes_tell(&reconciling.notes, tree, false);
	return adopted;
}

int tree_reconcile(struct tree *tree)
{
	struct reconciling reconciling = { .tree = tree };
	int r = reconcile_locked(&reconciling);

	reconcile_free(&reconciling);
	notes_tell(&reconciling.notes, tree, false);
	if (r < 0)
		log_error("changes of another program could not be taken in: %s", strerror(-r));
	return r;
}
