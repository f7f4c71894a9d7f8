/* SPDX-License-Identifier: MIT */
/* What this mount knows of the state of the store, and who writes of its threads. */
#include "backend/sql/mounts.h"

#include "backend/sql/conn.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"

int sql_state_say(struct sql *store, struct buf *buf)
{
	uint64_t known = INT64_MAX / 2; /* who is no mount takes no notice */

	pthread_mutex_lock(&store->state.lock);
	if (sql_is_mount(store))
		known = store->state.known;
	pthread_mutex_unlock(&store->state.lock);
	return sql_say(buf, &store->texts, SQL_STATE,
		       SQL_VALUES(sql_id(known), sql_id(store->number)));
}

struct sql_state sql_state_read(const struct bytes *columns)
{
	return (struct sql_state){
		.epoch = (uint64_t)sql_int(columns[0]),
		.n = (uint64_t)sql_int(columns[1]),
		.turn = (uint64_t)sql_int(columns[2]),
		.settings = (uint64_t)sql_int(columns[3]),
		.feed = sql_int(columns[4]),
		.changes = sql_int(columns[6]),
	};
}

void sql_state_learn(struct sql *store, const struct sql_state *state)
{
	bool news;

	pthread_mutex_lock(&store->state.lock);
	news = state->feed || state->changes || state->settings != store->state.settings;
	store->state.changes = state->changes;
	store->state.settings = MAX(store->state.settings, state->settings);
	store->state.stirred |= news;
	if (news)
		pthread_cond_broadcast(&store->state.moved);
	pthread_mutex_unlock(&store->state.lock);
}

int sql_state_anything(struct sql *store, struct sql_link *link)
{
	int r = sql_ask_text(store, link, SQL_FEED_ANYTHING, SQL_NO_VALUES, NULL);

	return r < 0 ? r : sql_ask_text(store, link, SQL_FEED_COUNT, SQL_NO_VALUES, NULL);
}

bool sql_mounts_alone(struct sql *store)
{
	bool alone;

	pthread_mutex_lock(&store->state.lock);
	alone = store->state.alone;
	pthread_mutex_unlock(&store->state.lock);
	return alone;
}

void sql_writer_take(struct sql *store)
{
	pthread_mutex_lock(&store->queue.lock);
	while (store->queue.writing)
		pthread_cond_wait(&store->queue.moved, &store->queue.lock);
	store->queue.writing = true;
	pthread_mutex_unlock(&store->queue.lock);
}

void sql_writer_give(struct sql *store)
{
	pthread_mutex_lock(&store->queue.lock);
	store->queue.writing = false;
	pthread_cond_broadcast(&store->queue.moved);
	pthread_mutex_unlock(&store->queue.lock);
}
