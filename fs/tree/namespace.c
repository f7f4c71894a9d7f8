/* SPDX-License-Identifier: MIT */

/* Names: looking up, making, linking, unlinking.  rename.c moves them, listing.c lists them. */

#include <errno.h>
#include <limits.h>

#include "fs/base/names.h"
#include "fs/content/content.h"
#include "fs/inode/aparts.h"
#include "fs/inode/commit.h"
#include "fs/inode/quota.h"
#include "fs/inode/trashed.h"
#include "fs/tree/attr.h"
#include "fs/tree/place.h"
#include "fs/tree/tree.h"
#include "fs/inode/window.h"

int tree_lookup(struct tree *tree, struct inode *dir, struct bytes name, struct inode **ret_inode)
{
	return tree_lookup_by(tree, dir, name, NOBODY, ret_inode);
}

int tree_lookup_by(struct tree *tree, struct inode *dir, struct bytes name, pid_t pid,
		   struct inode **ret_inode)
{
	int r;

	if (dir->window)
		return tree->views->lookup(tree, dir, name, pid, ret_inode);
	r = name_lookup(tree, dir, name, ret_inode);
	if (r == -ENOENT && tree->aways && pid > 0)
		r = away_find(tree, dir, name, pid, ret_inode);
	return r == -ENOENT && question_is(name) ? tree->views->ask(tree, dir, name, ret_inode) : r;
}

/* Making. */

struct make_request {
	const struct caller *caller;
	struct inode *dir;
	struct bytes name;
	const struct tree_new *what;
};

static int make_node(struct tree *tree, const struct make_request *request,
		     struct backend_node *node)
{
	const struct backend_node *dir = &request->dir->node;
	const struct tree_new *what = request->what;
	const bool inherits = dir->mode & S_ISGID;
	int r = number_node(tree, dir->ino,
			    what->mode | (inherits && S_ISDIR(what->mode) ? S_ISGID : 0),
			    request->caller->uid, inherits ? dir->gid : request->caller->gid, node);

	node->rdev = what->rdev;
	node->target = what->target;
	return r;
}

/* Check that the name and the key of a new file are free. */
static int make_look(struct tree *tree, struct view *view, const struct make_request *request)
{
	struct inode *there;
	uint64_t id;
	int r = entry_look(tree, view, request->dir, request->name, &id, &there);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	inode_forget(tree, there, 1);
	return -EEXIST;
}

/* look: read the store first.  Otherwise, since most names and keys are free, the batch only has
 * conditions, and fails with -EEXIST if anything is in the way. */
