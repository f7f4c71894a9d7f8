/* SPDX-License-Identifier: MIT */

/* Attributes: what stat shows, what chmod, chown, utimensat and truncate change, extended
 * attributes. */

#include <errno.h>
#include <limits.h>
#include <sys/xattr.h>

#include "fs/model/handle.h"
#include "fs/model/invalid.h"
#include "fs/model/trash.h"
#include "fs/model/ttl.h"

enum { SET_ELSEWHERE = 1 };

static void attr_fill(const struct tree *tree, const struct inode *inode, uint64_t size,
		      uint64_t stored, struct stat *st)
{
	const struct backend_node *node = &inode->node;
	const struct tree_options *options = &tree->options;

	*st = (struct stat){
		.st_ino = node->ino,
		.st_mode = node->mode,
		.st_nlink = node->nlink,
		.st_uid = options->set_uid ? options->uid : node->uid,
		.st_gid = options->set_gid ? options->gid : node->gid,
		.st_rdev = node->rdev,
		.st_size = (off_t)size,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)((stored + 511) / 512),
		.st_atim = time_split(node->atime),
		.st_mtim = time_split(node->mtime),
		.st_ctim = time_split(node->ctime),
	};
	if (options->set_umask)
		st->st_mode &= ~options->umask;
	if (S_ISDIR(node->mode))
		st->st_size = 4096;
	if (S_ISLNK(node->mode))
		st->st_size = (off_t)node->target.size;
}

int inode_stat(struct tree *tree, struct view *view, struct inode *inode, struct stat *ret_stat)
{
	uint64_t size, stored;
	int r = content_size(tree, view, inode, &size);

	stored = size;
	if (r == 0 && (inode->node.flags & BACKEND_SPARSE))
		r = file_stored(view, inode, &stored);
	if (r == 0)
		attr_fill(tree, inode, size, stored, ret_stat);
	return r;
}

/* Most questions need no view: the size is known. */
int inode_stat_fresh(struct tree *tree, struct inode *inode, struct stat *ret_stat)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	if ((inode_is_state(inode) && !inode_is_draft(inode) && !inode->loaded) ||
	    ((inode->node.flags & BACKEND_SPARSE) && !inode->stored_known)) {
		r = view_begin(tree, 0, &view);
		if (r < 0)
			return r;
	}
	return inode_stat(tree, &view, inode, ret_stat);
}

/* No face shows bytes that another has yet to show, or who asks by the name for the size would be
 * told of more than he can read by a descriptor on another face.  Faces that are read lose their
 * bounds together. */
static uint64_t size_bound(const struct inode *inode, const struct face *face)
{
	uint64_t bound = face->bound;

	if (face_is_read(inode, face))
		return bound;
	for (const struct face *other = &inode->face; other; other = other->next)
		bound = MIN(bound, other->bound);
	return bound;
}

/* What a face shows of the size, to thread pid; *ret_own: the kernel may not keep the answer. */
static void face_size(struct inode *inode, struct face *face, pid_t pid, struct stat *st,
		      bool *ret_own)
{
	uint64_t size = (uint64_t)st->st_size;

	*ret_own = face->open[FACE_WRITE] != 0;
	if (face->old) {
		face->old_used = time_now();
		size = face->old->stage.size;
		/* Who asks by the name is to ask again. */
		*ret_own = true;
	} else if (pid && !face_is_read(inode, face) &&
		   handles_own_size(inode, face, pid, (uint64_t)st->st_size, &size)) {
		*ret_own = true;
	} else if (size_bound(inode, face) < size) {
		size = size_bound(inode, face);
		*ret_own = true;
	}
	if (size != (uint64_t)st->st_size) {
		st->st_size = (off_t)size;
		st->st_blocks = (blkcnt_t)((size + 511) / 512);
	}
}

/* Under inode.lock; pid 0: as nobody in particular. */
static int stat_face(struct tree *tree, struct inode *inode, struct face *face, pid_t pid,
		     struct stat *ret_stat, bool *ret_own)
{
	int r = inode_stat_fresh(tree, inode, ret_stat);

	*ret_own = false;
	if (r == 0 && inode_is_state(inode))
		face_size(inode, face, pid, ret_stat, ret_own);
	/* Of an ordinary file, too: it may become another by a rename.  And also what is not to be
	 * kept: who asked may take the answer in long after others have asked again. */
	if (r == 0)
		face->shown = true;
	return r;
}

