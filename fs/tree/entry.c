/* SPDX-License-Identifier: MIT */

/* Entries of directories: what making, unlinking, renaming and reconciling share. */

#include <errno.h>
#include <inttypes.h>

#include "fs/base/names.h"
#include "fs/base/sound.h"
#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/quota.h"
#include "fs/inode/trashed.h"
#include "fs/inode/waiting.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"
#include "backend/base/array.h"
#include "backend/base/log.h"

int entry_check(const struct inode *dir, struct bytes name)
{
	if (!inode_is_dir(dir))
		return -ENOTDIR;
	if (dir->window)
		return -EROFS;
	/* In the trash it still has its entries. */
	if (dir->gone)
		return -ENOENT;
	return name.size > NAME_LIMIT ? -ENAMETOOLONG : 0;
}

/* Takes the node over. */
static int entry_found(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		       uint64_t id, struct backend_node *node, struct inode **ret_inode)
{
	if (!sound_entry(dir->node.ino, id, node)) {
		log_error("inode %" PRIu64 " does not belong to the name %.*s", node->ino,
			  (int)name.size, name.data);
		backend_node_done(node);
		return -EIO;
	}
	return inode_of_entry(tree, view, node, name, ret_inode);
}

int entry_open(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode)
{
	struct backend_node node;
	int r = entry_check(dir, name);

	if (r == 0)
		r = ASK(view, entry_find, dir->node.ino, name, ret_id, &node);
	return r < 0 ? r : entry_found(tree, view, dir, name, *ret_id, &node, ret_inode);
}

/* Make an inode of a looked-up node; the view gets the bytes that were read with it. */
static int looked_up(struct tree *tree, struct view *view, struct inode *dir,
		     struct backend_looked *looked, struct view_whole *whole,
		     struct inode **ret_inode)
{
	uint64_t ino = looked->node.ino;
	int r = looked->error;

	if (r == 0)
		r = entry_found(tree, view, dir, looked->name, looked->id, &looked->node,
				ret_inode);
	if (r < 0)
		return r;
	/* Only trylock: the lock's holder may be waiting for a snapshot, and we hold one. */
	if (pthread_mutex_trylock(&(*ret_inode)->lock) == 0) {
		content_take(*ret_inode, view, &looked->tail);
		if ((*ret_inode)->node.entry == looked->id &&
		    (*ret_inode)->node.parent == looked->parent)
			called_is(tree, *ret_inode, looked->name);
		pthread_mutex_unlock(&(*ret_inode)->lock);
	}
	if (looked->whole) {
		whole->ino = ino;
		whole->bytes = looked->bytes;
		looked->bytes = (struct buf){ 0 };
	}
	return 0;
}

static int entry_measure(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
			 uint64_t *ret_id, struct inode **ret_inode)
{
	struct backend_looked looked = {
		.parent = dir->node.ino, .name = name, .wanted = inode_wants_tail, .arg = tree
	};
	int r = entry_check(dir, name);

	if (r == 0)
		r = backend_entry_look(view->backend, view->snapshot, &looked, 1);
	if (r == 0)
		r = looked_up(tree, view, dir, &looked, &view->whole[0], ret_inode);
	*ret_id = looked.id;
	backend_looked_done(&looked, 1);
	return r;
}

/* There is no such file: -ENOENT, unless rows of it wait to be taken in. */
static int heed_name(struct tree *tree, struct view *view, struct inode *dir, struct bytes name)
{
	_cleanup_(place_done) struct place place = { 0 };
	const struct placing placing = { .tree = tree, .view = view };
	int r = 0;

	/* Outside of sessions the name may be a session, or with a layout a state file. */
	if (!inode_session(dir))
		r = place_find(&placing, dir, name, S_IFDIR, &place);
	if (r == 0 && place.kind == BACKEND_ORDINARY)
		r = place_find(&placing, dir, name, S_IFREG, &place);

	/* An error of the name is reported when a file is made. */
	if (r < 0)
		return -ENOENT;
	if (place.kind == BACKEND_SESSION)
		r = key_heed(tree, view, buf_bytes(&place.session), (struct bytes){ 0 });
	else if (kind_is_state(place.kind))
		r = key_heed(tree, view, buf_bytes(&place.session), buf_bytes(&place.key));
	if (r == 0)
		r = rest_heed(tree, view, dir, name, &place);
	return r < 0 ? r : -ENOENT;
}

