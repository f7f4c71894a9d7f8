/* SPDX-License-Identifier: MIT */
#include "backend/redis/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/redis/mounts.h"
#include "backend/redis/pack.h"
#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

enum { NOTES_PAGE = 2000 }; /* as in store.lua */

/* How far this mount knows of what others do. */

void redis_feed_again(struct redis *store)
{
	const struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING };

	feed_notes_done(&store->state.waiting);
	if (store->state.lost_notes)
		feed_add(&store->state.waiting, &anything);
	store->state.seen = store->state.known;
}

void redis_feed_lost(struct redis *store)
{
	WITH_MUTEX(&store->state.lock);

	store->state.lost_notes = store->state.stirred = true;
	store->state.listed_loss = false;
	redis_feed_again(store);
	pthread_cond_broadcast(&store->state.moved);
}

void redis_feed_begin(struct redis *store, uint64_t n, bool lost)
{
	WITH_MUTEX(&store->state.lock);

	store->state.known = store->state.heard = n;
	store->state.lost_notes |= lost;
	store->state.stirred |= lost;
	store->state.listed_loss = false;
	redis_feed_again(store);
	pthread_cond_broadcast(&store->state.moved);
}

/* What the state after the commit has told of a note. */
static void take_described(struct backend_feed *feed, struct bytes extra)
{
	long long first, end;
	int size = 0;

	if (feed->what == BACKEND_FEED_ENTRY) {
		feed->parent = feed->ino;
		feed->path = extra.size ? extra : (struct bytes){ 0 };
	} else if (feed->what == BACKEND_FEED_NODE) {
		feed->node = feed->ino;
	} else if (feed->what == BACKEND_FEED_ROWS && extra.data &&
		   sscanf(extra.data, "%lld %lld%n", &first, &end, &size) == 2) {
		struct bytes ino = bytes_make(extra.data + size + 1, extra.size - (size_t)size - 1);

		feed->first = first;
		feed->end = end;
		if (!feed->dated && ino.size == 8)
			feed->node = (uint64_t)key_take_number(&ino);
	}
}

/* Each note of an entry of the stream, unless it is this mount's own. */
static int each_note(const struct redis *store, const struct reply *entry, backend_feed_fn *fn,
		     void *arg)
{
	const struct reply *fields = reply_at(entry, 1);
	const uint64_t n = strtoull(reply_at(entry, 0)->text.data, NULL, 10);
	const uint64_t mount = (uint64_t)reply_number(reply_at(fields, 1));
	const int64_t pid = reply_number(reply_at(fields, 3));
	const int64_t at = reply_number(reply_at(fields, 5));
	int r = 0;

	if (mount == store->number)
		return 0;
	for (size_t i = 6; r == 0 && i + 3 < fields->count; i += 4) {
		struct backend_feed feed;

		r = unpack_note(reply_bytes(reply_at(fields, i + 1)), &feed);
		if (r < 0)
			return r;
		take_described(&feed, reply_bytes(reply_at(fields, i + 3)));
		feed.n = n;
		feed.mount = mount;
		feed.pid = pid;
		feed.at = at;
		r = fn(arg, &feed);
	}
	return r;
}

static uint64_t number_of(const struct reply *entry)
{
	const char *id = reply_at(entry, 0)->text.data;

	return id ? strtoull(id, NULL, 10) : 0;
}

int redis_feed_take(struct redis *store, const struct reply *entries)
{
	int r = 0;
	WITH_MUTEX(&store->state.lock);

	for (size_t i = 0; r == 0 && i < entries->count; i++) {
		const uint64_t n = number_of(reply_at(entries, i));

		/* An entry may be one of several of its commit; the last may be read twice. */
		if (n >= store->state.seen && n > store->state.known)
			r = each_note(store, reply_at(entries, i), feed_add, &store->state.waiting);
		if (r == 0)
			store->state.seen = MAX(store->state.seen, n);
	}
	store->state.stirred = true;
	pthread_cond_broadcast(&store->state.moved);
	return r;
}

struct feed_listing {
	backend_feed_fn *fn;
	void *arg;
	uint64_t n;
	bool loss;
};

static int list_one(void *arg, const struct backend_feed *feed)
{
	const struct feed_listing *listing = arg;

	return listing->loss ? 0 : listing->fn(listing->arg, feed);
}

static int list_page(struct backend *backend, struct backend_snapshot *snapshot,
		     struct feed_listing *listing, bool *ret_more)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	const struct reply *entries;
	int r = reading_one(&reading, "notes #a", OP(.at = (int64_t)listing->n), 0, NULL);

	entries = reading_answer(&reading, 0);
	*ret_more = entries->count >= NOTES_PAGE;
	for (size_t i = 0; r == 0 && i < entries->count; i++) {
		listing->n = number_of(reply_at(entries, i));
		r = each_note(redis_of(backend), reply_at(entries, i), list_one, listing);
	}
	return r;
}

int redis_feed_list(struct backend *backend, struct backend_snapshot *snapshot, backend_feed_fn *fn,
		    void *arg)
{
	struct redis *store = redis_of(backend);
	struct feed_listing listing = { .fn = fn, .arg = arg };
	struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING };
	bool more = true;
	int r = 0;

	if (!redis_is_mount(store))
		return 0;
	pthread_mutex_lock(&store->state.lock);
	listing.n = store->state.known;
	listing.loss = store->state.lost_notes;
	pthread_mutex_unlock(&store->state.lock);
	anything.n = listing.n;
	if (listing.loss)
		r = fn(arg, &anything);
	while (r == 0 && more)
		r = list_page(backend, snapshot, &listing, &more);
	pthread_mutex_lock(&store->state.lock);
	store->state.listed_loss = listing.loss;
	pthread_mutex_unlock(&store->state.lock);
	return MIN(r, 0);
}

void redis_feed_done(struct backend *backend, uint64_t n)
{
	struct redis *store = redis_of(backend);

	if (!redis_is_mount(store))
		return;
	pthread_mutex_lock(&store->state.lock);
	store->state.known = MAX(store->state.known, n);
	store->state.lost_notes &= !store->state.listed_loss;
	redis_feed_again(store);
	pthread_mutex_unlock(&store->state.lock);
}
