/* SPDX-License-Identifier: MIT */
#include "tests/contract/contract.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "tests/stores/fault.h"
#include "backend/memory/memory.h"
#include "tests/stores/trace.h"
#include "backend/base/log.h"

static const struct backend_options options = { .create = true };

static struct backend *inner_store(void)
{
	struct backend *inner = NULL;

	cr_assert_eq(memory_backend_open(&options, &inner), 0);
	return inner;
}

static struct backend *fault_store(void)
{
	struct backend *backend = NULL;

	cr_assert_eq(fault_backend_open(inner_store(), &backend), 0);
	return backend;
}

Test(faults, strike_the_nth_call_once)
{
	struct backend *backend = fault_store();

	fault_backend_set(backend, 2, -EIO, false);

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("a"))), 0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 1, BYTES("b"))), -EIO);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 2, BYTES("c"))), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 2=c");
	backend_close(backend);
}

Test(faults, that_last_strike_every_call_from_there_on)
{
	struct backend *backend = fault_store();
	struct backend_space space;

	fault_backend_set(backend, 1, -ENOSPC, true);
	cr_assert_eq(backend->ops->sync(backend), -ENOSPC);
	cr_assert_eq(snapshot_error(backend), -ENOSPC);
	cr_assert_eq(backend->ops->space(backend, &space), -ENOSPC);

	fault_backend_set(backend, 0, 0, false);
	cr_assert_eq(snapshot_error(backend), 0);
	backend_close(backend);
}

