/* SPDX-License-Identifier: MIT */
#include "backend/trace/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"

struct trace {
	struct backend backend; /* must be first */
	struct backend *inner;
};

static struct backend *inner_of(struct backend *backend)
{
	return ((struct trace *)backend)->inner;
}

/* For "%.*s": the log wants to be read, so long names are cut. */
enum { SHOWN_MAX = 80 };
#define SHOWN(bytes) (int)MIN((bytes).size, (size_t)SHOWN_MAX), (bytes).data ? (bytes).data : ""

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Returns result, so that it can stand behind return. */
static int tell(int64_t start, int result, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int tell(int64_t start, int result, const char *format, ...)
{
	int64_t took = now() - start;
	char call[512];
	va_list args;

	va_start(args, format);
	vsnprintf(call, sizeof(call), format, args);
	va_end(args);
	log_debug("store: %s = %d%s%s in %lld us", call, result, result < 0 ? " " : "",
		  result < 0 ? strerrorname_np(-result) : "", (long long)(took / 1000));
	return result;
}

static void trace_close(struct backend *backend)
{
	log_debug("store: close");
	backend_close(inner_of(backend));
	free(backend);
}

static int trace_snapshot_begin(struct backend *backend, unsigned flags,
				struct backend_snapshot **ret_snapshot)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->snapshot_begin(inner, flags, ret_snapshot);

	return tell(start, r, "snapshot-begin%s", flags & BACKEND_ANYWAY ? " anyway" : "");
}

static void trace_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct backend *inner = inner_of(backend);

	inner->ops->snapshot_end(inner, snapshot);
	log_debug("store: snapshot-end");
}

static void trace_wake(struct backend *backend)
{
	struct backend *inner = inner_of(backend);

	log_debug("store: wake");
	inner->ops->wake(inner);
}

static int trace_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct backend *inner = inner_of(backend);
	size_t count = batch->count;
	int64_t start = now();
	int r;

	for (size_t i = 0; i < count; i++) {
		const struct backend_op *op = &batch->ops[i];

		log_debug("store: %s ino=%llu parent=%llu at=%lld to=%lld session=%.*s key=%.*s "
			  "name=%.*s bytes=%zu",
			  backend_op_name(op->type),
			  (unsigned long long)(op->node ? op->node->ino : op->ino),
			  (unsigned long long)op->parent, (long long)op->at, (long long)op->to,
			  SHOWN(op->session), SHOWN(op->key), SHOWN(op->name), op->data.size);
	}
	r = inner->ops->commit(inner, batch, flags);
	return tell(start, r, "commit of %zu operations%s%s", count, batch->more ? " and more" : "",
		    flags & BACKEND_ANYWAY ? " anyway" : "");
}

static int trace_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  struct backend_node *ret_node)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->node_get(inner, snapshot, ino, ret_node);

	return tell(start, r, "node-get %llu", (unsigned long long)ino);
}

static int trace_node_find(struct backend *backend, struct backend_snapshot *snapshot,
			   struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->node_find(inner, snapshot, session, key, ret_node);

	return tell(start, r, "node-find %.*s %.*s", SHOWN(session), SHOWN(key));
}

static int trace_node_list(struct backend *backend, struct backend_snapshot *snapshot,
			   uint64_t after, bool orphans_only, backend_node_fn *fn, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->node_list(inner, snapshot, after, orphans_only, fn, arg);

	return tell(start, r, "node-list %s after %llu", orphans_only ? "orphans" : "all",
		    (unsigned long long)after);
}

static int trace_entry_find(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, struct bytes name, uint64_t *ret_id,
			    struct backend_node *ret_node)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->entry_find(inner, snapshot, parent, name, ret_id, ret_node);

	return tell(start, r, "entry-find %llu %.*s", (unsigned long long)parent, SHOWN(name));
}

static int trace_entry_name(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, uint64_t id, struct buf *name)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->entry_name(inner, snapshot, parent, id, name);

	return tell(start, r, "entry-name %llu %llu", (unsigned long long)parent,
		    (unsigned long long)id);
}

static int trace_entry_list(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, uint64_t after, backend_entry_fn *fn, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->entry_list(inner, snapshot, parent, after, fn, arg);

	return tell(start, r, "entry-list %llu after %llu", (unsigned long long)parent,
		    (unsigned long long)after);
}

static int trace_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   struct bytes name, struct buf *value)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->xattr_get(inner, snapshot, ino, name, value);

	return tell(start, r, "xattr-get %llu %.*s", (unsigned long long)ino, SHOWN(name));
}

static int trace_xattr_list(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, backend_name_fn *fn, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->xattr_list(inner, snapshot, ino, fn, arg);

	return tell(start, r, "xattr-list %llu", (unsigned long long)ino);
}

static int trace_chunk_read(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, int64_t first, int64_t last, backend_chunk_fn *fn,
			    void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->chunk_read(inner, snapshot, ino, first, last, fn, arg);

	return tell(start, r, "chunk-read %llu from %lld to %lld", (unsigned long long)ino,
		    (long long)first, (long long)last);
}

