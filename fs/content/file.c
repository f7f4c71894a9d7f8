/* SPDX-License-Identifier: MIT */

/*
 * Ordinary files, and drafts of state files: bytes in chunks of BACKEND_CHUNK.
 *
 * A chunk holds the bytes that were written, up to its last one; bytes behind it, and chunks that
 * do not exist, are holes.  The node's size is exact.  Invariant: no stored byte lies at or behind
 * the size, so that a file that grows again shows zeros.
 *
 * Buffered writes
 *
 *   A chunk is written whole, so a program that writes a few bytes at a time would write each chunk
 *   thousands of times.  So the second small write into one chunk is buffered, and those that
 *   follow: memory has the new chunk, and all readers see it.  It is written to the store
 *   (file_write_back) together with the first write elsewhere in the file, when a descriptor is
 *   closed or synced, before anything else changes the file, and in any case within half a second
 *   (tree_write_times).  Until then the node's size is that of the store, so a commit of the node
 *   for other reasons never has a size without its bytes; file_size() is the size that is shown.
 *
 *   Beside other mounts nothing is buffered, since they would not see it.  What was buffered when
 *   another mount came is laid over what that has written into the chunk.
 *
 *   The first write into a chunk is committed, so that a full store fails that write.  Writing back
 *   may use the store's reserve, which is larger than all that is buffered at a time
 *   (BUFFERED_MAX): so it does not fail later.
 */

#include <errno.h>
#include <unistd.h>

#include "fs/content/file.h"
#include "fs/content/kind.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"

enum { BUFFERED_MAX = 8 }; /* files at a time */

/* One chunk of a file. */
struct buffered {
	int64_t chunk;
	size_t size;   /* bytes of it */
	size_t stored; /* so many of these are in the store */
	size_t from;   /* the written bytes begin here, */
	size_t to;     /* and end here */
	char data[BACKEND_CHUNK];
};

static struct bytes buffered_bytes(const struct buffered *buffered)
{
	return bytes_make(buffered->data, buffered->size);
}

static uint64_t buffered_start(const struct buffered *buffered)
{
	return (uint64_t)buffered->chunk * BACKEND_CHUNK;
}

uint64_t file_size(const struct inode *inode)
{
	const struct buffered *buffered = inode->buffered;

	/* Another mount may have cut off what was not written here. */
	if (!buffered || !buffered->to)
		return inode->node.size;
	return MAX(inode->node.size, buffered_start(buffered) + buffered->to);
}

struct reading {
	uint64_t offset;
	size_t size;
	char *out;
};

static int read_chunk(void *arg, int64_t chunk, struct bytes data)
{
	struct reading *reading = arg;
	uint64_t start = (uint64_t)chunk * BACKEND_CHUNK;
	uint64_t from = MAX(start, reading->offset);
	uint64_t to = MIN(start + data.size, reading->offset + reading->size);

	if (from < to)
		memcpy(reading->out + (from - reading->offset), data.data + (from - start),
		       to - from);
	return 0;
}

static int file_read(struct view *view, struct inode *inode, struct handle *handle, uint64_t offset,
		     size_t size, struct buf *out)
{
	const struct buffered *buffered = inode->buffered;
	struct reading reading = { .offset = offset };
	uint64_t end = file_size(inode);
	int r;

	(void)handle;
	if (offset >= end || !size)
		return 0;
	reading.size = MIN(size, end - offset);
	r = buf_append_zeros(out, reading.size);
	if (r < 0)
		return r;
	reading.out = out->data + out->size - reading.size;
	r = ASK(view, chunk_read, inode->node.ino, (int64_t)(offset / BACKEND_CHUNK),
		(int64_t)((offset + reading.size - 1) / BACKEND_CHUNK), read_chunk, &reading);
	if (r == 0 && buffered)
		r = read_chunk(&reading, buffered->chunk, buffered_bytes(buffered));
	if (r < 0)
		out->size -= reading.size;
	return r;
}

struct staging {
	struct stage *stage;
	uint64_t size;
	uint64_t max_hole;
};

