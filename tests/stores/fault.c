/* SPDX-License-Identifier: MIT */
#include "tests/stores/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "backend/slots.h"
#include "tests/stores/wrapper.h"

struct fault {
	struct wrapper wrapper; /* must be first */
	pthread_mutex_t lock;	/* of what follows */
	uint64_t calls;
	uint64_t at; /* the call that fails; 0: none */
	int error;
	bool lasting;
	bool of_one; /* thread: calls of others neither count nor fail */
	pthread_t thread;
	const char *key; /* whose rows cannot be read, or NULL */
	int key_error;
};

static struct fault *fault_of(struct backend *backend)
{
	return (struct fault *)backend;
}

/* Count a call; the error that it is to fail with, or 0. */
static int strike(struct backend *backend)
{
	struct fault *fault = fault_of(backend);
	bool hit = false;

	pthread_mutex_lock(&fault->lock);
	if (!fault->of_one || pthread_equal(fault->thread, pthread_self())) {
		fault->calls++;
		hit = fault->at &&
		      (fault->calls == fault->at || (fault->lasting && fault->calls > fault->at));
	}
	pthread_mutex_unlock(&fault->lock);
	return hit ? fault->error : 0;
}

/* The same for a call about the rows of a key. */
static int strike_key(struct backend *backend, struct bytes key)
{
	struct fault *fault = fault_of(backend);
	int r = strike(backend);

	pthread_mutex_lock(&fault->lock);
	if (r == 0 && fault->key && bytes_equal(key, bytes_str(fault->key)))
		r = fault->key_error;
	pthread_mutex_unlock(&fault->lock);
	return r;
}

void fault_backend_set_key(struct backend *backend, const char *key, int error)
{
	struct fault *fault = fault_of(backend);

	pthread_mutex_lock(&fault->lock);
	fault->key = error ? key : NULL;
	fault->key_error = error;
	pthread_mutex_unlock(&fault->lock);
}

static void fault_set(struct fault *fault, uint64_t count, int error, bool lasting, bool of_one)
{
	pthread_mutex_lock(&fault->lock);
	fault->calls = 0;
	fault->at = count;
	fault->error = error;
	fault->lasting = lasting;
	fault->of_one = of_one;
	fault->thread = pthread_self();
	pthread_mutex_unlock(&fault->lock);
}

void fault_backend_set(struct backend *backend, uint64_t count, int error, bool lasting)
{
	fault_set(fault_of(backend), count, error, lasting, false);
}

void fault_backend_set_mine(struct backend *backend, uint64_t count, int error)
{
	fault_set(fault_of(backend), count, error, false, true);
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

	backend_close(fault->wrapper.inner);
	pthread_mutex_destroy(&fault->lock);
	free(fault);
}

/* clang-format off */
#define FORWARD(slot, to, parameters, arguments, struck)                                           \
	static int fault_##slot(struct backend *backend SLOTS_BEHIND parameters)                   \
	{                                                                                          \
		struct backend *inner = wrapper_inner(backend);                                    \
		int r = struck;                                                                    \
	                                                                                           \
		return r < 0 ? r : to(inner SLOTS_BEHIND arguments);                               \
	}
#define CALL(slot, parameters, arguments)                                                          \
	FORWARD(slot, inner->ops->slot, parameters, arguments, strike(backend))
#define READ SLOTS_READ
#define READ_ROWS(slot, parameters, arguments)                                                     \
	FORWARD(slot, inner->ops->slot,                                                            \
		(struct backend_snapshot *snapshot SLOTS_BEHIND parameters),                       \
		(snapshot SLOTS_BEHIND arguments), strike_key(backend, key))
