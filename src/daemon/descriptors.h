/* SPDX-License-Identifier: MIT */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdint.h>
#include <sys/types.h>

/*
 * How many descriptors a process has of a file: with this inode number, opened in one of these ways
 * (enum descriptor_access), its name at the end of the path, or any name if that is empty.  The
 * name, since other filesystems have the same numbers.  -errno when it cannot be seen: only who may
 * trace a process sees them.  /proc/PID/fdinfo has the inode number since Linux 5.14; before, there
 * are none.
 */
int descriptors_count(pid_t pid, uint64_t ino, unsigned access, const char *name);

#endif
