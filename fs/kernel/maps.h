/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_MAPS_H
#define FS_KERNEL_MAPS_H

/*
 * Ordinary files that are mapped shared and writable, on one mount of a store at a time.
 *
 * Each kernel has pages of its own, so two mounts cannot share memory by a file.  The right to map
 * is kept in the table of locks (locks_map()), where other mounts see it.  The kernel does not say
 * when a mapping is made:
 *
 *   a lock    of a file that by its name is memory (tree_memory_by_name()) takes the right with it;
 *             programs that use such memory lock the file first
 *   a page    that is written back takes it, too, and is refused without it
 *   an open   for reading and writing is refused while another mount has it
 *
 * The kernel writes pages by an open file that was mapped, and releases that when it is closed and
 * its last mapping has ended.  The right ends when all are released by which it could be mapped.
 *
 * The right also ends with the lease of its mount, but a process still has its memory then.  So a
 * file that by its name is memory, or is written under locks in such memory (*-wal, data.mdb),
 * belongs to the lease in which it was opened: later, locks (ENOLCK) and writes (EIO) are refused.
 */

#include "fs/kernel/internal.h"

/* -ENODEV: a file cannot be opened so, since another mount has it mapped; the log says so. */
int maps_may_open(struct session *session, const struct inode *inode, int flags);
/* Note the kind of a file that was just opened. */
void maps_opened(struct session *session, struct open_file *file, int flags);
/* Whether bytes may be written by an open file; pages: the kernel writes back those of a mapping.
 * 0; -EIO, and the log says why. */
int maps_may_write(struct session *session, const struct open_file *file, bool pages);
/* An open file by which a file can be mapped: its id, or 0. */
uint64_t maps_file_left(struct session *session, uint64_t ino);
/* Log why an operation that needs the right is refused. */
void maps_warn(struct session *session, uint64_t ino);

#endif
