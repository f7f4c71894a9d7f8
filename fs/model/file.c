/* SPDX-License-Identifier: MIT */

/*
 * Ordinary files, and drafts of state files: bytes in chunks of BACKEND_CHUNK.
 *
 * A chunk holds the bytes that were written, up to its last one; bytes behind it, and chunks that
 * do not exist, are holes.  The node's size is exact.  Invariant: no stored byte lies at or behind
 * the size, so that a file that grows again shows zeros.
 *
 * Held bytes
 *
 *   A chunk is written whole, so a program that writes a few bytes at a time would write each chunk
 *   thousands of times.  So the second small write into one chunk is held back, and those that
 *   follow: in memory is the chunk as it shall be, for everybody who reads the file.  It is put
 *   into the store (file_settle) together with the first write elsewhere in the file, when a
 *   descriptor is closed or synced, before anything else changes the file, and in any case within
 *   half a second (tree_write_times).  Until then the node's size is that of the store, so whoever
 *   commits the node for other reasons never commits a size without its bytes; file_size() is what
 *   everybody sees.
 *
 *   The first write into a chunk is committed, so that a full store is told to who writes.  What is
 *   held may use what the store keeps in reserve, which is larger than all that is held at a time
 *   (HELD_MAX): so it is not refused later.
 *
 *   What is held lies in memory that outlives a kill (backend_ops.keep), so a write that was
 *   answered is never lost by one: the next mount puts it into the store (files_recover).  There it
 *   is compared with the chunk that it was laid over; if that is another by now, somebody has put
 *   another store there.  Without such memory nothing is held.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "fs/model/internal.h"
#include "fs/model/kept.h"
#include "src/base/log.h"

static struct bytes held_bytes(const struct held *held)
{
	return bytes_make(held->data, held->size);
}

static uint64_t held_start(const struct held *held)
{
	return (uint64_t)held->chunk * BACKEND_CHUNK;
}

uint64_t file_size(const struct inode *inode)
{
	const struct held *held = inode->held;

	if (!held)
		return inode->node.size;
	return MAX(inode->node.size, held_start(held) + held->size);
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

int file_read(struct view *view, const struct inode *inode, uint64_t offset, size_t size,
	      struct buf *out)
{
	const struct held *held = inode->held;
	struct reading reading = { .offset = offset };
	uint64_t end = file_size(inode);
	int r;

	if (offset >= end || !size)
		return 0;
	reading.size = MIN(size, end - offset);
	r = buf_append_zeros(out, reading.size);
	if (r < 0)
		return r;
	reading.out = out->data + out->size - reading.size;
	r = view->backend->ops->chunk_read(view->backend, view->snapshot, inode->node.ino,
					   (int64_t)(offset / BACKEND_CHUNK),
					   (int64_t)((offset + reading.size - 1) / BACKEND_CHUNK),
					   read_chunk, &reading);
	if (r == 0 && held)
		r = read_chunk(&reading, held->chunk, held_bytes(held));
	if (r < 0)
		out->size -= reading.size;
	return r;
}

struct staging {
	struct stage *stage;
	uint64_t size;
};

static int stage_chunk(void *arg, int64_t chunk, struct bytes data)
{
	const struct staging *staging = arg;
	uint64_t start = (uint64_t)chunk * BACKEND_CHUNK;

	if (start >= staging->size)
		return 1;
	return stage_write(staging->stage, start,
			   bytes_make(data.data, MIN(data.size, staging->size - start)));
}

int file_to_stage(struct view *view, const struct inode *inode, struct stage *stage)
{
	const struct held *held = inode->held;
	struct staging staging = { .stage = stage, .size = file_size(inode) };
	int r = view->backend->ops->chunk_read(view->backend, view->snapshot, inode->node.ino, 0,
					       INT64_MAX / BACKEND_CHUNK, stage_chunk, &staging);

	if (r >= 0 && held)
		r = stage_chunk(&staging, held->chunk, held_bytes(held));
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

/* What a chunk holds, without the hole at its end. */
static int chunk_load(struct view *view, uint64_t ino, int64_t chunk, struct buf *data)
{
	return view->backend->ops->chunk_read(view->backend, view->snapshot, ino, chunk, chunk,
					      keep_chunk, data);
}

