/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_NOTIFY_H
#define FS_KERNEL_NOTIFY_H

/*
 * Telling the kernel what it must not believe any longer: the tree's watcher (fs/api/tree.h), in
 * terms of FUSE.  fs/cache/notify.c says who tells what, when and in which order.
 */

#include "fs/kernel/internal.h"

void notify_start(struct session *session);
/* The kernel asks for a name in this directory, or lists it. */
void notify_used(struct session *session, uint64_t nodeid);
/* Serves what the kernel still asks until all is told, and then tells nothing more. */
void notify_stop(struct session *session);

#endif
