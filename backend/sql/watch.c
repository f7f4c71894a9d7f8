/* SPDX-License-Identifier: MIT */
#include "backend/sql/watch.h"

#include <errno.h>

#include "backend/sql/cursor.h"
#include "backend/sql/feed.h"
#include "backend/sql/mounts.h"
#include "backend/sql/triggers.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum {
	POLL_MS = 20, /* while others are there, or were heard of a moment ago */
	IDLE_MS = 100,
	IDLE_AFTER = 2000,
	BEAT_MS = 3000,
	BARRED_MS = 200, /* until one that was not taken is tried again */
	PAUSE_MS = 20,	 /* that change_wait() lasts at least */
};

static int ask_state(struct sql *store, struct sql_link *link, struct sql_state *ret_state)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_cursor cursor = { .store = store, .r = sql_state_say(store, &buf) };

	if (cursor.r == 0)
		cursor.r = sql_ask(store, link, buf_bytes(&buf), &cursor.answer);
	if (sql_cursor_only(&cursor, -EIO))
		*ret_state = sql_state_read(cursor.columns);
	return sql_cursor_end(&cursor);
}

static int join_again(struct sql *store)
{
	int r = 0;

	sql_writer_take(store);
	/* What became of the last transaction nobody can know; then it says that anything may have
	 * changed. */
	if (sql_mounts_lost(store) && !store->writer.link) {
		r = sql_connect(store, true, sql_until(store), &store->writer.link, NULL);
		store->writer.unsure &= r < 0;
		store->writer.silent = 1;
	}
	if (r == 0 && sql_mounts_lost(store))
		r = sql_mounts_rejoin(store);
	if (r < 0)
		sql_disconnect(store, &store->writer.link);
	sql_writer_give(store);
	return r;
}

static int look(struct sql *store, struct sql_link *link)
{
	struct sql_state state, others;
	bool tell, untell;
	int r = ask_state(store, link, &state);

	if (r < 0)
		return r;
	sql_state_learn(store, &state);
	store->backend.settings = state.settings + 1;
	pthread_mutex_lock(&store->state.lock);
	tell = state.epoch != store->state.epoch;
	pthread_mutex_unlock(&store->state.lock);
	r = tell ? sql_others_read(store, link, &others) : 0;
	if (r < 0)
		return r;
	pthread_mutex_lock(&store->state.lock);
	tell = (store->state.untold || store->state.stale_uses) && !store->state.alone;
	untell = !store->state.untold && store->state.alone && store->number && !store->guest;
	pthread_mutex_unlock(&store->state.lock);
	if (sql_mounts_lost(store))
		return join_again(store);
	if (store->barred)
		return 0;
	return tell ? sql_uses_tell(store, link) : untell ? sql_uses_untell(store, link) : 0;
}

static bool pause_for(struct sql *store, int64_t milliseconds)
{
	const int64_t until = tick_now() + milliseconds * 1000000;
	WITH_MUTEX(&store->watch.lock);

	if (!store->watch.stop)
		tick_cond_wait(&store->watch.stopped, &store->watch.lock, until);
	return !store->watch.stop;
}

static int beat(struct sql *store, struct sql_beats *beats)
{
	int r = sql_mounts_beat(store, store->watch.link);

	/* Of a server that takes no writes others are not heard either. */
	store->barred = r == -EROFS;
	if (r == 0 && sql_is_mount(store))
		r = sql_feed_tell(store, store->watch.link);
	if (r == 0 && sql_is_mount(store))
		r = sql_feed_trim(store, store->watch.link);
	if (r == 0 && !store->backend.read_only && !store->guest)
		r = sql_triggers_watch(store);
	/* A lock that somebody has: the next time. */
	r = r == -EBUSY || r == -EDEADLK ? 0 : r;
	if (r == -EROFS) {
		beats->steady = tick_ms();
		beats->last = beats->steady - BEAT_MS + BARRED_MS;
		return 0;
	}
	return r == 0 && sql_beats_heard(beats, tick_ms()) ?
		       sql_mounts_judge(store, store->watch.link) :
		       r;
}

