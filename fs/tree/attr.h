/* SPDX-License-Identifier: MIT */
#ifndef FS_TREE_ATTR_H
#define FS_TREE_ATTR_H

/* Inside this room: what is shown of a file, and its first name. */

#include "fs/api/tree.h"
#include "fs/base/entries.h"
#include "fs/cache/cache.h"

/* What a lookup by thread pid is answered with; under tree.lock for reading.  NOBODY: any. */
int inode_show(struct tree *tree, struct inode *inode, pid_t pid, struct shown *shown);
/* What a listing shows, which knows the entry and the tail of its file in its view.  -EBUSY: who is
 * not patient does not wait for a save of it. */
int inode_list(struct tree *tree, struct inode *inode, const struct view *view,
	       const struct entry_copy *entry, const struct backend_tail *tail, bool patient,
	       struct shown *shown);

/* rename.c */

/* The first name of a file that was made without one; replaces: whatever has it loses it. */
int name_nameless(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		  bool replaces, struct notes *notes);

#endif
