/* SPDX-License-Identifier: MIT */
#include "tests/stores/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/stores/wrapper.h"

struct trace {
	struct wrapper wrapper; /* must be first */
	pthread_mutex_t lock;	/* of what follows */
	struct trace_counts counts;
	bool only_one;
	pthread_t one; /* thread that is counted, then */
};

/* What the caller has for a snapshot, which begins with its first read. */
struct traced {
	struct backend_snapshot *inner; /* NULL: it has not begun */
	unsigned flags;
	int error;		 /* what became of that */
	backend_begun_fn *begun; /* called then, or NULL */
	void *arg;
	bool read;
};

/* The first one that the thread has read in, of those that have not ended. */
static _Thread_local struct traced *reading;

static struct trace *trace_of(struct backend *backend)
{
	return (struct trace *)backend;
}

static struct traced *traced_of(struct backend_snapshot *snapshot)
{
	return (struct traced *)snapshot;
}

/* One more of a count, and of the trips. */
static void count(struct trace *trace, uint64_t *number, unsigned trips)
{
	pthread_mutex_lock(&trace->lock);
	if (!trace->only_one || pthread_equal(trace->one, pthread_self())) {
		++*number;
		trace->counts.trips += trips;
	}
	pthread_mutex_unlock(&trace->lock);
}

static int begin_traced(struct backend *backend, struct traced *traced)
{
	struct backend *inner = wrapper_inner(backend);
	int r = traced->error;

	if (r < 0 || traced->inner)
		return r;
	r = inner->ops->snapshot_begin(inner, traced->flags | BACKEND_BEGUN, &traced->inner);
	if (r == 0 && traced->begun)
		r = traced->begun(traced->arg);
	return traced->error = r;
}

/* A read is a trip whatever becomes of it. */
static int read_in(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *number,
		   struct backend_snapshot **ret_inner)
{
	struct traced *traced = traced_of(snapshot);
	int r;

	count(trace_of(backend), number, 1);
	if (!reading)
		reading = traced;
	if (reading != traced)
		count(trace_of(backend), &trace_of(backend)->counts.beside, 0);
	traced->read = true;
	r = begin_traced(backend, traced);
	*ret_inner = traced->inner;
	return r;
}

void trace_backend_reset(struct backend *backend, bool only_here)
{
	struct trace *trace = trace_of(backend);

	pthread_mutex_lock(&trace->lock);
	trace->counts = (struct trace_counts){ 0 };
	trace->only_one = only_here;
	trace->one = pthread_self();
	pthread_mutex_unlock(&trace->lock);
}

struct trace_counts trace_backend_counts(struct backend *backend)
{
	struct trace *trace = trace_of(backend);
	struct trace_counts counts;

	pthread_mutex_lock(&trace->lock);
	counts = trace->counts;
	pthread_mutex_unlock(&trace->lock);
	return counts;
}

static void trace_close(struct backend *backend)
{
	struct trace *trace = trace_of(backend);

	backend_close(trace->wrapper.inner);
	pthread_mutex_destroy(&trace->lock);
	free(trace);
}

static int trace_snapshot_begin(struct backend *backend, unsigned flags,
				struct backend_snapshot **ret_snapshot)
{
	struct trace *trace = trace_of(backend);
	struct traced *traced = calloc(1, sizeof(*traced));
	int r = traced ? 0 : -ENOMEM;

	if (r == 0) {
		traced->flags = flags;
		if (flags & (BACKEND_BEGUN | BACKEND_AT_ONCE))
			r = begin_traced(backend, traced);
	}
	count(trace, &trace->counts.snapshot_begin, r < 0);
	if (r < 0)
		free(traced);
	else
		*ret_snapshot = (struct backend_snapshot *)traced;
	return r;
}

static void trace_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct traced *traced = traced_of(snapshot);
	struct trace *trace = trace_of(backend);
	uint64_t ended = 0;

	count(trace, &ended, traced->inner && !traced->read);
	if (reading == traced)
		reading = NULL;
	if (traced->inner)
		wrapper_snapshot_end(backend, traced->inner);
	free(traced);
}

static int trace_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
				backend_begun_fn *fn, void *arg)
{
	struct traced *traced = traced_of(snapshot);

	(void)backend;
	if (traced->inner)
		return fn(arg);
	traced->begun = fn;
	traced->arg = arg;
	return 0;
}

/* clang-format off */
#define CALL(slot, parameters, arguments)                                                          \
	static int trace_##slot(struct backend *backend SLOTS_BEHIND parameters)                   \
	{                                                                                          \
		struct backend *inner = wrapper_inner(backend);                                    \
	                                                                                           \
		count(trace_of(backend), &trace_of(backend)->counts.slot, 0);                      \
		return inner->ops->slot(inner SLOTS_BEHIND arguments);                             \
	}
#define FORWARD_READ(slot, to, parameters, arguments)                                              \
	static int trace_##slot(struct backend *backend,                                           \
				struct backend_snapshot *snapshot SLOTS_BEHIND parameters)         \
	{                                                                                          \
		struct backend *inner = wrapper_inner(backend);                                    \
		int r = read_in(backend, snapshot, &trace_of(backend)->counts.slot, &snapshot);    \
	                                                                                           \
		return r < 0 ? r : to(inner, snapshot SLOTS_BEHIND arguments);                     \
	}
