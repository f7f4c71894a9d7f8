/* SPDX-License-Identifier: MIT */

/* The requests of the kernel: each handler unpacks, makes one call of the tree, sends one reply. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/kernel/library.h"
#include "fs/kernel/lock-requests.h"
#include "fs/kernel/maps.h"
#include "fs/kernel/notify.h"
#include "fs/kernel/ops.h"
#include "fs/kernel/reply.h"
#include "fs/kernel/streams.h"
#include "backend/base/cleanup.h"

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct session *session = userdata;

	/* Pages are dropped when we say so, not whenever a size has changed. */
	library_refuse(conn, FUSE_CAP_AUTO_INVAL_DATA);
	library_want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA);
	library_want(conn, FUSE_CAP_ATOMIC_O_TRUNC);
	/* One st_ino may be several nodeids, so the kernel's locks of a nodeid would not do. */
	library_want(conn, FUSE_CAP_POSIX_LOCKS);
	library_want(conn, FUSE_CAP_FLOCK_LOCKS);
	/* Numbers of files may be handed out (name_to_handle_at(2), NFS) and come back later. */
	library_want(conn, FUSE_CAP_EXPORT_SUPPORT);
	/* When an asynchronous write past the page cache is done, the kernel leaves the pages in it
	 * that another process has read meanwhile. */
	library_refuse(conn, FUSE_CAP_ASYNC_DIO);
	/*
	 * Requests by io_uring take half the time, but libfuse (3.18) serves them in a way that
	 * does not work here.  One thread serves all requests of a processor, one after the other,
	 * and ours may wait for each other: a notice of a page waits for the read of it.  A request
	 * that is answered later, when a lock is released, holds one of the few slots of its
	 * processor, so some waiting requests may keep out the one that would end their wait.
	 * Signals do not reach requests that wait.  And a process with a ring can make it open
	 * files and sockets, past the filter of system calls.
	 */
	library_refuse(conn, FUSE_CAP_OVER_IO_URING);
	if (library_want(conn, FUSE_CAP_DIRECT_IO_ALLOW_MMAP))
		session->direct_mmap = true;
	tree_set_direct_mmap(session->tree, session->direct_mmap);
	if (session->options.ready)
		session->options.ready(session->options.arg);
}

/* Names. */

/* "."  and ".."  come for file handles with a stored nodeid, which the kernel may not know any
 * more. */
static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct tree *tree = request_tree(req);
	struct inode *dir = request_inode(req, parent), *inode = NULL;
	unsigned face = FACE_ANY;
	int r;

	notify_used(request_session(req), parent);
	if (strcmp(name, ".") == 0) {
		r = tree_find(tree, parent, &inode);
		face = nodeid_face(parent);
	} else if (strcmp(name, "..") == 0) {
		r = tree_find_parent(tree, parent, &inode);
	} else {
		tree_give_up_when(request_is_given_up, req);
		r = tree_lookup_by(tree, dir, bytes_str(name), fuse_req_ctx(req)->pid, &inode);
		tree_give_up_when(NULL, NULL);
	}
	if (r == 0 || r == -ENOENT)
		tree_found(tree, fuse_req_ctx(req)->pid, inode);
	if (r == -ENOENT && dir && inode_is_window(dir))
		reply_error(req, r);
	else
		reply_face(req, r, inode, face);
}

static void op_forget(fuse_req_t req, fuse_ino_t nodeid, uint64_t count)
{
	struct inode *inode = request_inode(req, nodeid);

	if (inode)
		tree_forget(request_tree(req), inode, nodeid, count);
	reply_nothing(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++) {
		struct inode *inode = request_inode(req, forgets[i].ino);

		if (inode)
			tree_forget(request_tree(req), inode, forgets[i].ino, forgets[i].nlookup);
	}
	reply_nothing(req);
}

/* For a new name, -ENOENT must not be cached. */
static void reply_made(fuse_req_t req, int error, struct inode *inode)
{
	if (error < 0)
		reply_error(req, error);
	else
		reply_face(req, 0, inode, FACE_ANY);
}

static void make_and_reply(fuse_req_t req, fuse_ino_t parent, const char *name,
			   const struct tree_new *what)
{
	const struct caller caller = request_caller(req);
	struct inode *inode = NULL;
	int r = tree_make(request_tree(req), &caller, request_inode(req, parent), bytes_str(name),
			  what, &inode);

	reply_made(req, r, inode);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	const struct tree_new what = { .mode = mode, .rdev = rdev };

	make_and_reply(req, parent, name, &what);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	const struct tree_new what = { .mode = S_IFDIR | (mode & 07777) };

	make_and_reply(req, parent, name, &what);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	const struct tree_new what = { .mode = S_IFLNK | 0777, .target = bytes_str(target) };

	make_and_reply(req, parent, name, &what);
}

