/* SPDX-License-Identifier: MIT */
#include "tests/contract/contract.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 150 };

struct worker {
	struct backend *backend;
	int number;
	int failures; /* of the wrong kind */
	int seen;     /* rows */
	atomic_bool *stop;
};

/* The case must not end in a thread, so threads count and the case asserts. */
static void run_workers(struct backend *backend, struct worker *workers, void *(*work)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		workers[i].backend = backend;
		workers[i].number = i;
		cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* A pair of rows in each batch; every third batch would be a pair too, but fails at its end. */
static void *commit_pairs(void *arg)
{
	struct worker *worker = arg;
	char name[16];
	struct bytes key;

	snprintf(name, sizeof(name), "key%d", worker->number);
	key = bytes_str(name);
	for (int i = 0; i < ROUNDS; i++) {
		int r;

		if (i % 3 == 2) {
			r = COMMIT(worker->backend, row_insert(S, key, 10 * i, BYTES("bad")),
				   row_insert(S, key, 0, BYTES("bad")));
			worker->failures += r != -EEXIST;
			continue;
		}
		r = COMMIT(worker->backend, row_insert(S, key, 2 * i, BYTES("1")),
			   row_insert(S, key, 2 * i + 1, BYTES("1")));
		worker->failures += r != 0;
	}
	return NULL;
}

struct tally {
	int64_t count;
	int64_t bad;
};

static int tally_row(void *arg, int64_t index, struct bytes data)
{
	struct tally *tally = arg;

	(void)index;
	tally->count++;
	tally->bad += !bytes_equal(data, BYTES("1"));
	return 0;
}

EveryStore(threads, that_commit_at_once_get_each_their_own_result)
{
	struct worker workers[THREADS] = { 0 };
	struct backend_snapshot *snapshot;

	run_workers(backend, workers, commit_pairs);

	snapshot = look(backend);
	for (int i = 0; i < THREADS; i++) {
		struct tally tally = { 0 };
		char name[16];

		snprintf(name, sizeof(name), "key%d", i);
		cr_assert_eq(workers[i].failures, 0);
		cr_assert_eq(backend->ops->row_read(backend, snapshot, S, bytes_str(name), 0,
						    tally_row, &tally),
			     0);
		cr_assert_eq(tally.count, 2 * (ROUNDS - ROUNDS / 3));
		cr_assert_eq(tally.bad, 0, "a batch that failed has left rows");
	}
	unlook(backend, snapshot);
}

static int count_row(void *arg, int64_t index, struct bytes data)
{
	int64_t *sums = arg;

	sums[0]++;
	sums[1] += index;
	(void)data;
	return 0;
}

/* Thread 0 moves ten rows to and fro; the others never see any other number of them. */
static void *move_or_count(void *arg)
{
	struct worker *worker = arg;
	const struct backend_ops *ops = worker->backend->ops;

	for (int i = 0; i < ROUNDS && worker->number == 0; i++) {
		const struct backend_op there = { .type = BACKEND_KEY_MOVE,
						  .session = S,
						  .key = i % 2 ? BYTES("b") : BYTES("a"),
						  .session_to = S,
						  .key_to = i % 2 ? BYTES("a") : BYTES("b") };

		worker->failures += COMMIT(worker->backend, there) != 0;
	}
	if (worker->number == 0)
		atomic_store(worker->stop, true);
	while (!atomic_load(worker->stop)) {
		struct backend_snapshot *snapshot;
		int64_t sums[2] = { 0 };

		if (ops->snapshot_begin(worker->backend, 0, &snapshot) < 0) {
			worker->failures++;
			continue;
		}
		ops->row_read(worker->backend, snapshot, S, BYTES("a"), 0, count_row, sums);
		ops->row_read(worker->backend, snapshot, S, BYTES("b"), 0, count_row, sums);
		ops->snapshot_end(worker->backend, snapshot);
		worker->failures += sums[0] != 10 || sums[1] != 45;
	}
	return NULL;
}

EveryStore(threads, that_read_see_each_batch_whole)
{
	struct worker workers[THREADS] = { 0 };
	atomic_bool stop = false;

	for (int64_t i = 0; i < 10; i++)
		COMMIT(backend, row_insert(S, BYTES("a"), i, BYTES("{}")));
	for (int i = 0; i < THREADS; i++)
		workers[i].stop = &stop;

	run_workers(backend, workers, move_or_count);

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(workers[i].failures, 0);
}

/* Thread 0 adds a row to each of two keys at once; the others read both in one snapshot, and one of
 * them again when it has become old.  It does not for the last thread: that has commits wait. */
static void *write_or_read_twice(void *arg)
{
	struct worker *worker = arg;
	const struct backend_ops *ops = worker->backend->ops;

	for (int i = 0; i < ROUNDS && worker->number == 0; i++)
		worker->failures +=
			COMMIT(worker->backend, row_insert(S, BYTES("a"), i, BYTES("1")),
			       row_insert(S, BYTES("b"), i, BYTES("1"))) != 0;
	if (worker->number == 0)
		atomic_store(worker->stop, true);
	while (!atomic_load(worker->stop)) {
		struct backend_snapshot *snapshot;
		int64_t sums[3][2] = { 0 };

		if (ops->snapshot_begin(worker->backend,
					worker->number == THREADS - 1 ? BACKEND_BRIEF : 0,
					&snapshot) < 0) {
			worker->failures++;
			continue;
		}
		for (int i = 0; i < 3; i++) {
			worker->failures += ops->row_read(worker->backend, snapshot, S,
							  i % 2 ? BYTES("b") : BYTES("a"), 0,
							  count_row, sums[i]) != 0;
			usleep(2000);
		}
		ops->snapshot_end(worker->backend, snapshot);
		worker->failures += sums[0][0] != sums[1][0] || sums[0][0] != sums[2][0];
		worker->failures += sums[0][0] < worker->seen;
		worker->seen = (int)sums[0][0];
	}
	return NULL;
}

EveryStore(threads, that_read_beside_a_writer_see_one_state_each)
{
	struct worker workers[THREADS] = { 0 };
	atomic_bool stop = false;

	for (int i = 0; i < THREADS; i++)
		workers[i].stop = &stop;

	run_workers(backend, workers, write_or_read_twice);

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(workers[i].failures, 0, "thread %d", i);
}

/* Batches with a source, beside plain ones. */
struct endless {
	struct backend_op first;
	int left;
	struct backend_op op;
};

static int more_of_it(struct backend_batch *batch)
{
	struct endless *endless = batch->arg;

	if (endless->left-- == 0)
		return 0;
	endless->op.at++;
	batch->ops = &endless->op;
	batch->count = 1;
	return 1;
}

static void all_of_it(struct backend_batch *batch)
{
	struct endless *endless = batch->arg;

	endless->left = 3;
	endless->op = endless->first;
	batch->ops = &endless->first;
	batch->count = 1;
}

static void *commit_mixed(void *arg)
{
	struct worker *worker = arg;
	char name[16];
	struct bytes key;

	snprintf(name, sizeof(name), "key%d", worker->number);
	key = bytes_str(name);
	for (int i = 0; i < ROUNDS / 3; i++) {
		struct endless endless = { .first = row_insert(S, key, 4 * i, BYTES("1")) };
		struct backend_batch batch = { .more = more_of_it,
					       .rewind = all_of_it,
					       .arg = &endless };

		all_of_it(&batch);
		if (worker->number % 2)
			worker->failures +=
				worker->backend->ops->commit(worker->backend, &batch, 0) != 0;
		else
			worker->failures +=
				backend_commit(worker->backend, &endless.first, 1, 0) != 0;
		worker->failures += worker->backend->ops->sync(worker->backend) != 0;
	}
	return NULL;
}

EveryStore(threads, may_mix_batches_with_and_without_a_source)
{
	struct worker workers[THREADS] = { 0 };

	run_workers(backend, workers, commit_mixed);

	for (int i = 0; i < THREADS; i++) {
		struct backend_snapshot *snapshot = look(backend);
		struct tally tally = { 0 };
		char name[16];

		snprintf(name, sizeof(name), "key%d", i);
		backend->ops->row_read(backend, snapshot, S, bytes_str(name), 0, tally_row, &tally);
		unlook(backend, snapshot);
		cr_assert_eq(workers[i].failures, 0);
		cr_assert_eq(tally.count, (i % 2 ? 4 : 1) * (ROUNDS / 3));
	}
}

static void *hold_many(void *arg)
{
	struct worker *worker = arg;
	const struct backend_ops *ops = worker->backend->ops;

	for (int i = 0; i < ROUNDS; i++) {
		struct backend_snapshot *snapshots[4];
		int got = 0;

		while (got < 4 &&
		       ops->snapshot_begin(worker->backend, BACKEND_BEGUN, &snapshots[got]) == 0)
			got++;
		worker->failures += got != 4;
		while (got > 0)
			ops->snapshot_end(worker->backend, snapshots[--got]);
	}
	return NULL;
}

EveryStore(threads, may_hold_four_snapshots_each)
{
	struct worker workers[THREADS] = { 0 };

	run_workers(backend, workers, hold_many);

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(workers[i].failures, 0);
}

static void *wait_long(void *arg)
{
	struct worker *worker = arg;

	worker->failures = backend_change_wait(worker->backend, 30000) != 1;
	return NULL;
}

EveryStore(threads, that_wait_are_woken)
{
	struct worker worker = { .backend = backend };
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, wait_long, &worker), 0);
	COMMIT(backend, row_insert(S, K, 0, BYTES("{}")));
	backend_wake(backend);
	pthread_join(thread, NULL);

	cr_assert_eq(worker.failures, 0);
}
