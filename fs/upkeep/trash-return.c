/* SPDX-License-Identifier: MIT */

/* The end of a session's time in the trash: it comes back, or it is purged. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/inode/quota.h"
#include "fs/tree/tree.h"
#include "fs/base/names.h"
#include "fs/inode/commit.h"
#include "fs/inode/generation.h"
#include "fs/upkeep/upkeep.h"
#include "fs/upkeep/trash-internal.h"
#include "backend/base/array.h"

/* One entry of the trash, with copies of its own. */
struct trashed {
	uint64_t id;
	struct trash_item item;
	struct buf name;
	struct backend_node node;
	struct inode *parent; /* where it comes back, counted, or NULL */
	struct bytes base;    /* and its name there */
};

/* All homes of a session that were removed together (fs/api/trash.h). */
struct group {
	uint64_t id; /* of one of them */
	struct trashed *item;
	size_t count;
	size_t room;
};

static void group_done(struct tree *tree, struct group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		buf_done(&group->item[i].name);
		backend_node_done(&group->item[i].node);
		if (group->item[i].parent)
			inode_forget(tree, group->item[i].parent, 1);
	}
	free(group->item);
	*group = (struct group){ .id = group->id };
}

/* Keep the entry with the id, or if that is known those that belong to it. */
static int keep_trashed(void *arg, const struct backend_entry *entry,
			const struct backend_node *node)
{
	struct group *group = arg;
	const struct trashed *first = group->item;
	struct trashed *trashed;
	struct trash_item item;
	int r;

	if (!trash_parse(entry, node, &item) ||
	    (first ? item.single || entry->id == first->id || item.removed != first->item.removed ||
			     !bytes_equal(node->session, first->node.session) :
		     entry->id != group->id))
		return !first;
	if (ARRAY_ROOM(group->item, group->count, group->room) < 0)
		return -ENOMEM;
	trashed = &group->item[group->count++];
	*trashed = (struct trashed){ .id = entry->id, .item = item };
	r = buf_append_bytes(&trashed->name, item.name);
	if (r == 0)
		r = backend_node_copy(node, &trashed->node);
	trashed->item.name = buf_bytes(&trashed->name);
	return r < 0 ? r : !first;
}

static int find_trashed(struct view *view, struct group *group)
{
	int r;

	if (!group->id)
		return -ENOENT;
	r = ASK(view, entry_list, BACKEND_TRASH, group->id - 1, keep_trashed, group);
	return r < 0 ? r : group->count ? 0 : -ENOENT;
}

int path_parent(struct tree *tree, struct view *view, struct bytes path, struct inode **ret_dir,
		struct bytes *ret_name)
{
	struct inode *dir = inode_ref(tree, tree->root), *below;
	struct bytes name;
	uint64_t id;
	int r = 0;

	while (r == 0 && names_cut(&path, &name)) {
		r = entry_open(tree, view, dir, name, &id, &below);
		if (r < 0)
			break;
		inode_forget(tree, dir, 1);
		dir = below;
		r = inode_is_dir(dir) ? 0 : -EEXIST;
	}
	if (r < 0) {
		inode_forget(tree, dir, 1);
		return r;
	}
	*ret_dir = dir;
	*ret_name = path;
	return 0;
}

static int key_is_free(struct view *view, const struct backend_node *node)
{
	struct backend_node other;
	int r = ASK(view, node_find, node->session, node->key, &other);

	if (r == 0) {
		backend_node_done(&other);
		return -EEXIST;
	}
	return r == -ENOENT ? 0 : r;
}

/* -EBUSY while a handle from before the removal is open: it has bytes of its own. */
static int not_open(struct tree *tree, const struct backend_node *node)
{
	struct inode *inode = inode_known(tree, node->ino);
	bool open = inode && inode->open;

	if (inode)
		inode_forget(tree, inode, 1);
	return open ? -EBUSY : 0;
}

static int name_is_free(struct tree *tree, struct view *view, struct trashed *trashed)
{
	struct backend_node node;
	struct inode *there;
	uint64_t id;
	int r = entry_open(tree, view, trashed->parent, trashed->base, &id, &there);

	if (r == 0) {
		bool again =
			trashed->item.single && S_ISDIR(trashed->node.mode) && inode_is_dir(there);

		inode_forget(tree, there, 1);
		return again ? -EISDIR : -EEXIST;
	}
	if (r != -ENOENT)
		return r;
	if (!trashed->item.single)
		return key_is_free(view, &trashed->node);
	r = not_open(tree, &trashed->node);
	if (r < 0)
		return r;
	/* A state file may have another key than before. */
	r = node_placed(tree, view, trashed->parent, trashed->base, &trashed->node, &node);
	if (r < 0)
		return r;
	backend_node_done(&trashed->node);
	trashed->node = node;
	return 0;
}

