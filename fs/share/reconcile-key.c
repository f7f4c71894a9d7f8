/* SPDX-License-Identifier: MIT */

/* Taking one key in: its file becomes what its rows are. */

#include <errno.h>

#include "fs/base/entries.h"
#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/generation.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/share/reconcile.h"
#include "fs/share/unsettled.h"
#include "fs/tree/tree.h"

static bool is_hash_key(struct bytes key)
{
	return bytes_ends_with(key, names_hash_suffix);
}

/* Whether a single must be shown as a list from now on. */
static bool becomes_list(const struct backend_node *node, uint32_t kind,
			 const struct backend_key_stat *stat)
{
	if (node->kind != BACKEND_SINGLE || kind != BACKEND_LIST)
		return false;
	return stat->list || stat->first != 0 || stat->last != 0 || (node->flags & BACKEND_ADOPTED);
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

/* The directory, counted, its node as it will be, and the name that the file had are handed out for
 * after the commit. */
static int reconcile_to_list(struct reconciling *reconciling, struct inode *inode,
			     struct backend_node *node, struct batch *batch, struct inode **ret_dir,
			     struct backend_node *ret_dir_node, struct buf *name)
{
	struct view *view = &reconciling->view;
	_cleanup_(buf_done) struct buf new_name = { 0 };
	struct inode *dir;
	int r;

	r = ASK(view, entry_name, inode->node.parent, inode->node.entry, name);
	if (r == 0)
		r = inode_get_dir(reconciling->tree, view, inode->node.parent, &dir);
	if (r < 0)
		return r;
	r = list_name(reconciling, dir, buf_bytes(name), &new_name);
	if (r < 0) {
		inode_forget(reconciling->tree, dir, 1);
		return r;
	}
	node->kind = BACKEND_LIST;
	r = number_entry(reconciling->tree, &node->entry);
	if (r < 0) {
		inode_forget(reconciling->tree, dir, 1);
		return r;
	}
	batch_entry_delete(batch, node->parent, inode->node.entry);
	batch_entry_put(batch, node->parent, node->entry, batch_keep(batch, buf_bytes(&new_name)),
			node->ino);
	dir_changed(dir, 0, ret_dir_node);
	batch_dir(batch, &dir->node, ret_dir_node);
	notes_entry(&reconciling->notes, node->parent, buf_bytes(name));
	notes_entry(&reconciling->notes, node->parent, buf_bytes(&new_name));
	notes_dir(&reconciling->notes, node->parent);
	*ret_dir = dir;
	return 0;
}

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
	r = ASK(view, piece_read, ino, to.index, INT64_MIN, renumber_piece, &to);
	if (r == 0 && to.any)
		batch_piece_delete(batch, ino, to.index + 1, INT64_MIN);
	return r;
}

/* What was remembered of a list from row first on may be wrong. */
static int reconcile_list(struct reconciling *reconciling, const struct changed_key *key,
			  uint64_t ino, const struct backend_key_stat *stat, struct batch *batch)
{
	struct view *view = &reconciling->view;
	struct sealing sealing = { .batch = batch, .ino = ino, .last_row = stat->last };
	struct backend_mark mark = { 0 };
	int r;

	/* Where this one began there may be none with its index. */
	r = ASK(view, mark_find_index, ino, key->first - (key->first > INT64_MIN), &mark);
	if (r < 0 && r != -ENOENT)
		return r;
	batch_mark_delete(batch, ino, mark.offset + 1);
	/* A torn line stands before the row that was next, which others may have left out. */
	r = ASK(view, piece_read, ino, r < 0 ? INT64_MIN : mark.index, INT64_MIN, seal_piece,
		&sealing);
	if (r < 0)
		return r;
	seal_group(&sealing);
	return renumber_pieces(view, batch, ino, stat->last);
}

uint64_t known_size(const struct inode *inode)
{
	if (inode_is_draft(inode))
		return inode->node.size;
	if (inode->node.kind == BACKEND_LIST)
		return inode->loaded || inode->list_known ? inode->list.size : UINT64_MAX;
	return inode->loaded ? inode->size : UINT64_MAX;
}