/* r is the result of a lookup; it stands unless changes of the file wait. */
static int heed(struct tree *tree, struct view *view, struct inode *dir, struct bytes name, int r,
		struct inode **inode)
{
	if (!view->past && !tree->rest.any)
		return r;
	if (r == -ENOENT)
		return heed_name(tree, view, dir, name);
	if (r == 0) {
		r = inode_heed(tree, view, *inode);
		if (r < 0)
			inode_forget(tree, *inode, 1);
	}
	return r;
}

typedef int entry_fn(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		     uint64_t *ret_id, struct inode **ret_inode);

static int entry_look_by(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
			 unsigned flags, entry_fn *find, uint64_t *ret_id, struct inode **ret_inode)
{
	int r = view_begin(tree, flags, view);

	if (r < 0)
		return r;
	r = find(tree, view, dir, name, ret_id, ret_inode);
	/* A view that goes past something is not brief after all. */
	if ((flags & BACKEND_BRIEF) && !view->past)
		return r;
	return heed(tree, view, dir, name, r, ret_inode);
}

int entry_look(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode)
{
	return entry_look_by(tree, view, dir, name, 0, entry_open, ret_id, ret_inode);
}

int entry_recall(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
		 uint64_t *ret_id, struct inode **ret_inode)
{
	int r = entry_check(dir, name);

	*ret_inode = r == 0 ? called_recall(tree, dir, name) : NULL;
	if (r < 0 || !*ret_inode)
		return r < 0 ? r : entry_look(tree, view, dir, name, ret_id, ret_inode);
	*ret_id = (*ret_inode)->node.entry;
	return 0;
}

/* Not where something waits: to heed it may be to forget an inode, and so to commit. */
static unsigned brief_flag(const struct tree *tree)
{
	return tree->taker.late || tree->rest.any ? 0 : BACKEND_BRIEF;
}

static int lookup_name(struct tree *tree, struct inode *dir, struct bytes name,
		       struct inode **ret_inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	const unsigned flags = brief_flag(tree);
	uint64_t id;

	return entry_look_by(tree, &view, dir, name, flags, entry_measure, &id, ret_inode);
}

int name_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode)
{
	return TREE_RETRY(tree, lookup_name(tree, dir, name, ret_inode));
}

static unsigned wants_bytes(void *arg, const struct backend_node *node)
{
	(void)arg;
	return S_ISREG(node->mode) && !kind_is_state(node->kind) ? BACKEND_WHOLE : 0;
}

int entry_look_pair(struct tree *tree, struct view *view, struct entry_pair *pair)
{
	struct backend_looked looked[2] = {
		{ .parent = pair->dir->node.ino, .name = pair->name },
		{ .parent = pair->dir_to->node.ino, .name = pair->name_to, .arg = tree },
	};
	const unsigned brief = brief_flag(tree);
	int r = entry_check(pair->dir, pair->name);

	if (r == 0)
		r = entry_check(pair->dir_to, pair->name_to);
	if (r == 0)
		r = view_begin(tree, brief, view);
	/* An ordinary file that becomes rows is read; a document that is replaced is kept for a
	 * moment. */
	if (kind_is_state(place_kind(tree, pair->dir_to, pair->name_to)))
		looked[0].wanted = wants_bytes;
	looked[1].wanted = pair->exchange ? inode_wants_tail : inode_wants_row;
	if (r == 0)
		r = backend_entry_look(view->backend, view->snapshot, looked, 2);
	if (r == 0 && brief) {
		view_end(view);
		r = view_begin(tree, 0, view);
	}
	if (r == 0)
		r = heed(tree, view, pair->dir, pair->name,
			 looked_up(tree, view, pair->dir, &looked[0], &view->whole[0],
				   &pair->inode),
			 &pair->inode);
	if (r < 0)
		goto out;
	pair->id = looked[0].id;
	pair->over = NULL;
	r = looked_up(tree, view, pair->dir_to, &looked[1], &view->whole[1], &pair->over);
	pair->over_id = looked[1].id;
	if (r == -ENOENT)
		r = 0;
	if (r < 0)
		inode_forget(tree, pair->inode, 1);
out:
	backend_looked_done(looked, 2);
	return r;
}