/* Lay bytes over a chunk's present content. */
static int chunk_overlay(struct tree *tree, uint64_t ino, int64_t chunk, size_t at,
			 struct bytes data, struct batch *batch)
{
	_cleanup_(buf_done) struct buf merged = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	r = view_begin(tree, 0, &view);
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
			r = chunk_overlay(tree, inode->node.ino, chunk, at, here, batch);
		if (r < 0)
			return r;
		offset += part;
		data = bytes_make(data.data + part, data.size - part);
	}
	return batch->error;
}

struct span {
	int64_t first;
	int64_t last;
};

static struct span span_of(uint64_t offset, uint64_t end)
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
	return view->backend->ops->chunk_list(view->backend, view->snapshot, ino, span.first,
					      span.last, add_size, ret_stored);
}

static int stored_now(struct tree *tree, uint64_t ino, struct span span, uint64_t *ret_stored)
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
	if (inode->held)
		*ret_stored += inode->held->size - inode->held->stored;
	return 0;
}

/* Commit what changes the chunks of a span, and the node.  What is stored of a file with holes is
 * counted once; afterwards only what changes is. */
static int file_commit(struct tree *tree, struct inode *inode, const struct backend_node *node,
		       struct span span, struct batch *batch, unsigned flags)
{
	bool known = inode->stored_known;
	uint64_t before = 0, after;
	int r;

	inode->stored_known = false;
	if (known)
		known = stored_now(tree, node->ino, span, &before) == 0;
	r = batch_commit(batch, tree->backend, flags);
	if (r < 0)
		return r;
	inode->node = *node;
	if (known && stored_now(tree, node->ino, span, &after) == 0) {
		inode->stored += after - before;
		inode->stored_known = true;
	}
	return 0;
}

/* ---- held bytes ---- */

static void base_digest(struct bytes data, uint8_t digest[DIGEST_SIZE])
{
	static const uint8_t key[16];

	digest_make(key, data, digest);
}

struct kept *kept_open(struct tree *tree, bool make)
{
	const struct backend_ops *ops = tree->backend->ops;
	void *memory = NULL;
	int r = -EOPNOTSUPP;

	pthread_mutex_lock(&tree->kept_lock);
	if (!tree->kept && !tree->kept_never) {
		if (ops->keep)
			r = ops->keep(tree->backend, make, sizeof(struct kept), &memory);
		tree->kept = memory;
		tree->kept_never = r < 0 && r != -ENOENT;
	}
	pthread_mutex_unlock(&tree->kept_lock);
	return tree->kept;
}

void kept_leave(struct tree *tree, int error)
{
	/* No reason not to mount, on a full disk for instance. */
	log_error("what was done before sessfs was killed is not taken in yet: %s",
		  strerror(-error));
	tree->kept = NULL;
	tree->kept_never = true;
}

/* A place that nobody uses; NULL: none. */
static struct held *held_take(struct tree *tree)
{
	struct kept *kept = kept_open(tree, true);
	struct held *found = NULL;

	pthread_mutex_lock(&tree->kept_lock);
	for (size_t i = 0; kept && !found && i < HELD_MAX; i++)
		if (!(tree->held_used & 1u << i)) {
			tree->held_used |= 1u << i;
			found = &kept->held[i];
		}
	pthread_mutex_unlock(&tree->kept_lock);
	return found;
}

static void held_give(struct tree *tree, struct held *held)
{
	held->ready = 0;
	pthread_mutex_lock(&tree->kept_lock);
	tree->held_used &= ~(1u << (held - tree->kept->held));
	pthread_mutex_unlock(&tree->kept_lock);
}

static void held_drop(struct tree *tree, struct inode *inode)
{
	struct held *held = steal_ptr(inode->held);

	inode->written_chunk = -1;
	if (held)
		held_give(tree, held);
}

static void held_emit(const struct inode *inode, struct batch *batch)
{
	const struct held *held = inode->held;

	batch_chunk_put(batch, inode->node.ino, held->chunk, held_bytes(held));
}

