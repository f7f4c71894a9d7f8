/* SPDX-License-Identifier: MIT */

/* Names: looking up, making, linking, unlinking, listing.  (rename.c has the moving.) */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "fs/model/internal.h"
#include "fs/model/names.h"
#include "fs/model/namespace.h"
#include "src/base/log.h"

int name_check(struct bytes name)
{
	return name.size > NAME_LIMIT ? -ENAMETOOLONG : 0;
}

int entry_open(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode)
{
	struct backend_node node;
	int r;

	if (!inode_is_dir(dir))
		return -ENOTDIR;
	r = name_check(name);
	if (r < 0)
		return r;
	r = view->backend->ops->entry_find(view->backend, view->snapshot, dir->node.ino, name,
					   ret_id, &node);
	if (r < 0)
		return r;
	return inode_of_node(tree, view, &node, ret_inode);
}

int entry_look(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode)
{
	int r = view_begin(tree, 0, view);

	return r < 0 ? r : entry_open(tree, view, dir, name, ret_id, ret_inode);
}

static int lookup_once(struct tree *tree, struct inode *dir, struct bytes name,
		       struct inode **ret_inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK_HELD(tree);
	struct inode *inode;
	uint64_t id;
	int r;

	r = entry_look(tree, &view, dir, name, &id, &inode);
	if (r < 0)
		return r;
	if (removals_have(tree, id)) {
		inode_forget(tree, inode, 1);
		return -ENOENT;
	}
	*ret_inode = inode;
	return 0;
}

int tree_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode)
{
	return TREE_RETRY(tree, lookup_once(tree, dir, name, ret_inode));
}

static int find_once(struct tree *tree, uint64_t nodeid, struct inode **ret_inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	struct inode *inode;
	int r;

	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = inode_get(tree, &view, nodeid_ino(nodeid), &inode);
	if (r < 0)
		return r;
	/* A face that the kernel has forgotten shows nothing any more. */
	if (!inode->node.nlink || nodeid_face(nodeid) >= inode->face_count ||
	    node_is_trashed(&inode->node)) {
		inode_forget(tree, inode, 1);
		return -ENOENT;
	}
	*ret_inode = inode;
	return 0;
}

int tree_find(struct tree *tree, uint64_t nodeid, struct inode **ret_inode)
{
	int r = TREE_RETRY(tree, find_once(tree, nodeid, ret_inode));

	return r == -ENOENT ? -ESTALE : r;
}

int tree_find_parent(struct tree *tree, uint64_t nodeid, struct inode **ret_inode)
{
	struct inode *inode;
	int r = tree_find(tree, nodeid, &inode);

	if (r < 0)
		return r;
	if (inode_is_dir(inode)) {
		WITH_READ_LOCK(tree);

		*ret_inode = inode_ref(tree, inode->parent ? inode->parent : inode);
	} else {
		r = -ENOTDIR;
	}
	inode_forget(tree, inode, 1);
	return r;
}

/* Making. */

void dir_changed(struct inode *dir, int links, struct backend_node *ret_node)
{
	*ret_node = dir->node;
	ret_node->nlink = (uint32_t)((int64_t)ret_node->nlink + links);
	ret_node->mtime = ret_node->ctime = time_now();
}

/* Take over times and link count after the commit. */
void dir_apply(struct inode *dir, const struct backend_node *node)
{
	dir->node.nlink = node->nlink;
	dir->node.mtime = node->mtime;
	dir->node.ctime = node->ctime;
}

struct make_request {
	const struct caller *caller;
	struct inode *dir;
	struct bytes name;
	const struct tree_new *what;
};

static void make_node(struct tree *tree, const struct make_request *request,
		      struct backend_node *node)
{
	const struct backend_node *dir = &request->dir->node;
	bool inherits = dir->mode & S_ISGID;

	*node = (struct backend_node){
		.ino = atomic_fetch_add(&tree->last_ino, 1) + 1,
		.parent = dir->ino,
		.entry = atomic_fetch_add(&tree->last_entry, 1) + 1,
		.mode = request->what->mode,
		.uid = request->caller->uid,
		.gid = inherits ? dir->gid : request->caller->gid,
		.nlink = S_ISDIR(request->what->mode) ? 2 : 1,
		.rdev = request->what->rdev,
		.target = request->what->target,
	};
	if (inherits && S_ISDIR(request->what->mode))
		node->mode |= S_ISGID;
	node->atime = node->mtime = node->ctime = node->btime = time_now();
}

