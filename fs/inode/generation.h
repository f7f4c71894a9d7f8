/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_GENERATION_H
#define FS_INODE_GENERATION_H

/*
 * The version of a list, by which a reader can tell whether the list is still the same.
 *
 *   It is the number of its node and the node's generation (backend.h).  While it stays the same,
 *   the items that the list had are unchanged and in place, and new ones are behind them.
 */

#include "backend/backend.h"

/* The batch that puts this node changes the file's content, and not only by lines behind its end:
 * gives it a generation that the file has never had.  Every such change must call this. */
void node_rewritten(struct backend_node *node);

#define VERSION_ATTRIBUTE "user.sessfs.version"
/* The version as an opaque word; bytes, with its NUL. */
enum { VERSION_WORD = 33 };
void version_word(uint64_t ino, uint64_t generation, char ret_word[VERSION_WORD]);

#endif
