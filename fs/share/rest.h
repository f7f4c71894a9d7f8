/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_REST_H
#define FS_SHARE_REST_H

/* Directories for sessions that were there before the store. */

#include "fs/tree/tree.h"

/* Of all sessions: 0; or -EOPNOTSUPP: the store cannot name them by themselves. */
int rest_sessions(struct tree *tree);
/* adopt.c: the node of what is made for others' rows in a directory, with numbers of its own. */
int adopted_node(struct tree *tree, const struct inode *dir, mode_t mode,
		 struct backend_node *ret_node);

#endif