static int make_once(struct tree *tree, const struct make_request *request,
		     struct inode **ret_inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(place_done) struct place place = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(ghost_end_freep) struct ghost_end *end = NULL;
	struct backend_node node, dir_node;
	struct ghost *ghost = NULL;
	WITH_WRITE_LOCK(tree);
	bool inherits = false;
	struct inode *there;
	uint64_t id;
	int r;

	if (!request->dir->node.nlink)
		return -ENOENT;
	r = entry_look(tree, &view, request->dir, request->name, &id, &there);
	if (r == 0) {
		inode_forget(tree, there, 1);
		return -EEXIST;
	}
	if (r != -ENOENT)
		return r;
	r = place_find(&view, request->dir, request->name, request->what->mode, 0, &place);
	if (r < 0)
		return r;
	make_node(tree, request, &node);
	place_apply(&place, &node);
	if (kind_is_state(node.kind))
		ghost = ghost_find(tree, node.session, node.key);
	if (ghost) {
		inherits = request->what->will_write && ghost_was(ghost, node.kind);
		r = ghost_end_begin(tree, &view, ghost, inherits, &batch, &end);
	}
	if (r < 0)
		return r;
	view_end(&view);
	/* Nothing is no JSON: a new single has its bytes, none, as a draft. */
	if ((node.kind == BACKEND_SINGLE || node.kind == BACKEND_HASH) && !inherits)
		node.flags |= BACKEND_DRAFT;
	dir_changed(request->dir, S_ISDIR(node.mode), &dir_node);
	batch_node_put(&batch, &node);
	batch_entry_put(&batch, node.parent, node.entry, request->name, node.ino);
	batch_node_put(&batch, &dir_node);
	r = batch_commit(&batch, tree->backend, 0);
	if (r < 0)
		return r;
	dir_apply(request->dir, &dir_node);
	if (end)
		ghost_end_apply(tree, steal_ptr(end));
	r = inode_create(tree, &node, request->dir, request->name, ret_inode);
	if (r == 0)
		(*ret_inode)->inherited = inherits;
	return r;
}

int tree_make(struct tree *tree, const struct caller *caller, struct inode *dir, struct bytes name,
	      const struct tree_new *what, struct inode **ret_inode)
{
	const struct make_request request = {
		.caller = caller,
		.dir = dir,
		.name = name,
		.what = what,
	};

	if (tree->options.read_only)
		return -EROFS;
	if (S_ISLNK(what->mode) && what->target.size >= PATH_MAX)
		return -ENAMETOOLONG;
	return TREE_RETRY(tree, make_once(tree, &request, ret_inode));
}

/* It is in the store like a file that was unlinked while open, so that it goes with the last who
 * counts it, or with the next mount. */
static int make_nameless_once(struct tree *tree, const struct make_request *request,
			      struct inode **ret_inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node;
	WITH_WRITE_LOCK(tree);
	int r;

	if (!request->dir->node.nlink)
		return -ENOENT;
	make_node(tree, request, &node);
	node.kind = BACKEND_ORDINARY;
	node.parent = node.entry = node.nlink = 0;
	batch_node_put(&batch, &node);
	r = batch_commit(&batch, tree->backend, 0);
	if (r == 0)
		r = inode_create(tree, &node, request->dir, request->name, ret_inode);
	if (r == 0)
		(*ret_inode)->nameless = true;
	return r;
}

int tree_make_nameless(struct tree *tree, const struct caller *caller, struct inode *dir,
		       mode_t mode, struct inode **ret_inode)
{
	const struct tree_new what = { .mode = mode };
	const struct make_request request = { .caller = caller, .dir = dir, .what = &what };

	if (tree->options.read_only)
		return -EROFS;
	return TREE_RETRY(tree, make_nameless_once(tree, &request, ret_inode));
}

