/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_FOLLOWING_H
#define FS_INODE_FOLLOWING_H

/* Who follows what happens in a tree, and which path a file has. */

#include "fs/events/events.h"
#include "fs/inode/tree.h"

/* Somebody follows a directory, or no more.  Events are kept for a while behind the last one.  No
 * lock is held; since as for event_reader_begin(). */
int following_begin(struct tree *tree, struct inode *dir, int64_t since,
		    struct event_reader *reader);
void following_end(struct tree *tree, struct event_reader *reader);
/* Whether that while is over is looked at now and then. */
void following_look(struct tree *tree);
/* An event may be seen, if nothing else is in the way.  No lock is held. */
void following_show(struct tree *tree, int64_t number);

/* The path of a name in a directory, as events have it; dir NULL and no name: the root's.  Under
 * tree.lock. */
int following_path(const struct inode *dir, struct bytes name, struct buf *path);
/* Text as a line of JSON can have it: bytes that are no UTF-8 are shown as names (names.h). */
int following_text(struct bytes text, struct buf *shown);
/* The name of a file, from the store where it is not known (called.h); borrowed.  Under tree.lock
 * and inode.lock. */
int following_name(struct tree *tree, struct inode *inode, struct bytes *ret_name);

void following_init(struct tree *tree);
void following_done(struct tree *tree);

#endif