static int trace_chunk_list(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, int64_t first, int64_t last, backend_chunk_size_fn *fn,
			    void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->chunk_list(inner, snapshot, ino, first, last, fn, arg);

	return tell(start, r, "chunk-list %llu from %lld to %lld", (unsigned long long)ino,
		    (long long)first, (long long)last);
}

static int trace_row_read(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
			  void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->row_read(inner, snapshot, session, key, first, fn, arg);

	return tell(start, r, "row-read %.*s %.*s from %lld", SHOWN(session), SHOWN(key),
		    (long long)first);
}

static int trace_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->key_stat(inner, snapshot, session, key, ret_stat);

	return tell(start, r, "key-stat %.*s %.*s", SHOWN(session), SHOWN(key));
}

static int trace_key_list(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
			  void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->key_list(inner, snapshot, after_session, after_key, fn, arg);

	return tell(start, r, "key-list after %.*s %.*s", SHOWN(after_session), SHOWN(after_key));
}

static int trace_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			      backend_session_fn *fn, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->session_list(inner, snapshot, fn, arg);

	return tell(start, r, "session-list");
}

static int trace_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			      struct bytes session, struct backend_session_stat *ret_stat)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->session_stat(inner, snapshot, session, ret_stat);

	return tell(start, r, "session-stat %.*s", SHOWN(session));
}

static int trace_day_list(struct backend *backend, struct backend_snapshot *snapshot,
			  backend_day_fn *fn, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->day_list(inner, snapshot, fn, arg);

	return tell(start, r, "day-list");
}

static int trace_piece_read(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t ino, int64_t first, int64_t first_seq, backend_piece_fn *fn,
			    void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->piece_read(inner, snapshot, ino, first, first_seq, fn, arg);

	return tell(start, r, "piece-read %llu from %lld.%lld", (unsigned long long)ino,
		    (long long)first, (long long)first_seq);
}

static int trace_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   uint64_t offset, struct backend_mark *ret_mark)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->mark_find(inner, snapshot, ino, offset, ret_mark);

	return tell(start, r, "mark-find %llu at %llu", (unsigned long long)ino,
		    (unsigned long long)offset);
}

static int trace_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot,
				 uint64_t ino, int64_t index, struct backend_mark *ret_mark)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->mark_find_index(inner, snapshot, ino, index, ret_mark);

	return tell(start, r, "mark-find-index %llu at %lld", (unsigned long long)ino,
		    (long long)index);
}

static int trace_last_ids(struct backend *backend, struct backend_snapshot *snapshot,
			  uint64_t *ret_ino, uint64_t *ret_entry)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->last_ids(inner, snapshot, ret_ino, ret_entry);

	return tell(start, r, "last-ids");
}

static int trace_change_list(struct backend *backend, struct backend_snapshot *snapshot,
			     backend_change_fn *fn, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->change_list(inner, snapshot, fn, arg);

	return tell(start, r, "change-list");
}

static int trace_change_wait(struct backend *backend, int timeout_ms)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->change_wait(inner, timeout_ms);

	return tell(start, r, "change-wait %d ms", timeout_ms);
}

static int trace_sync(struct backend *backend)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->sync(inner);

	return tell(start, r, "sync");
}

static int trace_keep(struct backend *backend, bool make, size_t size, void **ret_memory)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->keep ? inner->ops->keep(inner, make, size, ret_memory) : -EOPNOTSUPP;

	return tell(start, r, "keep");
}

static int trace_space(struct backend *backend, struct backend_space *ret_space)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->space(inner, ret_space);

	return tell(start, r, "space");
}

static int trace_check(struct backend *backend, backend_report_fn *report, void *arg)
{
	struct backend *inner = inner_of(backend);
	int64_t start = now();
	int r = inner->ops->check(inner, report, arg);

	return tell(start, r, "check");
}

static const struct backend_ops trace_ops = {
	.name = "trace",
	.close = trace_close,
	.snapshot_begin = trace_snapshot_begin,
	.snapshot_end = trace_snapshot_end,
	.node_get = trace_node_get,
	.node_find = trace_node_find,
	.node_list = trace_node_list,
	.entry_find = trace_entry_find,
	.entry_name = trace_entry_name,
	.entry_list = trace_entry_list,
	.xattr_get = trace_xattr_get,
	.xattr_list = trace_xattr_list,
	.chunk_read = trace_chunk_read,
	.chunk_list = trace_chunk_list,
	.row_read = trace_row_read,
	.key_stat = trace_key_stat,
	.key_list = trace_key_list,
	.session_list = trace_session_list,
	.session_stat = trace_session_stat,
	.day_list = trace_day_list,
	.piece_read = trace_piece_read,
	.mark_find = trace_mark_find,
	.mark_find_index = trace_mark_find_index,
	.last_ids = trace_last_ids,
	.change_list = trace_change_list,
	.change_wait = trace_change_wait,
	.wake = trace_wake,
	.commit = trace_commit,
	.sync = trace_sync,
	.keep = trace_keep,
	.space = trace_space,
	.check = trace_check,
};

int trace_backend_open(struct backend *inner, struct backend **ret_backend)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return -ENOMEM;
	trace->backend = *inner;
	trace->backend.ops = &trace_ops;
	trace->inner = inner;
	*ret_backend = &trace->backend;
	return 0;
}