int session_heed(struct tree *tree, const struct view *view, struct inode *dir)
{
	const struct inode *session = inode_session(dir);
	const struct bytes all = { 0 };

	int r = rest_heed_session(tree, dir);

	return r < 0 || !session ? r : key_heed(tree, view, session->node.session, all);
}

static int entry_any(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	(void)entry;
	(void)node;
	*(bool *)arg = true;
	return 1;
}

int dir_is_empty(struct view *view, uint64_t ino)
{
	bool any = false;
	int r = ASK(view, entry_list, ino, 0, entry_any, &any);

	return r < 0 ? r : !any;
}

void dir_changed(struct inode *dir, int links, struct backend_node *ret_node)
{
	*ret_node = dir->node;
	ret_node->nlink = (uint32_t)((int64_t)ret_node->nlink + links);
	ret_node->mtime = ret_node->ctime = time_now();
}

void batch_dir(struct batch *batch, const struct backend_node *before,
	       const struct backend_node *node)
{
	batch_node_set(batch, node, BACKEND_MTIME | BACKEND_CTIME,
		       (int64_t)node->nlink - (int64_t)before->nlink);
}

/* Take over times and link count after the commit. */
void dir_apply(struct inode *dir, const struct backend_node *node)
{
	dir->node.nlink = node->nlink;
	dir->node.mtime = node->mtime;
	dir->node.ctime = node->ctime;
}

struct changed_dir {
	struct inode *dir;
	struct backend_node node; /* as it will be */
};

int changed_dirs_add(struct changed_dirs *dirs, struct inode *dir, int links)
{
	struct changed_dir *item = dirs->item;

	for (size_t i = 0; i < dirs->count; i++, item++)
		if (item->dir == dir) {
			item->node.nlink = (uint32_t)((int64_t)item->node.nlink + links);
			return 0;
		}
	if (ARRAY_ROOM(dirs->item, dirs->count, dirs->room) < 0)
		return -ENOMEM;
	item = &dirs->item[dirs->count++];
	item->dir = dir;
	dir_changed(dir, links, &item->node);
	return 0;
}

void changed_dirs_emit(const struct changed_dirs *dirs, struct batch *batch)
{
	for (size_t i = 0; i < dirs->count; i++)
		batch_dir(batch, &dirs->item[i].dir->node, &dirs->item[i].node);
}

void changed_dirs_apply(const struct changed_dirs *dirs)
{
	for (size_t i = 0; i < dirs->count; i++)
		dir_apply(dirs->item[i].dir, &dirs->item[i].node);
}

void changed_dirs_done(struct changed_dirs *dirs)
{
	free(dirs->item);
}

void guard_dirs(const struct inode *dir, struct batch *batch)
{
	for (; dir; dir = dir->parent)
		batch_guard(batch, dir->ino, false);
}

void node_unlinked(struct backend_node *node)
{
	node->nlink = 0;
	node->parent = node->entry = 0;
	node->ctime = time_now();
}

void node_apply(struct inode *inode, const struct backend_node *node)
{
	void *owned = inode->node.owned;
	struct backend_node copy;

	if (backend_node_copy(node, &copy) == 0) {
		inode_set_node(inode, &copy);
		return;
	}
	/* Without the path under which it goes into the trash. */
	copy = *node;
	copy.target = inode->node.target;
	copy.owned = owned;
	inode->node = copy;
	inode_node_changed(inode);
}

void unlinking_done(struct unlinking *unlinking)
{
	stage_done(&unlinking->stage);
}

enum { UNLINK_KEEP = 1 << 20 }; /* bytes kept for a thread that may be about to open the file */

