/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_LOCKS_OTHERS_H
#define FS_KERNEL_LOCKS_OTHERS_H

/* Locks as mounts see those of each other, through the store.  No lock is needed. */

#include "fs/api/tree.h"
#include "fs/kernel/locks.h"

/* Add a lock, as other mounts see it, to buf, an array of struct backend_lock; a lock_fn. */
int others_lock_add(void *buf, const struct lock *lock);
/* Whether another mount has a range in the way of one. */
bool others_lock_find(struct tree *tree, const struct lock *lock, struct lock *ret_lock);
/* Whether another mount has the right to map a file: 1, 0 or -errno. */
int others_map(struct tree *tree, uint64_t ino);

#endif