static int stat_once(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
		     struct stat *ret_stat, bool *ret_own)
{
	WITH_READ_LOCK_HELD(tree);
	WITH_INODE_LOCK(inode);

	return stat_face(tree, inode, inode_face(inode, face), pid, ret_stat, ret_own);
}

int tree_stat(struct tree *tree, struct inode *inode, struct stat *ret_stat)
{
	bool own;

	return TREE_RETRY(tree, stat_once(tree, inode, 0, 0, ret_stat, &own));
}

int tree_stat_for(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
		  struct stat *ret_stat, bool *ret_own)
{
	return TREE_RETRY(tree, stat_once(tree, inode, face, pid, ret_stat, ret_own));
}

static int enter_once(struct tree *tree, struct inode *inode, pid_t pid, struct shown *shown)
{
	WITH_READ_LOCK(tree);

	return inode_show(tree, inode, pid, shown);
}

int inode_show(struct tree *tree, struct inode *inode, pid_t pid, struct shown *shown)
{
	WITH_INODE_LOCK(inode);
	struct face *face = face_for_lookup(tree, inode, pid);

	shown->nodeid = inode_nodeid(inode, face->number);
	return stat_face(tree, inode, face, pid, &shown->st, &shown->own);
}

int tree_enter(struct tree *tree, struct inode *inode, pid_t pid, struct shown *ret_shown)
{
	return TREE_RETRY(tree, enter_once(tree, inode, pid, ret_shown));
}

static int created_once(struct tree *tree, struct handle *handle, struct shown *shown)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	shown->nodeid = handle_nodeid(handle);
	return stat_face(tree, inode, handle->face, handle->writer, &shown->st, &shown->own);
}

int handle_show(struct tree *tree, struct handle *handle, struct shown *ret_shown)
{
	return TREE_RETRY(tree, created_once(tree, handle, ret_shown));
}

static void apply_attr(struct backend_node *node, const struct stat *st, unsigned mask)
{
	int64_t now = time_now();

	if (mask & TREE_SET_MODE)
		node->mode = (node->mode & S_IFMT) | (st->st_mode & 07777);
	if (mask & TREE_SET_UID)
		node->uid = st->st_uid;
	if (mask & TREE_SET_GID)
		node->gid = st->st_gid;
	if (mask & TREE_SET_ATIME)
		node->atime = time_join(st->st_atim);
	if (mask & TREE_SET_MTIME)
		node->mtime = time_join(st->st_mtim);
	if (mask & TREE_SET_ATIME_NOW)
		node->atime = now;
	if (mask & TREE_SET_MTIME_NOW)
		node->mtime = now;
	node->ctime = mask & TREE_SET_CTIME ? time_join(st->st_ctim) : now;
}

static int set_size(struct tree *tree, struct inode *inode, const struct set_attr *set,
		    struct notes *notes)
{
	uint64_t before = file_size(inode), size = (uint64_t)set->st->st_size;
	int r;

	if (set->handle && inode_is_state(inode))
		handle_written_by(set->handle, set->pid);
	if (inode_is_state(inode) || (set->handle && handle_holds_back(set->handle)))
		return handle_truncate(tree, inode, set->handle, size, notes);
	r = file_truncate(tree, inode, size);
	if (r == 0)
		notes_plain(notes, tree, inode, before, size,
			    set->handle ? set->handle->face : inode_face(inode, set->face));
	return r;
}

