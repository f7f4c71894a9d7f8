/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_STREAMS_H
#define FS_KERNEL_STREAMS_H

/*
 * Requests about streams of events (fs/api/events.h).
 *
 * A read that finds nothing is kept unanswered and holds no thread.  It is answered by a thread
 * that does nothing else, by a signal to the reading process, or by the end of the session.  That
 * thread pauses after each round, and a round has all events of the pause: so readers cost the same
 * for any number of events.
 */

#include "fs/kernel/internal.h"

int streams_start(struct session *session);
/* End all waits; a request that still follows gets -ENOTCONN. */
void streams_stop(struct session *session);
void streams_free(struct session *session);

/* A stream was opened: 0 or -ENOMEM; and is about to be closed, and is not in use any more. */
int stream_opened(struct session *session, struct open_file *file, struct fuse_file_info *fi);
void stream_closing(struct session *session, struct open_file *file);
/* Answers the request, at once unless it waits for an event. */
void stream_request_read(fuse_req_t req, struct open_file *file, size_t size, bool waits);

#endif