static int link_once(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		     struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(place_done) struct place place = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct backend_node node, dir_node;
	WITH_WRITE_LOCK(tree);
	struct inode *there;
	uint64_t id;
	int r;

	if (inode->nameless)
		return name_nameless(tree, inode, dir, name, notes);
	if (!dir->node.nlink || !inode->node.nlink)
		return -ENOENT;
	if (inode_is_dir(inode) || inode_is_state(inode))
		return -EPERM;
	r = entry_look(tree, &view, dir, name, &id, &there);
	if (r == 0) {
		inode_forget(tree, there, 1);
		return -EEXIST;
	}
	if (r != -ENOENT)
		return r;
	r = place_find(&view, dir, name, inode->node.mode, 0, &place);
	if (r < 0)
		return r;
	if (kind_is_state(place.kind))
		return -EPERM;
	view_end(&view);
	node = inode->node;
	node.nlink++;
	node.ctime = time_now();
	node.parent = dir->node.ino;
	node.entry = atomic_fetch_add(&tree->last_entry, 1) + 1;
	dir_changed(dir, 0, &dir_node);
	batch_node_put(&batch, &node);
	batch_entry_put(&batch, node.parent, node.entry, name, node.ino);
	batch_node_put(&batch, &dir_node);
	r = batch_commit(&batch, tree->backend, 0);
	if (r < 0)
		return r;
	inode->node = node;
	dir_apply(dir, &dir_node);
	return 0;
}

int tree_link(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	r = TREE_RETRY(tree, link_once(tree, inode, dir, name, &notes));
	notes_tell(&notes, tree, false);
	return r;
}

/* Unlinking. */

enum { UNLINK_KEEP = 1 << 20 }; /* bytes kept for who may be about to open the file */

static void node_unlinked(struct backend_node *node)
{
	node->nlink = 0;
	node->parent = node->entry = 0;
	node->ctime = time_now();
}

void unlinking_done(struct unlinking *unlinking)
{
	stage_done(&unlinking->stage);
}

/* Who has an unlinked state file open, or is just about to open it, goes on reading and writing it:
 * its bytes move into a stage, which ends with the inode.  Large content is kept only for those who
 * have it open already. */
static int unlink_keep(struct tree *tree, struct view *view, struct unlinking *unlinking)
{
	struct inode *inode = unlinking->inode;
	uint64_t size;
	int r;

	if (unlinking->empty) {
		unlinking->orphaned = true;
		return 0;
	}
	r = content_size(tree, view, inode, &size);
	if (r < 0 || (!inode->open && size > UNLINK_KEEP))
		return r;
	unlinking->orphaned = true;
	return content_to_stage(tree, view, inode, &unlinking->stage);
}

int unlinking_begin(struct tree *tree, struct view *view, struct inode *inode, bool keep_rows,
		    struct unlinking *unlinking, struct batch *batch)
{
	struct backend_node *node = &unlinking->node;

	unlinking->inode = inode;
	*node = inode->node;
	node->nlink = inode_is_dir(inode) || !node->nlink ? 0 : node->nlink - 1;
	node->ctime = time_now();
	/* Of several names it knows the newest; which others there are is not known here. */
	if (!node->nlink || node->entry == unlinking->entry)
		node->parent = node->entry = 0;
	if (node->nlink) {
		batch_node_put(batch, node);
		return batch->error;
	}
	if (inode_is_state(inode)) {
		int r = unlink_keep(tree, view, unlinking);

		if (r < 0)
			return r;
		if (!keep_rows)
			batch_row_delete(batch, node->session, node->key, INT64_MIN, INT64_MAX);
	} else if (inode->open || unlinking->hide) {
		batch_node_put(batch, node);
		return batch->error;
	}
	unlinking->gone = true;
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
		inode->orphan = unlinking->stage;
		unlinking->stage = (struct stage){ 0 };
		inode->loaded = false;
		inode->version++;
		return;
	}
	/* The strings of the old node stay owned by it. */
	unlinking->node.owned = inode->node.owned;
	inode->node = unlinking->node;
	inode_node_changed(inode);
}

/* In memory only, for who notes it. */
static void unlink_held(struct inode *dir, struct inode *inode)
{
	struct backend_node dir_node;

	dir_changed(dir, 0, &dir_node);
	dir_apply(dir, &dir_node);
	node_unlinked(&inode->node);
}

/* A state file that loses its name becomes a ghost. */
static int unlink_state(struct tree *tree, struct inode *dir, uint64_t id, struct inode *inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node, dir_node;
	int r;

	node_unlinked(&node);
	dir_changed(dir, 0, &dir_node);
	batch_entry_delete(&batch, dir->node.ino, id);
	batch_node_put(&batch, &node);
	batch_node_put(&batch, &dir_node);
	r = batch_commit(&batch, tree->backend, BACKEND_FREES);
	if (r < 0)
		return r;
	dir_apply(dir, &dir_node);
	inode->node = node;
	return 0;
}

