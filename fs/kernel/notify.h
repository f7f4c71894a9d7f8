/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_NOTIFY_H
#define FS_KERNEL_NOTIFY_H

/*
 * Notices that invalidate what the kernel has cached: the tree's watcher (fs/api/tree.h), in terms
 * of FUSE.  fs/cache/notify.c says which notices are sent when, by which thread and in which order.
 */

#include "fs/kernel/internal.h"

void notify_start(struct session *session);
/* The kernel asks for a name in this directory, or lists it. */
void notify_used(struct session *session, uint64_t nodeid);
/* Serves requests until all notices are sent; sends none after that. */
void notify_stop(struct session *session);

#endif