/* As what it is again; a packed transcript keeps its session in the trash alone. */
static void emit_shown(struct backend_node *node, int64_t removed, struct batch *batch)
{
	const bool state = kind_is_state(node->kind);

	if (state)
		node_rewritten(node);
	else if (S_ISREG(node->mode))
		node->session = node->key = (struct bytes){ 0 };
	batch_node_put(batch, node);
	if (!state)
		return;
	batch_key(batch, BACKEND_KEY_SHOW, node);
	BATCH_PUT(batch, BACKEND_PAST_NOTE, .session = node->session, .key = node->key,
		  .parent = PAST_GONE, .at = removed);
}

static void regain(struct tree *tree, const struct backend_node *node)
{
	struct inode *inode = inode_known(tree, node->ino);
	struct backend_node copy;

	if (!inode)
		return;
	if ((inode->gone || node_is_trashed(&inode->node)) && backend_node_copy(node, &copy) == 0) {
		inode->gone = inode->orphaned = inode->lost = false;
		stage_done(&inode->orphan);
		inode->orphan = (struct stage){ 0 };
		inode_set_node(inode, &copy);
		inode_unload(inode);
		inode->bare = false;
		inode->version++;
	}
	inode_forget(tree, inode, 1);
}

/* The session that comes back, or the one that a file comes back to. */
static struct inode *session_of(const struct trashed *trashed)
{
	return S_ISDIR(trashed->node.mode) ? NULL : inode_session(trashed->parent);
}

/* A session that something comes back to has changed. */
static void emit_restored(const struct trashed *trashed, struct batch *batch)
{
	const struct backend_node *node = &trashed->node;
	const struct inode *session = session_of(trashed);
	char restored[24];

	if (!session && !node->session.data)
		return;
	snprintf(restored, sizeof(restored), "%" PRId64, node->ctime / TRASH_SECOND);
	batch_xattr_put(batch, session ? session->ino : node->ino, BYTES(TRASH_RESTORED),
			batch_keep(batch, bytes_str(restored)));
}

static int emit_back(struct tree *tree, struct trashed *trashed, struct batch *batch)
{
	struct backend_node *node = &trashed->node;
	int r;

	node->parent = trashed->parent->ino;
	r = number_entry(tree, &node->entry);
	if (r < 0)
		return r;
	node->ctime = time_now();
	node->rdev = 0; /* before history, until when it was kept */
	batch_entry_delete(batch, BACKEND_TRASH, trashed->id);
	if (trashed->item.single)
		batch_guard_unused(batch, node->ino);
	else
		node->kind =
			S_ISDIR(node->mode) ? BACKEND_SESSION : trash_kind(node, trashed->base);
	emit_restored(trashed, batch);
	emit_shown(node, trashed->item.removed, batch);
	batch_entry_put(batch, node->parent, node->entry, trashed->base, node->ino);
	return batch->error;
}

static int undo_commit(struct tree *tree, struct group *group, struct entries *family)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(changed_dirs_done) struct changed_dirs parents = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < group->count; i++) {
		struct trashed *trashed = &group->item[i];

		r = emit_back(tree, trashed, &batch);
		if (r == 0)
			r = changed_dirs_add(&parents, trashed->parent,
					     S_ISDIR(trashed->node.mode));
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < family->count; i++) {
		struct backend_node *member = &family->item[i].node;

		member->kind = trash_kind(member, entry_name(&family->item[i]));
		if (kind_is_state(member->kind))
			emit_shown(member, group->item->item.removed, &batch);
	}
	changed_dirs_emit(&parents, &batch);
	r = tree_commit(tree, &batch, BACKEND_FREES);
	quota_void(tree);
	if (r == 0)
		changed_dirs_apply(&parents);
	return r;
}

static void came_back(struct notes *notes, struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode;

	if (!events_wanted(&tree->events) || view_begin(tree, BACKEND_ANYWAY, &view) < 0 ||
	    inode_get(tree, &view, trashed->item.ino, &inode) < 0)
		return;
	name_happened(notes, tree, EVENT_SAVE, inode, trashed->parent, trashed->base);
	inode_forget(tree, inode, 1);
}

/* Where all of it comes back, and whether it can.  -ENOTDIR: directories of a path are missing. */
static int judge_undo(struct tree *tree, struct view *view, struct group *group,
		      struct entries *family, struct buf *missing)
{
	int r = group->item[0].item.until ? 0 : -ENOENT;

	for (size_t i = 0; r == 0 && i < group->count; i++) {
		struct trashed *trashed = &group->item[i];

		r = path_parent(tree, view, trashed->item.name, &trashed->parent, &trashed->base);
		if (r == -ENOENT)
			return buf_append_bytes(missing, trashed->item.name) < 0 ? -ENOMEM :
										   -ENOTDIR;
		if (r == 0)
			r = name_is_free(tree, view, trashed);
		if (r == 0 && S_ISDIR(trashed->node.mode))
			r = family_find(view, trashed->node.ino, family);
	}
	return r;
}