/* Content that is too long for the store can never be published, so it is not staged. */
static int stage_hole(const struct staging *staging, uint64_t end)
{
	return end > staging->stage->size && end - staging->stage->size > staging->max_hole ?
		       -EFBIG :
		       0;
}

static int stage_chunk(void *arg, int64_t chunk, struct bytes data)
{
	const struct staging *staging = arg;
	uint64_t start = (uint64_t)chunk * BACKEND_CHUNK;
	int r;

	if (start >= staging->size)
		return 1;
	r = stage_hole(staging, start);
	if (r == 0)
		r = stage_write(staging->stage, start,
				bytes_make(data.data, MIN(data.size, staging->size - start)));
	return r;
}

/* Holes stay holes: a damaged store may say any size. */
static int file_to_stage(struct view *view, struct inode *inode, struct stage *stage)
{
	const struct buffered *buffered = inode->buffered;
	struct staging staging = {
		.stage = stage,
		.size = file_size(inode),
		.max_hole = view->backend->max_item,
	};
	const struct buf *whole = view_whole(view, inode->node.ino);
	int r;

	if (whole)
		r = stage_chunk(&staging, 0, buf_bytes(whole));
	else
		r = ASK(view, chunk_read, inode->node.ino, 0, INT64_MAX / BACKEND_CHUNK,
			stage_chunk, &staging);

	if (r >= 0 && buffered)
		r = stage_chunk(&staging, buffered->chunk, buffered_bytes(buffered));
	if (r >= 0)
		r = stage_hole(&staging, staging.size);
	if (r >= 0 && stage->size != staging.size)
		r = stage_truncate(stage, staging.size);
	return MIN(r, 0);
}

static int keep_chunk(void *arg, int64_t chunk, struct bytes data)
{
	struct buf *buf = arg;

	(void)chunk;
	return buf_append_bytes(buf, data);
}

int chunk_load(struct view *view, uint64_t ino, int64_t chunk, struct buf *data)
{
	return ASK(view, chunk_read, ino, chunk, chunk, keep_chunk, data);
}

int chunk_overlay(struct tree *tree, uint64_t ino, int64_t chunk, size_t at, struct bytes data,
		  unsigned flags, struct batch *batch)
{
	_cleanup_(buf_done) struct buf merged = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	r = view_begin(tree, flags, &view);
	if (r == 0)
		r = chunk_load(&view, ino, chunk, &merged);
	if (r == 0 && merged.size < at + data.size)
		r = buf_append_zeros(&merged, at + data.size - merged.size);
	if (r < 0)
		return r;
	memcpy(merged.data + at, data.data, data.size);
	batch_chunk_put(batch, ino, chunk, batch_keep(batch, buf_bytes(&merged)));
	return batch->error;
}

static int file_write_batch(struct tree *tree, struct inode *inode, uint64_t offset,
			    struct bytes data, struct batch *batch)
{
	while (data.size) {
		int64_t chunk = (int64_t)(offset / BACKEND_CHUNK);
		size_t at = offset % BACKEND_CHUNK;
		size_t part = MIN(data.size, BACKEND_CHUNK - at);
		struct bytes here = bytes_make(data.data, part);
		bool whole =
			at == 0 && (part == BACKEND_CHUNK || offset + part >= inode->node.size);
		int r = 0;

		if (whole)
			batch_chunk_put(batch, inode->node.ino, chunk, here);
		else
			r = chunk_overlay(tree, inode->node.ino, chunk, at, here, 0, batch);
		if (r < 0)
			return r;
		offset += part;
		data = bytes_make(data.data + part, data.size - part);
	}
	return batch->error;
}

struct span span_of(uint64_t offset, uint64_t end)
{
	return (struct span){
		.first = (int64_t)(offset / BACKEND_CHUNK),
		.last = (int64_t)((end - 1) / BACKEND_CHUNK),
	};
}

static int add_size(void *arg, int64_t chunk, size_t size)
{
	(void)chunk;
	*(uint64_t *)arg += size;
	return 0;
}

