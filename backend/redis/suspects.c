/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "backend/redis/keys.h"
#include "backend/redis/watch.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

enum {
	QUIET_MS = 100, /* that a key is not written before it is compared as a whole */
	LATEST_MS = 2000,
	COST = 50, /* part of the time that comparing may take */
	GROUPS_MAX = 256,
};

static const struct bytes list_suffix = { ":list", 5 };
static const struct bytes side_suffix = { ":list:_hash", 11 };

void suspects_done(struct suspects *suspects)
{
	for (size_t i = 0; i < suspects->count; i++)
		free(suspects->items[i].key);
	free(suspects->items);
	*suspects = (struct suspects){ 0 };
}

int suspects_tell(struct suspects *suspects, struct bytes key)
{
	const int64_t now = redis_now();
	struct suspect *suspect = NULL;

	for (size_t i = 0; i < suspects->count && !suspect; i++)
		if (bytes_equal(bytes_make(suspects->items[i].key, suspects->items[i].size), key))
			suspect = &suspects->items[i];
	if (!suspect) {
		if (ARRAY_ROOM(suspects->items, suspects->count, suspects->room) < 0)
			return -ENOMEM;
		suspect = &suspects->items[suspects->count];
		*suspect = (struct suspect){ .key = bytes_dup(key), .size = key.size };
		if (!suspect->key)
			return -ENOMEM;
		suspects->count++;
	}
	if (!suspect->first)
		suspect->first = now;
	suspect->due = 0;
	return 0;
}

int64_t suspects_due(const struct suspects *suspects)
{
	int64_t due = INT64_MAX;

	for (size_t i = 0; i < suspects->count; i++)
		due = MIN(due, MAX(suspects->items[i].due,
				   suspects->items[i].due ? suspects->rest_until : 0));
	return due;
}

/* Fowler, Noll and Vo's hash 1a. */
static uint64_t hash_on(uint64_t hash, struct bytes bytes)
{
	for (size_t i = 0; i < bytes.size; i++)
		hash = (hash ^ (unsigned char)bytes.data[i]) * UINT64_C(1099511628211);
	return hash;
}

static const uint64_t hash_begin = UINT64_C(14695981039346656037);

static void note_hash(struct redis *store, uint64_t hash)
{
	store->own[hash % REDIS_OWN].key = hash;
	store->own[hash % REDIS_OWN].at = redis_now();
}

void redis_note_own(struct redis *store, struct bytes session, struct bytes key)
{
	uint64_t hash = hash_on(hash_on(hash_begin, session), BYTES(":"));

	hash = hash_on(hash, key);
	note_hash(store, hash);
	note_hash(store, hash_on(hash, list_suffix));
}

static bool is_own(const struct redis *store, struct bytes key)
{
	const size_t before = strlen(store->prefix);
	const uint64_t hash = hash_on(hash_begin, bytes_make(key.data + before,
							     key.size - MIN(before, key.size)));

	return store->own[hash % REDIS_OWN].key == hash &&
	       store->own[hash % REDIS_OWN].at + QUIET_MS > redis_now();
}

/* Groups that a key of Redis may belong to: one for each colon where a session's id may end. */
static int add_candidates(struct call *call, struct bytes key)
{
	const size_t before = strlen(call->store->prefix);
	int r = 0;

	if (key.size <= before)
		return 0;
	key = bytes_make(key.data + before, key.size - before);
	for (size_t i = 0; r == 0 && i < key.size; i++) {
		const struct bytes session = bytes_make(key.data, i);
		struct bytes rest = bytes_make(key.data + i + 1, key.size - i - 1);
		_cleanup_(buf_done) struct buf side = { 0 };

		if (key.data[i] != ':' || bytes_equal(rest, BYTES("_keys")))
			continue;
		if (bytes_ends_with(rest, side_suffix)) {
			r = buf_append(&side, rest.data, rest.size - side_suffix.size);
			if (r == 0)
				r = buf_append_str(&side, ":_hash");
			call_group(call, session, buf_bytes(&side), "c");
		} else if (bytes_ends_with(rest, list_suffix)) {
			call_group(call, session,
				   bytes_make(rest.data, rest.size - list_suffix.size), "c");
		} else if (!bytes_ends_with(rest, BYTES(":_hash")))
			call_group(call, session, rest, "c");
	}
	return r < 0 ? r : call->error;
}

/* The result is how many have changed; the call is empty again. */
static int check_groups(struct redis *store, struct call *call, const char *how)
{
	_cleanup_(reply_done) struct reply reply = { 0 };
	int r = 0;

	if (call->group_count) {
		words_str(&call->head, "check");
		words_str(&call->head, how);
		r = redis_call(store, call, &reply);
	}
	call_done(call);
	return r < 0 ? r : (int)reply_number(&reply);
}

