/* SPDX-License-Identifier: MIT */
/* How far this mount knows of what others do. */
#include "backend/redis/feed.h"
#include "backend/base/thread.h"

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
	LOCKED(&store->state.lock);

	store->state.lost_notes = store->state.stirred = true;
	store->state.listed_loss = false;
	redis_feed_again(store);
	pthread_cond_broadcast(&store->state.moved);
}

void redis_feed_begin(struct redis *store, uint64_t n, bool lost)
{
	LOCKED(&store->state.lock);

	store->state.known = n;
	store->state.lost_notes |= lost;
	store->state.listed_loss = false;
	redis_feed_again(store);
}
