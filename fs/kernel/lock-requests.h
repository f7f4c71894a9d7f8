/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_LOCK_REQUESTS_H
#define FS_KERNEL_LOCK_REQUESTS_H

/*
 * Requests about locks: the table (locks.h) with its mutex, and the requests that wait in it.
 *
 * A request that waits is kept unanswered and holds no thread: it is answered by the thread that
 * releases what was in its way, by a signal to the waiting process, by a clock (see "closing" in
 * locks.h), or by the end of the session.  Locks are released only when the kernel was notified of
 * what was written under them (tree_when_notified()).
 */

#include "fs/kernel/internal.h"

int lock_requests_start(struct session *session);
/* End all waits; no request may follow. */
void lock_requests_stop(struct session *session);

/* Take the right to map a file for one that is open: 0, -EAGAIN while another mount has it, or
 * -errno. */
int lock_request_map(struct session *session, const struct open_file *file);

/* These answer the request. */
void lock_request_test(fuse_req_t req, struct open_file *file, uint64_t owner,
		       const struct flock *range);
void lock_request_range(fuse_req_t req, struct open_file *file, uint64_t owner,
			const struct flock *range, bool sleeps);
/* operation: that of flock(2) */
void lock_request_whole(fuse_req_t req, struct open_file *file, int operation);
/* A descriptor was closed; error is that of the rest of the request. */
void lock_request_flush(fuse_req_t req, struct open_file *file, uint64_t owner, int error);
/* The open file with this id is gone; handle, if any, is freed behind the answer. */
void lock_request_release(fuse_req_t req, uint64_t ino, uint64_t file_id, struct handle *handle);

#endif