static int make_once(struct tree *tree, const struct make_request *request, bool look,
		     struct inode **ret_inode, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(place_done) struct place place = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(ghost_end_freep) struct ghost_end *end = NULL;
	struct backend_node node, dir_node;
	struct ghost *ghost = NULL;
	WITH_WRITE_LOCK(tree);
	bool inherits = false;
	int r;

	if (!request->dir->node.nlink)
		return -ENOENT;
	r = look ? make_look(tree, &view, request) : entry_check(request->dir, request->name);
	if (r == 0)
		r = place_find(&(struct placing){ .tree = tree, .view = look ? &view : NULL },
			       request->dir, request->name, request->what->mode, &place);
	if (r == 0)
		r = make_node(tree, request, &node);
	if (r < 0)
		return r;
	place_apply(&place, &node);
	if (kind_is_state(node.kind) && apart_has(tree, node.session, node.key))
		return -EIO;
	if (kind_is_state(node.kind))
		ghost = ghost_find(tree, node.session, node.key);
	if ((ghost || trash_has_just(tree, request->dir, request->name)) && !look)
		return -EEXIST;
	if (kind_is_state(node.kind) && !look)
		batch_guard_key(&batch, node.session, node.key);
	else if (kind_is_state(node.kind) && !ghost)
		r = ghost_end_elsewhere(&view, &node, &batch);
	if (ghost) {
		inherits = request->what->will_save && ghost_leaves_to(ghost, &node);
		r = ghost_end_begin(tree, &view, ghost, ghost_rows_for(ghost, &node, inherits),
				    &batch, &end);
	}
	if (r == 0 && look)
		r = trash_replaced(tree, &view, request->dir, request->name, &batch);
	if (r < 0)
		return r;
	view_end(&view);
	/* No bytes are not JSON: a new single is a draft of no bytes. */
	if ((node.kind == BACKEND_SINGLE || node.kind == BACKEND_HASH) && !inherits)
		node.flags |= BACKEND_DRAFT;
	dir_changed(request->dir, S_ISDIR(node.mode), &dir_node);
	guard_dirs(request->dir, &batch);
	batch_node_put(&batch, &node);
	batch_entry_put(&batch, node.parent, node.entry, request->name, node.ino);
	batch_dir(&batch, &request->dir->node, &dir_node);
	/* Nobody deletes it before it is open. */
	if (request->what->will_open)
		r = backend_use(tree->backend, node.ino, true);
	if (r < 0)
		return r;
	r = tree_commit(tree, &batch, 0);
	if (r == 0) {
		dir_apply(request->dir, &dir_node);
		if (end)
			ghost_end_apply(tree, steal_ptr(end));
		r = inode_create(tree, &node, request->dir, request->name, ret_inode);
	}
	if (r < 0) {
		if (request->what->will_open)
			backend_use(tree->backend, node.ino, false);
		return r;
	}
	(*ret_inode)->inherited = (*ret_inode)->inherits = inherits;
	(*ret_inode)->opening = request->what->will_open;
	(*ret_inode)->uses = request->what->will_open;
	name_happened(notes, tree, EVENT_SAVE, *ret_inode, request->dir, request->name);
	return 0;
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
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	if (S_ISLNK(what->mode) && what->target.size >= PATH_MAX)
		return -ENAMETOOLONG;
	/* While requests go past changes of others, such a change may bring the name. */
	r = TREE_RETRY(tree, make_once(tree, &request, tree->taker.late, ret_inode, &notes));
	if (r == -EEXIST)
		r = TREE_RETRY(tree, make_once(tree, &request, true, ret_inode, &notes));
	notes_send(&notes, tree, NOTIFY_LATER);
	return r;
}

/* Takes over a count of dir. */
static int make_below(struct tree *tree, const struct backend_node *like, struct inode *dir,
		      struct bytes name, struct inode **ret_dir)
{
	const struct caller caller = { .uid = like->uid, .gid = like->gid };
	const struct tree_new what = { .mode = S_IFDIR | (like->mode & 0777) };
	struct inode *there;
	int r = name_lookup(tree, dir, name, &there); /* a question is not a directory */

	if (r == -ENOENT)
		r = tree_make(tree, &caller, dir, name, &what, &there);
	if (r == -EEXIST) /* another thread has made it meanwhile */
		r = name_lookup(tree, dir, name, &there);
	inode_forget(tree, dir, 1);
	if (r < 0)
		return r;
	*ret_dir = there;
	if (inode_is_dir(there))
		return 0;
	inode_forget(tree, there, 1);
	return -ENOTDIR;
}

/* The directory that lies so many above another one, or the root. */
static const struct inode *above(const struct inode *dir, size_t levels)
{
	while (levels-- && dir->parent)
		dir = dir->parent;
	return dir;
}

int tree_make_above(struct tree *tree, struct bytes path, const struct inode *like,
		    struct inode **ret_dir, struct bytes *ret_name)
{
	struct inode *dir = inode_ref(tree, tree->root);
	struct bytes rest = path;
	size_t left = 0;
	int r = 0;

	while (names_cut(&rest, ret_name))
		left++;
	while (r == 0 && names_cut(&path, ret_name))
		r = make_below(tree, &above(like, --left)->node, dir, *ret_name, &dir);
	if (r == 0)
		*ret_dir = dir;
	return r;
}

/* In the store it is like a file that was unlinked while open, so it is deleted with its last
 * count, or by the next mount. */
static int make_nameless_once(struct tree *tree, const struct make_request *request,
			      struct inode **ret_inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node;
	WITH_WRITE_LOCK(tree);
	int r;

	if (!request->dir->node.nlink)
		return -ENOENT;
	r = make_node(tree, request, &node);
	if (r < 0)
		return r;
	node.kind = BACKEND_ORDINARY;
	node.parent = node.entry = node.nlink = 0;
	/* Nobody deletes it before it is open. */
	r = backend_use(tree->backend, node.ino, true);
	if (r < 0)
		return r;
	batch_node_put(&batch, &node);
	r = tree_commit(tree, &batch, 0);
	if (r == 0)
		r = inode_create(tree, &node, request->dir, request->name, ret_inode);
	if (r < 0) {
		backend_use(tree->backend, node.ino, false);
		return r;
	}
	(*ret_inode)->nameless = (*ret_inode)->opening = true;
	(*ret_inode)->uses = 1;
	quota_left(tree, *ret_inode, request->dir->ino);
	return 0;
}

