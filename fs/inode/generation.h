/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_GENERATION_H
#define FS_INODE_GENERATION_H

/*
 * The version of a list, by which somebody who has read it knows whether it is still the same.
 *
 *   It is the number of its node and the node's generation (backend.h).  As long as it stays, the
 *   items that the list had are where they were and as they were, and all else is behind them.
 */

#include "backend/backend.h"

/* What a file has is about to change otherwise than by lines that are added behind its end, in the
 * batch that puts this node: its generation becomes one that the file has never had.  Whatever
 * changes content so comes here. */
void node_rewritten(struct backend_node *node);

#define VERSION_ATTRIBUTE "user.sessfs.version"
/* What that says: a word in which nobody is to look for anything; bytes, with its NUL. */
enum { VERSION_WORD = 33 };
void version_word(uint64_t ino, uint64_t generation, char ret_word[VERSION_WORD]);

#endif
