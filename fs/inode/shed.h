/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_SHED_H
#define FS_INODE_SHED_H

#include "fs/inode/locks.h"

/* For full disks: deleting in parts what cannot be deleted in one transaction.  When these return
 * 0, what is left is small enough for one. */

/* Of a file without a name: all. */
int shed_hidden(struct tree *tree, const struct backend_node *node);
/* What was kept of a file, as above; 1 if that was something. */
int shed_kept(struct tree *tree, const struct backend_node *node);
/* Of a file in the trash: all. */
int shed_trashed(struct tree *tree, const struct backend_node *node);
/* Of a file that is about to be cut to size (a list: to 0), which others see getting shorter. */
int shed_content(struct tree *tree, struct inode *inode, uint64_t size);

#endif
