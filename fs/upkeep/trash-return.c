/* SPDX-License-Identifier: MIT */

/* What becomes of a session in the trash: it comes back, or it is purged. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "fs/tree/tree.h"
#include "fs/base/names.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/upkeep/trash-internal.h"

void emit_key(struct batch *batch, enum backend_op_type type, const struct backend_node *node)
{
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return;
	op->session = node->session;
	op->key = node->key;
	op->ino = node->ino;
}

void emit_trashed(struct batch *batch, uint64_t id, int64_t removed, int64_t until,
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
	r = ASK(view, entry_list, BACKEND_TRASH, id - 1, keep_trashed, trashed);
	return r < 0 ? r : trashed->found ? 0 : -ENOENT;
}

static int name_is_free(struct tree *tree, struct view *view, const struct trashed *trashed)
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
		r = ASK(view, node_find, trashed->node.session, none, &node);
	if (r == 0) {
		backend_node_done(&node);
		return -EEXIST;
	}
	return r == -ENOENT ? 0 : r;
}

static void emit_shown(struct entries *family, struct batch *batch)
{
	for (size_t i = 0; i < family->count; i++) {
		struct backend_node *node = &family->item[i].node;
		uint32_t kind = names_split(entry_name(&family->item[i])).kind;

		if (!S_ISREG(node->mode) || !node->key.data || !kind_is_state(kind))
			continue;
		node->kind = kind;
		node_rewritten(node);
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

static int undo_commit(struct tree *tree, struct trashed *trashed, struct entries *family)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node *node = &trashed->node;
	struct backend_node root;
	char restored[24];
	int r;

	node->kind = BACKEND_SESSION;
	node->parent = BACKEND_ROOT;
	r = number_entry(tree, &node->entry);
	if (r < 0)
		return r;
	node->ctime = time_now();
	snprintf(restored, sizeof(restored), "%" PRId64, node->ctime / TRASH_SECOND);
	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	batch_node_put(&batch, node);
	batch_entry_put(&batch, BACKEND_ROOT, node->entry, trashed->item.name, node->ino);
	batch_xattr_put(&batch, node->ino, BYTES(TRASH_RESTORED), bytes_str(restored));
	emit_shown(family, &batch);
	dir_changed(tree->root, 1, &root);
	batch_node_put(&batch, &root);
	r = tree_commit(tree, &batch, BACKEND_FREES);
	if (r == 0)
		dir_apply(tree->root, &root);
	return r;
}

static void came_back(struct notes *notes, struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode;

	if (!events_wanted(&tree->events) || view_begin(tree, BACKEND_ANYWAY, &view) < 0 ||
	    inode_get_dir(tree, &view, trashed->node.ino, &inode) < 0)
		return;
	name_happened(notes, tree, EVENT_SAVE, inode, tree->root, trashed->item.name);
	inode_forget(tree, inode, 1);
}

static int undo_once(struct tree *tree, uint64_t id, struct notes *notes)
{
	_cleanup_(entries_done) struct entries family = { 0 };
	_cleanup_(trashed_done) struct trashed trashed = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = view_begin(tree, 0, &view);

	if (r == 0)
		r = find_trashed(&view, id, &trashed);
	if (r == 0 && !trashed.item.until)
		r = -ENOENT;
	if (r == 0)
		r = name_is_free(tree, &view, &trashed);
	if (r == 0)
		r = family_find(&view, trashed.node.ino, &family);
	view_end(&view);
	if (r == 0)
		r = undo_commit(tree, &trashed, &family);
	if (r < 0)
		return r;
	notes_entry(notes, BACKEND_ROOT, trashed.item.name);
	notes_dir(notes, BACKEND_ROOT);
	regain(tree, &trashed.node);
	for (size_t i = 0; i < family.count; i++)
		regain(tree, &family.item[i].node);
	came_back(notes, tree, &trashed);
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
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}

enum { PURGE_OPS = 512 };

/* From now on it cannot come back. */
static int mark_purged(struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(batch_done) struct batch batch = { 0 };

	if (!trashed->item.until)
		return 0;
	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	emit_trashed(&batch, trashed->id, trashed->item.removed, 0, trashed->item.name,
		     trashed->node.ino);
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

/* One name less of a file that has others. */
static void emit_unlink(struct tree *tree, const struct entry_copy *member, struct batch *batch)
{
	struct inode *inode = inode_known(tree, member->node.ino);
	struct backend_node node = inode ? inode->node : member->node;

	node.nlink--;
	if (node.parent == member->parent && node.entry == member->id)
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

static int purge_member(struct tree *tree, struct entry_copy *member)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node now = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	/* Another name may have gone since. */
	if (r == 0)
		r = ASK(&view, node_get, member->node.ino, &now);
	view_end(&view);
	if (r == 0) {
		backend_node_done(&member->node);
		member->node = now;
	} else if (r != -ENOENT) {
		return r;
	}
	batch_entry_delete(&batch, member->parent, member->id);
	if (r == 0 && !S_ISDIR(member->node.mode) && member->node.nlink > 1)
		emit_unlink(tree, member, &batch);
	else
		emit_delete(member->node.ino, &batch);
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

/* Some of them at a time, the last ones first: nobody waits for long. */
static int purge_some(struct tree *tree, struct entries *family)
{
	WITH_WRITE_LOCK(tree);
	int r = 0;

	for (unsigned done = 0; r == 0 && done < PURGE_OPS && family->count; done++) {
		struct entry_copy *member = &family->item[family->count - 1];

		r = purge_member(tree, member);
		if (r < 0)
			break;
		entry_done(member);
		family->count--;
	}
	return r;
}

static int purge_begin(struct tree *tree, uint64_t id, struct trashed *trashed,
		       struct entries *family)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = find_trashed(&view, id, trashed);
	if (r == 0)
		r = family_find(&view, trashed->node.ino, family);
	view_end(&view);
	return r < 0 ? r : mark_purged(tree, trashed);
}

static int purge_end(struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_WRITE_LOCK(tree);

	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	batch_node_delete(&batch, trashed->node.ino);
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

static int purge(struct tree *tree, uint64_t id)
{
	_cleanup_(trashed_done) struct trashed trashed = { 0 };
	_cleanup_(entries_done) struct entries family = { 0 };
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
