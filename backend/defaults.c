/* SPDX-License-Identifier: MIT */
/* A store that one mount has at a time, and no other program changes. */
#include "backend/defaults.h"

#include <errno.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ANSWER(type, slot, answer, ...)                                                            \
	static type slot(struct backend *backend, ##__VA_ARGS__)                                   \
	{                                                                                          \
		return answer;                                                                     \
	}

/* ---- Changes by others ---- */

ANSWER(int, change_list, 0, struct backend_snapshot *snapshot, backend_change_fn *fn, void *arg)
ANSWER(int, change_find, -ENOENT, struct backend_snapshot *snapshot, struct bytes session,
       struct bytes key, struct backend_change *ret_change)
ANSWER(int, change_waiting, -EOPNOTSUPP, int64_t *ret_oldest, int64_t *ret_newest)
ANSWER(bool, change_seen, false, int64_t stamp)

static int change_wait(struct backend *backend, int timeout_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	while (sem_clockwait(&backend->woken, CLOCK_MONOTONIC, &until) < 0)
		if (errno != EINTR)
			return 0;
	/* Several calls wake it once. */
	while (sem_trywait(&backend->woken) == 0)
		;
	return 1;
}

static void wake(struct backend *backend)
{
	sem_post(&backend->woken);
}

ANSWER(int, session_names, -EOPNOTSUPP, backend_name_fn *fn, void *arg)

const struct backend_changes default_changes = {
	.change_list = change_list,
	.change_find = change_find,
	.change_waiting = change_waiting,
	.change_wait = change_wait,
	.wake = wake,
	.change_seen = change_seen,
	.session_names = session_names,
};

/* ---- Several mounts ---- */

ANSWER(bool, is_shared, false)
ANSWER(bool, on_duty, true)
ANSWER(void, turn, (void)0, bool take)
ANSWER(int, hold, 0, bool untold)
ANSWER(int, use, on, uint64_t ino, bool on)
ANSWER(uint64_t, lease, 0)
ANSWER(int, lock_find, -ENOENT, struct backend_snapshot *snapshot, uint64_t ino,
       const struct backend_lock *lock, struct backend_lock *ret_lock)
ANSWER(int, feed_list, 0, struct backend_snapshot *snapshot, backend_feed_fn *fn, void *arg)
ANSWER(void, feed_done, (void)0, uint64_t n)
ANSWER(int, orphan_list, 0, struct backend_snapshot *snapshot, backend_node_fn *fn, void *arg)
ANSWER(int, orphan_find, -ENOENT, struct backend_snapshot *snapshot, struct bytes session,
       struct bytes key, struct backend_node *ret_node)

const struct backend_shared default_shared = {
	.is_shared = is_shared,
	.on_duty = on_duty,
	.turn = turn,
	.hold = hold,
	.use = use,
	.lease = lease,
	.lock_find = lock_find,
	.feed_list = feed_list,
	.feed_done = feed_done,
	.orphan_list = orphan_list,
	.orphan_find = orphan_find,
};

/* ---- Snapshots, upkeep ---- */

ANSWER(int, snapshot_begun, fn(arg), struct backend_snapshot *snapshot, backend_begun_fn *fn,
       void *arg)
ANSWER(bool, snapshot_keep, false, backend_keep_fn *keep, void *arg)

const struct backend_snapshots default_snapshots = {
	.snapshot_begun = snapshot_begun,
	.snapshot_keep = snapshot_keep,
};

ANSWER(void, set_quota, (void)0, uint64_t max_size)
ANSWER(int, check, *ret_damage = 0, backend_report_fn *report, void *arg, uint64_t *ret_damage)
ANSWER(int, copy, -EOPNOTSUPP, const char *new_store, const struct backend_copy *how)

const struct backend_upkeep default_upkeep = {
	.set_quota = set_quota,
	.check = check,
	.copy = copy,
};

/* ---- History: nothing is kept ---- */

ANSWER(int, past_list, 0, struct backend_snapshot *snapshot, const struct backend_past_key *key,
       int64_t after, backend_past_fn *fn, void *arg)
ANSWER(int, past_times, 0, struct backend_snapshot *snapshot, const struct backend_past_key *key,
       int64_t after, backend_past_fn *fn, void *arg)
ANSWER(int, past_read, 0, struct backend_snapshot *snapshot, const struct backend_past_key *key,
       int64_t first, int64_t last, bool back, backend_row_time_fn *fn, void *arg)
ANSWER(int, past_keys, 0, struct backend_snapshot *snapshot, const struct backend_past_key *after,
       backend_past_key_fn *fn, void *arg)
ANSWER(int, past_size, (int)(*ret_bytes = (uint64_t)(*ret_last = 0)),
       struct backend_snapshot *snapshot, uint64_t *ret_bytes, int64_t *ret_last)
ANSWER(int, hidden_read, 0, struct backend_snapshot *snapshot, uint64_t ino, int64_t from,
       bool back, backend_row_time_fn *fn, void *arg)

const struct backend_history default_history = {
	.past_list = past_list,
	.past_times = past_times,
	.past_read = past_read,
	.past_keys = past_keys,
	.past_size = past_size,
	.hidden_read = hidden_read,
};