#define READ(slot, parameters, arguments)                                                          \
	FORWARD_READ(slot, inner->ops->slot, parameters, arguments)
#define READ_ROWS(slot, parameters, arguments) FORWARD_##slot(slot, parameters, arguments)
#define FORWARD_key_stat READ
#define FORWARD_row_read_back(...)
#define FORWARD_row_read_times(...)
#define FORWARD_row_read(...)
BACKEND_CALLS
BACKEND_READS
#undef CALL
#undef READ
#define CALL(slot, parameters, arguments)                                                          \
	static int trace_##slot(struct backend *backend SLOTS_BEHIND parameters)                   \
	{                                                                                          \
		count(trace_of(backend), &trace_of(backend)->counts.slot, 0);                      \
		return backend_##slot(wrapper_inner(backend) SLOTS_BEHIND arguments);              \
	}
#define READ(slot, parameters, arguments)                                                          \
	FORWARD_READ(slot, backend_##slot, parameters, arguments)
BACKEND_SCANS
BACKEND_JOINED
BACKEND_CHANGES
BACKEND_SHARED
BACKEND_UPKEEP
#undef CALL
#undef READ
#undef READ_ROWS
/* clang-format on */

struct counting {
	struct trace *trace;
	backend_row_fn *fn;
	backend_row_time_fn *timed;
	void *arg;
};

static int count_row(void *arg, int64_t index, struct bytes data)
{
	const struct counting *counting = arg;

	count(counting->trace, &counting->trace->counts.rows, 0);
	return counting->fn(counting->arg, index, data);
}

static int trace_row_read(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
			  void *arg)
{
	struct counting counting = { .trace = trace_of(backend), .fn = fn, .arg = arg };
	struct backend *inner = wrapper_inner(backend);
	int r = read_in(backend, snapshot, &counting.trace->counts.row_read, &snapshot);

	return r < 0 ? r :
		       inner->ops->row_read(inner, snapshot, session, key, first, count_row,
					    &counting);
}

static int trace_row_read_back(struct backend *backend, struct backend_snapshot *snapshot,
			       struct bytes session, struct bytes key, int64_t last, uint64_t most,
			       backend_row_fn *fn, void *arg)
{
	struct counting counting = { .trace = trace_of(backend), .fn = fn, .arg = arg };
	struct backend *inner = wrapper_inner(backend);
	int r = read_in(backend, snapshot, &counting.trace->counts.row_read_back, &snapshot);

	return r < 0 ? r :
		       inner->ops->row_read_back(inner, snapshot, session, key, last, most,
						 count_row, &counting);
}

static int count_timed(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	const struct counting *counting = arg;

	count(counting->trace, &counting->trace->counts.rows, 0);
	return counting->timed(counting->arg, index, times, data);
}

static int trace_row_read_times(struct backend *backend, struct backend_snapshot *snapshot,
				struct bytes session, struct bytes key, int64_t from, bool back,
				uint64_t most, backend_row_time_fn *fn, void *arg)
{
	struct counting counting = { .trace = trace_of(backend), .timed = fn, .arg = arg };
	struct backend *inner = wrapper_inner(backend);
	int r = read_in(backend, snapshot, &counting.trace->counts.row_read_times, &snapshot);

	return r < 0 ? r :
		       backend_row_read_times(inner, snapshot, session, key, from, back, most,
					      count_timed, &counting);
}

static int trace_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct backend *inner = wrapper_inner(backend);

	count(trace_of(backend), &trace_of(backend)->counts.commit, 1);
	return inner->ops->commit(inner, batch, flags);
}

/* clang-format off */
#define CALL(slot, ...) .slot = trace_##slot,
#define READ CALL
#define READ_ROWS CALL
static const struct backend_scans trace_scans = { BACKEND_SCANS };
static const struct backend_changes trace_changes = { BACKEND_CHANGES WRAPPER_CHANGES };
static const struct backend_shared trace_shared = { BACKEND_SHARED WRAPPER_SHARED };
static const struct backend_snapshots trace_snapshots = {
	.snapshot_begun = trace_snapshot_begun,
	.snapshot_keep = wrapper_snapshot_keep,
};
static const struct backend_upkeep trace_upkeep = { BACKEND_UPKEEP WRAPPER_UPKEEP };
static const struct backend_joined trace_joined = { BACKEND_JOINED };
static const struct backend_ops trace_ops = {
	.name = "trace",
	.close = trace_close,
	.snapshot_begin = trace_snapshot_begin,
	.snapshot_end = trace_snapshot_end,
	.commit = trace_commit,
	BACKEND_CALLS
	BACKEND_READS
	.scans = &trace_scans,
	.joined = &trace_joined,
	.changes = &trace_changes,
	.shared = &trace_shared,
	.snapshots = &trace_snapshots,
	.upkeep = &trace_upkeep,
};
/* clang-format on */

int trace_backend_open(struct backend *inner, struct backend **ret_backend)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return -ENOMEM;
	wrapper_init(&trace->wrapper, inner, &trace_ops);
	pthread_mutex_init(&trace->lock, NULL);
	*ret_backend = &trace->wrapper.backend;
	return 0;
}
