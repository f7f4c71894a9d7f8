/* SPDX-License-Identifier: MIT */
#ifndef FS_CONTENT_KIND_H
#define FS_CONTENT_KIND_H

/* Inside this room: the kinds of content.  A new one is a file with its functions, and where
 * content_kind() answers it. */

#include "fs/content/content.h"

/* A NULL function means -EIO, except for the first two. */
struct content_kind {
	/* Learn from the store's tail what size() needs and read() may need.  False: call load()
	 * instead.  NULL: nothing is needed. */
	bool (*take)(struct inode *inode, const struct backend_tail *tail);
	int (*load)(struct tree *tree, struct view *view, struct inode *inode,
		    struct backend_mark mark);
	/* Bytes, once it is loaded. */
	uint64_t (*size)(const struct inode *inode);
	/* Once it is loaded; handle may be NULL. */
	int (*read)(struct view *view, struct inode *inode, struct handle *handle, uint64_t offset,
		    size_t size, struct buf *out);
	/* All bytes that the store has, without regard to what memory knows. */
	int (*to_stage)(struct view *view, struct inode *inode, struct stage *stage);
	/* Write bytes in place, not by a save. */
	int (*write)(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data);
};

/* Whether an inode's content is the first row of its key. */
bool content_is_row(const struct inode *inode);
/* Whether a view shows the inode's content as memory has it. */
bool content_fits(const struct view *view, const struct inode *inode);

extern const struct content_kind content_orphan; /* orphan.c: an unlinked state file */
extern const struct content_kind content_chunks; /* file.c: an ordinary file, or a draft */
extern const struct content_kind content_row;	 /* row.c: the first row of the key */
extern const struct content_kind content_list;	 /* list.c: rows and pieces */

#endif
