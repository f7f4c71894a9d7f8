/* SPDX-License-Identifier: MIT */

/* Telling the store which files this mount has in use. */

#include <errno.h>

#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"

int inode_use_begin(struct tree *tree, struct inode *inode)
{
	int r = inode->uses ? 1 : backend_use(tree->backend, inode->ino, true);

	inode->uses += r >= 0;
	return r;
}

void inode_use_end(struct tree *tree, struct inode *inode)
{
	if (--inode->uses)
		return;
	backend_use(tree->backend, inode->ino, false);
	/* A thread that is led may be about to open it. */
	if (!inode->led)
		version_drop(&inode->kept);
}

/* As view_begin(); 1: memory may lack what the store shows, which must be taken in first. */
static int use_once(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r = inode_use_begin(tree, inode);

	return r == 0 && (tree->applying.pending || inode->unapplied) ? 1 : r;
}

int tree_use(struct tree *tree, struct inode *inode)
{
	int r = inode->window ? 1 : TREE_RETRY(tree, use_once(tree, inode));

	if (r <= 0)
		return r;
	r = tree_take_in(tree);
	if (r < 0)
		tree_use_end(tree, inode);
	return r;
}

void tree_use_end(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	if (!inode->window)
		inode_use_end(tree, inode);
}
