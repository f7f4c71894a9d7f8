/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_ATTR_H
#define FS_TREE_ATTR_H

/* Inside this room: the attributes of a file, and its first name. */

#include "fs/api/tree.h"
#include "fs/base/entries.h"
#include "fs/cache/cache.h"

/* What a listing shows of a file, with the entry and the tail that its view has.  -EBUSY: not
 * patient, and the file is being saved. */
int inode_list(struct tree *tree, struct inode *inode, const struct view *view,
	       const struct entry_copy *entry, const struct backend_tail *tail, bool patient,
	       struct shown *shown);

/* rename.c */

/* The first name of a file that was made without one; replaces: another file that has the name
 * loses it. */
int name_nameless(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		  bool replaces, struct notes *notes);

#endif
