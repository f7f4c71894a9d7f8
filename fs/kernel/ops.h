/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_OPS_H
#define FS_KERNEL_OPS_H

/*
 * What a request is about, and the handlers that are not in ops.c.
 */

#include "fs/kernel/reply.h"

static inline struct tree *request_tree(fuse_req_t req)
{
	return request_session(req)->tree;
}

/* The inode of a request; the kernel counts it, so it is there. */
static inline struct inode *request_inode(fuse_req_t req, fuse_ino_t nodeid)
{
	return tree_inode(request_tree(req), nodeid);
}

static inline struct open_file *request_file(const struct fuse_file_info *fi)
{
	return fi ? (struct open_file *)(uintptr_t)fi->fh : NULL;
}

static inline struct handle *request_handle(const struct fuse_file_info *fi)
{
	struct open_file *file = request_file(fi);

	return file ? file->handle : NULL;
}

static inline struct caller request_caller(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct caller){ .uid = ctx->uid, .gid = ctx->gid };
}

/* The thread that writes or closes, or what stands for it. */
static inline pid_t request_writer(fuse_req_t req, const struct fuse_file_info *fi)
{
	pid_t pid = fuse_req_ctx(req)->pid;

	return pid || !fi->lock_owner ? pid : process_unseen(fi->lock_owner);
}

/* Whether no process waits for the answer; for tree_give_up_when().  The argument is the
 * request. */
bool request_is_given_up(void *req);
/* Whether another mount has removed the name by which a file was found (tree_was_left()), as far as
 * this mount has taken that in. */
bool request_was_left(fuse_req_t req, fuse_ino_t nodeid, int flags);
/* The kernel takes these bits away itself when bytes pass through its page cache, but not that of a
 * group that may not run the file. */
int request_drop_setuid(fuse_req_t req, struct inode *inode);

/* Files that are opened (ops-open.c). */
void op_open(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi);
#ifdef HAVE_FUSE_TMPFILE
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
#endif

/* Directories that are open (ops-dirs.c). */
void op_opendir(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t position,
		struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t position,
		    struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi);

/* Extended attributes (ops-xattr.c). */
void op_setxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, const char *value,
		 size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t nodeid, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t nodeid, const char *name);

/* Whether a file is ready (streams.c). */
void op_poll(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi,
	     struct fuse_pollhandle *waiting);

#endif
