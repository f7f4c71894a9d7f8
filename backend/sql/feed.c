/* SPDX-License-Identifier: MIT */
/*
 * Notes have dense numbers in the order of the commits, since whoever commits has the one row of
 * sessfs_store locked.  A mount remembers up to where it has read them (state.seen), and up to
 * where they were digested (state.known); what others have left between the two is in
 * state.waiting.
 */
#include "backend/sql/feed.h"

#include <errno.h>
#include <unistd.h>

#include "backend/sql/cursor.h"
#include "backend/sql/mounts.h"
#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

enum { TRIM_EVERY = 64 };

struct saying {
	struct sql_packet *packet;
	uint64_t n;
	int64_t at;
};

static struct sql_value optional(struct bytes bytes)
{
	return sql_blob(bytes);
}

static int say_one(void *arg, const struct backend_feed *feed)
{
	struct saying *saying = arg;
	const struct backend_node state = {
		.kind = BACKEND_LIST, .nlink = 1, .session = feed->session, .key = feed->key
	};
	_cleanup_(buf_done) struct buf slot = { 0 };
	int r = sql_slot(&state, &slot);

	packet_say(saying->packet, -EIO, SQL_FEED_PUT,
		   SQL_VALUES(sql_id(saying->n++), sql_id(saying->packet->store->number),
			      sql_number(feed->what), sql_id(feed->ino),
			      sql_number(feed_flags(feed)), sql_number(feed->first),
			      optional(feed->session), optional(feed->key), optional(feed->name),
			      sql_number(getpid()), sql_number(saying->at),
			      sql_number((int64_t)feed->count), sql_number(feed->deleted),
			      sql_id(feed->node), sql_blob(sql_present(&slot)),
			      sql_text(feed->session.data ? feed->session : BYTES("")),
			      sql_text(feed->key.data ? feed->key : BYTES("")),
			      sql_number(feed->end)));
	return r;
}

static int count_one(void *arg, const struct backend_feed *feed)
{
	(void)feed;
	++*(uint64_t *)arg;
	return 0;
}

uint64_t sql_feed_say(struct sql_packet *packet, const struct feed_notes *notes, uint64_t n)
{
	struct saying saying = { .packet = packet, .n = n, .at = time_now() };
	uint64_t count = 0;
	int r;

	feed_each(notes, count_one, &count);
	r = feed_each(notes, say_one, &saying);
	if (packet->r == 0)
		packet->r = r;
	if (n / TRIM_EVERY != (n + count) / TRIM_EVERY) {
		packet_say(packet, -EIO, SQL_FEED_TRIM, SQL_NO_VALUES);
		packet_say(packet, -EIO, SQL_FEED_KEEP, SQL_VALUES(sql_id(n)));
	}
	return count;
}

struct backend_feed sql_feed_at(const struct bytes *columns)
{
	struct backend_feed feed = {
		.n = (uint64_t)sql_int(columns[0]),
		.what = (enum backend_feed_what)sql_int(columns[1]),
		.ino = (uint64_t)sql_int(columns[2]),
		.first = sql_int(columns[4]),
		.session = columns[5],
		.key = columns[6],
		.name = columns[7],
		.mount = (uint64_t)sql_int(columns[8]),
		.pid = sql_int(columns[9]),
		.at = sql_int(columns[10]),
		.count = (uint64_t)sql_int(columns[11]),
		.deleted = sql_int(columns[12]),
		.end = sql_int(columns[13]),
		.node = (uint64_t)sql_int(columns[14]),
		.parent = (uint64_t)sql_int(columns[15]),
		.path = columns[16],
	};

	feed_set_flags(&feed, sql_int(columns[3]));
	return feed;
}

