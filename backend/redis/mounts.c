/* SPDX-License-Identifier: MIT */
#include "backend/redis/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "backend/redis/feed.h"
#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"

/* CHANCE_SHIFT: what is left is exact in Lua, with what is added. */
enum { CHANCE_SHIFT = 14, TURN_MS = 10000, TURN_PAUSE_MS = 2, OUTWAIT_MS = 500 };

int mounts_call(struct redis *store, struct reply *ret_reply, const char *form,
		const struct backend_op *op)
{
	_cleanup_(call_done) struct call call = { .store = store };

	call_words(&call, form, op);
	return redis_call(store, &call, ret_reply);
}

/* A place in the middle of a sentence that the owner of a mount has given it. */
static const char *owner_in(const struct reply *state)
{
	const char *text = state->text.data;

	for (int i = 0; text && i < 3; i++) {
		text = strchr(text, ' ');
		text += text ? 1 : 0;
	}
	return text ? text : "another mount";
}

void redis_set_alone(struct redis *store, bool alone)
{
	WITH_MUTEX(&store->state.lock);

	if (store->state.alone != alone)
		store->state.stirred = true;
	store->state.alone = alone;
	pthread_cond_broadcast(&store->state.moved);
}

static int take_chance(uint64_t *ret_chance)
{
	if (getrandom(ret_chance, sizeof(*ret_chance), 0) != sizeof(*ret_chance))
		return -EIO;
	*ret_chance >>= CHANCE_SHIFT;
	return 0;
}

int redis_bring_forward(struct redis *store, char **ret_why)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	uint64_t chance;
	int r = take_chance(&chance);

	if (r == 0)
		r = mounts_call(store, &reply, "forward #o #a",
				OP(.offset = chance, .at = REDIS_LEASE_MS));
	if (r == 0 && reply_is(reply_at(&reply, 0), "BUSY"))
		return str_explain(ret_why, -EBUSY,
				   "%s is mounted by an older sessfs; unmount it, and mount it by "
				   "this one then",
				   store->place);
	return r < 0 ? r : redis_status(store, &reply);
}

/* alone: "0" with others, "1" not, "2" not, but those that are silent go. */
static int join(struct redis *store, const char *alone, struct reply *ret_reply)
{
	uint64_t chance;
	int r = take_chance(&chance);

	return r < 0 ? r :
		       mounts_call(store, ret_reply,
				   store->owner ? "join m 1 $n #a $d #o" : "join g 1 $n #a $d #o",
				   OP(.name = bytes_str(alone), .at = REDIS_LEASE_MS,
				      .data = bytes_str(store->owner ? store->owner : ""),
				      .offset = chance));
}

static void become(struct redis *store, const struct reply *reply, bool again)
{
	const uint64_t n = (uint64_t)reply_number(reply_at(reply, 2));
	const bool first = reply_is(reply_at(reply, 3), "1");

	pthread_mutex_lock(&store->state.lock);
	store->number = (uint64_t)reply_number(reply_at(reply, 1));
	store->state.untold = first;
	store->state.alone = store->owner && first;
	if (!*store->born)
		snprintf(store->born, sizeof(store->born), "%lld",
			 (long long)reply_number(reply_at(reply, 4)));
	pthread_mutex_unlock(&store->state.lock);
	for (size_t i = 0; i < REDIS_LANES; i++)
		store->pool.lanes[i].unsure = false;
	redis_feed_begin(store, n, again);
}

static void outwait(struct redis *store)
{
	const int64_t until = tick_ms() + REDIS_LEASE_MS;

	log_warning("%s: the server has not heard from another mount for %d seconds; waiting as "
		    "long for it to come back",
		    store->place, REDIS_LEASE_MS / 1000);
	while (tick_ms() < until)
		tick_pause(OUTWAIT_MS);
}

int redis_join(struct redis *store, bool shared, char **ret_why)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	bool outwaited = false;
	int r;

	for (;;) {
		reply_done(&reply);
		r = join(store, shared || !store->owner ? "0" : outwaited ? "2" : "1", &reply);
		if (r < 0)
			return r;
		if (!reply_is(reply_at(&reply, 0), "SILENT") || outwaited)
			break;
		outwait(store);
		outwaited = true;
	}
	r = redis_status(store, &reply);
	if (r == 0)
		become(store, &reply, false);
	return r == 0 ? 0 :
			str_explain(ret_why, -EBUSY, "%s is already mounted by %s", store->place,
				    owner_in(reply_at(&reply, 1)));
}

int redis_rejoin(struct redis *store, uint64_t number)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	int r = 0;

	pthread_mutex_lock(&store->telling);
	if (store->number == number) {
		r = join(store, "0", &reply);
		if (r == 0)
			r = redis_status(store, &reply);
		if (r == 0)
			become(store, &reply, true);
		if (r == 0 && store->owner)
			log_warning(
				"%s: the server did not hear from this mount for %d seconds, so "
				"programs here have lost their file locks",
				store->place, REDIS_LEASE_MS / 1000);
	}
	pthread_mutex_unlock(&store->telling);
	return r < 0 ? r : redis_tell_uses(store);
}