static int stored_in(struct view *view, uint64_t ino, struct span span, uint64_t *ret_stored)
{
	*ret_stored = 0;
	return backend_chunk_list(view->backend, view->snapshot, ino, span.first, span.last,
				  add_size, ret_stored);
}

int stored_now(struct tree *tree, uint64_t ino, struct span span, uint64_t *ret_stored)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, 0, &view);

	return r < 0 ? r : stored_in(&view, ino, span, ret_stored);
}

int file_stored(struct view *view, struct inode *inode, uint64_t *ret_stored)
{
	const struct span all = { 0, INT64_MAX };
	int r = 0;

	if (!inode->stored_known)
		r = stored_in(view, inode->node.ino, all, &inode->stored);
	if (r < 0)
		return r;
	inode->stored_known = true;
	*ret_stored = inode->stored;
	if (inode->buffered)
		*ret_stored += inode->buffered->size - inode->buffered->stored;
	return 0;
}

int file_commit(struct tree *tree, struct inode *inode, const struct backend_node *node,
		struct span span, struct batch *batch, unsigned flags)
{
	bool known = inode->stored_known;
	uint64_t before = 0, after;
	int r;

	inode->stored_known = false;
	if (known)
		known = stored_now(tree, node->ino, span, &before) == 0;
	r = tree_commit_file(tree, inode, batch, flags);
	if (r < 0)
		return r;
	inode->node = *node;
	inode->stored_known = false; /* a reader may have cached the value from before */
	if (known && stored_now(tree, node->ino, span, &after) == 0) {
		inode->stored += after - before;
		inode->stored_known = true;
	}
	return 0;
}

/* ---- buffered writes ---- */

static void buffered_drop(struct tree *tree, struct inode *inode)
{
	inode->written_chunk = -1;
	if (!inode->buffered)
		return;
	free(inode->buffered);
	inode->buffered = NULL;
	inode->held = 0;
	tree->buffered--;
}

static int buffered_emit(struct tree *tree, const struct inode *inode, struct batch *batch)
{
	const struct buffered *buffered = inode->buffered;
	const size_t from = buffered->from;

	/* The write for which it was begun was refused. */
	if (!buffered->to)
		return 0;
	if (backend_is_shared(tree->backend))
		return chunk_overlay(tree, inode->node.ino, buffered->chunk, from,
				     bytes_make(buffered->data + from, buffered->to - from),
				     BACKEND_ANYWAY, batch);
	batch_chunk_put(batch, inode->node.ino, buffered->chunk, buffered_bytes(buffered));
	return batch->error;
}

/* With what is buffered. */
static int commit_buffered(struct tree *tree, struct inode *inode, const struct backend_node *node,
			   struct span span, struct batch *batch, unsigned flags)
{
	const bool held = inode->held;
	int r;

	if (held)
		quota_storing(tree);
	r = file_commit(tree, inode, node, span, batch, flags);
	if (r == 0)
		buffered_drop(tree, inode);
	if (held)
		quota_stored(tree);
	return r;
}

int file_write_back(struct tree *tree, struct inode *inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node;
	uint64_t start;
	int r;

	if (!inode->buffered || inode->gone) {
		buffered_drop(tree, inode);
		return 0;
	}
	start = buffered_start(inode->buffered);
	node.size = file_size(inode);
	r = buffered_emit(tree, inode, &batch);
	if (r < 0)
		return r;
	batch_node_put(&batch, &node);
	return commit_buffered(tree, inode, &node, span_of(start, start + 1), &batch,
			       BACKEND_ANYWAY | BACKEND_FREES);
}

/* Begin to buffer writes into the chunk that was written last: 1, or 0 when nothing can be
 * buffered, or -errno. */
