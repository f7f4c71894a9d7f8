/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_CALLED_H
#define FS_INODE_CALLED_H

/*
 * How files in memory are called, so that who comes by a name need not ask the store which file it
 * leads to.
 *
 * An entry has one id in its directory, which is never given twice, and one name, as long as it is
 * there: so what was told of it stays true, and the node of the file (parent, entry), which is kept
 * as the store has it, says whether the file still is there.  Nothing has to be forgotten.
 */

#include "fs/inode/tree.h"

/* Of a name in a directory. */
uint64_t called_hash(uint64_t dir, struct bytes name);
/* The entry that the node of a file names has this name.  Under tree.lock for writing, or under it
 * and inode.lock.  Where memory is short, it is not remembered. */
void called_is(struct tree *tree, struct inode *inode, struct bytes name);
/* The name of that entry, or no data; borrowed, under the same locks. */
struct bytes called_name(const struct inode *inode);
/* The same, asked of the store where it is not known. */
int called_find(struct tree *tree, struct inode *inode, struct bytes *ret_name);
/* The inode that a name in a directory leads to, counted; NULL: that is not known, or changes of
 * others wait, one of which may be about it.  Under tree.lock, and under no inode.lock. */
struct inode *called_recall(struct tree *tree, const struct inode *dir, struct bytes name);

#endif
