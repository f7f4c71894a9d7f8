/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_CALLED_H
#define FS_INODE_CALLED_H

/*
 * The names of files in memory, so that a lookup need not ask the store which file a name leads to.
 *
 * An entry has one id in its directory, which is never given twice, and one name, as long as it
 * exists.  So what is remembered of it stays true, and the node of the file (parent, entry), which
 * is a copy of the store's, says whether the file is still there.  Nothing has to be invalidated.
 */

#include "fs/inode/tree.h"

/* The hash of a name in a directory. */
uint64_t called_hash(uint64_t dir, struct bytes name);
/* Remember the name of the entry that the file's node has.  Under tree.lock for writing, or under
 * it and inode.lock.  Without memory it is not remembered. */
void called_is(struct tree *tree, struct inode *inode, struct bytes name);
/* The name of that entry, or empty; borrowed, under the same locks. */
struct bytes called_name(const struct inode *inode);
/* The same; reads the store if the name is not known. */
int called_find(struct tree *tree, struct inode *inode, struct bytes *ret_name);
/* The inode that a name in a directory leads to, counted; NULL: that is not known, or changes of
 * others wait and one of them may be about it.  Under tree.lock, and under no inode.lock. */
struct inode *called_recall(struct tree *tree, const struct inode *dir, struct bytes name);

#endif
