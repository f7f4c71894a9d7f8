/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "backend/redis/mounts.h"
#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/redis/watch.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

enum {
	PAUSE_MS = 20,	/* from one comparison by length to the next */
	QUIET_MS = 100, /* that a key is not written before it is compared as a whole */
	LATEST_MS = 2000,
	COST = 50, /* part of the time that comparing may take */
	TOGETHER = 256,
};

static void suspect_free(void *arg)
{
	struct suspect *suspect = arg;

	free(suspect->owned);
	free(suspect);
}

void suspects_done(struct suspects *suspects)
{
	tdestroy(suspects->by_key, suspect_free);
	free(suspects->items);
	*suspects = (struct suspects){ 0 };
}

static int compare(const void *a, const void *b)
{
	const struct suspect *first = a, *second = b;

	return bytes_compare(first->key, second->key);
}

/* NULL: there is not the memory. */
static struct suspect *suspect_of(struct suspects *suspects, struct bytes key)
{
	const struct suspect wanted = { .key = key };
	struct suspect **found = tfind(&wanted, &suspects->by_key, compare), *new;

	if (found)
		return *found;
	if (ARRAY_ROOM(suspects->items, suspects->count, suspects->room) < 0)
		return NULL;
	new = calloc(1, sizeof(*new));
	if (!new)
		return NULL;
	new->owned = bytes_dup(key);
	new->key = bytes_make(new->owned, key.size);
	if (!new->owned || !tsearch(new, &suspects->by_key, compare)) {
		suspect_free(new);
		return NULL;
	}
	return suspects->items[suspects->count++] = new;
}

int suspects_tell(struct suspects *suspects, struct bytes key)
{
	struct suspect *suspect = suspect_of(suspects, key);

	if (!suspect)
		return -ENOMEM;
	if (!suspect->first)
		suspect->first = tick_ms();
	suspect->due = 0;
	return 0;
}

int64_t suspects_due(const struct suspects *suspects)
{
	int64_t due = INT64_MAX;

	for (size_t i = 0; i < suspects->count; i++)
		due = MIN(due, suspects->items[i]->due ?
				       MAX(suspects->items[i]->due, suspects->rest_until) :
				       suspects->quick_until);
	return due;
}

static void note_hash(struct redis *store, uint64_t hash)
{
	store->own[hash % REDIS_OWN].key = hash;
	store->own[hash % REDIS_OWN].at = tick_ms();
}

/* The list has the key's hash with a suffix. */
void redis_note_own(struct redis *store, uint64_t key)
{
	note_hash(store, key);
	note_hash(store, bytes_hash(key, BYTES(":list")));
}

/* The hash of a session and a key is that of both with a colon between them, as in Redis. */
static bool is_own(const struct redis *store, struct bytes key)
{
	const size_t before = strlen(store->prefix);
	const char *colon =
		key.size > before ? memchr(key.data + before, ':', key.size - before) : NULL;
	const size_t at = colon ? (size_t)(colon - key.data) : 0;
	const uint64_t hash = colon ? call_key_hash(bytes_make(key.data + before, at - before),
						    bytes_make(colon + 1, key.size - at - 1)) :
				      0;

	return colon && store->own[hash % REDIS_OWN].key == hash &&
	       store->own[hash % REDIS_OWN].at + QUIET_MS > tick_ms();
}

/* What has been found changed by a call of the script, which is made if it has more words than
 * these: how many keys. */
static int ask_found(struct call *call, size_t words)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	int r = call->requests.count > words ? redis_call(call->store, call, &reply) : 0;

	call_done(call);
	return r < 0 ? r : (int)reply_number(&reply);
}

int suspects_check(struct suspects *suspects, struct redis *store, int64_t now)
{
	struct call quick = { .store = store }, whole = { .store = store };
	size_t kept = 0;
	int64_t began;
	int found, changed;

	call_words(&quick, "check 0", NULL);
	call_words(&whole, "check 1", NULL);
	for (size_t i = 0; i < suspects->count; i++) {
		struct suspect *suspect = suspects->items[i];

		if (!suspect->due) {
			if (suspects->quick_until <= now) {
				if (!is_own(store, suspect->key))
					words_add(&quick.requests, suspect->key);
				suspect->due = MIN(now + QUIET_MS, suspect->first + LATEST_MS);
			}
		} else if (suspect->due <= now && suspects->rest_until <= now &&
			   whole.requests.count < TOGETHER) {
			words_add(&whole.requests, suspect->key);
			tdelete(suspect, &suspects->by_key, compare);
			suspect_free(suspect);
			continue;
		}
		suspects->items[kept++] = suspect;
	}
	suspects->count = kept;
	if (suspects->quick_until <= now && quick.requests.count > 2)
		suspects->quick_until = now + PAUSE_MS;
	found = ask_found(&quick, 2);
	began = tick_ms();
	changed = ask_found(&whole, 2);
	suspects->rest_until = tick_ms() + (tick_ms() - began) * COST;
	return found < 0 ? found : changed < 0 ? changed : found + changed;
}

/* All. */

struct sweep {
	struct redis *store;
	struct call sessions;
	int found;
};

static int sweep_prints(struct sweep *sweep)
{
	_cleanup_(buf_done) struct buf cursor = { 0 };
	int r = buf_append_str(&cursor, "0");

	do {
		_cleanup_(reply_done) struct reply reply = { 0 };

		if (r == 0)
			r = sweep->store->watch.stop ?
				    -EINTR :
				    mounts_call(sweep->store, &reply, "prints $d",
						OP(.data = buf_bytes(&cursor)));
		sweep->found += (int)reply_number(reply_at(&reply, 1));
		buf_clear(&cursor);
		if (r == 0)
			r = buf_append_bytes(&cursor, reply_bytes(reply_at(&reply, 0)));
	} while (r == 0 && !bytes_equal(buf_bytes(&cursor), BYTES("0")));
	return r;
}

static int sweep_sessions(struct sweep *sweep)
{
	int r = sweep->store->watch.stop ? -EINTR : ask_found(&sweep->sessions, 1);

	sweep->found += MAX(r, 0);
	return MIN(r, 0);
}

static int sweep_session(void *arg, struct bytes session)
{
	struct sweep *sweep = arg;

	if (!sweep->sessions.requests.count)
		call_words(&sweep->sessions, "members", NULL);
	words_add(&sweep->sessions.requests, session);
	return sweep->sessions.requests.count < TOGETHER ? 0 : sweep_sessions(sweep);
}

/* Whether the walk over all keys will find those that nobody knows (BACKEND_UNADOPTED). */
static int is_walked(struct redis *store, bool *ret_walked)
{
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	_cleanup_(reading_done) struct reading reading = reading_in(&store->backend, &snapshot);
	struct bytes value;
	int r = reading_one(&reading, "get [Tn]", OP(.name = BYTES(BACKEND_UNADOPTED)), -ENOENT,
			    &value);

	*ret_walked = r == 0;
	return r == -ENOENT ? 0 : r;
}

int suspects_sweep(struct redis *store)
{
	struct sweep sweep = { .store = store, .sessions.store = store };
	bool walked = false;
	int r = sweep_prints(&sweep);

	if (r == 0)
		r = is_walked(store, &walked);
	if (r == 0 && !walked)
		r = redis_session_names(&store->backend, sweep_session, &sweep);
	if (r == 0)
		r = sweep_sessions(&sweep);
	call_done(&sweep.sessions);
	return r < 0 ? r : sweep.found;
}