Test(faults, count_the_calls_that_can_fail)
{
	struct backend *backend = fault_store();
	struct backend_snapshot *snapshot;
	struct backend_node node = { 0 };

	fault_backend_set(backend, 0, 0, false);
	snapshot = look(backend);
	backend->ops->node_get(backend, snapshot, 1, &node);
	backend_node_done(&node);
	unlook(backend, snapshot);
	backend_wake(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	backend->ops->sync(backend);

	cr_assert_eq(fault_backend_calls(backend), 4, "begin, get, commit, sync");
	backend_close(backend);
}

struct counted {
	unsigned begun;
	unsigned left;
	struct backend_op op;
};

static int more_counted(struct backend_batch *batch)
{
	struct counted *counted = batch->arg;

	counted->op.at++;
	return counted->left-- > 0;
}

static void begin_counted(struct backend_batch *batch)
{
	struct counted *counted = batch->arg;

	counted->begun++;
	counted->left = 2;
	counted->op = row_insert(S, K, 0, BYTES("a"));
	batch->ops = &counted->op;
	batch->count = 1;
}

Test(faults, are_batches_that_are_given_up_in_their_middle_and_begun_again)
{
	struct backend *backend = fault_store();
	struct counted counted = { 0 };
	struct backend_batch batch = { .more = more_counted,
				       .rewind = begin_counted,
				       .arg = &counted };

	begin_counted(&batch);
	cr_assert_eq(backend->ops->commit(backend, &batch, 0), 0);
	cr_expect_eq(counted.begun, 2);
	cr_expect_str_eq(rows_of(backend, S, K), "0=a 1=a 2=a");
	backend_close(backend);
}

static struct backend *trace_store(void)
{
	struct backend *backend = NULL;

	cr_assert_eq(trace_backend_open(inner_store(), &backend), 0);
	return backend;
}

static int first_row(void *arg, int64_t index, struct bytes data)
{
	(void)arg, (void)index, (void)data;
	return 1;
}

Test(traces, count_reads_and_commits_as_trips_and_the_rows_that_were_taken)
{
	struct backend *backend = trace_store();
	struct backend_snapshot *snapshot;
	struct backend_key_stat stat;
	struct trace_counts counts;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	snapshot = look(backend);
	backend->ops->key_stat(backend, snapshot, S, K, &stat);
	backend->ops->row_read(backend, snapshot, S, K, 0, first_row, NULL);
	unlook(backend, snapshot);

	counts = trace_backend_counts(backend);
	cr_expect_eq(counts.trips, 3, "commit, stat, read: %llu", (unsigned long long)counts.trips);
	cr_expect_eq(counts.commit, 1);
	cr_expect_eq(counts.snapshot_begin, 1);
	cr_expect_eq(counts.key_stat, 1);
	cr_expect_eq(counts.row_read, 1);
	cr_expect_eq(counts.rows, 1, "one of two was taken");
	trace_backend_reset(backend, false);
	cr_expect_eq(trace_backend_counts(backend).trips, 0);
	backend_close(backend);
}

Test(traces, count_a_snapshot_in_which_nothing_is_read_as_a_question)
{
	struct backend *backend = trace_store();

	unlook(backend, look(backend));
	cr_expect_eq(trace_backend_counts(backend).trips, 1);
	cr_expect_eq(backend_is_shared(backend), false);
	cr_expect_eq(backend->ops->sync(backend), 0);
	cr_expect_eq(trace_backend_counts(backend).trips, 1, "these ask nobody");
	backend_close(backend);
}

Test(traces, count_a_snapshot_that_is_refused)
{
	struct backend *fault = fault_store(), *backend = NULL;

	cr_assert_eq(trace_backend_open(fault, &backend), 0);
	fault_backend_set(fault, 1, -ESTALE, false);
	cr_expect_eq(snapshot_error(backend), -ESTALE);
	cr_expect_eq(trace_backend_counts(backend).trips, 1);
	backend_close(backend);
}

static int begun_as_told(void *arg)
{
	int *r = arg;

	return --*r;
}

static int count_rows(void *arg, int64_t index, struct bytes data)
{
	(void)index, (void)data;
	++*(int *)arg;
	return 0;
}

Test(traces, begin_a_snapshot_with_its_first_read)
{
	struct backend *fault = fault_store(), *backend = NULL;
	const struct backend_ops *ops;
	struct backend_snapshot *snapshot;
	int told = 1, rows = 0;

	cr_assert_eq(trace_backend_open(fault, &backend), 0);
	ops = backend->ops;
	trace_backend_reset(backend, false);
	cr_assert_eq(ops->snapshot_begin(backend, 0, &snapshot), 0);
	unlook(backend, snapshot);
	cr_expect_eq(trace_backend_counts(backend).trips, 0, "it costs nothing");

	cr_assert_eq(ops->snapshot_begin(backend, 0, &snapshot), 0);
	cr_expect_eq(backend_snapshot_begun(backend, snapshot, begun_as_told, &told), 0);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	cr_expect_eq(told, 1, "it has not begun");
	cr_expect_eq(ops->row_read(backend, snapshot, S, K, 0, count_rows, &rows), 0);
	COMMIT(backend, row_insert(S, K, 1, BYTES("b")));
	cr_expect_eq(ops->row_read(backend, snapshot, S, K, 0, count_rows, &rows), 0);
	cr_expect_eq(rows, 2, "both saw one row");
	cr_expect_eq(told, 0, "once");
	unlook(backend, snapshot);

	cr_assert_eq(ops->snapshot_begin(backend, 0, &snapshot), 0);
	cr_expect_eq(backend_snapshot_begun(backend, snapshot, begun_as_told, &told), 0);
	cr_expect_eq(ops->row_read(backend, snapshot, S, K, 0, count_rows, &rows), -1);
	cr_expect_eq(ops->row_read(backend, snapshot, S, K, 0, count_rows, &rows), -1);
	cr_expect_eq(rows, 2, "nothing is handed out");
	unlook(backend, snapshot);

	fault_backend_set(fault, 1, -ESTALE, false);
	cr_assert_eq(ops->snapshot_begin(backend, 0, &snapshot), 0);
	cr_expect_eq(ops->row_read(backend, snapshot, S, K, 0, count_rows, &rows), -ESTALE);
	cr_expect_eq(ops->row_read(backend, snapshot, S, K, 0, count_rows, &rows), -ESTALE);
	unlook(backend, snapshot);
	backend_close(backend);
}

static void *append_elsewhere(void *backend)
{
	COMMIT((struct backend *)backend, row_insert(S, K, 1, BYTES("b")));
	return NULL;
}

Test(traces, count_one_thread_alone_if_asked_to)
{
	struct backend *backend = trace_store();
	pthread_t thread;

	trace_backend_reset(backend, true);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	cr_assert_eq(pthread_create(&thread, NULL, append_elsewhere, backend), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect_eq(trace_backend_counts(backend).commit, 1);
	cr_expect_str_eq(rows_of(backend, S, K), "0=a 1=b");
	backend_close(backend);
}

static int count_feed(void *arg, const struct backend_feed *feed)
{
	(void)feed;
	++*(unsigned *)arg;
	return 0;
}

static int count_node(void *arg, const struct backend_node *node)
{
	(void)node;
	++*(unsigned *)arg;
	return 0;
}

static void pass_on_what_mounts_do(int (*wrapper)(struct backend *, struct backend **))
{
	struct backend *one = inner_store(), *two = NULL, *backend = NULL;
	struct backend_node node = state_node(5, S, K), found = { 0 };
	struct backend_lock lock = { .end = 9, .pid = 7, .exclusive = 1 };
	const struct backend_op locking = {
		.type = BACKEND_LOCK,
		.ino = 5,
		.data = bytes_make((const char *)&lock, sizeof(lock)),
	};
	const struct backend_op removing = { .type = BACKEND_GUARD,
					     .ino = 5,
					     .at = BACKEND_UNUSED };
	struct backend_snapshot *snapshot;
	unsigned told = 0, listed = 0;

	cr_assert_eq(memory_backend_join(one, &two), 0);
	cr_assert_eq(wrapper(one, &backend), 0);
	node.nlink = 0;
	cr_expect(backend_is_shared(backend));
	cr_expect_gt(backend_hold(backend, false), 0);
	cr_expect_eq(COMMIT(two, node_put(&node), locking), 0);
	cr_expect_eq(snapshot_error(backend), -ESTALE);
	snapshot = look(backend);
	cr_expect_eq(backend_feed_list(backend, snapshot, count_feed, &told), 0);
	cr_expect_eq(told, 1);
	cr_expect_eq(backend_orphan_find(backend, snapshot, S, K, &found), 0);
	cr_expect_eq(backend_orphan_list(backend, snapshot, count_node, &listed), 0);
	cr_expect_eq(listed, 1);
	cr_expect_eq(backend_lock_find(backend, snapshot, 5, &lock, &lock), 0);
	cr_expect_eq(lock.pid, 7);
	unlook(backend, snapshot);
	backend_node_done(&found);
	backend_feed_done(backend, 1);
	cr_expect_eq(snapshot_error(backend), 0);
	cr_expect_eq(backend_use(backend, 5, true), 0);
	cr_expect_eq(COMMIT(two, removing), -EBUSY);
	backend_close(two);
	backend_close(backend);
}

static int (*const wrappers[])(struct backend *, struct backend **) = { fault_backend_open,
									trace_backend_open };
static int wrapper_numbers[] = { 0, 1 };

ParameterizedTestParameters(wrappers, pass_on_what_mounts_do)
{
	return cr_make_param_array(int, wrapper_numbers, ARRAY_SIZE(wrapper_numbers), NULL);
}

ParameterizedTest(const int *number, wrappers, pass_on_what_mounts_do)
{
	pass_on_what_mounts_do(wrappers[*number]);
}

Test(copies, of_nodes_own_their_bytes)
{
	char name[] = "sess";
	struct backend_node node = { .ino = 5, .session = bytes_make(name, 4), .key = BYTES("") };
	struct backend_node copy = { 0 };

	cr_assert_eq(backend_node_copy(&node, &copy), 0);
	name[0] = 'X';

	cr_assert(bytes_equal(copy.session, S));
	cr_assert(copy.key.data && copy.key.size == 0);
	cr_assert_null(copy.target.data);
	backend_node_done(&copy);
	cr_assert_null(copy.session.data);
}