bool request_was_left(fuse_req_t req, fuse_ino_t nodeid, int flags)
{
	return tree_was_left(request_tree(req), request_inode(req, nodeid), nodeid, flags,
			     fuse_req_ctx(req)->pid);
}

static int request_heed_left(fuse_req_t req, fuse_ino_t nodeid, int flags)
{
	struct tree *tree = request_tree(req);
	int r;

	if (!tree_is_shared(tree))
		return 0;
	r = tree_take_in(tree);
	return r == 0 && request_was_left(req, nodeid, flags) ? -ESTALE : r;
}

static void op_link(fuse_req_t req, fuse_ino_t nodeid, fuse_ino_t parent, const char *name)
{
	struct inode *inode = request_inode(req, nodeid);
	int r = request_heed_left(req, nodeid, O_WRONLY);

	if (r == 0)
		r = tree_link(request_tree(req), inode, request_inode(req, parent),
			      bytes_str(name));
	/* The answer is one more lookup. */
	if (r == 0)
		r = tree_lookup(request_tree(req), request_inode(req, parent), bytes_str(name),
				&inode);
	reply_made(req, r, inode);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_error(req,
		    tree_unlink(request_tree(req), request_inode(req, parent), bytes_str(name)));
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_error(req,
		    tree_rmdir(request_tree(req), request_inode(req, parent), bytes_str(name)));
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t parent_to,
		      const char *name_to, unsigned flags)
{
	reply_error(req, tree_rename_by(request_tree(req), request_inode(req, parent),
					bytes_str(name), request_inode(req, parent_to),
					bytes_str(name_to), flags, fuse_req_ctx(req)->pid));
}

static void op_readlink(fuse_req_t req, fuse_ino_t nodeid)
{
	_cleanup_(buf_done) struct buf target = { 0 };
	int r = tree_readlink(request_tree(req), request_inode(req, nodeid), &target);

	if (r == 0)
		r = buf_append_byte(&target, '\0');
	reply_text(req, r, target.data);
}

/* Attributes. */

static void op_getattr(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	bool own = false;
	struct stat st;
	int r = tree_stat_face(request_tree(req), request_inode(req, nodeid), nodeid_face(nodeid),
			       fi ? 0 : fuse_req_ctx(req)->pid, &st, &own);

	reply_attr(req, r, &st, own);
}

static void op_setattr(fuse_req_t req, fuse_ino_t nodeid, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	static const struct {
		int fuse;
		unsigned tree;
	} map[] = {
		{ FUSE_SET_ATTR_MODE, TREE_SET_MODE },
		{ FUSE_SET_ATTR_UID, TREE_SET_UID },
		{ FUSE_SET_ATTR_GID, TREE_SET_GID },
		{ FUSE_SET_ATTR_SIZE, TREE_SET_SIZE },
		{ FUSE_SET_ATTR_ATIME, TREE_SET_ATIME },
		{ FUSE_SET_ATTR_MTIME, TREE_SET_MTIME },
		{ FUSE_SET_ATTR_ATIME_NOW, TREE_SET_ATIME_NOW },
		{ FUSE_SET_ATTR_MTIME_NOW, TREE_SET_MTIME_NOW },
		{ FUSE_SET_ATTR_CTIME, TREE_SET_CTIME },
	};
	struct set_attr set = {
		.face = nodeid_face(nodeid),
		.handle = request_handle(fi),
		.pid = fuse_req_ctx(req)->pid,
		.st = attr,
	};
	unsigned mask = 0;
	bool own = false;
	struct stat st;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		if (to_set & map[i].fuse)
			mask |= map[i].tree;
	/* "Now" is our clock, not the time in the request. */
	if (mask & TREE_SET_ATIME_NOW)
		mask &= ~(unsigned)TREE_SET_ATIME;
	if (mask & TREE_SET_MTIME_NOW)
		mask &= ~(unsigned)TREE_SET_MTIME;
	set.mask = mask;
	r = set.handle ? 0 : request_heed_left(req, nodeid, O_PATH);
	if (r == 0)
		r = tree_set_attr(request_tree(req), request_inode(req, nodeid), &set, &st, &own);
	reply_attr(req, r, &st, own);
}

static void op_statfs(fuse_req_t req, fuse_ino_t nodeid)
{
	struct statvfs st;

	reply_statfs(req, tree_statfs(request_tree(req), request_inode(req, nodeid), &st), &st);
}

/* Open files. */