static int set_attr_once(struct tree *tree, struct inode *inode, const struct set_attr *set,
			 struct stat *ret_stat, bool *ret_own, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	struct face *face = inode_face(inode, set->face);
	struct handle *handle = set->handle;
	unsigned mask = set->mask;
	struct backend_node node;
	int r = 0;

	/* The kernel cuts the pages of the face: nobody may be reading there. */
	if ((mask & TREE_SET_SIZE) && !handle &&
	    !face_for_truncate(tree, inode, set->face, set->pid))
		return SET_ELSEWHERE;
	if (mask & TREE_SET_SIZE)
		r = set_size(tree, inode, set, notes);
	/* A time that is set is not that of what was written before, whenever the store has it. */
	if (r == 0 && (mask & ~(unsigned)TREE_SET_SIZE))
		r = file_settle(tree, inode);
	if (r < 0)
		return r;
	node = inode->node;
	if (mask & ~(unsigned)TREE_SET_SIZE) {
		apply_attr(&node, set->st, mask);
		if (!inode->gone)
			batch_node_put(&batch, &node);
		r = batch_commit(&batch, tree->backend, BACKEND_FREES);
		if (r < 0)
			return r;
		inode->node = node;
		notes_change(notes, tree, inode, CHANGE_ATTR, 0, face);
	}
	if (mask & (TREE_SET_MTIME | TREE_SET_MTIME_NOW))
		handles_times_set(inode);
	return stat_face(tree, inode, face, set->pid, ret_stat, ret_own);
}

int tree_set_attr(struct tree *tree, struct inode *inode, const struct set_attr *set,
		  struct stat *ret_stat, bool *ret_own)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	r = TREE_RETRY(tree, set_attr_once(tree, inode, set, ret_stat, ret_own, &notes));
	notes_tell(&notes, tree, true);
	if (r == SET_ELSEWHERE) {
		again_add(tree, set->pid, FACE_WRITE);
		return -ESTALE;
	}
	if (set->mask & TREE_SET_SIZE)
		again_end(tree, set->pid);
	return r;
}

static int drop_setuid_once(struct tree *tree, struct inode *inode, tree_group_fn *in_group,
			    void *arg, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	struct backend_node node = inode->node;
	int r;

	node.mode &= ~(mode_t)S_ISUID;
	/* Without the right of the group to run it, it is no program, but only who is in the group
	 * might have set this. */
	if ((node.mode & S_ISGID) && ((node.mode & S_IXGRP) || !in_group(arg, node.gid)))
		node.mode &= ~(mode_t)S_ISGID;
	if (!S_ISREG(node.mode) || node.mode == inode->node.mode)
		return 0;
	node.ctime = time_now();
	if (!inode->gone)
		batch_node_put(&batch, &node);
	r = batch_commit(&batch, tree->backend, BACKEND_FREES);
	if (r < 0)
		return r;
	inode->node = node;
	notes_change(notes, tree, inode, CHANGE_ATTR, 0, NULL);
	return 1;
}

int tree_drop_setuid(struct tree *tree, struct inode *inode, tree_group_fn *in_group, void *arg)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	r = TREE_RETRY(tree, drop_setuid_once(tree, inode, in_group, arg, &notes));
	notes_tell(&notes, tree, true);
	/* Of changes of attributes the kernel is not told when a file has one face; but of this one
	 * it does not know. */
	if (r > 0)
		tell_attr(tree, inode, 0);
	return MIN(r, 0);
}

int tree_statfs(struct tree *tree, struct statvfs *ret_statvfs)
{
	struct backend_space space;
	int r = tree->backend->ops->space(tree->backend, &space);

	if (r < 0)
		return r;
	*ret_statvfs = (struct statvfs){
		.f_bsize = 4096,
		.f_frsize = 4096,
		.f_blocks = space.total / 4096,
		.f_bfree = space.free / 4096,
		.f_bavail = space.free / 4096,
		/* Files are rows: as many as there is room for. */
		.f_files = space.total / 512,
		.f_ffree = space.free / 512,
		.f_favail = space.free / 512,
		.f_namemax = NAME_MAX,
	};
	return 0;
}

/* Extended attributes. */

static int xattr_judge(struct bytes name)
{
	static const char *const spaces[] = { "user.", "trusted.", "security." };

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		if (name.size >= strlen(spaces[i]) &&
		    memcmp(name.data, spaces[i], strlen(spaces[i])) == 0)
			return name.size > strlen(spaces[i]) ? 0 : -EINVAL;
	return -EOPNOTSUPP;
}

/* Reachable by name, never listed, and not stored: a copy of it that a tool brings back is
 * dropped. */
static bool xattr_is_own(struct bytes name)
{
	return bytes_equal(name, BYTES("user.sessfs.invalid"));
}

/* The kernel lets only those set it who may write to the root, as who removes a session must. */
static bool xattr_is_order(const struct inode *inode, struct bytes name)
{
	return inode->ino == BACKEND_ROOT && bytes_equal(name, BYTES(TRASH_ORDERS));
}

