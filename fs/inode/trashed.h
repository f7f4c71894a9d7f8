/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_TRASHED_H
#define FS_INODE_TRASHED_H

/*
 * Files and directories that were removed one by one and may come back (tree.history).
 *
 *   Each is an entry of its own in BACKEND_TRASH, called "REMOVED UNTIL /PATH", beside the
 *   sessions that were removed as a whole (fs/upkeep/trash.c), whose names have no '/' there.  As
 *   there, a node is of kind BACKEND_ORDINARY, keeps its session and key, and the rows are kept
 *   apart with it.
 *
 *   A file that loses its name before it can go there, since its rows are left to a save that may
 *   follow (ghost.c) or since it may be open somewhere, is an orphan that has the path as its
 *   target.  An orphan that has one goes into the trash where others are deleted, also if the
 *   daemon dies in between.
 *
 *   When the store needs room, the oldest are deleted first.
 */

#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/inode/locks.h"

/* Append the path of a name, if removed files are kept; otherwise nothing. */
int trash_path(const struct tree *tree, const struct inode *dir, struct bytes name,
	       struct buf *path);
/* Until when what is removed now is kept; 0: it cannot come back. */
static inline int64_t trash_until(int64_t removed, int64_t grace)
{
	return !grace ? 0 : grace > INT64_MAX - removed ? INT64_MAX : removed + grace;
}
/* Into the trash, as the item's name, removed, until and single say; or one that its ctime says the
 * time of.  The view need not have begun where the trash exists (tree.trashed.any).  Under
 * tree.lock for writing. */
int trash_put(struct tree *tree, struct view *view, const struct backend_node *node,
	      struct trash_item item, struct batch *batch);
int trash_put_single(struct tree *tree, struct view *view, const struct backend_node *node,
		     struct bytes path, struct batch *batch);
/* The rows of a state file, or the entry, alone. */
void trash_rows(struct batch *batch, const struct backend_node *node, bool kept);
void emit_trashed(struct batch *batch, uint64_t id, const struct trash_item *item);
/* The kind that a node of this name had. */
uint32_t trash_kind(const struct backend_node *node, struct bytes name);
/* For good: a node of the trash. */
void trash_delete(struct batch *batch, const struct backend_node *node);
/* After the commit: a file has lost its name; and whether a file of this name did a moment ago. */
void trash_removed(struct tree *tree, const struct inode *dir, struct bytes name, uint64_t ino);
bool trash_has_just(struct tree *tree, const struct inode *dir, struct bytes name);
/* If so, a file of the same name replaces it, and it is not kept.  Three under tree.lock for
 * writing. */
int trash_replaced(struct tree *tree, struct view *view, const struct inode *dir, struct bytes name,
		   struct batch *batch);
/* A number with a blank behind it. */
bool word_take(struct bytes *text, int64_t *ret_number);
/* What an entry of the trash says; false: nothing. */
bool trash_parse(const struct backend_entry *entry, const struct backend_node *node,
		 struct trash_item *item);
/* The oldest so many of them go, in transactions of their own.  How many went. */
int trash_give(struct tree *tree, size_t count);

#endif