BACKEND_CALLS
BACKEND_READS
#undef CALL
#undef READ_ROWS
#define CALL(slot, parameters, arguments)                                                          \
	FORWARD(slot, backend_##slot, parameters, arguments, strike(backend))
#define READ_ROWS(slot, parameters, arguments)                                                     \
	FORWARD(slot, backend_##slot,                                                              \
		(struct backend_snapshot *snapshot SLOTS_BEHIND parameters),                       \
		(snapshot SLOTS_BEHIND arguments), strike_key(backend, key))
BACKEND_SCANS
BACKEND_CHANGES
BACKEND_SHARED
BACKEND_UPKEEP
BACKEND_HISTORY
#undef CALL
#undef READ_ROWS
/* clang-format on */

static int fault_snapshot_begin(struct backend *backend, unsigned flags,
				struct backend_snapshot **ret_snapshot)
{
	struct backend *inner = wrapper_inner(backend);
	int r = strike(backend);

	return r < 0 ? r : inner->ops->snapshot_begin(inner, flags, ret_snapshot);
}

/* A batch with more() is given up in its middle, and applied from its start then. */
struct giving_up {
	struct backend_batch *batch; /* the caller's */
	bool asked;
	bool done;
};

static int more_once(struct backend_batch *first)
{
	struct giving_up *giving_up = first->arg;
	struct backend_batch *batch = giving_up->batch;
	int r = giving_up->asked ? 0 : batch->more(batch);

	giving_up->asked = true;
	giving_up->done = r == 0;
	first->ops = batch->ops;
	first->count = batch->count;
	return r == 0 ? -ECANCELED : r;
}

static void begin_again(struct backend_batch *first)
{
	struct giving_up *giving_up = first->arg;

	giving_up->asked = false;
	giving_up->batch->rewind(giving_up->batch);
	first->ops = giving_up->batch->ops;
	first->count = giving_up->batch->count;
}

/* 1 when that was done; whatever else has become of it. */
static int give_up(struct backend *inner, struct backend_batch *batch, unsigned flags)
{
	struct giving_up giving_up = { .batch = batch };
	struct backend_batch first = {
		.ops = batch->ops,
		.count = batch->count,
		.more = more_once,
		.rewind = begin_again,
		.arg = &giving_up,
	};
	int r = inner->ops->commit(inner, &first, flags);

	if (!giving_up.done)
		return r;
	begin_again(&first);
	return 1;
}

static int fault_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct backend *inner = wrapper_inner(backend);
	int r = strike(backend);

	if (r == 0 && batch->more)
		r = give_up(inner, batch, flags);
	else if (r == 0)
		r = 1;
	return r > 0 ? inner->ops->commit(inner, batch, flags) : r;
}

/* clang-format off */
#define CALL(slot, ...) .slot = fault_##slot,
#define READ_ROWS READ
static const struct backend_scans fault_scans = { BACKEND_SCANS };
static const struct backend_changes fault_changes = { BACKEND_CHANGES WRAPPER_CHANGES };
static const struct backend_shared fault_shared = { BACKEND_SHARED WRAPPER_SHARED };
static const struct backend_snapshots fault_snapshots = {
	.snapshot_begun = wrapper_snapshot_begun,
	.snapshot_keep = wrapper_snapshot_keep,
};
static const struct backend_upkeep fault_upkeep = { BACKEND_UPKEEP WRAPPER_UPKEEP };
static const struct backend_history fault_history = { BACKEND_HISTORY };
static const struct backend_ops fault_ops = {
	.name = "fault",
	.close = fault_close,
	.snapshot_begin = fault_snapshot_begin,
	.snapshot_end = wrapper_snapshot_end,
	.commit = fault_commit,
	BACKEND_CALLS
	BACKEND_READS
	.scans = &fault_scans,
	.changes = &fault_changes,
	.shared = &fault_shared,
	.snapshots = &fault_snapshots,
	.upkeep = &fault_upkeep,
	.history = &fault_history,
};
/* clang-format on */

int fault_backend_open(struct backend *inner, struct backend **ret_backend)
{
	struct fault *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return -ENOMEM;
	wrapper_init(&fault->wrapper, inner, &fault_ops);
	pthread_mutex_init(&fault->lock, NULL);
	*ret_backend = &fault->wrapper.backend;
	return 0;
}
