/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_LOCKS_HELD_H
#define FS_KERNEL_LOCKS_HELD_H

/*
 * The locks that are held, the lower half of locks.h: these functions do not know of waits.  The
 * caller excludes threads, as there.
 */

#include "fs/kernel/locks.h"

/* Whether nothing is in the way of a lock that is asked for. */
bool held_grants(const struct locks *locks, const struct lock *lock);
/* What is in the way of a lock, one at a time: the one behind after (NULL: the first); NULL when
 * there is none. */
const struct lock *held_in_the_way(const struct locks *locks, const struct lock *lock,
				   const struct lock *after);
/* Until when all that are in its way may just be closing; 0 when one of them is not. */
int64_t held_closing_until(const struct locks *locks, const struct lock *lock, int64_t now);

/* Take, change or release a lock that is granted: 1 when other locks may be granted now, 0, or
 * -ENOLCK, and then nothing has changed. */
int held_apply(struct locks *locks, const struct lock *lock);

/* Give an open file the right to map: 0 or -ENOLCK. */
int held_map(struct locks *locks, uint64_t ino, uint64_t file);
/* A descriptor of an open file was closed. */
void held_flushed(struct locks *locks, uint64_t ino, uint64_t file, int64_t now);
/* The open file is gone; true when it held anything. */
bool held_release(struct locks *locks, uint64_t ino, uint64_t file);

#endif