/* hide: only the name; the content goes when nobody counts the inode any more. */
static int unlink_name(struct tree *tree, struct view *view, struct inode *dir, uint64_t id,
		       struct inode *inode, bool hide)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(unlinking_done) struct unlinking unlinking = { .entry = id, .hide = hide };
	struct backend_node dir_node;
	int r;

	dir_changed(dir, inode_is_dir(inode) ? -1 : 0, &dir_node);
	batch_entry_delete(&batch, dir->node.ino, id);
	r = unlinking_begin(tree, view, inode, false, &unlinking, &batch);
	if (r < 0)
		return r;
	view_end(view);
	batch_node_put(&batch, &dir_node);
	r = batch_commit(&batch, tree->backend, BACKEND_FREES);
	if (r < 0)
		return r;
	dir_apply(dir, &dir_node);
	unlinking_apply(&unlinking);
	return 0;
}

static int unlink_entry(struct tree *tree, struct view *view, struct inode *dir, uint64_t id,
			struct inode *inode)
{
	int r = unlink_name(tree, view, dir, id, inode, false);

	/* Too large for one transaction on a full disk: in two steps, then. */
	if (r == -ENOSPC && S_ISREG(inode->node.mode))
		r = unlink_name(tree, view, dir, id, inode, true);
	return r;
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
	int r = view->backend->ops->entry_list(view->backend, view->snapshot, ino, 0, entry_any,
					       &any);

	return r < 0 ? r : !any;
}

static int unlink_once(struct tree *tree, struct inode *dir, struct bytes name, struct notes *notes)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK_HELD(tree);
	struct inode *inode;
	uint64_t id, parent;
	int r;

	r = entry_look(tree, &view, dir, name, &id, &inode);
	if (r < 0)
		return r;
	parent = inode->node.parent;
	if (removals_have(tree, id)) {
		r = -ENOENT;
	} else if (inode_is_dir(inode)) {
		r = -EISDIR;
	} else if (removal_hold(tree, dir, id, inode)) {
		unlink_held(dir, inode);
	} else {
		removals_settle(tree);
		if (inode_is_state(inode)) {
			view_end(&view);
			r = unlink_state(tree, dir, id, inode);
		} else {
			r = unlink_entry(tree, &view, dir, id, inode);
		}
	}
	view_end(&view);
	if (r == 0 && inode_is_state(inode)) {
		notes_change(notes, tree, inode, CHANGE_ATTR, 0, NULL);
		r = ghost_add(tree, inode_ref(tree, inode), parent);
	}
	if (r == 0)
		tree->removing = true;
	inode_forget(tree, inode, 1);
	return r;
}

static int rmdir_once(struct tree *tree, struct inode *dir, struct bytes name)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	struct inode *inode;
	uint64_t id;
	int r;

	r = entry_look(tree, &view, dir, name, &id, &inode);
	if (r < 0)
		return r;
	if (inode_is_dir(inode)) {
		r = dir_is_empty(&view, inode->node.ino);
		r = r < 0 ? r : r ? 0 : -ENOTEMPTY;
	} else {
		r = -ENOTDIR;
	}
	if (r == 0) {
		/* On a full disk a view that is open keeps room from being made. */
		view_end(&view);
		r = ghosts_end(tree, true, inode->node.ino);
		if (r == 0)
			r = view_begin(tree, 0, &view);
	}
	if (r == 0)
		r = unlink_entry(tree, &view, dir, id, inode);
	view_end(&view);
	inode_forget(tree, inode, 1);
	return r;
}

int tree_unlink(struct tree *tree, struct inode *dir, struct bytes name)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	r = TREE_RETRY(tree, unlink_once(tree, dir, name, &notes));
	notes_tell(&notes, tree, false);
	return r;
}

int tree_rmdir(struct tree *tree, struct inode *dir, struct bytes name)
{
	if (tree->options.read_only)
		return -EROFS;
	return TREE_RETRY(tree, rmdir_once(tree, dir, name));
}

int tree_readlink(struct tree *tree, struct inode *inode, struct buf *target)
{
	WITH_READ_LOCK(tree);

	if (!S_ISLNK(inode->node.mode))
		return -EINVAL;
	return buf_append_bytes(target, inode->node.target);
}

/* Listing. */

enum {
	LIST_BLOCK = 128, /* entries fetched at a time */
	LIST_DOTS = 2,	  /* "." and ".." have the positions 1 and 2 */
};

struct listed {
	char *name;
	size_t name_size;
	uint64_t id;
	struct backend_node node;
};

