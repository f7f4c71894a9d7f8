/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_REPLY_H
#define FS_KERNEL_REPLY_H

/*
 * Replies: every request is answered here, once.  error is 0 or -errno; with an error the rest is
 * not looked at.
 */

#include "fs/kernel/internal.h"

/* The session of a request. */
struct session *request_session(fuse_req_t req);

/* How an inode is shown to the kernel. */
void reply_fill_entry(const struct session *session, const struct shown *shown,
		      struct fuse_entry_param *entry);

void reply_error(fuse_req_t req, int error);
/* An inode that the caller has counted, by a name (FACE_ANY) or the nodeid that the kernel asks
 * for; it is given back when the kernel does not take the answer.  For -ENOENT the answer lets the
 * kernel cache that the name is missing. */
void reply_face(fuse_req_t req, int error, struct inode *inode, unsigned face);
void reply_create(fuse_req_t req, int error, struct inode *inode, struct fuse_file_info *fi);
/* own: the answer is for this process only and must not be cached. */
void reply_attr(fuse_req_t req, int error, const struct stat *st, bool own);
void reply_open(fuse_req_t req, int error, struct fuse_file_info *fi);
void reply_buf(fuse_req_t req, int error, struct bytes bytes);
void reply_text(fuse_req_t req, int error, const char *text);
/* count or -errno */
void reply_write(fuse_req_t req, ssize_t count);
/* size 0: answer only the size. */
void reply_xattr(fuse_req_t req, int error, struct bytes value, size_t size);
void reply_statfs(fuse_req_t req, int error, const struct statvfs *st);
void reply_seek(fuse_req_t req, int error, uint64_t offset);
/* revents as poll(2) has them */
void reply_poll(fuse_req_t req, unsigned ready);
void reply_lock(fuse_req_t req, const struct flock *lock);
void reply_nothing(fuse_req_t req);

#endif
