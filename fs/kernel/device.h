/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_DEVICE_H
#define FS_KERNEL_DEVICE_H

/*
 * The device that requests come from, /dev/fuse.
 *
 * libfuse reads and writes it by itself, but before 3.17 it knows nothing of
 * FUSE_DIRECT_IO_ALLOW_MMAP (Linux 6.6, include/uapi/linux/fuse.h): files can be mapped although
 * their handles bypass the page cache.  So with an older one the session reads and writes the
 * device by functions of ours, which ask for that when the kernel says hello.
 */

#include "fs/kernel/internal.h"

/* After the mount; 0 or -errno. */
int device_start(struct session *session);

/* Have the kernel look each name up again at its next use: 0 or -errno; -EINVAL before Linux
 * 6.16. */
int device_forget_names(struct session *session);
/* Whether the connection has ended: the mount is gone. */
bool device_is_cut(const struct session *session);
/* End it, when no thread serves any more; the device then looks as if the mount were gone. */
void device_cut(struct session *session);

#endif
