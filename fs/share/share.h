/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_SHARE_H
#define FS_SHARE_SHARE_H

/* The door of this room: living with others who change the rows. */

#include "fs/inode/locks.h"

/* Take in what others changed. */
int tree_reconcile(struct tree *tree);

/* Whether a key that is set apart is to be tried again.  No lock is held. */
bool aparts_are_due(struct tree *tree);
/* Make a file for each key that has rows and none: how many, or -errno. */
int64_t tree_adopt(struct tree *tree);

#endif
