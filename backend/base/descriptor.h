/* SPDX-License-Identifier: MIT */
#ifndef BASE_DESCRIPTOR_H
#define BASE_DESCRIPTOR_H

/*
 * Descriptors above those of the standard streams.
 *
 * A program may be started without its standard input, output or error.  The next file that it
 * opens gets that number, and then every message and every result is written into that file.  So
 * all that the backend, the filesystem and the library open goes through here.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* How a descriptor was opened, as bits. */
enum descriptor_access {
	DESCRIPTOR_READS = 1 << O_RDONLY,
	DESCRIPTOR_WRITES = 1 << O_WRONLY,
	DESCRIPTOR_DOES_BOTH = 1 << O_RDWR,
	DESCRIPTOR_PATH = 1 << O_ACCMODE, /* O_PATH */
};
static inline unsigned descriptor_access(int flags)
{
	return flags & O_PATH ? DESCRIPTOR_PATH : 1U << (flags & O_ACCMODE);
}

/* See to it that 0, 1 and 2 are taken: one that is free leads to where every read and every write
 * fails, as it did before.  0 or -errno.  SQLite may open a file afterwards. */
int descriptor_fill(void);
/* The descriptor that a system call has just returned, or a copy of it above the standard streams,
 * which is closed on exec; the other one is closed.  -1 and errno as the call, or as fcntl(2). */
int descriptor_above(int fd);
/* As open(2) with O_CLOEXEC; the mode is for a file that is made. */
int descriptor_open(const char *path, int flags, mode_t mode);
/* Lock bytes for this open file description, or with F_UNLCK no longer; size 0: as far as there are
 * any.  0 or -errno; wait: while others have them. */
int descriptor_lock(int fd, short type, off_t from, off_t size, bool wait);
/* The lock of another one that is in the way of one for writing; F_UNLCK: none is. */
struct flock descriptor_lock_of_others(int fd, off_t from, off_t size);
static inline bool descriptor_is_locked(int fd, off_t from, off_t size)
{
	return descriptor_lock_of_others(fd, from, size).l_type != F_UNLCK;
}
/* A file to be read as a stream, to be closed with fclosep(); NULL and errno. */
FILE *descriptor_stream(const char *path);
static inline void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

#endif
