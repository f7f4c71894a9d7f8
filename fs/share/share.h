/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_SHARE_H
#define FS_SHARE_SHARE_H

/* The door of this room: living with others who change the rows. */

#include "fs/inode/locks.h"

/* Take in what others changed, in steps between which others come to use the tree. */
int tree_reconcile(struct tree *tree);
/* Digest what other mounts have left, unless somebody is changing the tree: 1, or 0 when there was
 * nothing, or -errno. */
int tree_digest_now(struct tree *tree);

/* Whether a key that is set apart is to be tried again.  No lock is held. */
bool aparts_are_due(struct tree *tree);
/* Make a file for each key that has rows and none: how many, or -errno. */
int64_t tree_adopt(struct tree *tree);

#endif
