/* SPDX-License-Identifier: MIT */

/* Size, space and holes of files in chunks. */

#include <errno.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "fs/content/file.h"
#include "fs/inode/quota.h"
#include "fs/inode/shed.h"

/* Operations that cut the bytes at and behind size. */
static int file_cut(struct tree *tree, struct inode *inode, uint64_t size, struct batch *batch)
{
	int64_t chunk = (int64_t)(size / BACKEND_CHUNK);
	size_t keep = size % BACKEND_CHUNK;
	_cleanup_(buf_done) struct buf last = { 0 };
	int r;

	if (keep) {
		_cleanup_(view_end) struct view view = { 0 };

		r = view_begin(tree, 0, &view);
		if (r == 0)
			r = chunk_load(&view, inode->node.ino, chunk, &last);
		if (r < 0)
			return r;
		if (last.size > keep)
			batch_chunk_put(batch, inode->node.ino, chunk,
					batch_keep(batch, bytes_make(last.data, keep)));
		chunk++;
	}
	batch_chunk_delete(batch, inode->node.ino, chunk, INT64_MAX);
	return batch->error;
}

static int truncate_once(struct tree *tree, struct inode *inode, uint64_t size)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node;
	int r = 0;

	if (size < node.size)
		r = file_cut(tree, inode, size, &batch);
	if (r < 0)
		return r;
	if (size > node.size)
		node.flags |= BACKEND_SPARSE;
	node.size = size;
	node.mtime = node.ctime = time_now();
	batch_node_put(&batch, &node);
	quota_grows(inode, (int64_t)(size - inode->node.size), &batch);
	return file_commit(tree, inode, &node, span_of(size, INT64_MAX), &batch,
			   size < inode->node.size ? BACKEND_FREES : 0);
}

int file_truncate(struct tree *tree, struct inode *inode, uint64_t size)
{
	int r;

	if (size > INT64_MAX)
		return -EFBIG;
	/* Its node is not in the store, and nobody has it open or comes to open it. */
	if (inode->gone) {
		inode->node.size = size;
		return 0;
	}
	r = file_write_back(tree, inode);
	if (r == 0)
		r = truncate_once(tree, inode, size);
	if (r != -ENOSPC || size >= inode->node.size)
		return r;
	r = shed_content(tree, inode, size);
	return r < 0 ? r : truncate_once(tree, inode, size);
}

/* Zeros in [offset, end): whole chunks become holes, the rest is overlaid. */
static int file_zero(struct tree *tree, struct inode *inode, uint64_t offset, uint64_t end,
		     struct batch *batch)
{
	static const char zeros[BACKEND_CHUNK];
	int64_t first = (int64_t)((offset + BACKEND_CHUNK - 1) / BACKEND_CHUNK);
	int64_t last = (int64_t)(end / BACKEND_CHUNK) - 1;

	end = MIN(end, inode->node.size);
	while (offset < end) {
		int64_t chunk = (int64_t)(offset / BACKEND_CHUNK);
		size_t at = offset % BACKEND_CHUNK;
		size_t part = MIN(end - offset, BACKEND_CHUNK - at);
		int r = 0;

		if (chunk >= first && chunk <= last) {
			offset = MIN(end, (uint64_t)(last + 1) * BACKEND_CHUNK);
			continue;
		}
		r = chunk_overlay(tree, inode->node.ino, chunk, at, bytes_make(zeros, part), 0,
				  batch);
		if (r < 0)
			return r;
		offset += part;
	}
	if (first <= last)
		batch_chunk_delete(batch, inode->node.ino, first, last);
	return batch->error;
}

/* Room is not reserved, but a size that cannot fit at all is refused. */
static int file_promise(struct tree *tree, const struct inode *inode, uint64_t offset, uint64_t end)
{
	uint64_t size = end - offset, stored;
	struct backend_space space;
	int r = tree->backend->ops->space(tree->backend, &space);

	if (r < 0 || size <= space.free)
		return r;
	r = stored_now(tree, inode->node.ino, span_of(offset, end), &stored);
	if (r == 0 && size - MIN(size, stored) > space.free)
		r = -ENOSPC;
	return r;
}

int file_allocate(struct tree *tree, struct inode *inode, int mode, uint64_t offset, uint64_t size)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node;
	uint64_t end = offset + size;
	int kind = mode & ~FALLOC_FL_KEEP_SIZE;
	int r;

	if (!size)
		return -EINVAL;
	if (end < offset || end > INT64_MAX)
		return -EFBIG;
	if (kind == FALLOC_FL_PUNCH_HOLE && !(mode & FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if (kind != 0 && kind != FALLOC_FL_PUNCH_HOLE && kind != FALLOC_FL_ZERO_RANGE)
		return -EOPNOTSUPP;
	r = file_write_back(tree, inode);
	if (r < 0)
		return r;
	node = inode->node;
	if (kind != FALLOC_FL_PUNCH_HOLE)
		r = file_promise(tree, inode, offset, end);
	if (r == 0 && kind != 0)
		r = file_zero(tree, inode, offset, end, &batch);
	if (r < 0)
		return r;
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		node.size = MAX(node.size, end);
	if (kind || node.size != inode->node.size)
		node.flags |= BACKEND_SPARSE;
	node.ctime = time_now();
	if (kind || node.size != inode->node.size)
		node.mtime = node.ctime;
	batch_node_put(&batch, &node);
	quota_grows(inode, (int64_t)(node.size - inode->node.size), &batch);
	return file_commit(tree, inode, &node, span_of(offset, end), &batch,
			   kind == FALLOC_FL_PUNCH_HOLE ? BACKEND_FREES : 0);
}

struct seeking {
	int whence;
	uint64_t offset; /* answer so far */
	bool found;
};

static int seek_chunk(void *arg, int64_t chunk, size_t size)
{
	struct seeking *seeking = arg;
	uint64_t start = (uint64_t)chunk * BACKEND_CHUNK;

	(void)size;
	if (seeking->whence == SEEK_DATA) {
		seeking->offset = MAX(seeking->offset, start);
		seeking->found = true;
		return 1;
	}
	if (start > seeking->offset)
		return 1;
	seeking->offset = start + BACKEND_CHUNK;
	return 0;
}

int file_seek(struct tree *tree, struct inode *inode, uint64_t offset, int whence,
	      uint64_t *ret_offset)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct seeking seeking = { .whence = whence, .offset = offset };
	int r = file_write_back(tree, inode);

	if (r < 0)
		return r;
	if (offset >= inode->node.size)
		return -ENXIO;
	if (!(inode->node.flags & BACKEND_SPARSE)) {
		*ret_offset = whence == SEEK_DATA ? offset : inode->node.size;
		return 0;
	}
	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = backend_chunk_list(view.backend, view.snapshot, inode->node.ino,
				       (int64_t)(offset / BACKEND_CHUNK), INT64_MAX, seek_chunk,
				       &seeking);
	if (r < 0)
		return r;
	if (whence == SEEK_DATA && (!seeking.found || seeking.offset >= inode->node.size))
		return -ENXIO;
	*ret_offset = MIN(seeking.offset, inode->node.size);
	return 0;
}