int file_settle(struct tree *tree, struct inode *inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node;
	uint64_t start;
	int r;

	if (!inode->held || inode->gone) {
		held_drop(tree, inode);
		return 0;
	}
	start = held_start(inode->held);
	node.size = file_size(inode);
	held_emit(inode, &batch);
	batch_node_put(&batch, &node);
	r = file_commit(tree, inode, &node, span_of(start, start + 1), &batch,
			BACKEND_ANYWAY | BACKEND_FREES);
	if (r == 0)
		held_drop(tree, inode);
	return r;
}

static int held_load(struct tree *tree, uint64_t ino, struct held *held)
{
	_cleanup_(buf_done) struct buf data = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	int r;

	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = chunk_load(&view, ino, held->chunk, &data);
	if (r < 0)
		return r;
	if (data.size > sizeof(held->data))
		return -EIO;
	memcpy(held->data, data.data, data.size);
	base_digest(buf_bytes(&data), held->base);
	held->ino = ino;
	held->size = held->stored = (uint32_t)data.size;
	held->ready = 1;
	return 0;
}

/* Hold back what is written into the chunk that was written last, from now on: 1, or 0 when nothing
 * can be held, or -errno. */
static int held_begin(struct tree *tree, struct inode *inode, int64_t chunk)
{
	struct held *held = held_take(tree);
	int r;

	if (!held)
		return 0;
	held->chunk = chunk;
	r = held_load(tree, inode->node.ino, held);
	if (r < 0) {
		held_give(tree, held);
		return r;
	}
	inode->held = held;
	return 1;
}

static void held_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	struct held *held = inode->held;
	size_t at = offset % BACKEND_CHUNK;

	if (at > held->size)
		memset(held->data + held->size, 0, at - held->size);
	memcpy(held->data + at, data.data, data.size);
	/* Not before the bytes are there: we may be killed at any time. */
	atomic_signal_fence(memory_order_release);
	held->size = MAX(held->size, (uint32_t)(at + data.size));
	inode->node.mtime = inode->node.ctime = time_now();
	inode_times_dirty(tree, inode);
}

/* Whether a write is to be held back: 1, 0, or -errno. */
static int held_fits(struct tree *tree, struct inode *inode, uint64_t offset, size_t size)
{
	int64_t chunk = (int64_t)(offset / BACKEND_CHUNK);

	/* A hole before it is noted in the node. */
	if (offset % BACKEND_CHUNK + size > BACKEND_CHUNK || offset > file_size(inode))
		return 0;
	if (inode->held)
		return inode->held->chunk == chunk;
	if (inode->written_chunk != chunk || inode->gone)
		return 0;
	return held_begin(tree, inode, chunk);
}

static bool held_is_in(const struct inode *inode, uint64_t offset, size_t size)
{
	struct span span = span_of(offset, offset + size);

	return inode->held && inode->held->chunk >= span.first && inode->held->chunk <= span.last;
}

static int write_through(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct backend_node node = inode->node;
	uint64_t size = file_size(inode), end = offset + data.size;
	struct span span = span_of(offset, end);
	int r;

	if (inode->held) {
		held_emit(inode, &batch);
		span.first = MIN(span.first, inode->held->chunk);
		span.last = MAX(span.last, inode->held->chunk);
	}
	r = file_write_batch(tree, inode, offset, data, &batch);
	if (r < 0)
		return r;
	if (offset > size)
		node.flags |= BACKEND_SPARSE;
	node.size = MAX(size, end);
	node.mtime = node.ctime = time_now();
	if (node.size != inode->node.size)
		batch_node_put(&batch, &node);
	else
		inode_times_dirty(tree, inode);
	r = file_commit(tree, inode, &node, span, &batch, 0);
	if (r < 0)
		return r;
	held_drop(tree, inode);
	inode->written_chunk = (int64_t)((end - 1) / BACKEND_CHUNK);
	return 0;
}

