/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_LOCKS_H
#define FS_INODE_LOCKS_H

/*
 * What is in memory, and its locks
 *
 * What is where
 *
 *   The store is the truth for names, nodes and content.  In memory are the inodes that have a
 *   count (of the kernel, an open handle, a child directory, the list of unwritten times), each
 *   with a copy of its node, and what was learnt about its content: sizes, the end of a list.
 *   Nothing in memory is needed to open the store again.
 *
 * Locks, in the order in which they are taken
 *
 *   tree.upkeep.trash_lock   orders of the trash (upkeep/trash.c), one at a time.
 *   writing.lock one open file, while it is used: what it holds back stays the same meanwhile, also
 *                while no other lock is held.
 *   tree.turn    before tree.change for writing, or for reading for long, as in the commit of a
 *                large save: a writer that waited for tree.change itself would hold up all that
 *                write.
 *   tree.change  held for every change, also during its commit.  read: changes of the content or
 *                the attributes of one file, which hold its inode.lock as well; write: anything
 *                that changes which name leads where, which key a file has, or that takes in
 *                changes of others.  A thread that only reads never takes it.
 *   inode.change one at a time, under tree.change for reading: held for a change of one file, also
 *                during its commit.
 *   tree.lock    what is in memory.  read: anything that uses content, attributes or names; write:
 *                the holder of tree.change for writing, but not during its commit (commit.h).  The
 *                holder for writing is alone: it needs no inode lock.
 *   inode.lock   one at a time, under tree.lock for reading: the node copy and content of one file,
 *                and all handles of it.
 *   window.lock  before all of these: what an open window shows, also while it is read from the
 *                store (window.h).
 *   tree.reader_snapshots.lock   snapshots for readers (reader-snapshot.h).
 *   tree.table_lock, tree.times_lock, tree.cache.lock, tree.documents.lock   leaves, held for a
 *                few instructions, never over a call of the store.
 *   the store's own locks.
 *
 *   The watcher (tree.cache.watcher) is called with none of them held, since the kernel may wait
 *   for a page that only another request of ours can fill: changes are collected in a struct notes,
 *   and the kernel is notified when the locks are free.
 *
 * Changes of others
 *
 *   A call of the store that answers -ESTALE means that others have changed something.  The call is
 *   given up (nothing in memory has changed by then), the changes are taken in (waiting.h), and the
 *   whole operation runs again: every operation is a function that can be run again, wrapped in
 *   TREE_RETRY.
 *
 * Times
 *
 *   An append changes no table but the rows': its times stay in memory and are written within a
 *   second (tree_write_times), at fsync, and at the end; or with the append that follows an fsync.
 *   All other changes of a node are written with what caused them.  Beside other mounts an append
 *   writes its times, too, except those of an open list from the seventeenth append on: they are
 *   written ten times a second, and by a close or an unlock.
 */

#include "fs/inode/retry.h"
#include "fs/inode/tree.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/base/thread.h"

static inline void tree_unlockp(struct tree **tree)
{
	if (*tree)
		pthread_rwlock_unlock(&(*tree)->lock);
}
static inline struct tree *tree_read_lock(struct tree *tree)
{
	pthread_rwlock_rdlock(&tree->lock);
	return tree;
}
static inline struct tree *tree_change(struct tree *tree)
{
	if (tree)
		pthread_rwlock_rdlock(&tree->change);
	return tree;
}
/* As tree_change(), or NULL if it would have to wait; other locks may be held. */
static inline struct tree *tree_try_change(struct tree *tree)
{
	return pthread_rwlock_tryrdlock(&tree->change) == 0 ? tree : NULL;
}
static inline void tree_change_endp(struct tree **tree)
{
	if (*tree)
		pthread_rwlock_unlock(&(*tree)->change);
}
static inline void tree_alone(struct tree *tree)
{
	pthread_rwlock_wrlock(&tree->lock);
	tree->changer = pthread_self();
	tree->change_number++;
}
static inline struct tree *tree_write_lock(struct tree *tree)
{
	pthread_mutex_lock(&tree->turn);
	pthread_rwlock_wrlock(&tree->change);
	pthread_mutex_unlock(&tree->turn);
	tree_alone(tree);
	return tree;
}
/* The same, or NULL if it would have to wait for a change. */
static inline struct tree *tree_try_write_lock(struct tree *tree)
{
	if (pthread_rwlock_trywrlock(&tree->change) != 0)
		return NULL;
	tree_alone(tree);
	return tree;
}
static inline void tree_write_unlockp(struct tree **tree)
{
	if (!*tree)
		return;
	(*tree)->changer = 0;
	pthread_rwlock_unlock(&(*tree)->lock);
	pthread_rwlock_unlock(&(*tree)->change);
}
#define WITH_READ_LOCK(of)                                                                         \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *read_locked_ =                \
		tree_read_lock(of)
/* For a change of one file; both may be NULL for an operation that changes nothing after all. */
#define WITH_CHANGE(of, file)                                                                      \
	__attribute__((unused)) _cleanup_(tree_change_endp) struct tree *changing_ =               \
		tree_change(of);                                                                   \
	WITH_MUTEX_AS(changing_file_, (file) ? &(file)->change : NULL)
#define WITH_CHANGE_LOCK(of, file)                                                                 \
	WITH_CHANGE(of, file);                                                                     \
	WITH_READ_LOCK(of)
#define WITH_WRITE_LOCK(of)                                                                        \
	__attribute__((unused)) _cleanup_(tree_write_unlockp) struct tree *write_locked_ =         \
		tree_write_lock(of)
/* of may be NULL. */
#define WITH_HANDLE_LOCK(of) WITH_MUTEX_AS(handle_locked_, (of) ? &(of)->writing->lock : NULL)
#define WITH_INODE_LOCK(of) WITH_MUTEX_AS(inode_locked_, &(of)->lock)
/* Keep away threads that want tree.change for writing, if that is wanted. */
#define WITH_TURN(of, wanted) WITH_MUTEX_AS(turn_, (wanted) ? &(of)->turn : NULL)

#endif