enum { GROUPS_MAX = 65536 }; /* of a process, to the kernel */

static bool request_in_group(void *arg, gid_t gid)
{
	fuse_req_t req = arg;
	_cleanup_(freep) gid_t *groups = NULL;
	int count;

	if (fuse_req_ctx(req)->gid == gid)
		return true;
	groups = calloc(GROUPS_MAX, sizeof(gid_t));
	count = groups ? fuse_req_getgroups(req, GROUPS_MAX, groups) : 0;
	for (int i = 0; i < count; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

int request_drop_setuid(fuse_req_t req, struct inode *inode)
{
	if (fuse_req_ctx(req)->uid == 0)
		return 0;
	return tree_drop_setuid(request_tree(req), inode, request_in_group, req);
}

static void op_read(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	_cleanup_(buf_done) struct buf data = { 0 };
	struct handle *handle = request_handle(fi);
	/* Only a read that fills the page cache has no lock owner. */
	bool fill = !fi->lock_owner;
	int r;

	(void)nodeid;
	if (request_file(fi)->stream && !fill) {
		stream_request_read(req, request_file(fi), size, !(fi->flags & O_NONBLOCK));
		return;
	}
	if (!fill)
		handle_read_by(handle, fuse_req_ctx(req)->pid);
	r = (fill ? handle_fill : handle_read)(request_tree(req), handle, (uint64_t)offset, size,
					       &data);
	reply_buf(req, r, buf_bytes(&data));
}

static void op_write(fuse_req_t req, fuse_ino_t nodeid, const char *data, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	struct handle *handle = request_handle(fi);
	ssize_t r = maps_may_write(request_session(req), request_file(fi), fi->writepage);

	(void)nodeid;
	if (r == 0)
		r = handle_write_as(request_tree(req), handle, fi->flags,
				    fi->writepage ? HANDLE_PAGES : request_writer(req, fi),
				    (uint64_t)offset, bytes_make(data, size));
	if (r > 0)
		(void)request_drop_setuid(req, handle_inode(handle));
	reply_write(req, r);
}

static void op_flush(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	int r = tree_flush(request_tree(req), request_handle(fi), request_writer(req, fi));

	(void)nodeid;
	lock_request_flush(req, request_file(fi), fi->lock_owner, r);
}

static void op_release(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	struct session *session = request_session(req);
	struct open_file *file = request_file(fi);
	uint64_t ino = inode_number(handle_inode(file->handle));
	uint64_t id = file->id;

	(void)nodeid;
	lock_request_release(req, ino, id,
			     handle_finish(session->tree, open_file_free(session, file)));
}

static void op_fsync(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi)
{
	struct tree *tree = request_tree(req);
	struct handle *handle = request_handle(fi);

	(void)nodeid;
	reply_error(req, datasync ? handle_sync_data(tree, handle) : handle_sync(tree, handle));
}

static void op_fallocate(fuse_req_t req, fuse_ino_t nodeid, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi)
{
	struct handle *handle = request_handle(fi);
	/* The kernel has kept the set-id bit for a group that the user is not in. */
	int r = request_drop_setuid(req, handle_inode(handle));

	(void)nodeid;
	if (r == 0)
		r = handle_allocate(request_tree(req), handle, mode, (uint64_t)offset,
				    (uint64_t)length);
	reply_error(req, r);
}

static void op_lseek(fuse_req_t req, fuse_ino_t nodeid, off_t offset, int whence,
		     struct fuse_file_info *fi)
{
	uint64_t found = 0;
	int r = handle_seek(request_tree(req), request_handle(fi), (uint64_t)offset, whence,
			    &found);

	(void)nodeid;
	reply_seek(req, r, found);
}

/* Locks: those of directories are the kernel's own. */

static void op_getlk(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi,
		     struct flock *range)
{
	(void)nodeid;
	lock_request_test(req, request_file(fi), fi->lock_owner, range);
}

static void op_setlk(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi,
		     struct flock *range, int sleeps)
{
	(void)nodeid;
	lock_request_range(req, request_file(fi), fi->lock_owner, range, sleeps);
}

static void op_flock(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi, int operation)
{
	(void)nodeid;
	lock_request_whole(req, request_file(fi), operation);
}

const struct fuse_lowlevel_ops session_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
#ifdef HAVE_FUSE_TMPFILE
	.tmpfile = op_tmpfile,
#endif
	.read = op_read,
	.poll = op_poll,
	.write = op_write,
	.flush = op_flush,
	.release = op_release,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.lseek = op_lseek,
	.getlk = op_getlk,
	.setlk = op_setlk,
	.flock = op_flock,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
};