static int undo_once(struct tree *tree, struct group *group, struct buf *missing,
		     struct notes *notes)
{
	_cleanup_(entries_done) struct entries family = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r;

	group_done(tree, group);
	buf_clear(missing);
	r = ghosts_end(tree, true, NULL);
	if (r == 0)
		r = view_begin(tree, 0, &view);
	if (r == 0)
		r = find_trashed(&view, group);
	/* With a layout there may be more of it. */
	if (r == 0 && tree->layout && !group->item->item.single)
		r = ASK(&view, entry_list, BACKEND_TRASH, 0, keep_trashed, group);
	if (r == 0)
		r = judge_undo(tree, &view, group, &family, missing);
	view_end(&view);
	if (r == 0)
		r = undo_commit(tree, group, &family);
	if (r < 0)
		return r;
	for (size_t i = 0; i < group->count; i++) {
		struct trashed *trashed = &group->item[i];
		struct inode *session = session_of(trashed);

		if (session)
			session->bare = false;
		notes_entry(notes, trashed->parent->ino, trashed->base);
		notes_dir(notes, trashed->parent->ino);
		regain(tree, &trashed->node);
	}
	for (size_t i = 0; i < family.count; i++)
		regain(tree, &family.item[i].node);
	for (size_t i = 0; i < group->count; i++)
		came_back(notes, tree, &group->item[i]);
	return 0;
}

int tree_trash_undo(struct tree *tree, uint64_t id)
{
	_cleanup_(buf_done) struct buf missing = { 0 };
	struct group group = { .id = id };
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	pthread_mutex_lock(&tree->upkeep->trash_lock);
	tree->trashed.returning = true;
	while ((r = TRASH_RETRY(tree, undo_once(tree, &group, &missing, &notes))) == -ENOTDIR) {
		struct bytes path = buf_bytes(&missing), name;
		struct inode *dir;

		r = tree_make_above(tree, path, tree->root, &dir, &name);
		if (r < 0)
			break;
		inode_forget(tree, dir, 1);
	}
	tree->trashed.returning = false;
	group_done(tree, &group);
	pthread_mutex_unlock(&tree->upkeep->trash_lock);
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}

enum { PURGE_OPS = 512 };

/* From now on it cannot come back. */
static int mark_purged(struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct trash_item item = trashed->item;

	if (!item.until)
		return 0;
	item.until = 0;
	batch_entry_delete(&batch, BACKEND_TRASH, trashed->id);
	emit_trashed(&batch, trashed->id, &item);
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

/* Remove one name of a file that has others. */
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

static int purge_member(struct tree *tree, struct entry_copy *member)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	struct backend_node now = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	/* Another mount may have removed this name since, and a file with another name lives on. */
	if (r == 0)
		r = ASK(&view, entry_name, member->parent, member->id, &name);
	if (r == -ENOENT)
		return 0;
	/* Or another name. */
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
	if (r == 0 && !S_ISDIR(member->node.mode) && member->node.nlink > 1) {
		emit_unlink(tree, member, &batch);
	} else {
		batch_hidden_delete(&batch, member->node.ino, INT64_MIN);
		batch_node_delete(&batch, member->node.ino);
	}
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

/* Some of them at a time, the last ones first, so that other commits need not wait long. */
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
	/* Files with other names may count for another session from now on. */
	quota_void(tree);
	return r;
}

static int purge_begin(struct tree *tree, struct group *group, struct entries *family)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = find_trashed(&view, group);
	if (r == 0 && S_ISDIR(group->item->node.mode))
		r = family_find(&view, group->item->node.ino, family);
	view_end(&view);
	return r < 0 ? r : mark_purged(tree, group->item);
}

static int purge_end(struct tree *tree, const struct trashed *trashed)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_WRITE_LOCK(tree);

	trash_delete(&batch, &trashed->node);
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

static int purge(struct tree *tree, uint64_t id)
{
	_cleanup_(entries_done) struct entries family = { 0 };
	struct group group = { .id = id };
	int r = purge_begin(tree, &group, &family);

	while (r == 0 && family.count)
		r = purge_some(tree, &family);
	if (r == 0)
		r = purge_end(tree, group.item);
	group_done(tree, &group);
	return r;
}

int tree_trash_purge(struct tree *tree, uint64_t id)
{
	if (tree->options.read_only)
		return -EROFS;
	WITH_MUTEX(&tree->upkeep->trash_lock);
	return TREE_RETRY(tree, purge(tree, id));
}
