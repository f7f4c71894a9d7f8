/* SPDX-License-Identifier: MIT */
#include "backend/fault/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct fault {
	struct backend backend; /* must be first */
	struct backend *inner;
	pthread_mutex_t lock; /* of what follows */
	uint64_t calls;
	uint64_t at; /* the call that fails; 0: none */
	int error;
	bool lasting;
};

static struct fault *fault_of(struct backend *backend)
{
	return (struct fault *)backend;
}

/* Count a call; the error that it is to fail with, or 0. */
static int strike(struct backend *backend)
{
	struct fault *fault = fault_of(backend);
	bool hit;

	pthread_mutex_lock(&fault->lock);
	fault->calls++;
	hit = fault->at &&
	      (fault->calls == fault->at || (fault->lasting && fault->calls > fault->at));
	pthread_mutex_unlock(&fault->lock);
	return hit ? fault->error : 0;
}

void fault_backend_set(struct backend *backend, uint64_t count, int error, bool lasting)
{
	struct fault *fault = fault_of(backend);

	pthread_mutex_lock(&fault->lock);
	fault->calls = 0;
	fault->at = count;
	fault->error = error;
	fault->lasting = lasting;
	pthread_mutex_unlock(&fault->lock);
}

uint64_t fault_backend_calls(struct backend *backend)
{
	struct fault *fault = fault_of(backend);
	uint64_t calls;

	pthread_mutex_lock(&fault->lock);
	calls = fault->calls;
	pthread_mutex_unlock(&fault->lock);
	return calls;
}

static void fault_close(struct backend *backend)
{
	struct fault *fault = fault_of(backend);

	backend_close(fault->inner);
	pthread_mutex_destroy(&fault->lock);
	free(fault);
}

static void fault_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct backend *inner = fault_of(backend)->inner;

	inner->ops->snapshot_end(inner, snapshot);
}

static void fault_wake(struct backend *backend)
{
	struct backend *inner = fault_of(backend)->inner;

	inner->ops->wake(inner);
}

static int fault_snapshot_begin(struct backend *backend, unsigned flags,
				struct backend_snapshot **ret_snapshot)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->snapshot_begin(inner, flags, ret_snapshot);
}

static int fault_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  struct backend_node *ret_node)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->node_get(inner, snapshot, ino, ret_node);
}

static int fault_node_find(struct backend *backend, struct backend_snapshot *snapshot,
			   struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->node_find(inner, snapshot, session, key, ret_node);
}

static int fault_node_list(struct backend *backend, struct backend_snapshot *snapshot,
			   uint64_t after, bool orphans_only, backend_node_fn *fn, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->node_list(inner, snapshot, after, orphans_only, fn, arg);
}

static int fault_entry_find(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, struct bytes name, uint64_t *ret_id,
			    struct backend_node *ret_node)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->entry_find(inner, snapshot, parent, name, ret_id, ret_node);
}

static int fault_entry_name(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, uint64_t id, struct buf *name)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->entry_name(inner, snapshot, parent, id, name);
}

static int fault_entry_list(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, uint64_t after, backend_entry_fn *fn, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->entry_list(inner, snapshot, parent, after, fn, arg);
}

static int fault_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   struct bytes name, struct buf *value)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->xattr_get(inner, snapshot, ino, name, value);
}

static int fault_xattr_list(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, backend_name_fn *fn, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->xattr_list(inner, snapshot, ino, fn, arg);
}

static int fault_chunk_read(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, int64_t first, int64_t last, backend_chunk_fn *fn,
			    void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->chunk_read(inner, snapshot, ino, first, last, fn, arg);
}

static int fault_chunk_list(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, int64_t first, int64_t last, backend_chunk_size_fn *fn,
			    void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->chunk_list(inner, snapshot, ino, first, last, fn, arg);
}

static int fault_row_read(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
			  void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->row_read(inner, snapshot, session, key, first, fn, arg);
}

