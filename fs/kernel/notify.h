/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_NOTIFY_H
#define FS_KERNEL_NOTIFY_H

/*
 * Telling the kernel what it must not believe any longer.
 *
 * Forgetting a name takes the directory's lock in the kernel, and forgetting pages waits for reads
 * that are under way; both may be held up by the very request that a thread of ours is serving.  So
 * notices go through a queue to a thread of its own.  A writer's own notice about content may be
 * sent by itself (now): the kernel holds no page of it for that request, and enough threads are
 * left to serve the reads that it may wait for.
 */

#include "fs/kernel/internal.h"

/* Call function when the kernel knows all that it was told before: at once, or in the thread that
 * sends.  The bytes of arg are copied. */
typedef void notify_fn(struct session *session, void *arg);
void notify_then(struct session *session, notify_fn *function, void *arg, size_t size);

int notify_start(struct session *session);
/* Sends nothing more; the thread has ended when it returns. */
void notify_stop(struct session *session);

#endif
