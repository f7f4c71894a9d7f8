/* SPDX-License-Identifier: MIT */
#ifndef FS_CONTENT_FILE_H
#define FS_CONTENT_FILE_H

/* What file.c and file-space.c share. */

#include "fs/content/content.h"

/* Chunks, both included. */
struct span {
	int64_t first;
	int64_t last;
};
/* Those of the bytes from offset to end, exclusive. */
struct span span_of(uint64_t offset, uint64_t end);
/* The bytes of a chunk, without the hole at its end, appended to data. */
int chunk_load(struct view *view, uint64_t ino, int64_t chunk, struct buf *data);
/* An operation that lays bytes over a chunk's present content. */
int chunk_overlay(struct tree *tree, uint64_t ino, int64_t chunk, size_t at, struct bytes data,
		  unsigned flags, struct batch *batch);
/* How many bytes the store has in a span. */
int stored_now(struct tree *tree, uint64_t ino, struct span span, uint64_t *ret_stored);
/* Commit changes of the chunks of a span, and the node.  The stored bytes of a file with holes are
 * counted once; afterwards only changes are. */
int file_commit(struct tree *tree, struct inode *inode, const struct backend_node *node,
		struct span span, struct batch *batch, unsigned flags);

#endif