/* An unlinked state file that is open, or is just about to be opened, can still be read and
 * written: its bytes move into a stage, which ends with the inode.  Large content is kept only for
 * handles that are open already, and for threads that were led there. */
static int unlink_keep(struct tree *tree, struct view *view, struct unlinking *unlinking)
{
	struct inode *inode = unlinking->inode;
	uint64_t size;
	int r;

	if (unlinking->empty || inode->apart) {
		unlinking->orphaned = true;
		return 0;
	}
	if (inode_is_unshared(tree, inode))
		return 0;
	r = content_size(tree, view, inode, &size);
	if (r < 0 || (!inode->open && !inode->led && size > UNLINK_KEEP))
		return r;
	unlinking->orphaned = true;
	return content_to_stage(view, inode, &unlinking->stage);
}

int unlinking_begin(struct tree *tree, struct view *view, struct inode *inode, bool keep_rows,
		    struct unlinking *unlinking, struct batch *batch)
{
	struct backend_node *node = &unlinking->node;
	/* It cannot be open, so it can go into the trash at once. */
	const bool link = S_ISLNK(inode->node.mode) && unlinking->path.data;
	const bool needed = inode_is_opened(inode) || unlinking->hide;

	unlinking->tree = tree;
	unlinking->inode = inode;
	inode_leaves(tree, inode);
	*node = inode->node;
	node->nlink = inode_is_dir(inode) || !node->nlink ? 0 : node->nlink - 1;
	node->ctime = time_now();
	/* Of several names the node has the newest; the others are not known here. */
	if (!node->nlink || node->entry == unlinking->entry)
		node->parent = node->entry = 0;
	if (node->nlink) {
		unlinking->left = inode->left_dir ? inode->left_dir : inode->node.parent;
		batch_node_put(batch, node);
		return batch->error;
	}
	if (inode_is_opened(inode) && !inode_is_state(inode))
		unlinking->left = quota_dir(inode);
	else if (inode->node.nlink)
		batch_grows(batch, quota_dir(inode), content_less(inode));
	if (inode_is_state(inode)) {
		int r = unlink_keep(tree, view, unlinking);

		if (r < 0)
			return r;
		if (keep_rows)
			batch_guard_rows(batch, node->session, node->key);
		else if (!unlinking->path.data) {
			batch_row_delete(batch, node->session, node->key, INT64_MIN, INT64_MAX);
			/* Another user may make a file of this name. */
			batch_past_forget(batch, node);
		}
	} else if (!link && (needed || backend_is_shared(tree->backend))) {
		if (unlinking->path.data)
			node->target = unlinking->path;
		batch_node_put(batch, node);
		return batch->error;
	}
	unlinking->gone = true;
	if (!inode_is_state(inode) && !link) /* it may be open elsewhere */
		batch_guard_alone(batch);
	if (unlinking->path.data)
		return trash_put_single(tree, view, node, unlinking->path, batch);
	batch_node_delete(batch, node->ino);
	return batch->error;
}

void unlinking_apply(struct unlinking *unlinking)
{
	struct inode *inode = unlinking->inode;

	if (unlinking->gone) {
		inode->gone = true;
		inode->node.nlink = 0;
		inode->orphaned = unlinking->orphaned;
		inode->lost = unlinking->empty;
		inode->orphan = unlinking->stage;
		unlinking->stage = (struct stage){ 0 };
		inode_unload(inode);
		inode->version++;
		return;
	}
	node_apply(inode, &unlinking->node);
	/* It may count for another session from now on. */
	if (inode->node.nlink)
		quota_void(unlinking->tree);
	if (unlinking->left)
		quota_left(unlinking->tree, inode, unlinking->left);
}

int entry_leave_whiteout(struct tree *tree, const struct inode *dir, struct bytes name,
			 struct batch *batch)
{
	struct backend_node node;
	int r = number_node(tree, dir->node.ino, S_IFCHR, dir->node.uid, dir->node.gid, &node);

	if (r < 0)
		return r;
	node.kind = BACKEND_ORDINARY;
	batch_node_put(batch, &node);
	batch_entry_put(batch, node.parent, node.entry, name, node.ino);
	return 0;
}