static bool xattr_is_ttl(struct bytes name)
{
	return bytes_equal(name, BYTES(TRASH_TTL));
}

static int change_xattr(struct tree *tree, struct inode *inode, struct batch *batch, unsigned flags,
			struct notes *notes)
{
	struct backend_node node = inode->node;
	int r;

	if (inode->gone)
		return -ENOENT;
	node.ctime = time_now();
	batch_node_put(batch, &node);
	r = batch_commit(batch, tree->backend, flags);
	if (r < 0)
		return r;
	inode->node = node;
	notes_change(notes, tree, inode, CHANGE_ATTR, 0, NULL);
	return 0;
}

static int has_xattr(struct tree *tree, struct inode *inode, struct bytes name)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	r = view.backend->ops->xattr_get(view.backend, view.snapshot, inode->node.ino, name,
					 &value);
	return r == 0 ? 1 : r == -ENODATA ? 0 : r;
}

static int set_xattr_once(struct tree *tree, struct inode *inode, struct bytes name,
			  struct bytes value, int flags, struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r = 0;

	if (flags) {
		r = has_xattr(tree, inode, name);
		if (r == 1 && (flags & XATTR_CREATE))
			return -EEXIST;
		if (r == 0 && (flags & XATTR_REPLACE))
			return -ENODATA;
	}
	if (r < 0)
		return r;
	batch_xattr_put(&batch, inode->node.ino, name, value);
	return change_xattr(tree, inode, &batch, 0, notes);
}

int tree_set_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct bytes value,
		   int flags)
{
	struct notes notes = { 0 };
	int64_t ttl;
	int r;

	if (tree->options.read_only)
		return -EROFS;
	r = xattr_judge(name);
	if (r == 0 && xattr_is_ttl(name))
		r = ttl_parse(value, &ttl);
	if (r < 0)
		return r;
	if (xattr_is_own(name))
		return 0;
	if (xattr_is_order(inode, name))
		return tree_order(tree, value);
	r = TREE_RETRY(tree, set_xattr_once(tree, inode, name, value, flags, &notes));
	notes_tell(&notes, tree, true);
	if (r == 0 && xattr_is_ttl(name))
		expire_soon(tree);
	return r;
}

static int get_xattr_once(struct tree *tree, struct inode *inode, struct bytes name,
			  struct buf *value)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	if (xattr_is_order(inode, name))
		return buf_append_str(value, "1");
	if (xattr_is_own(name))
		return inode->gone ? -ENODATA : invalid_describe(&view, inode, value);
	return view.backend->ops->xattr_get(view.backend, view.snapshot, inode->node.ino, name,
					    value);
}

int tree_get_xattr(struct tree *tree, struct inode *inode, struct bytes name, struct buf *value)
{
	int r = xattr_judge(name);

	return r < 0 ? r : TREE_RETRY(tree, get_xattr_once(tree, inode, name, value));
}

static int keep_name(void *arg, struct bytes name)
{
	struct buf *names = arg;
	int r = buf_append_bytes(names, name);

	return r < 0 ? r : buf_append_byte(names, '\0');
}

static int list_xattr_once(struct tree *tree, struct inode *inode, struct buf *names)
{
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	int r;

	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	return view.backend->ops->xattr_list(view.backend, view.snapshot, inode->node.ino,
					     keep_name, names);
}

int tree_list_xattr(struct tree *tree, struct inode *inode, struct buf *names)
{
	return TREE_RETRY(tree, list_xattr_once(tree, inode, names));
}

static int remove_xattr_once(struct tree *tree, struct inode *inode, struct bytes name,
			     struct notes *notes)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	r = has_xattr(tree, inode, name);
	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	batch_xattr_delete(&batch, inode->node.ino, name);
	return change_xattr(tree, inode, &batch, BACKEND_FREES, notes);
}

int tree_remove_xattr(struct tree *tree, struct inode *inode, struct bytes name)
{
	struct notes notes = { 0 };
	int r;

	if (tree->options.read_only)
		return -EROFS;
	r = xattr_judge(name);
	if (r < 0)
		return r;
	r = TREE_RETRY(tree, remove_xattr_once(tree, inode, name, &notes));
	notes_tell(&notes, tree, true);
	return r;
}