void redis_leave(struct redis *store)
{
	_cleanup_(reply_done) struct reply reply = { 0 };

	if (store->number)
		mounts_call(store, &reply, "leave #m", OP(.ino = 0));
}

/* Of the others: whether there are any mounts. */
static void take_mounts(struct redis *store, const struct reply *list)
{
	bool others = false;

	for (size_t i = 0; i + 1 < list->count; i += 3) {
		const struct bytes state = reply_bytes(reply_at(list, i + 1));

		others |= state.size && *state.data == 'm' &&
			  (uint64_t)reply_number(reply_at(list, i)) != store->number;
	}
	redis_set_alone(store, !others);
}

static int beat(struct redis *store, int64_t lease, const char *untold, const char *holds)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	uint64_t settings, newest;
	int r = mounts_call(store, &reply, "beat #i $n $d #o #a",
			    OP(.ino = store->number, .name = bytes_str(untold),
			       .data = bytes_str(holds), .offset = store->state.known,
			       .at = lease));

	if (r == 0)
		r = redis_status(store, &reply);
	if (r < 0)
		return r;
	settings = (uint64_t)reply_number(reply_at(&reply, 1));
	newest = (uint64_t)reply_number(reply_at(&reply, 4));
	pthread_mutex_lock(&store->state.lock);
	store->state.stirred |= settings != store->state.settings ||
				reply_number(reply_at(&reply, 2)) > 0 ||
				newest > store->state.heard;
	store->state.heard = MAX(store->state.heard, newest);
	store->state.settings = settings;
	store->backend.settings = settings + 1;
	if (store->state.stirred)
		pthread_cond_broadcast(&store->state.moved);
	pthread_mutex_unlock(&store->state.lock);
	if (store->owner)
		take_mounts(store, reply_at(&reply, 3));
	return 0;
}

int redis_beat(struct redis *store, int64_t lease)
{
	return beat(store, lease, "-", "-");
}

bool redis_is_shared(struct backend *backend)
{
	struct redis *store = redis_of(backend);

	return redis_is_mount(store) && !store->state.alone;
}

uint64_t redis_lease(struct backend *backend)
{
	return redis_of(backend)->number;
}

bool redis_on_duty(struct backend *backend)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	struct redis *store = redis_of(backend);
	const uint64_t number = store->number;

	if (!redis_is_mount(store) || store->state.duty == number)
		return true;
	if (mounts_call(store, &reply, "duty #i", OP(.ino = number)) == 0 &&
	    (uint64_t)reply_number(&reply) == number)
		store->state.duty = number;
	return store->state.duty == number;
}

void redis_turn(struct backend *backend, bool take)
{
	struct redis *store = redis_of(backend);
	const int64_t until = tick_ms() + TURN_MS;
	bool first, done;

	if (!redis_is_mount(store))
		return;
	pthread_mutex_lock(&store->state.lock);
	first = take ? store->state.turns++ == 0 : --store->state.turns == 0;
	pthread_mutex_unlock(&store->state.lock);
	for (done = !first; !done;) {
		_cleanup_(reply_done) struct reply reply = { 0 };

		done = mounts_call(store, &reply, "turn #m #t", OP(.to = take)) < 0 || !take ||
		       reply_is(&reply, "1") || tick_ms() > until;
		if (!done)
			tick_pause(TURN_PAUSE_MS);
	}
}

int redis_hold(struct backend *backend, bool untold)
{
	struct redis *store = redis_of(backend);
	int r;

	if (!redis_is_mount(store))
		return 0;
	r = beat(store, -1, "-", untold ? "1" : "0");
	return r == -EOWNERDEAD ? -EAGAIN : r < 0 ? r : 1;
}

/* Files in use: those of a mount that is alone are not told. */

bool redis_uses_here(struct redis *store, uint64_t ino)
{
	WITH_MUTEX(&store->state.lock);

	return uses_has(&store->state.uses, ino);
}

/* Of these files, all of which are in use here or none: 0; 1: something may wait; -ESTALE: the
 * notes that were left until then are not digested.  A known below 0: all the same. */
static int tell_uses(struct redis *store, const uint64_t *inos, size_t count, bool on,
		     int64_t known)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	_cleanup_(call_done) struct call call = { .store = store };
	int r;

	call_words(&call, "use #m #t #a", OP(.to = on, .at = known));
	for (size_t i = 0; i < count; i++)
		call_words(&call, "[Uim]", OP(.ino = inos[i]));
	r = redis_call(store, &call, &reply);
	if (r < 0)
		return r;
	if (reply_is(reply_at(&reply, 0), "0") || reply_is(reply_at(&reply, 0), "1"))
		return reply_is(reply_at(&reply, 0), "1");
	return MIN(redis_status(store, &reply), 0);
}

