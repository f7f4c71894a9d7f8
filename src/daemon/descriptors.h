/* SPDX-License-Identifier: MIT */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Whether a process, or a thread, has a descriptor of an open file with this nodeid on the FUSE
 * filesystem with this device number (struct mount_entry), opened in one of these ways (enum
 * descriptor_access): 1 or 0.  Does not ask the daemon.  -ENOENT when the process does not exist,
 * -ESRCH when it has no descriptors at all, -errno when that cannot be seen: the kernel shows
 * descriptors only to processes that may trace it.
 */
int descriptors_find(pid_t pid, unsigned device, uint64_t nodeid, unsigned access);

#endif