int tree_make_nameless(struct tree *tree, const struct caller *caller, struct inode *dir,
		       mode_t mode, struct inode **ret_inode)
{
	const struct tree_new what = { .mode = mode };
	const struct make_request request = { .caller = caller, .dir = dir, .what = &what };

	if (tree->options.read_only || dir->window)
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
		return name_nameless(tree, inode, dir, name, false, notes);
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
	r = place_find(&(struct placing){ .tree = tree, .view = &view }, dir, name,
		       inode->node.mode, &place);
	if (r < 0)
		return r;
	if (kind_is_state(place.kind))
		return -EPERM;
	view_end(&view);
	node = inode->node;
	node.nlink++;
	node.ctime = time_now();
	node.parent = dir->node.ino;
	r = number_entry(tree, &node.entry);
	if (r < 0)
		return r;
	dir_changed(dir, 0, &dir_node);
	guard_dirs(dir, &batch);
	batch_node_put(&batch, &node);
	batch_entry_put(&batch, node.parent, node.entry, name, node.ino);
	batch_dir(&batch, &dir->node, &dir_node);
	batch_grows(&batch, dir->ino, (int64_t)file_size(inode));
	quota_grows(inode, -(int64_t)file_size(inode), &batch);
	r = tree_commit(tree, &batch, 0);
	if (r < 0)
		return r;
	quota_left(tree, inode, quota_dir(inode));
	inode->node = node;
	dir_apply(dir, &dir_node);
	name_happened(notes, tree, EVENT_SAVE, inode, dir, name);
	return 0;
}

int tree_link(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name)
{
	if (tree->options.read_only || inode->window)
		return -EROFS;
	return TREE_RETRY_NOTING(tree, NOTIFY_LATER, link_once(tree, inode, dir, name, &notes));
}

/* Unlinking. */

/* A state file that loses its name becomes a ghost. */
static int unlink_state(struct tree *tree, struct inode *dir, uint64_t id, struct inode *inode,
			struct bytes path)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node, dir_node;
	int r;

	node_unlinked(&node);
	node.target = path;
	dir_changed(dir, 0, &dir_node);
	batch_entry_delete(&batch, dir->node.ino, id);
	batch_node_put(&batch, &node);
	batch_dir(&batch, &dir->node, &dir_node);
	batch_grows(&batch, dir->ino, content_less(inode));
	/* What another mount could not take in was before, and goes with the rows. */
	if (tree_is_shared(tree))
		batch_change_done(&batch, node.session, node.key, BACKEND_STAMP_APART);
	r = tree_commit(tree, &batch, BACKEND_FREES);
	if (r < 0)
		return r;
	dir_apply(dir, &dir_node);
	node_apply(inode, &node);
	return 0;
}

/* how: its fields that are marked "set before". */
static int unlink_name(struct tree *tree, struct view *view, struct inode *dir, uint64_t id,
		       struct inode *inode, const struct unlinking *how)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(unlinking_done) struct unlinking unlinking = *how;
	struct backend_node dir_node;
	const bool look = how->path.data && !tree->trashed.any && !view->backend;
	int r = look ? view_begin(tree, 0, view) : 0;

	if (r < 0)
		return r;
	unlinking.entry = id;
	dir_changed(dir, inode_is_dir(inode) ? -1 : 0, &dir_node);
	batch_entry_delete(&batch, dir->node.ino, id);
	r = unlinking_begin(tree, view, inode, false, &unlinking, &batch);
	if (r < 0)
		return r;
	view_end(view);
	batch_dir(&batch, &dir->node, &dir_node);
	r = tree_commit(tree, &batch, BACKEND_FREES);
	if (r < 0)
		return r;
	dir_apply(dir, &dir_node);
	unlinking_apply(&unlinking);
	return 0;
}