/* With telling held: all that is in use is told, and that it is; what was told before is forgotten
 * if it is stale. */
static int tell_all(struct redis *store, bool stale)
{
	_cleanup_(freep) uint64_t *inos = NULL;
	size_t count;
	int r = stale ? beat(store, -1, "1", "-") : 0;

	if (r < 0)
		return r;

	pthread_mutex_lock(&store->state.lock);
	count = store->state.uses.count;
	inos = calloc(count + 1, sizeof(*inos));
	if (inos && count)
		memcpy(inos, store->state.uses.ino, count * sizeof(*inos));
	pthread_mutex_unlock(&store->state.lock);
	r = !inos ? -ENOMEM : count ? tell_uses(store, inos, count, true, -1) : 0;
	return r < 0 ? r : beat(store, -1, "0", "-");
}

int redis_tell_uses(struct redis *store)
{
	bool tell, untell, stale;
	int r = 0;
	WITH_MUTEX(&store->telling);

	pthread_mutex_lock(&store->state.lock);
	stale = store->state.stale;
	tell = store->owner && store->number && (store->state.untold || stale) &&
	       !store->state.alone;
	untell = store->owner && store->number && !store->state.untold && store->state.alone;
	pthread_mutex_unlock(&store->state.lock);
	if (tell)
		r = tell_all(store, stale);
	else if (untell)
		r = beat(store, -1, "1", "-");
	if (r >= 0 && (tell || untell)) {
		pthread_mutex_lock(&store->state.lock);
		store->state.untold = untell;
		store->state.stale = false;
		pthread_mutex_unlock(&store->state.lock);
	}
	return MIN(r, 0);
}

void redis_look(struct redis *store)
{
	if (!store->number)
		return;
	if (redis_beat(store, REDIS_LOOK) == 0)
		redis_tell_uses(store);
}

int redis_use(struct backend *backend, uint64_t ino, bool on)
{
	struct redis *store = redis_of(backend);
	bool told;
	int r = 0;

	if (!redis_is_mount(store))
		return on;
	pthread_mutex_lock(&store->telling);
	pthread_mutex_lock(&store->state.lock);
	if (on)
		r = uses_add(&store->state.uses, ino);
	else
		uses_remove(&store->state.uses, ino);
	told = !store->state.untold;
	if (r == 0 && on && !told && store->state.waiting.any)
		r = -ESTALE;
	pthread_mutex_unlock(&store->state.lock);
	pthread_mutex_unlock(&store->telling);
	if (r == 0)
		r = told ? tell_uses(store, &ino, 1, on, on ? (int64_t)store->state.known : -1) : 1;
	if (!on && r < 0) {
		pthread_mutex_lock(&store->state.lock);
		store->state.stale = true;
		pthread_mutex_unlock(&store->state.lock);
	}
	if (!on)
		return 0;
	if (r < 0)
		redis_use(backend, ino, false);
	return r == -EOWNERDEAD ? -ESTALE : r;
}

/* Locks. */

struct locks_of_others {
	const struct redis *store;
	const struct backend_lock *lock; /* one that is wanted, or NULL: */
	struct bytes locks;		 /* these */
	struct backend_lock *ret_lock;
	struct buf *all; /* or NULL */
	int found;
};

static int look_at_locks(void *arg, struct bytes key, struct bytes value)
{
	struct locks_of_others *others = arg;

	if ((uint64_t)key_take_number(&key) == others->store->number)
		return 0;
	if (others->lock)
		others->found |= backend_lock_in(value, others->lock, others->ret_lock);
	else
		others->found |= backend_locks_clash(others->locks, value);
	return others->all ? buf_append_bytes(others->all, value) : others->found;
}

static int each_lock(struct redis *store, struct backend_snapshot *snapshot, uint64_t ino,
		     struct locks_of_others *others)
{
	const struct range range = { "range", "", "[Bi]", "[Bi>", 0, { .ino = ino } };

	others->store = store;
	return redis_range(&store->backend, snapshot, &range, look_at_locks, others);
}

int redis_locks_judge(struct redis *store, uint64_t ino, struct bytes locks, struct buf *all)
{
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	struct locks_of_others others = { .locks = locks, .all = all };
	int r = each_lock(store, &snapshot, ino, &others);

	return r < 0 ? r : others.found ? -EAGAIN : 0;
}

int redis_lock_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    const struct backend_lock *lock, struct backend_lock *ret_lock)
{
	struct locks_of_others others = { .lock = lock, .ret_lock = ret_lock };
	int r = each_lock(redis_of(backend), snapshot, ino, &others);

	return r < 0 ? r : others.found ? 0 : -ENOENT;
}
