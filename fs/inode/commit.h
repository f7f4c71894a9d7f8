/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_COMMIT_H
#define FS_INODE_COMMIT_H

/*
 * Commits, without the tree's lock.
 *
 * A commit may wait for another program that holds the store's lock, for a large commit of another
 * mount, or for the disk.  A reader must not wait with it.  So a thread that holds tree.lock for
 * writing releases it during its commit, and holds it again when tree_commit() returns.  It keeps
 * tree.change: no other thread changes the store or memory meanwhile.
 *
 * A reader that comes meanwhile sees the old memory, which fits as long as its snapshot is old as
 * well.  From the moment in which a snapshot may show the commit, until memory has it, no snapshot
 * begins (tree.applying.pending, view_begin()): readers wait for that moment alone.
 *
 * A thread that appends to a file or changes its attributes releases inode.lock in the same way,
 * and keeps inode.change; readers of that file alone wait for the moment (inode.unapplied).  A save
 * keeps inode.lock: a reader of the file would be in the middle of what the save replaces.
 *
 * A change that takes content away from a file, such as the rows of one that was unlinked, first
 * copies it for the handles that have it open.  Until the change is over, the file cannot be opened
 * or read (inode_is_leaving()), nor can its size be read if other content is about to take its
 * place (inode_is_changing()).
 */

#include "fs/base/batch.h"
#include "fs/inode/locks.h"

/* Commit a batch, or one with more() (backend.h), which begins with this one, or NULL if it makes
 * nothing larger (quota.h).  -EDQUOT.  Called without any lock of the store's.  A caller that holds
 * tree.lock for writing does not hold it during the commit: what it has read in memory stays, but
 * for what readers remember there. */
int tree_commit(struct tree *tree, struct batch *batch, unsigned flags);
int tree_commit_source(struct tree *tree, struct batch *batch, struct backend_batch *source,
		       unsigned flags);

/* The same, keeping tree.lock; for a batch that makes nothing larger. */
int tree_commit_locked(struct tree *tree, struct batch *batch, unsigned flags);

/* The same for a change of one file: releases inode.lock during the commit. */
int tree_commit_file(struct tree *tree, struct inode *inode, struct batch *batch, unsigned flags);

/* Wait until memory has what the store shows, or until tree.applying.done has another value than
 * this, if only commits of single files are not in memory yet.  No lock is held. */
void tree_wait_applied(struct tree *tree, uint64_t applied);

/* Under tree.lock for writing: the content of a file is about to go. */
static inline void inode_leaves(const struct tree *tree, struct inode *inode)
{
	inode->leaving = tree->change_number;
}
/* Other content is about to take its place. */
static inline void inode_is_to_change(const struct tree *tree, struct inode *inode)
{
	inode->replacing = tree->change_number;
}
/* Under tree.lock for reading: whether neither the file's content nor its size may be read yet
 * (-ESTALE). */
static inline bool inode_is_changing(const struct tree *tree, const struct inode *inode)
{
	return tree->changer && inode->replacing == tree->change_number;
}
/* Whether it cannot be read or opened yet. */
static inline bool inode_is_leaving(const struct tree *tree, const struct inode *inode)
{
	return tree->changer &&
	       (inode->leaving == tree->change_number || inode->replacing == tree->change_number);
}

#endif
