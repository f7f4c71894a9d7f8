/* SPDX-License-Identifier: MIT */

/*
 * The bytes of a file, whatever keeps them:
 *
 *   ordinary, or any draft   chunks; the size is in the node
 *   single, hash             the first row of the key
 *   list                     rows and pieces (list.c)
 *   an unlinked state file   a stage in memory, for those who have it open
 */

#include <errno.h>

#include "fs/model/internal.h"

static bool content_in_chunks(const struct inode *inode)
{
	return inode->node.kind == BACKEND_ORDINARY || inode_is_draft(inode);
}

static int measure_row(void *arg, int64_t index, struct bytes data)
{
	uint64_t *size = arg;

	(void)index;
	*size = data.size;
	return 1;
}

int content_load(struct tree *tree, struct view *view, struct inode *inode)
{
	int r;

	if (inode->loaded || inode->orphaned || content_in_chunks(inode) || !inode_is_state(inode))
		return 0;
	if (inode->node.kind == BACKEND_LIST)
		return list_load(tree, view, inode);
	inode->size = 0;
	r = view->backend->ops->row_read(view->backend, view->snapshot, inode->node.session,
					 inode->node.key, INT64_MIN, measure_row, &inode->size);
	if (r == 0)
		inode->loaded = true;
	return r;
}

int content_size(struct tree *tree, struct view *view, struct inode *inode, uint64_t *ret_size)
{
	int r;

	if (inode->orphaned) {
		*ret_size = inode->orphan.size;
		return 0;
	}
	if (content_in_chunks(inode) || !inode_is_state(inode)) {
		*ret_size = file_size(inode);
		return 0;
	}
	r = content_load(tree, view, inode);
	if (r < 0)
		return r;
	*ret_size = inode->node.kind == BACKEND_LIST ? inode->list.size : inode->size;
	return 0;
}

struct row_part {
	uint64_t offset;
	size_t size;
	struct buf *out;
};

static int keep_row_part(void *arg, int64_t index, struct bytes data)
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

int handle_keep_row(struct handle *handle, uint64_t offset, struct bytes row)
{
	int r;

	handle->whole_valid = false;
	stage_done(&handle->whole);
	r = stage_write(&handle->whole, 0, row);
	if (r < 0)
		return r;
	handle->whole_valid = true;
	handle->whole_offset = offset;
	handle->whole_version = handle->inode->version;
	return 0;
}

bool handle_has_row(const struct handle *handle, uint64_t offset)
{
	return handle->whole_valid && handle->whole_version == handle->inode->version &&
	       offset >= handle->whole_offset && offset - handle->whole_offset < handle->whole.size;
}

static int single_read(struct view *view, struct inode *inode, uint64_t offset, size_t size,
		       struct buf *out)
{
	struct row_part part = { .offset = offset, .size = size, .out = out };

	return view->backend->ops->row_read(view->backend, view->snapshot, inode->node.session,
					    inode->node.key, INT64_MIN, keep_row_part, &part);
}

int content_read(struct tree *tree, struct view *view, struct inode *inode, struct handle *handle,
		 uint64_t offset, size_t size, struct buf *out)
{
	int r;

	if (inode->orphaned)
		return stage_read(&inode->orphan, offset, size, out);
	if (content_in_chunks(inode))
		return file_read(view, inode, offset, size, out);
	r = content_load(tree, view, inode);
	if (r < 0)
		return r;
	if (inode->node.kind == BACKEND_LIST)
		return list_read(view, inode, handle, offset, size, out);
	return single_read(view, inode, offset, size, out);
}

static int keep_row(void *arg, int64_t index, struct bytes data)
{
	int r = stage_write(arg, 0, data);

	(void)index;
	return r < 0 ? r : 1;
}

enum { STEP = 1 << 20 };

int content_to_stage(struct tree *tree, struct view *view, struct inode *inode, struct stage *stage)
{
	_cleanup_(buf_done) struct buf part = { 0 };
	uint64_t size, offset = 0;
	int r;

	/* A row comes whole in any case; it is not to be held twice. */
	if (!inode->orphaned && !content_in_chunks(inode) && inode->node.kind != BACKEND_LIST)
		return view->backend->ops->row_read(view->backend, view->snapshot,
						    inode->node.session, inode->node.key, INT64_MIN,
						    keep_row, stage);
	if (!inode->orphaned && content_in_chunks(inode))
		return file_to_stage(view, inode, stage);
	r = content_size(tree, view, inode, &size);
	while (r == 0 && offset < size) {
		buf_clear(&part);
		r = content_read(tree, view, inode, NULL, offset, STEP, &part);
		if (r == 0 && !part.size)
			r = -EIO;
		if (r == 0)
			r = stage_write(stage, offset, buf_bytes(&part));
		offset += part.size;
	}
	return r;
}

void content_remove(const struct inode *inode, struct batch *batch)
{
	if (inode_is_state(inode))
		batch_row_delete(batch, inode->node.session, inode->node.key, INT64_MIN, INT64_MAX);
	if (content_in_chunks(inode))
		batch_chunk_delete(batch, inode->node.ino, 0, INT64_MAX);
	if (inode->node.kind == BACKEND_LIST) {
		batch_piece_delete(batch, inode->node.ino, INT64_MIN, INT64_MIN);
		batch_mark_delete(batch, inode->node.ino, 0);
	}
}
