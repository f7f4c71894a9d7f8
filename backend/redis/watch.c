/* SPDX-License-Identifier: MIT */
#include "backend/redis/watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "backend/redis/feed.h"
#include "backend/redis/mounts.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum {
	BEAT_MS = 3000,
	TOLD_MS = 2500,
	AGAIN_MS = 500,
	PAUSE_MS = 20,
	NOTES_MS = 10, /* so often others are looked at, however many notes they leave */
	ANSWER_MS = 10000,
};

struct watch {
	struct redis *store;
	struct wire *asks, *told; /* of tracking */
	bool noted;		  /* some mount has left notes */
	int64_t looked_at;	  /* when it was last looked whether another one has */
	int64_t beat_at;	  /* the last one, */
	int64_t steady;		  /* since when they came in time */
	int64_t hears_at;	  /* when the server last told of our own key */
	int64_t again_at;	  /* nothing is connected before */
	bool sweeps, anew;	  /* all keys are to be compared; and as a whole when needed */
	struct suspects suspects;
};

static void stir(struct redis *store)
{
	WITH_MUTEX(&store->state.lock);

	store->state.stirred = true;
	pthread_cond_broadcast(&store->state.moved);
}

/* Ask for what has to be granted. */
#define ASK(wire, reply, ...)                                                                      \
	({                                                                                         \
		int asked_ =                                                                       \
			wire_ask_str((wire), tick_ms() + ANSWER_MS, (reply), __VA_ARGS__, NULL);   \
		asked_ < 0 ? asked_ : (reply)->type == REPLY_ERROR ? -EACCES : 0;                  \
	})

/* Tracking. */

static void untrack(struct watch *watch)
{
	wire_free(watch->asks);
	wire_free(watch->told);
	watch->asks = watch->told = NULL;
	watch->sweeps = watch->anew = watch->noted = true;
}

static int track(struct watch *watch)
{
	struct redis *store = watch->store;
	_cleanup_(freep) char *beats = str_printf("%s:hb", store->ours);
	_cleanup_(reply_done) struct reply id = { 0 }, reply = { 0 }, subscribed = { 0 };
	char number[24];
	int r = redis_connect(store, tick_ms() + ANSWER_MS, &watch->told, NULL);

	if (r == 0)
		r = redis_connect(store, tick_ms() + ANSWER_MS, &watch->asks, NULL);
	if (r == 0)
		r = ASK(watch->told, &id, "CLIENT", "ID");
	if (r < 0 || !beats)
		return r < 0 ? r : -ENOMEM;
	snprintf(number, sizeof(number), "%lld", (long long)reply_number(&id));
	r = ASK(watch->told, &subscribed, "SUBSCRIBE", "__redis__:invalidate");
	if (r == 0)
		r = ASK(watch->asks, &reply, "CLIENT", "TRACKING", "ON", "REDIRECT", number,
			"BCAST", "PREFIX", store->prefix, "PREFIX", beats, "PREFIX",
			store->keys[9]);
	watch->hears_at = tick_ms();
	return r;
}

/* The server has told of some keys. */
static int hear(struct watch *watch)
{
	struct redis *store = watch->store;
	int r = 0;

	do {
		_cleanup_(reply_done) struct reply message = { 0 };
		const struct reply *keys;

		r = wire_read(watch->told, tick_ms() + ANSWER_MS, &message);
		keys = reply_at(&message, 2);
		if (r == 0 && keys->type != REPLY_LIST) {
			watch->sweeps = watch->anew = true; /* all keys have gone */
			continue;
		}
		for (size_t i = 0; r == 0 && i < keys->count; i++) {
			const struct bytes key = reply_bytes(reply_at(keys, i));

			if (bytes_equal(key, bytes_str(store->keys[9])))
				watch->noted = true;
			else if (bytes_starts_with(key, bytes_str(store->ours)))
				watch->hears_at = tick_ms();
			else
				r = suspects_tell(&watch->suspects, key);
		}
	} while (r == 0 && wire_has(watch->told));
	return r;
}

/* Our own key, of which the server must tell. */
static int beat_tracking(struct watch *watch)
{
	struct redis *store = watch->store;
	_cleanup_(reply_done) struct reply reply = { 0 };
	_cleanup_(freep) char *key =
		str_printf("%s:hb:%llu", store->ours, (unsigned long long)store->number);

	if (tick_ms() - watch->hears_at > BEAT_MS + TOLD_MS)
		return -ENOTCONN;
	return key ? ASK(watch->asks, &reply, "SET", key, "", "EX", "60") : -ENOMEM;
}

/* Leases. */

static int beat(struct watch *watch, int64_t now)
{
	struct redis *store = watch->store;
	int r = redis_beat(store, now - watch->steady >= REDIS_LEASE_MS ? REDIS_LEASE_MS : 0);

	if (r == -EOWNERDEAD)
		r = redis_rejoin(store, store->number);
	now = tick_ms();
	if (r < 0 || now - watch->beat_at > REDIS_LEASE_MS / 2)
		watch->steady = now;
	if (r < 0)
		return r;
	watch->beat_at = now;
	return redis_tell_uses(store);
}