static int look_or_connect(struct sql *store, int64_t now, struct sql_beats *beats)
{
	int r = 0;

	if (!store->watch.link)
		r = sql_connect(store, true, now + store->timeout * INT64_C(1000),
				&store->watch.link, NULL);
	if (r == -EUSERS)
		sql_full(store);
	/* First of all, since the rest may have to wait for a lock. */
	if (r == 0 && store->number && now >= beats->last + BEAT_MS)
		r = beat(store, beats);
	if (r == 0)
		r = look(store, store->watch.link);
	if (r < 0 && store->watch.link)
		sql_disconnect(store, &store->watch.link);
	return r;
}

static void *watch(void *arg)
{
	struct sql *store = arg;
	struct sql_beats beats = { .last = tick_ms(), .steady = tick_ms() };
	int64_t busy_at = 0, now;

	do {
		now = tick_ms();
		if (look_or_connect(store, now, &beats) == 0)
			store->watch.looked_at = now;
		sql_pool_rest(store);
		pthread_mutex_lock(&store->state.lock);
		if (store->state.changes || !store->state.alone)
			busy_at = now;
		pthread_mutex_unlock(&store->state.lock);
	} while (pause_for(store, now - busy_at < IDLE_AFTER ? POLL_MS : IDLE_MS));
	return NULL;
}

int sql_watch_start(struct sql *store)
{
	int r = thread_start(&store->watch.thread, watch, store);

	store->watch.running = r == 0;
	return r;
}

void sql_watch_stop(struct sql *store)
{
	pthread_mutex_lock(&store->watch.lock);
	store->watch.stop = true;
	pthread_cond_broadcast(&store->watch.stopped);
	pthread_mutex_unlock(&store->watch.lock);
	if (store->watch.running)
		pthread_join(store->watch.thread, NULL);
	sql_disconnect(store, &store->watch.link);
	sql_disconnect(store, &store->watch.still);
}

/* For who waits for changes. */

/* While the watching thread does not come to it. */
static void look_aside(struct sql *store)
{
	WITH_MUTEX(&store->aside.lock);

	if (!store->aside.link)
		sql_connect(store, true, sql_until(store), &store->aside.link, NULL);
	if (store->aside.link && look(store, store->aside.link) < 0)
		sql_disconnect(store, &store->aside.link);
}

int sql_change_wait(struct backend *backend, int timeout_ms)
{
	struct sql *store = sql_of(backend);
	const int64_t begun = tick_ms();
	const int64_t now = tick_now(), until = now + timeout_ms * INT64_C(1000000);
	const int64_t first = now + MIN(timeout_ms, PAUSE_MS) * INT64_C(1000000);
	int r = 0;
	pthread_mutex_lock(&store->state.lock);
	/* First of all a pause: so a caller in a loop never spins, whatever is answered. */
	while (r == 0 && !store->watch.waking)
		r = tick_cond_wait(&store->state.moved, &store->state.lock, first);
	pthread_mutex_unlock(&store->state.lock);
	if (store->watch.looked_at <= begun)
		look_aside(store);
	pthread_mutex_lock(&store->state.lock);
	for (r = 0; r == 0 && !store->watch.waking && !store->state.stirred;)
		r = tick_cond_wait(&store->state.moved, &store->state.lock, until);
	r = store->watch.waking || store->state.stirred;
	store->watch.waking = store->state.stirred = false;
	pthread_mutex_unlock(&store->state.lock);
	return r;
}

void sql_wake(struct backend *backend)
{
	struct sql *store = sql_of(backend);
	WITH_MUTEX(&store->state.lock);

	store->watch.waking = true;
	pthread_cond_broadcast(&store->state.moved);
}
