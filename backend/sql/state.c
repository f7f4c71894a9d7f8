/* SPDX-License-Identifier: MIT */
/* What this mount knows of the state of the store, and who writes of its threads. */
#include "backend/sql/mounts.h"

#include "backend/sql/conn.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

int sql_state_say(struct sql *store, struct buf *buf)
{
	_cleanup_(buf_done) struct buf new = { 0 };
	int r;

	/* Notes are for mounts alone. */
	pthread_mutex_lock(&store->state.lock);
	r = sql_is_mount(store) ? sql_lanes_say(&new, &store->state.known, "mount", "number") :
				  buf_append_str(&new, "1 = 0");
	pthread_mutex_unlock(&store->state.lock);
	return r < 0 ? r :
		       sql_say(buf, &store->texts, SQL_STATE,
			       SQL_VALUES(sql_words(buf_bytes(&new)), sql_id(store->number)));
}

struct sql_state sql_state_read(const struct bytes *columns)
{
	return (struct sql_state){
		.epoch = (uint64_t)sql_int(columns[0]),
		.n = (uint64_t)sql_int(columns[1]),
		.turn = (uint64_t)sql_int(columns[2]),
		.settings = (uint64_t)sql_int(columns[3]),
		.feed = sql_int(columns[4]),
		.apart = sql_int(columns[5]),
		.changes = sql_int(columns[6]),
	};
}

void sql_state_learn(struct sql *store, struct sql_state *state)
{
	bool news;
	WITH_MUTEX(&store->state.lock);

	state->feed |= store->state.lost_notes;
	news = state->feed || state->changes || state->settings != store->state.settings;
	store->state.changes = state->changes;
	store->state.turn = state->turn;
	store->state.settings = MAX(store->state.settings, state->settings);
	store->state.stirred |= news;
	if (news)
		pthread_cond_broadcast(&store->state.moved);
}

bool sql_mounts_alone(struct sql *store)
{
	WITH_MUTEX(&store->state.lock);

	return store->state.alone;
}

void sql_writer_take(struct sql *store)
{
	WITH_MUTEX(&store->queue.lock);

	while (store->queue.writing)
		pthread_cond_wait(&store->queue.moved, &store->queue.lock);
	store->queue.writing = true;
}

void sql_writer_give(struct sql *store)
{
	WITH_MUTEX(&store->queue.lock);

	store->queue.writing = false;
	pthread_cond_broadcast(&store->queue.moved);
}
