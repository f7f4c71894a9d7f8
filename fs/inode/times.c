/* SPDX-License-Identifier: MIT */

/* The list of files whose times in memory are newer than in the store; content/times.c writes
 * them. */

#include "fs/inode/inodes.h"
#include "fs/inode/tree.h"
#include "backend/base/chain.h"

void inode_times_dirty(struct tree *tree, struct inode *inode)
{
	WITH_MUTEX(&tree->times_lock);

	if (!inode->times_dirty) {
		inode->times_dirty = true;
		inode_ref(tree, inode);
		CHAIN_ENTER(tree->times_first, inode, times_next, times_link);
	}
}

void inode_times_written(struct tree *tree, struct inode *inode)
{
	bool dirty;

	pthread_mutex_lock(&tree->times_lock);
	dirty = inode->times_dirty;
	if (dirty) {
		CHAIN_LEAVE(inode, times_next, times_link);
		inode->times_dirty = false;
	}
	pthread_mutex_unlock(&tree->times_lock);
	if (dirty)
		inode_forget(tree, inode, 1);
}

bool inode_has_times(struct tree *tree, const struct inode *inode)
{
	WITH_MUTEX(&tree->times_lock);

	return inode->times_dirty;
}