bool is_behind_list(const struct inode *inode, int64_t first)
{
	return inode->node.kind == BACKEND_LIST && (inode->loaded || inode->list_known) &&
	       !inode_is_draft(inode) && first >= inode->list.next && inode->list.next < INT64_MAX;
}

/* Whether the log says that rows were added and nothing else.  The mount may have read some of them
 * before they are taken in here: what is shown of the list by now is not known then, but who is in
 * the middle of it can go on. */
static bool rows_were_added(const struct inode *inode, const struct changed_key *key)
{
	return inode->node.kind == BACKEND_LIST && !key->rewritten && key->first >= 0;
}

/* dir: where a list has got another name than this one, or NULL; items: as of what was taken in. */
static void content_happened(struct reconciling *reconciling, const struct changed_key *key,
			     struct inode *inode, bool added, int64_t items,
			     const struct inode *dir, struct bytes old_name)
{
	int64_t since = INT64_MAX;
	struct happened happened = {
		.what = added && !dir ? EVENT_APPEND : EVENT_SAVE,
		.by = EVENT_BY_SQL,
		.inode = inode,
		.items = inode->node.kind == BACKEND_LIST ? items : -1,
		.first = key->first,
		.from_dir = dir,
		.from = dir ? old_name : (struct bytes){ 0 },
	};

	if (!events_wanted(&reconciling->tree->events))
		return;
	if (reconciling->view.backend) {
		if (key->logged)
			since = changed_since(reconciling, key_session(key), key_key(key));
		happened.view = since == INT64_MAX ? &reconciling->view : NULL;
	}
	/* What came before the commit leaves the log as it was, which tells of all of it once more;
	 * what came later begins behind it.  What is told twice cannot be counted. */
	inode->untold = added && !dir && since <= key->first;
	if (!inode->untold)
		notes_happened(&reconciling->notes, reconciling->tree, &happened);
}

/* What is written because the rows of a file have changed. */
struct rewriting {
	struct backend_node node;
	struct batch batch;
	struct inode *dir; /* counted: where a list has got another name than this one, or NULL */
	struct backend_node dir_node;
	struct buf old_name;
};

static void rewriting_done(struct reconciling *reconciling, struct rewriting *rewriting)
{
	inode_forget(reconciling->tree, rewriting->dir, 1);
	batch_done(&rewriting->batch);
	buf_done(&rewriting->old_name);
}

static int rewrite(struct reconciling *reconciling, const struct changed_key *key,
		   struct inode *inode, uint32_t kind, const struct backend_key_stat *stat,
		   struct rewriting *rewriting)
{
	struct backend_node *node = &rewriting->node;
	struct batch *batch = &rewriting->batch;
	int r = 0;

	inode_is_to_change(reconciling->tree, inode);
	if (node->flags & BACKEND_DRAFT) {
		node->size = 0;
		batch_chunk_delete(batch, node->ino, 0, INT64_MAX);
	}
	node->flags &= (uint32_t)BACKEND_ADOPTED;
	if (becomes_list(node, kind, stat))
		r = reconcile_to_list(reconciling, inode, node, batch, &rewriting->dir,
				      &rewriting->dir_node, &rewriting->old_name);
	if (r == 0 && node->kind == BACKEND_LIST)
		r = reconcile_list(reconciling, key, node->ino, stat, batch);
	if (r == 0) {
		batch_node_put(batch, node);
		reconcile_done(key, batch);
		r = reconcile_commit(reconciling, batch);
	}
	if (r == 0 && rewriting->dir)
		dir_apply(rewriting->dir, &rewriting->dir_node);
	if (r == 0)
		unsettled_end(reconciling->tree, inode);
	return r;
}

