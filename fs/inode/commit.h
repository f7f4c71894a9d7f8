/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_COMMIT_H
#define FS_INODE_COMMIT_H

/*
 * Commits, without the tree's lock.
 *
 *   A commit may have to wait: for another program that holds the store's lock, for a large one of
 *   somebody else, for the disk.  Who only reads must not wait with it.  So whoever holds tree.lock
 *   for writing gives it up while he commits, and has it again when tree_commit() returns.  He
 *   keeps tree.change: nobody else changes anything meanwhile, in the store or in memory.
 *
 *   Readers who come meanwhile have the memory of before.  As long as their snapshots are of before
 *   as well, that fits.  From the moment on in which a snapshot may show the commit, until memory
 *   has it, none is begun (tree.applying.pending, view_begin()): they wait for that moment alone.
 *
 *   Who appends to a file or changes its attributes gives up its lock in the same way, and keeps
 *   inode.change; readers of that file alone wait for the moment (inode.unapplied).  A save keeps
 *   the lock: who reads the file meanwhile would be in the middle of what it replaces.
 *
 *   What a change takes away from a file, such as the rows of one that was unlinked, it first
 *   copies for those who have it open.  Nobody else may open or read the file then, until the
 *   change is over (inode_is_leaving()); nor look at its size, if others are about to find other
 *   content in it (inode_is_changing()).
 */

#include "fs/base/batch.h"
#include "fs/inode/locks.h"

/* Commit a batch, or one with more() (backend.h), which begins with this one, or NULL if it makes
 * nothing larger (quota.h).  -EDQUOT.  Without any lock of the store's.  Who holds
 * tree.lock for writing does not while it is under way: what he has read in memory holds still but
 * for what readers remember there. */
int tree_commit(struct tree *tree, struct batch *batch, unsigned flags);
int tree_commit_source(struct tree *tree, struct batch *batch, struct backend_batch *source,
		       unsigned flags);

/* The same of who keeps tree.lock, and of a batch that makes nothing larger. */
int tree_commit_locked(struct tree *tree, struct batch *batch, unsigned flags);

/* The same of who changes one file: he gives up its lock. */
int tree_commit_file(struct tree *tree, struct inode *inode, struct batch *batch, unsigned flags);

/* Wait until memory has what the store shows; or, of files, one has come since tree.applying.done
 * was so many.  No lock is held. */
void tree_wait_applied(struct tree *tree, uint64_t applied);

/* Under tree.lock for writing: from now on the content of a file is about to go. */
static inline void inode_leaves(const struct tree *tree, struct inode *inode)
{
	inode->leaving = tree->change_number;
}
/* From now on other content is about to come in its place. */
static inline void inode_is_to_change(const struct tree *tree, struct inode *inode)
{
	inode->replacing = tree->change_number;
}
/* Under tree.lock for reading: whether nobody may be told of the file's content yet, nor of its
 * size (-ESTALE). */
static inline bool inode_is_changing(const struct tree *tree, const struct inode *inode)
{
	return tree->changer && inode->replacing == tree->change_number;
}
/* Whether nobody may read it or open it. */
static inline bool inode_is_leaving(const struct tree *tree, const struct inode *inode)
{
	return tree->changer &&
	       (inode->leaving == tree->change_number || inode->replacing == tree->change_number);
}

#endif
