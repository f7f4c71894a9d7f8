/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_NAMESPACE_H
#define FS_MODEL_NAMESPACE_H

/* What making, unlinking and renaming share.  All of it under tree.lock for writing. */

#include "fs/model/internal.h"

/* -ENAMETOOLONG */
int name_check(struct bytes name);
/* The entry of a name, with its inode counted. */
int entry_open(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode);
/* The same in a view that begins with it. */
int entry_look(struct tree *tree, struct view *view, struct inode *dir, struct bytes name,
	       uint64_t *ret_id, struct inode **ret_inode);
/* 1 when a directory has no entries. */
int dir_is_empty(struct view *view, uint64_t ino);

/* A directory's node after a change of its entries, and taking it over after the commit. */
void dir_changed(struct inode *dir, int links, struct backend_node *ret_node);
void dir_apply(struct inode *dir, const struct backend_node *node);

/* The first name of a file that was made without one (rename.c). */
int name_nameless(struct tree *tree, struct inode *inode, struct inode *dir, struct bytes name,
		  struct notes *notes);

/* One name less for an inode. */
struct unlinking {
	struct inode *inode;
	uint64_t entry;		  /* set before: of the name that goes */
	struct backend_node node; /* as it will be */
	bool gone;		  /* it will be deleted from the store */
	bool empty;		  /* set before: a state file's rows are gone already */
	bool hide;		  /* set before: only its name goes for now */
	bool orphaned;		  /* stage has its bytes, for those who have it open */
	struct stage stage;
};
/* Add the operations; inode may be a ghost already; keep_rows: another file takes the rows over. */
int unlinking_begin(struct tree *tree, struct view *view, struct inode *inode, bool keep_rows,
		    struct unlinking *unlinking, struct batch *batch);
/* After the commit. */
void unlinking_apply(struct unlinking *unlinking);
void unlinking_done(struct unlinking *unlinking);

#endif
