/* SPDX-License-Identifier: MIT */

/* A state file that has lost its name: a stage has its bytes, for handles of it. */

#include "fs/content/kind.h"

static uint64_t orphan_size(const struct inode *inode)
{
	return inode->orphan.size;
}

static int orphan_read(struct view *view, struct inode *inode, struct handle *handle,
		       uint64_t offset, size_t size, struct buf *out)
{
	(void)view, (void)handle;
	return stage_read(&inode->orphan, offset, size, out);
}

static int orphan_to_stage(struct view *view, struct inode *inode, struct stage *stage)
{
	(void)view;
	return stage_copy(&inode->orphan, stage);
}

static int orphan_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	(void)tree;
	return stage_write(&inode->orphan, offset, data);
}

const struct content_kind content_orphan = {
	.size = orphan_size,
	.read = orphan_read,
	.to_stage = orphan_to_stage,
	.write = orphan_write,
};