static int buffered_begin(struct tree *tree, struct inode *inode, int64_t chunk)
{
	_cleanup_(buf_done) struct buf data = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct buffered *buffered;
	int r;

	if (backend_is_shared(tree->backend))
		return 0;
	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = chunk_load(&view, inode->node.ino, chunk, &data);
	if (r < 0)
		return r;
	if (data.size > BACKEND_CHUNK)
		return -EIO;
	buffered = tree->buffered < BUFFERED_MAX ? malloc(sizeof(*buffered)) : NULL;
	if (!buffered)
		return 0;
	tree->buffered++;
	buffered->chunk = chunk;
	buffered->size = buffered->stored = data.size;
	buffered->from = buffered->to = 0;
	memcpy(buffered->data, data.data, data.size);
	inode->buffered = buffered;
	return 1;
}

static void buffered_write(struct tree *tree, struct inode *inode, uint64_t offset,
			   struct bytes data)
{
	struct buffered *buffered = inode->buffered;
	size_t at = offset % BACKEND_CHUNK;

	if (at > buffered->size)
		memset(buffered->data + buffered->size, 0, at - buffered->size);
	memcpy(buffered->data + at, data.data, data.size);
	buffered->from = buffered->to ? MIN(buffered->from, at) : at;
	buffered->to = MAX(buffered->to, at + data.size);
	buffered->size = MAX(buffered->size, at + data.size);
	inode->node.mtime = inode->node.ctime = time_now();
	inode_times_dirty(tree, inode);
}

/* Whether to buffer a write: 1, 0, or -errno. */
static int buffered_fits(struct tree *tree, struct inode *inode, uint64_t offset, size_t size)
{
	int64_t chunk = (int64_t)(offset / BACKEND_CHUNK);

	/* A hole before it is noted in the node. */
	if (offset % BACKEND_CHUNK + size > BACKEND_CHUNK || offset > file_size(inode))
		return 0;
	if (inode->buffered)
		return inode->buffered->chunk == chunk && !backend_is_shared(tree->backend);
	if (inode->written_chunk != chunk || inode->gone)
		return 0;
	return buffered_begin(tree, inode, chunk);
}

static int write_through(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node;
	uint64_t size = file_size(inode), end = offset + data.size;
	struct span span = span_of(offset, end);
	int r = 0;

	if (inode->buffered) {
		r = buffered_emit(tree, inode, &batch);
		span.first = MIN(span.first, inode->buffered->chunk);
		span.last = MAX(span.last, inode->buffered->chunk);
	}
	if (r == 0)
		r = file_write_batch(tree, inode, offset, data, &batch);
	if (r < 0)
		return r;
	if (offset > size)
		node.flags |= BACKEND_SPARSE;
	node.size = MAX(size, end);
	node.mtime = node.ctime = time_now();
	/* Beside other mounts the times are written at once. */
	if (node.size != inode->node.size || backend_is_shared(tree->backend))
		batch_node_put(&batch, &node);
	else
		inode_times_dirty(tree, inode);
	quota_grows(inode, (int64_t)(node.size - size), &batch);
	r = commit_buffered(tree, inode, &node, span, &batch, 0);
	if (r < 0)
		return r;
	inode->written_chunk = (int64_t)((end - 1) / BACKEND_CHUNK);
	return 0;
}

static int file_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	const struct span span = span_of(offset, offset + data.size);
	int r;

	if (offset + data.size > INT64_MAX || offset + data.size < offset)
		return -EFBIG;
	if (!data.size)
		return 0;
	r = buffered_fits(tree, inode, offset, data.size);
	if (r < 0)
		return r;
	if (r) {
		const uint64_t size = file_size(inode), end = offset + data.size;

		r = end > size ? quota_charge(tree, inode, (int64_t)(end - size)) : 0;
		if (r == 0)
			buffered_write(tree, inode, offset, data);
		return r;
	}
	/* Its chunk is laid over what the store has. */
	if (inode->buffered && inode->buffered->chunk >= span.first &&
	    inode->buffered->chunk <= span.last) {
		r = file_write_back(tree, inode);
		if (r < 0)
			return r;
	}
	return write_through(tree, inode, offset, data);
}

const struct content_kind content_chunks = {
	.size = file_size,
	.read = file_read,
	.to_stage = file_to_stage,
	.write = file_write,
};
