/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_STREAMS_H
#define FS_KERNEL_STREAMS_H

/*
 * Requests about streams of events (fs/api/events.h).
 *
 * A read that finds nothing is kept unanswered and holds no thread.  It is answered by a thread
 * that does nothing else, by a signal to the reading process, or by the end of the session.  That
 * thread pauses behind each round, so that a round has what has happened meanwhile: readers cost
 * the same, however much happens.
 */

#include "fs/kernel/internal.h"

int streams_start(struct session *session);
/* Nobody waits any more; a request that still follows is answered with -ENOTCONN. */
void streams_stop(struct session *session);
void streams_free(struct session *session);

/* A stream was opened: 0 or -ENOMEM; and is about to be closed, and nobody uses it any more. */
int stream_opened(struct session *session, struct open_file *file, struct fuse_file_info *fi);
void stream_closing(struct session *session, struct open_file *file);
/* Answers the request, at once unless it waits for something to be there. */
void stream_request_read(fuse_req_t req, struct open_file *file, size_t size, bool waits);

#endif