int file_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	int r;

	if (offset + data.size > INT64_MAX || offset + data.size < offset)
		return -EFBIG;
	if (!data.size)
		return 0;
	r = held_fits(tree, inode, offset, data.size);
	if (r < 0)
		return r;
	if (r) {
		held_write(tree, inode, offset, data);
		return 0;
	}
	/* Its chunk is laid over what the store has. */
	if (held_is_in(inode, offset, data.size)) {
		r = file_settle(tree, inode);
		if (r < 0)
			return r;
	}
	return write_through(tree, inode, offset, data);
}

/* ---- what a killed process has held ---- */

static bool held_is_sound(const struct held *held)
{
	return held->size <= BACKEND_CHUNK && held->chunk >= 0 &&
	       held->chunk < INT64_MAX / BACKEND_CHUNK;
}

/* Whether the store has what the bytes were laid over: 1; 0 when it has something else, also the
 * bytes themselves. */
static int held_belongs(struct tree *tree, const struct held *held)
{
	_cleanup_(buf_done) struct buf data = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	uint8_t digest[DIGEST_SIZE];
	int r;

	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = chunk_load(&view, held->ino, held->chunk, &data);
	if (r < 0)
		return r;
	if (bytes_equal(buf_bytes(&data), held_bytes(held)))
		return 0;
	base_digest(buf_bytes(&data), digest);
	if (memcmp(digest, held->base, sizeof(digest)) == 0)
		return 1;
	log_warning("what was written to inode %" PRIu64 " before sessfs was killed is not taken "
		    "in, since the file is another one now",
		    held->ino);
	return 0;
}

static int held_take_in(struct tree *tree, struct inode *inode, struct held *held)
{
	int r;

	if (inode->node.kind != BACKEND_ORDINARY || !S_ISREG(inode->node.mode))
		return 0;
	r = held_belongs(tree, held);
	if (r <= 0)
		return r;
	inode->held = held;
	inode->node.mtime = inode->node.ctime = time_now();
	r = file_settle(tree, inode);
	inode->held = NULL;
	return r;
}

static int held_recover(struct tree *tree, struct held *held)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode;
	int r;

	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0)
		r = inode_get(tree, &view, held->ino, &inode);
	view_end(&view);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* it was unlinked */
	r = held_take_in(tree, inode, held);
	inode_forget(tree, inode, 1);
	return r;
}

void files_recover(struct tree *tree)
{
	struct kept *kept = kept_open(tree, false);
	int r = 0;

	for (size_t i = 0; kept && r == 0 && i < HELD_MAX; i++)
		if (kept->held[i].ready && held_is_sound(&kept->held[i]))
			r = held_recover(tree, &kept->held[i]);
	if (r < 0)
		kept_leave(tree, r);
	else
		files_forget(tree);
}

void files_forget(struct tree *tree)
{
	if (tree->kept && !tree->held_used)
		memset(tree->kept->held, 0, sizeof(tree->kept->held));
}

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
	return file_commit(tree, inode, &node, span_of(size, INT64_MAX), &batch,
			   size < inode->node.size ? BACKEND_FREES : 0);
}

int file_truncate(struct tree *tree, struct inode *inode, uint64_t size)
{
	int r;

	if (size > INT64_MAX)
		return -EFBIG;
	r = file_settle(tree, inode);
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
		r = chunk_overlay(tree, inode->node.ino, chunk, at, bytes_make(zeros, part), batch);
		if (r < 0)
			return r;
		offset += part;
	}
	if (first <= last)
		batch_chunk_delete(batch, inode->node.ino, first, last);
	return batch->error;
}

/* Room is not set aside, but what there is no room for at all is not promised either. */
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
	r = file_settle(tree, inode);
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
	int r = file_settle(tree, inode);

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
		r = view.backend->ops->chunk_list(view.backend, view.snapshot, inode->node.ino,
						  (int64_t)(offset / BACKEND_CHUNK), INT64_MAX,
						  seek_chunk, &seeking);
	if (r < 0)
		return r;
	if (whence == SEEK_DATA && (!seeking.found || seeking.offset >= inode->node.size))
		return -ENXIO;
	*ret_offset = MIN(seeking.offset, inode->node.size);
	return 0;
}