static void connect_both(struct watch *watch, int64_t now)
{
	if (now >= watch->again_at && !watch->told && track(watch) < 0) {
		untrack(watch);
		watch->again_at = now + AGAIN_MS;
	}
}

static void compare_all(struct watch *watch)
{
	struct redis *store = watch->store;
	_cleanup_(reply_done) struct reply reply = { 0 };
	int r = watch->anew ? mounts_call(store, &reply, "anew", OP(.ino = 0)) : 0;

	watch->anew = watch->anew && r < 0;
	if (r == 0)
		r = suspects_sweep(store);
	watch->sweeps = r < 0;
	if (r > 0)
		stir(store);
}

static void pass(struct watch *watch, int64_t now)
{
	const bool tracks = !watch->store->backend.read_only;
	int r;

	if (now >= watch->beat_at + BEAT_MS) {
		if (watch->store->number)
			beat(watch, now);
		watch->beat_at = MAX(watch->beat_at, now);
		if (watch->asks && tracks && !watch->store->gone && beat_tracking(watch) < 0)
			untrack(watch);
	}
	if (watch->noted && watch->told && now >= watch->looked_at + NOTES_MS) {
		watch->noted = false;
		watch->looked_at = now;
		redis_look(watch->store);
		if (!watch->store->number)
			stir(watch->store);
	}
	if (watch->told && watch->sweeps && tracks)
		compare_all(watch);
	if (suspects_due(&watch->suspects) <= tick_ms() && tracks) {
		r = suspects_check(&watch->suspects, watch->store, tick_ms());
		if (r > 0)
			stir(watch->store);
		if (r < 0)
			watch->sweeps = watch->anew = true;
	} else if (!tracks && watch->suspects.count) {
		suspects_done(&watch->suspects);
		stir(watch->store);
	}
}

static void *run(void *arg)
{
	struct redis *store = arg;
	struct watch watch = { .store = store,
			       .beat_at = tick_ms(),
			       .steady = tick_ms(),
			       .sweeps = store->watch.first,
			       .noted = true };
	uint64_t count;

	while (!store->watch.stop) {
		int64_t now = tick_ms();
		int64_t next = MIN(watch.beat_at + BEAT_MS, suspects_due(&watch.suspects));
		struct pollfd fds[3] = { { .fd = store->watch.wake, .events = POLLIN } };

		connect_both(&watch, now);
		if (!watch.told)
			next = MIN(next, MAX(watch.again_at, now + PAUSE_MS));
		else if (watch.noted)
			next = MIN(next, watch.looked_at + NOTES_MS);
		fds[1] = (struct pollfd){ watch.asks ? wire_fd(watch.asks) : -1, POLLRDHUP, 0 };
		fds[2] = (struct pollfd){ watch.told ? wire_fd(watch.told) : -1, POLLIN, 0 };
		if (poll(fds, ARRAY_SIZE(fds), (int)MAX(next - tick_ms(), 0)) > 0) {
			if (fds[0].revents && read(store->watch.wake, &count, sizeof(count)) < 0)
				break;
			if (fds[1].revents || (fds[2].revents && hear(&watch) < 0))
				untrack(&watch);
		}
		pass(&watch, tick_ms());
	}
	wire_free(watch.asks);
	wire_free(watch.told);
	suspects_done(&watch.suspects);
	return NULL;
}

int redis_watch_start(struct redis *store, bool first)
{
	int r;

	store->watch.wake = descriptor_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (store->watch.wake < 0)
		return -errno;
	store->watch.first = first;
	r = thread_start(&store->watch.thread, run, store);
	store->watch.running = r == 0;
	return r;
}

void redis_watch_stop(struct redis *store)
{
	const uint64_t one = 1;

	store->watch.stop = true;
	if (store->watch.running && write(store->watch.wake, &one, sizeof(one)) > 0)
		pthread_join(store->watch.thread, NULL);
	if (store->watch.running)
		close(store->watch.wake);
}

/* For callers that wait for changes. */

int redis_change_wait(struct backend *backend, int timeout_ms)
{
	const int64_t now = tick_now(), millisecond = 1000000;
	struct redis *store = redis_of(backend);
	int r = 0;

	pthread_mutex_lock(&store->state.lock);
	/* First of all a pause: so a caller in a loop never spins. */
	while (r == 0 && !store->state.waking)
		r = tick_cond_wait(&store->state.moved, &store->state.lock,
				   now + MIN(timeout_ms, PAUSE_MS) * millisecond);
	pthread_mutex_unlock(&store->state.lock);
	redis_look(store);
	pthread_mutex_lock(&store->state.lock);
	for (r = 0; r == 0 && !store->state.waking && !store->state.stirred;)
		r = tick_cond_wait(&store->state.moved, &store->state.lock,
				   now + timeout_ms * millisecond);
	r = store->state.waking || store->state.stirred;
	store->state.waking = store->state.stirred = false;
	pthread_mutex_unlock(&store->state.lock);
	return r;
}

void redis_wake(struct backend *backend)
{
	struct redis *store = redis_of(backend);
	WITH_MUTEX(&store->state.lock);

	store->state.waking = true;
	pthread_cond_broadcast(&store->state.moved);
}
