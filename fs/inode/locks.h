/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_LOCKS_H
#define FS_INODE_LOCKS_H

/*
 * What is in memory, and the locks of it
 *
 * What is where
 *
 *   The store is the truth for names, nodes and content.  In memory are the inodes that somebody
 *   counts (the kernel, an open handle, a child directory, the list of unwritten times), each with
 *   a copy of its node, and what was learnt about its content: sizes, the end of a list.  Nothing
 *   in memory is needed to open the store again.
 *
 * Locks, in the order in which they are taken
 *
 *   tree.trash_lock   orders of the trash (upkeep/trash.c), one at a time.
 *   writing.lock one open file, while it is used: what it holds back stays the same meanwhile, also
 *                while no other lock is held.
 *   tree.turn    before tree.lock for writing, or for reading for long, as in the commit of a large
 *                save: a writer that waited for tree.lock itself would hold up all who read.
 *   tree.lock    read: anything that uses content, attributes or names; write: anything that
 *                changes which name leads where, which key a file has, or that takes in changes of
 *                others.  Its holder for writing is alone: no inode lock is needed then.
 *   inode.lock   one at a time, under tree.lock for reading: the node copy and content of one file,
 *                and all handles of it.
 *   tree.kept.lock   the snapshot that is kept (kept.h).
 *   tree.table_lock, tree.times_lock, tree.notify_lock   leaves, held for a few instructions, never
 *                over a call of the store.
 *   the store's own locks.
 *
 *   The watcher (tree.watcher) is called with none of them held, since the kernel may wait for a
 *   page that only another request of ours can fill: changes are collected in a struct
 *   notes and told when the locks are free.
 *
 * Changes of others
 *
 *   A call of the store that answers -ESTALE means that other programs changed rows.  The call is
 *   given up (nothing in memory has changed by then), tree_reconcile() takes the changes in, and
 *   the whole operation runs again: every operation is a function that can be run again, wrapped in
 *   TREE_RETRY.
 *
 * Times
 *
 *   An append changes no table but the rows': its times stay in memory and are written within
 *   a second (tree_write_times), at fsync, and at the end; or with the append that follows an
 *   fsync.  All other changes of a node are written with what caused them.
 */

#include "fs/inode/tree.h"
#include "src/base/cleanup.h"
#include "src/base/moment.h"

/* Run an operation again as long as changes of others come in between. */
#define TREE_RETRY(tree, call)                                                                     \
	({                                                                                         \
		__typeof__(call) r_;                                                               \
		unsigned tries_ = 0;                                                               \
		while ((r_ = (call)) == -ESTALE) {                                                 \
			int caught_up_ = tree_catch_up((tree), &tries_);                           \
			if (caught_up_ < 0) {                                                      \
				r_ = caught_up_;                                                   \
				break;                                                             \
			}                                                                          \
		}                                                                                  \
		if (tries_)                                                                        \
			tree_caught_up((tree), tries_);                                            \
		r_;                                                                                \
	})
/* Reconcile, unless it was tried too often (-EBUSY); with the store's turn after some tries. */
int tree_catch_up(struct tree *tree, unsigned *tries);
/* It has succeeded, or was given up. */
void tree_caught_up(struct tree *tree, unsigned tries);

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
/* Keep threads away that want the lock for writing. */
static inline struct tree *tree_turn(struct tree *tree)
{
	pthread_mutex_lock(&tree->turn);
	return tree;
}
static inline void tree_turn_endp(struct tree **tree)
{
	if (*tree)
		pthread_mutex_unlock(&(*tree)->turn);
}
static inline struct tree *tree_write_lock(struct tree *tree)
{
	tree_turn(tree);
	pthread_rwlock_wrlock(&tree->lock);
	tree_turn_endp(&tree);
	return tree;
}
static inline void handle_unlockp(struct handle **handle)
{
	if (*handle)
		pthread_mutex_unlock(&(*handle)->writing->lock);
}
static inline struct handle *handle_lock(struct handle *handle)
{
	if (handle)
		pthread_mutex_lock(&handle->writing->lock);
	return handle;
}
static inline void inode_unlockp(struct inode **inode)
{
	if (*inode)
		pthread_mutex_unlock(&(*inode)->lock);
}
static inline struct inode *inode_lock(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	return inode;
}
#define WITH_READ_LOCK(of)                                                                         \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *read_locked_ =                \
		tree_read_lock(of)
#define WITH_WRITE_LOCK(of)                                                                        \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *write_locked_ =               \
		tree_write_lock(of)
/* of may be NULL. */
#define WITH_HANDLE_LOCK(of)                                                                       \
	__attribute__((unused)) _cleanup_(handle_unlockp) struct handle *handle_locked_ =          \
		handle_lock(of)
#define WITH_INODE_LOCK(of)                                                                        \
	__attribute__((unused)) _cleanup_(inode_unlockp) struct inode *inode_locked_ =             \
		inode_lock(of)

#endif
