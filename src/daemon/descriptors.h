/* SPDX-License-Identifier: MIT */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Whether a process, or a thread, has a descriptor of an open file with this nodeid on the FUSE
 * filesystem with this device number (struct mount_entry), opened in one of these ways (enum
 * descriptor_access): 1 or 0.  Asks no daemon.  -ENOENT when there is no such process, -ESRCH when
 * it has none at all, -errno when that cannot be seen: only who may trace a process sees that.
 */
int descriptors_find(pid_t pid, unsigned device, uint64_t nodeid, unsigned access);

#endif