static int reconcile_changed(struct reconciling *reconciling, const struct changed_key *key,
			     struct inode *inode, uint32_t kind,
			     const struct backend_key_stat *stat)
{
	struct changed_key news = *key;
	struct rewriting rewriting = { .node = inode->node };
	_cleanup_(version_drop) struct version *before = NULL;
	uint64_t size_before = known_size(inode);
	const bool seen = unsettled_is_seen(key, inode);
	bool adds, logged, extends, known, stays = false;
	int r = gather_settle(reconciling);

	if (r == 0)
		r = unsettled_may_be(reconciling, key, inode, kind, &stays);
	if (r < 0 || seen)
		return r < 0 || stays ? r : unsettled_settle(reconciling, key, inode);
	news.first = unsettled_first(key, inode);
	/* The log has no more of it. */
	news.logged &= !stays;
	adds = is_behind_list(inode, news.first);
	logged = rows_were_added(inode, &news);
	extends = adds || (logged && !inode_is_draft(inode));
	/* What is told goes by what is known of the list; otherwise by the log. */
	known = (inode->loaded || inode_is_draft(inode)) && !inode->untold;
	if (!extends)
		before = reconcile_version(reconciling->tree, inode);

	rewriting.node.mtime = rewriting.node.ctime = time_now();
	if (!adds && (key->rewritten || inode_is_draft(inode)))
		node_rewritten(&rewriting.node);
	if (stays)
		unsettled_add(reconciling, key, inode, stat);
	else
		r = rewrite(reconciling, key, inode, kind, stat, &rewriting);
	if (r < 0) {
		rewriting_done(reconciling, &rewriting);
		return r;
	}
	inode->node = rewriting.node;
	inode_node_changed(inode);
	inode_unload(inode);
	inode->inherits = false;
	inode->version++;
	if (extends)
		inode_extended(inode, inode->version - 1);
	if (before && versions_apply(&reconciling->notes, inode, NULL, before))
		name_forget(&reconciling->notes, reconciling->tree, inode);
	notes_change(&reconciling->notes, reconciling->tree, inode,
		     adds ? CHANGE_GREW : CHANGE_REPLACED, size_before, NULL);
	content_happened(reconciling, &news, inode, known ? adds : logged,
			 MIN(stat->last, INT64_MAX - 1) + 1, rewriting.dir,
			 buf_bytes(&rewriting.old_name));
	rewriting_done(reconciling, &rewriting);
	return stays ? 0 : reconciling->view_error;
}

void draft_stays(struct inode *draft)
{
	for (struct handle *handle = draft->open; handle; handle = handle->next)
		if (handle->writing->version == draft->version)
			handle->writing->version++;
	draft->version++;
}

/* A draft stays when its rows go; what was published is gone, also the lines of it that are no
 * rows. */
static int reconcile_draft(struct reconciling *reconciling, const struct changed_key *key,
			   struct inode *draft)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = draft->node;
	int r;

	if (!key->rowless) {
		node_rewritten(&node);
		batch_piece_delete(&batch, node.ino, INT64_MIN, INT64_MIN);
		batch_node_set(&batch, &node, BACKEND_GENERATION, 0);
	}
	reconcile_done(key, &batch);
	if (!batch.count)
		return batch.error;
	r = gather_settle(reconciling);
	if (r < 0)
		return r;
	r = reconcile_commit(reconciling, &batch);
	if (r == 0) {
		draft->node.generation = node.generation;
		draft_stays(draft);
	}
	return r < 0 ? r : reconciling->view_error;
}

static int reconcile_file(struct reconciling *reconciling, const struct changed_key *key,
			  struct inode *inode)
{
	const struct backend_key_stat none = { .last = -1 };

	if (!key->no_rows)
		return reconcile_changed(reconciling, key, inode, key->kind, &key->stat);
	if (inode_is_draft(inode))
		return reconcile_draft(reconciling, key, inode);
	/* A list may have had none before. */
	if (key->rowless && inode->node.kind == BACKEND_LIST)
		return reconcile_changed(reconciling, key, inode, BACKEND_LIST, &none);
	return removal_add(reconciling, key, inode);
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
	r = gather_settle(reconciling);
	if (r < 0)
		return r;
	r = ghost_end_begin(tree, &reconciling->view, ghost, GHOST_LEAVE, &batch, &end);
	if (r == 0)
		r = reconcile_commit(reconciling, &batch);
	if (r < 0)
		return r;
	ghost_end_apply(tree, steal_ptr(end));
	return reconciling->view_error;
}

