/* SPDX-License-Identifier: MIT */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * How many descriptors a process has of a file: with this inode number, opened for this access
 * (O_ACCMODE), its name at the end of the path.  The last, since other filesystems have the same
 * numbers.  0 when it cannot be seen: /proc/PID/fdinfo has the inode number since Linux 5.14, and
 * only who may trace a process sees it.
 */
unsigned descriptors_count(pid_t pid, uint64_t ino, int access, const char *name);

#endif