static int unlink_entry(struct tree *tree, struct view *view, struct inode *dir, uint64_t id,
			struct inode *inode, struct bytes path)
{
	/* What has only a name does not go into the trash. */
	const mode_t mode = inode->node.mode;
	const bool kept = path.data && (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode));
	struct unlinking how = { .path = kept ? path : (struct bytes){ 0 } };
	int r = unlink_name(tree, view, dir, id, inode, &how);

	if (r == -ENOSPC && kept) {
		how = (struct unlinking){ 0 };
		r = unlink_name(tree, view, dir, id, inode, &how);
	}
	/* Too large for one transaction on a full disk: use two. */
	if (r == -ENOSPC && S_ISREG(inode->node.mode)) {
		how.hide = true;
		r = unlink_name(tree, view, dir, id, inode, &how);
	}
	return r;
}

static struct bytes path_bytes(const struct buf *path)
{
	return path->size ? buf_bytes(path) : (struct bytes){ 0 };
}

static int unlink_once(struct tree *tree, struct inode *dir, struct bytes name, struct notes *notes)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	struct inode *inode;
	uint64_t id, parent;
	int r;

	r = entry_recall(tree, &view, dir, name, &id, &inode);
	if (r < 0)
		return r;
	parent = inode->node.parent;
	r = trash_path(tree, dir, name, &path);
	if (r == 0 && inode_is_dir(inode)) {
		r = -EISDIR;
	} else if (r == 0 && inode_is_state(inode)) {
		view_end(&view);
		r = unlink_state(tree, dir, id, inode, path_bytes(&path));
	} else if (r == 0) {
		r = unlink_entry(tree, &view, dir, id, inode, path_bytes(&path));
	}
	view_end(&view);
	if (r == 0)
		name_happened(notes, tree, EVENT_REMOVE, inode, dir, name);
	if (r == 0 && inode_is_state(inode)) {
		notes_change(notes, tree, inode, CHANGE_ATTR, 0, NULL);
		r = ghost_add(tree, inode_ref(tree, inode), parent);
	} else if (r == 0 && path.size) {
		trash_removed(tree, dir, name, inode->ino);
	}
	inode_forget(tree, inode, 1);
	return r;
}

static int rmdir_once(struct tree *tree, struct inode *dir, struct bytes name, struct notes *notes)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	WITH_WRITE_LOCK(tree);
	struct inode *inode;
	uint64_t id;
	int r;

	r = entry_recall(tree, &view, dir, name, &id, &inode);
	if (r < 0)
		return r;
	if (inode_is_dir(inode)) {
		r = view.snapshot ? 0 : view_begin(tree, 0, &view);
		if (r == 0)
			r = session_heed(tree, &view, inode);
		if (r == 0)
			r = dir_is_empty(&view, inode->node.ino);
		r = r < 0 ? r : r ? 0 : -ENOTEMPTY;
	} else {
		r = -ENOTDIR;
	}
	if (r == 0) {
		/* On a full disk an open view prevents making room. */
		view_end(&view);
		r = ghosts_end(tree, true, inode);
	}
	if (r == 0)
		r = trash_path(tree, dir, name, &path);
	if (r == 0)
		r = unlink_entry(tree, &view, dir, id, inode, path_bytes(&path));
	view_end(&view);
	if (r == 0)
		name_happened(notes, tree, EVENT_REMOVE, inode, dir, name);
	inode_forget(tree, inode, 1);
	return r;
}

int name_refused(struct bytes name, int error)
{
	return error == -ENOENT && question_is(name) ? -EROFS : error;
}

int tree_unlink(struct tree *tree, struct inode *dir, struct bytes name)
{
	int r = tree->options.read_only ?
			-EROFS :
			TREE_RETRY_NOTING(tree, NOTIFY_LATER, unlink_once(tree, dir, name, &notes));

	return name_refused(name, r);
}

int tree_rmdir(struct tree *tree, struct inode *dir, struct bytes name)
{
	int r = tree->options.read_only ?
			-EROFS :
			TREE_RETRY_NOTING(tree, NOTIFY_LATER, rmdir_once(tree, dir, name, &notes));

	return name_refused(name, r);
}

int tree_readlink(struct tree *tree, struct inode *inode, struct buf *target)
{
	WITH_READ_LOCK(tree);

	if (!S_ISLNK(inode->node.mode))
		return -EINVAL;
	return buf_append_bytes(target, inode->node.target);
}