struct listing {
	struct listed entry[LIST_BLOCK];
	size_t count;
	uint64_t after; /* id of the last one */
	uint64_t end;	/* and up to where they are wanted */
	bool with_nodes;
};

static int list_keep(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct listing *listing = arg;
	struct listed *listed = &listing->entry[listing->count];

	if (listing->count == LIST_BLOCK || entry->id > listing->end)
		return 1;
	/* A damaged store may have any ids; positions must rise, or a listing never ends. */
	if (entry->id <= listing->after || entry->id > INT64_MAX - LIST_DOTS)
		return 0;
	listing->after = entry->id;
	*listed = (struct listed){ .id = entry->id, .name_size = entry->name.size };
	listed->name = bytes_dup(entry->name);
	if (!listed->name)
		return -ENOMEM;
	if (listing->with_nodes) {
		if (backend_node_copy(node, &listed->node) < 0) {
			free(listed->name);
			return -ENOMEM;
		}
	} else {
		listed->node.ino = node->ino;
		listed->node.mode = node->mode;
	}
	listing->count++;
	return 0;
}

static int list_entry(struct tree *tree, struct view *view, struct listed *listed, bool with_inode,
		      tree_entry_fn *fn, void *arg)
{
	struct shown shown = {
		.st = { .st_ino = listed->node.ino, .st_mode = listed->node.mode },
	};
	struct bytes name = bytes_make(listed->name, listed->name_size);
	struct inode *inode = NULL;
	int r = 0;

	if (with_inode) {
		r = inode_of_node(tree, view, &listed->node, &inode);
		if (r < 0)
			return r;
		/* Not in the listing's view: the file may have been saved since that began. */
		r = inode_show(tree, inode, NOBODY, &shown);
	}
	if (r == 0)
		r = fn(arg, name, inode, &shown, listed->id + LIST_DOTS);
	if (r != 0 && inode)
		inode_forget(tree, inode, 1);
	return r;
}

static int list_dots(struct inode *dir, uint64_t position, tree_entry_fn *fn, void *arg)
{
	const struct inode *parent = dir->parent ? dir->parent : dir;
	const struct shown self = { .st = { .st_ino = dir->node.ino, .st_mode = S_IFDIR } };
	const struct shown up = { .st = { .st_ino = parent->node.ino, .st_mode = S_IFDIR } };
	int r = 0;

	if (position < 1)
		r = fn(arg, BYTES("."), NULL, &self, 1);
	if (r == 0 && position < 2)
		r = fn(arg, BYTES(".."), NULL, &up, 2);
	return r;
}

/* One block of entries behind *after; 1 when there may be more. */
static int list_block(struct tree *tree, struct inode *dir, uint64_t *after, uint64_t end,
		      bool with_inodes, tree_entry_fn *fn, void *arg)
{
	_cleanup_(freep) struct listing *listing = calloc(1, sizeof(*listing));
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	bool full;
	int r;

	if (!listing)
		return -ENOMEM;
	listing->with_nodes = with_inodes;
	listing->after = *after;
	listing->end = end;
	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	r = view.backend->ops->entry_list(view.backend, view.snapshot, dir->node.ino, *after,
					  list_keep, listing);
	full = listing->count == LIST_BLOCK;
	for (size_t i = 0; i < listing->count; i++) {
		struct listed *listed = &listing->entry[i];

		if (r == 0)
			r = list_entry(tree, &view, listed, with_inodes, fn, arg);
		if (r == 0)
			*after = listed->id;
		free(listed->name);
		backend_node_done(&listed->node);
	}
	if (r > 0)
		return 0;
	return r < 0 ? r : full;
}

uint64_t tree_list_end(struct tree *tree)
{
	/* Beside a mount that writes, nobody here knows what is the newest. */
	return tree->options.read_only ? UINT64_MAX : tree->last_entry + LIST_DOTS;
}

int tree_list(struct tree *tree, struct inode *dir, uint64_t position, uint64_t end,
	      bool with_inodes, tree_entry_fn *fn, void *arg)
{
	uint64_t after = position > LIST_DOTS ? position - LIST_DOTS : 0;
	uint64_t last = end > LIST_DOTS ? end - LIST_DOTS : 0;
	int r = list_dots(dir, position, fn, arg);

	if (r != 0)
		return MIN(r, 0);
	do
		r = TREE_RETRY(tree, list_block(tree, dir, &after, last, with_inodes, fn, arg));
	while (r > 0);
	return r;
}
