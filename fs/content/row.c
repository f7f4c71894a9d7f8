/* SPDX-License-Identifier: MIT */

/* A document or a sidecar: the first row of its key. */

#include "fs/content/kind.h"

static int row_of(struct view *view, const struct inode *inode, backend_row_fn *fn, void *arg)
{
	const struct buf *whole = view_whole(view, inode->node.ino);

	if (whole)
		return MIN(fn(arg, 0, buf_bytes(whole)), 0);
	return ASK(view, row_read, inode->node.session, inode->node.key, INT64_MIN, fn, arg);
}

static bool row_take(struct inode *inode, const struct backend_tail *tail)
{
	inode->size = tail->bytes;
	inode->loaded = true;
	return true;
}

static uint64_t row_size(const struct inode *inode)
{
	return inode->size;
}

struct row_part {
	uint64_t offset;
	size_t size;
	struct buf *out;
};

static int keep_part(void *arg, int64_t index, struct bytes data)
{
	struct row_part *part = arg;
	int r;

	(void)index;
	if (part->offset >= data.size)
		return 1;
	r = buf_append(part->out, data.data + part->offset,
		       MIN(part->size, data.size - part->offset));
	return r < 0 ? r : 1;
}

static int row_read(struct view *view, struct inode *inode, struct handle *handle, uint64_t offset,
		    size_t size, struct buf *out)
{
	struct row_part part = { .offset = offset, .size = size, .out = out };

	(void)handle;
	return row_of(view, inode, keep_part, &part);
}

static int keep_row(void *arg, int64_t index, struct bytes data)
{
	int r = stage_write(arg, 0, data);

	(void)index;
	return r < 0 ? r : 1;
}

/* A row is always read whole; do not hold it twice. */
static int row_to_stage(struct view *view, struct inode *inode, struct stage *stage)
{
	return row_of(view, inode, keep_row, stage);
}

const struct content_kind content_row = {
	.take = row_take,
	.size = row_size,
	.read = row_read,
	.to_stage = row_to_stage,
};
