/* SPDX-License-Identifier: MIT */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * How many open files a process has descriptors of, duplicates not counted, with this nodeid on the
 * FUSE filesystem with this device number (struct mount_entry), opened in one of these ways (enum
 * descriptor_access).  Asks no daemon.  -ENOENT when there is no such process, -errno when it
 * cannot be seen: only who may trace a process sees them.
 */
int descriptors_count(pid_t pid, unsigned device, uint64_t nodeid, unsigned access);

#endif