static int fault_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->key_stat(inner, snapshot, session, key, ret_stat);
}

static int fault_key_list(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
			  void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->key_list(inner, snapshot, after_session, after_key, fn, arg);
}

static int fault_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			      backend_session_fn *fn, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->session_list(inner, snapshot, fn, arg);
}

static int fault_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			      struct bytes session, struct backend_session_stat *ret_stat)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->session_stat(inner, snapshot, session, ret_stat);
}

static int fault_day_list(struct backend *backend, struct backend_snapshot *snapshot,
			  backend_day_fn *fn, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->day_list(inner, snapshot, fn, arg);
}

static int fault_piece_read(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, int64_t first, int64_t first_seq, backend_piece_fn *fn,
			    void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->piece_read(inner, snapshot, ino, first, first_seq, fn, arg);
}

static int fault_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   uint64_t offset, struct backend_mark *ret_mark)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->mark_find(inner, snapshot, ino, offset, ret_mark);
}

static int fault_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot,
				 uint64_t ino, int64_t index, struct backend_mark *ret_mark)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->mark_find_index(inner, snapshot, ino, index, ret_mark);
}

static int fault_last_ids(struct backend *backend, struct backend_snapshot *snapshot,
			  uint64_t *ret_ino, uint64_t *ret_entry)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->last_ids(inner, snapshot, ret_ino, ret_entry);
}

static int fault_change_list(struct backend *backend, struct backend_snapshot *snapshot,
			     backend_change_fn *fn, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->change_list(inner, snapshot, fn, arg);
}

static int fault_change_wait(struct backend *backend, int timeout_ms)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->change_wait(inner, timeout_ms);
}

static int fault_sync(struct backend *backend)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->sync(inner);
}

static int fault_keep(struct backend *backend, bool make, size_t size, void **ret_memory)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	if (r == 0 && !inner->ops->keep)
		r = -EOPNOTSUPP;
	return r < 0 ? r : inner->ops->keep(inner, make, size, ret_memory);
}

static int fault_space(struct backend *backend, struct backend_space *ret_space)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->space(inner, ret_space);
}

static int fault_check(struct backend *backend, backend_report_fn *report, void *arg)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->check(inner, report, arg);
}

static int fault_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct backend *inner = fault_of(backend)->inner;
	int r = strike(backend);

	return r < 0 ? r : inner->ops->commit(inner, batch, flags);
}

static const struct backend_ops fault_ops = {
	.name = "fault",
	.close = fault_close,
	.snapshot_begin = fault_snapshot_begin,
	.snapshot_end = fault_snapshot_end,
	.node_get = fault_node_get,
	.node_find = fault_node_find,
	.node_list = fault_node_list,
	.entry_find = fault_entry_find,
	.entry_name = fault_entry_name,
	.entry_list = fault_entry_list,
	.xattr_get = fault_xattr_get,
	.xattr_list = fault_xattr_list,
	.chunk_read = fault_chunk_read,
	.chunk_list = fault_chunk_list,
	.row_read = fault_row_read,
	.key_stat = fault_key_stat,
	.key_list = fault_key_list,
	.session_list = fault_session_list,
	.session_stat = fault_session_stat,
	.day_list = fault_day_list,
	.piece_read = fault_piece_read,
	.mark_find = fault_mark_find,
	.mark_find_index = fault_mark_find_index,
	.last_ids = fault_last_ids,
	.change_list = fault_change_list,
	.change_wait = fault_change_wait,
	.wake = fault_wake,
	.commit = fault_commit,
	.sync = fault_sync,
	.keep = fault_keep,
	.space = fault_space,
	.check = fault_check,
};

int fault_backend_open(struct backend *inner, struct backend **ret_backend)
{
	struct fault *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return -ENOMEM;
	fault->backend = *inner;
	fault->backend.ops = &fault_ops;
	fault->inner = inner;
	pthread_mutex_init(&fault->lock, NULL);
	*ret_backend = &fault->backend;
	return 0;
}