int suspects_check(struct suspects *suspects, struct redis *store, int64_t now)
{
	struct call quick = { .store = store }, whole = { .store = store };
	int64_t began = redis_now();
	size_t kept = 0;
	int r = 0, found = 0, changed;

	for (size_t i = 0; i < suspects->count; i++) {
		struct suspect *suspect = &suspects->items[i];
		const struct bytes key = bytes_make(suspect->key, suspect->size);

		if (r == 0 && !suspect->due) {
			r = is_own(store, key) ? 0 : add_candidates(&quick, key);
			suspect->due = MIN(now + QUIET_MS, suspect->first + LATEST_MS);
		} else if (r == 0 && suspect->due <= now && suspects->rest_until <= now &&
			   whole.group_count < GROUPS_MAX) {
			r = add_candidates(&whole, key);
			free(suspect->key);
			continue;
		}
		suspects->items[kept++] = *suspect;
	}
	suspects->count = kept;
	if (r == 0)
		r = found = check_groups(store, &quick, "0");
	began = redis_now();
	changed = r < 0 ? r : check_groups(store, &whole, "1");
	suspects->rest_until = redis_now() + (redis_now() - began) * COST;
	call_done(&quick);
	call_done(&whole);
	return changed < 0 ? changed : found + changed;
}

/* All. */

struct sweep {
	struct redis *store;
	struct call call;
	size_t before, behind;
	int found;
};

static int sweep_flush(struct sweep *sweep)
{
	int found = check_groups(sweep->store, &sweep->call, "2");

	sweep->call.store = sweep->store;
	sweep->found += MAX(found, 0);
	return MIN(found, 0);
}

static int sweep_key(struct sweep *sweep, struct bytes session, struct bytes key)
{
	call_group(&sweep->call, session, key, "c");
	if (sweep->call.error < 0)
		return sweep->call.error;
	return sweep->call.group_count >= GROUPS_MAX ? sweep_flush(sweep) : 0;
}

static int sweep_prints(struct sweep *sweep)
{
	_cleanup_(buf_done) struct buf cursor = { 0 };
	int r = buf_append_str(&cursor, "0");

	do {
		_cleanup_(words_done) struct words words = { 0 };
		_cleanup_(reply_done) struct reply reply = { 0 };
		const struct reply *pairs;

		words_str(&words, "HSCAN");
		words_str(&words, sweep->store->keys[4]);
		words_add(&words, buf_bytes(&cursor));
		words_str(&words, "COUNT");
		words_number(&words, GROUPS_MAX);
		if (r == 0)
			r = redis_ask_words(sweep->store, &words, &reply);
		pairs = reply_at(&reply, 1);
		for (size_t i = 0; r == 0 && i + 1 < pairs->count; i += 2) {
			_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };

			r = call_unname(reply_bytes(reply_at(pairs, i)), &session, &key);
			if (r == 0)
				r = sweep_key(sweep, buf_bytes(&session), buf_bytes(&key));
		}
		buf_clear(&cursor);
		if (r == 0)
			r = buf_append_bytes(&cursor, reply_bytes(reply_at(&reply, 0)));
	} while (r == 0 && !bytes_equal(buf_bytes(&cursor), BYTES("0")) &&
		 !sweep->store->watch.stop);
	return r;
}

static int sweep_session(void *arg, struct bytes key)
{
	_cleanup_(words_done) struct words words = { 0 };
	_cleanup_(reply_done) struct reply reply = { 0 };
	struct sweep *sweep = arg;
	struct bytes session;
	int r;

	if (key.size < sweep->before + sweep->behind)
		return 0;
	session = bytes_make(key.data + sweep->before, key.size - sweep->before - sweep->behind);
	words_str(&words, "SMEMBERS");
	words_add(&words, key);
	r = sweep->store->watch.stop ? -EINTR : redis_ask_words(sweep->store, &words, &reply);
	for (size_t i = 0; r == 0 && i < reply.count; i++) {
		struct bytes member = reply_bytes(reply_at(&reply, i));

		r = sweep_key(sweep, session, member);
		if (r == 0 && bytes_ends_with(member, list_suffix))
			r = sweep_key(sweep, session,
				      bytes_make(member.data, member.size - list_suffix.size));
	}
	return r;
}

/* Whether the walk over all keys will find those that nobody knows (BACKEND_UNADOPTED). */
static int is_walked(struct redis *store, bool *ret_walked)
{
	_cleanup_(words_done) struct words words = { 0 };
	_cleanup_(reply_done) struct reply reply = { 0 };
	_cleanup_(key_done) struct key key = key_make(KEY_SETTING);
	int r;

	key_add_text(&key, BYTES(BACKEND_UNADOPTED));
	words_str(&words, "HEXISTS");
	words_str(&words, store->keys[1]);
	words_add(&words, key_bytes(&key));
	r = key.error < 0 ? key.error : redis_ask_words(store, &words, &reply);
	*ret_walked = reply_number(&reply) == 1;
	return r;
}

int suspects_sweep(struct redis *store)
{
	bool walked = false;
	struct sweep sweep = { .store = store, .behind = strlen(":_keys") };
	int r;

	sweep.call.store = store;
	sweep.before = strlen(store->prefix);
	r = sweep_prints(&sweep);
	if (r == 0)
		r = is_walked(store, &walked);
	if (r == 0 && !walked)
		r = redis_scan(store, store->prefix, ":_keys", sweep_session, &sweep);
	if (r == 0)
		r = sweep_flush(&sweep);
	call_done(&sweep.call);
	return r < 0 ? r : sweep.found;
}