/* Rows without a file.  Some may be left of a file that was just unlinked: so the new one shows
 * them to nobody but whom the old one did.  There is no moment without either. */
static int reconcile_adopt(struct reconciling *reconciling, const struct changed_key *key,
			   uint32_t kind, const struct backend_key_stat *stat)
{
	struct tree *tree = reconciling->tree;
	const struct ghost *ghost = ghost_find(tree, key_session(key), key_key(key));
	_cleanup_(backend_node_done) struct backend_node elsewhere = { 0 };
	const struct backend_node *was = ghost ? ghost_node(ghost) : NULL;
	int r = -ENOENT;

	/* It may be another mount that has unlinked it; that one hears of the new file. */
	if (!ghost && !key->rest && !key->no_orphan)
		r = backend_orphan_find(reconciling->view.backend, reconciling->view.snapshot,
					key_session(key), key_key(key), &elsewhere);
	if (r == 0)
		was = &elsewhere;
	else if (r != -ENOENT)
		return r;
	ghost_set_theirs(tree, key_session(key), key_key(key));
	r = adopt_key(reconciling, key, kind, stat, was);
	return r < 0 || !ghost ? r : reconcile_ghost(reconciling, key);
}

/* Whether its rows are those of a file that was unlinked a moment ago. */
static bool is_unlinked(struct reconciling *reconciling, const struct changed_key *key)
{
	struct backend_node node;
	bool elsewhere;

	if (ghost_find(reconciling->tree, key_session(key), key_key(key)))
		return true;
	elsewhere = backend_is_shared(reconciling->tree->backend) && !key->no_orphan &&
		    backend_orphan_find(reconciling->view.backend, reconciling->view.snapshot,
					key_session(key), key_key(key), &node) == 0;
	if (elsewhere)
		backend_node_done(&node);
	return elsewhere;
}

int reconcile_one(struct reconciling *reconciling, const struct changed_key *key)
{
	struct view *view = &reconciling->view;
	const bool has_rows = !key->no_rows;
	struct backend_node node;
	struct inode *inode;
	int r = -ENOENT;

	if (has_rows && key->rowless)
		return 0;
	if (!key->no_file)
		r = ASK(view, node_find, key_session(key), key_key(key), &node);
	if (key->rest && r == 0)
		backend_node_done(&node);
	if (key->rest && (r != -ENOENT || !has_rows || is_unlinked(reconciling, key)))
		return r == -ENOENT ? 0 : r;
	if (r == -ENOENT && has_rows)
		return reconcile_adopt(reconciling, key, key->kind, &key->stat);
	if (r == -ENOENT) {
		r = reconcile_ghost(reconciling, key);
		if (r == 0)
			reconcile_done(key, &reconciling->gathered.batch);
		return r < 0 ? r : reconciling->gathered.batch.error;
	}
	if (r == 0)
		r = inode_of_node(reconciling->tree, view, &node, &inode);
	if (r < 0)
		return r;
	r = reconcile_file(reconciling, key, inode);
	inode_forget(reconciling->tree, inode, 1);
	return r;
}

int reconcile_neighbour(struct reconciling *reconciling, const struct changed_key *key)
{
	struct view *view = &reconciling->view;
	struct bytes base = key_key(key);
	struct backend_node node;
	int r;

	if (!is_hash_key(base) || key->rest)
		return 0;
	base.size -= names_hash_suffix.size;
	r = ASK(view, node_find, key_session(key), base, &node);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (node.kind == BACKEND_SINGLE && (node.flags & BACKEND_ADOPTED))
		r = reconcile_add(reconciling,
				  &(struct backend_change){ .session = node.session,
							    .key = node.key,
							    .first = INT64_MAX },
				  false);
	backend_node_done(&node);
	return r;
}