int sql_feed_list(struct backend *backend, struct backend_snapshot *snapshot, backend_feed_fn *fn,
		  void *arg)
{
	struct sql *store = sql_of(backend);
	struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING };
	struct sql_cursor cursor;
	uint64_t known, first = 0;
	bool here = true;

	if (!sql_is_mount(store))
		return 0;
	pthread_mutex_lock(&store->state.lock);
	known = store->state.known;
	pthread_mutex_unlock(&store->state.lock);
	cursor = sql_cursor_open(snapshot, SQL_FEED_ENDS, SQL_VALUES(sql_id(store->number)));
	if (sql_cursor_only(&cursor, -EIO)) {
		first = (uint64_t)sql_cursor_number(&cursor, 0);
		anything.n = (uint64_t)sql_cursor_number(&cursor, 1);
		here = sql_cursor_number(&cursor, 2);
	}
	sql_cursor_end(&cursor);
	if (cursor.r < 0)
		return cursor.r;
	/* It was ended, and joins again (watch.c), or some have gone that were not digested. */
	if (!here || (anything.n > known && first > known + 1))
		return MIN(fn(arg, &anything), 0);
	cursor = sql_cursor_open(snapshot, SQL_FEED_LIST,
				 SQL_VALUES(sql_id(known), sql_id(store->number)));
	while (sql_cursor_next(&cursor)) {
		const struct backend_feed feed = sql_feed_at(cursor.columns);

		cursor.r = fn(arg, &feed);
	}
	return sql_cursor_end(&cursor);
}

/* With state.lock held. */
static int take(struct sql *store, struct sql_answer *answer, uint64_t n)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(store, answer, columns)) {
		const struct backend_feed feed = sql_feed_at(columns);

		/* A guest remembers nothing that could be wrong. */
		if (sql_is_mount(store) && feed.n > store->state.seen && feed.n <= n)
			r = feed_add(&store->state.waiting, &feed);
	}
	if (r == 0)
		store->state.seen = MAX(store->state.seen, n);
	store->state.stirred |= store->state.waiting.any;
	pthread_cond_broadcast(&store->state.moved);
	return r;
}

int sql_feed_read(struct sql *store, struct sql_link *link, uint64_t n)
{
	struct sql_answer *answer = NULL;
	uint64_t seen;
	int r;

	pthread_mutex_lock(&store->state.lock);
	seen = store->state.seen;
	pthread_mutex_unlock(&store->state.lock);
	if (n <= seen)
		return 0;
	r = sql_ask_text(store, link, SQL_FEED_LIST,
			 SQL_VALUES(sql_id(seen), sql_id(store->number)), &answer);
	if (r < 0)
		return r;
	pthread_mutex_lock(&store->state.lock);
	r = take(store, answer, n);
	pthread_mutex_unlock(&store->state.lock);
	store->texts.driver->answer_done(answer);
	return r;
}

void sql_feed_own(struct sql *store, uint64_t n)
{
	pthread_mutex_lock(&store->state.lock);
	if (store->state.seen < n)
		store->state.seen = n;
	if (!store->state.waiting.any)
		store->state.known = MAX(store->state.known, store->state.seen);
	pthread_mutex_unlock(&store->state.lock);
}

struct keeping {
	struct feed_notes notes;
	uint64_t above;
};

static int keep_one(void *arg, const struct backend_feed *feed)
{
	struct keeping *keeping = arg;

	return feed->n > keeping->above ? feed_add(&keeping->notes, feed) : 0;
}

/* What is left to be digested; where memory is short, it is read again. */
static void forget(struct sql *store, uint64_t n)
{
	struct keeping keeping = { .above = n };

	if (feed_each(&store->state.waiting, keep_one, &keeping) < 0) {
		feed_notes_done(&keeping.notes);
		store->state.seen = n;
	}
	feed_notes_done(&store->state.waiting);
	store->state.waiting = keeping.notes;
}

void sql_feed_done(struct backend *backend, uint64_t n)
{
	struct sql *store = sql_of(backend);
	uint64_t known;

	if (!sql_is_mount(store))
		return;
	pthread_mutex_lock(&store->state.lock);
	store->state.known = MAX(store->state.known, n);
	forget(store, store->state.known);
	store->state.seen = MAX(store->state.seen, store->state.known);
	/* Behind it there is nothing but what this mount has left. */
	if (!store->state.waiting.any)
		store->state.known = store->state.seen;
	known = store->state.known;
	pthread_mutex_unlock(&store->state.lock);
	sql_aside_text(store, SQL_MOUNT_BEAT, SQL_VALUES(sql_id(store->number), sql_id(known)),
		       NULL);
}
