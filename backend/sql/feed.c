/* SPDX-License-Identifier: MIT */
/*
 * Notes have the number of the transaction that has left them, in the lane of its mount (lanes.h).
 * A mount remembers how far it has read those of others (state.seen), and how far they were
 * digested (state.known); what lies between the two is in state.waiting.  Notes that depend on each
 * other have ids in the order of their transactions, since these had a gate in common (gates.h).
 */
#include "backend/sql/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "backend/sql/cursor.h"
#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/base/thread.h"

/* Notes, */

struct saying {
	struct sql_packet *packet;
	int64_t number;
	int64_t at;
	const struct buf *changed;
	sql_first_fn *first;
	void *arg;
	size_t count;
};

enum { NOTES_TOGETHER = 64 }; /* in a statement */

/* What a text comes to, behind what is there. */
static int say_words(const struct saying *saying, struct buf *words, enum sql_text text,
		     const struct sql_value *values, size_t count)
{
	return sql_say_on(words, &saying->packet->store->texts, text, values, count);
}

/* What is said by words instead of a number. */
struct note_words {
	struct buf mount, what, first, end, node, path;
};

static void note_words_done(struct note_words *words)
{
	buf_done(&words->mount);
	buf_done(&words->what);
	buf_done(&words->first);
	buf_done(&words->end);
	buf_done(&words->node);
	buf_done(&words->path);
}

/* What the first note of a transaction depends on: that this mount is there, and that nothing has
 * changed. */
static int say_conditions(const struct saying *saying, const struct backend_feed *feed,
			  struct note_words *words)
{
	int r = say_words(saying, &words->mount, SQL_FEED_MOUNT,
			  SQL_VALUES(sql_id(saying->packet->store->number),
				     sql_number(saying->number)));

	return r < 0 || !saying->changed ?
		       r :
		       say_words(saying, &words->what, SQL_FEED_UNCHANGED,
				 SQL_VALUES(sql_number(feed->what),
					    sql_words(buf_bytes(saying->changed))));
}

/* Where rows begin and end, and of which file they are. */
static int say_rows(const struct saying *saying, const struct backend_feed *feed,
		    struct note_words *words)
{
	const struct backend_node state = {
		.kind = BACKEND_LIST, .nlink = 1, .session = feed->session, .key = feed->key
	};
	const struct sql_value key[] = {
		sql_text(feed->session.data ? feed->session : BYTES("")),
		sql_text(feed->key.data ? feed->key : BYTES("")),
	};
	_cleanup_(buf_done) struct buf slot = { 0 };
	uint64_t node = feed->node;
	int r = saying->first(saying->arg, feed, &words->first, &node);

	if (r == 0 && words->first.size)
		r = buf_printf(&words->end, "%.*s + %" PRIu64, (int)words->first.size,
			       words->first.data, feed->count);
	else if (r == 0 && !feed->end)
		r = say_words(saying, &words->end, SQL_FEED_END_OF, key, ARRAY_SIZE(key));
	if (r < 0 || feed->node)
		return r;
	if (node)
		return buf_printf(&words->node, "%" PRIu64, node);
	r = sql_slot(&state, &slot);
	return r < 0 ? r :
		       say_words(saying, &words->node, SQL_FEED_NODE_OF,
				 SQL_VALUES(sql_blob(feed->session), sql_blob(sql_present(&slot))));
}

/* Or if there are none, this. */
static struct sql_value words_or(const struct buf *words, struct sql_value value)
{
	return words->size ? sql_words(buf_bytes(words)) : value;
}

static void say_note(struct saying *saying, const struct backend_feed *feed,
		     const struct note_words *words)
{
	const struct sql_value null = sql_blob((struct bytes){ 0 });
	const bool rows = feed->what == BACKEND_FEED_ROWS;
	const bool entry = feed->what == BACKEND_FEED_ENTRY;
	const struct sql_value values[] = {
		sql_number(saying->number),
		words_or(&words->mount, sql_id(saying->packet->store->number)),
		words_or(&words->what, sql_number(feed->what)),
		sql_id(feed->ino),
		sql_number(feed_flags(feed)),
		words_or(&words->first, sql_number(feed->first)),
		sql_blob(feed->session),
		sql_blob(feed->key),
		sql_blob(feed->name),
		sql_number(getpid()),
		sql_number(saying->at),
		sql_number((int64_t)feed->count),
		sql_number(feed->deleted),
		words_or(&words->end, rows ? sql_number(feed->end) : null),
		words_or(&words->node, sql_id(rows || entry ? feed->node : feed->ino)),
		entry ? sql_id(feed->ino) : null,
		words_or(&words->path, null),
	};

	if (saying->count++ % NOTES_TOGETHER)
		packet_say_on(saying->packet, SQL_FEED_NEXT, values, ARRAY_SIZE(values));
	else
		packet_say(saying->packet, saying->changed ? SQL_NOTE_FAILED : SQL_LOST,
			   SQL_FEED_PUT, values, ARRAY_SIZE(values));
}

static int say_one(void *arg, const struct backend_feed *feed)
{
	struct saying *saying = arg;
	_cleanup_(note_words_done) struct note_words words = { 0 };
	int r = saying->count ? 0 : say_conditions(saying, feed, &words);

	if (r == 0 && feed->what == BACKEND_FEED_ROWS)
		r = say_rows(saying, feed, &words);
	if (r == 0 && feed->what == BACKEND_FEED_ENTRY)
		r = say_words(saying, &words.path, SQL_FEED_PATH_OF,
			      SQL_VALUES(sql_id(feed->ino), sql_blob(feed->name)));
	if (r == 0)
		say_note(saying, feed, &words);
	return r;
}

void sql_feed_say(struct sql_packet *packet, const struct feed_notes *notes, int64_t number,
		  const struct buf *changed, sql_first_fn *first, void *arg)
{
	struct saying saying = { packet, number, time_now(), changed, first, arg, 0 };
	int r = feed_each(notes, say_one, &saying);

	if (packet->r == 0)
		packet->r = r;
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

/* Of those in a snapshot, of which this mount is there: so far will be digested. */
struct listing {
	struct sql *store;
	struct sql_lanes lanes;
	uint64_t n;
	bool loss;
	backend_feed_fn *fn;
	void *arg;
};

/* What was read of each lane is known by the notes, of which lanes there are by the mounts: those
 * that have gone leave no more. */
static int take_mounts(struct sql *store, struct sql_answer *mounts, uint64_t newest,
		       struct sql_lanes *lanes)
{
	_cleanup_(sql_lanes_done) struct sql_lanes now = { .newest = newest };
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(store, mounts, columns)) {
		const uint64_t mount = (uint64_t)sql_int(columns[0]);

		now.newest = MAX(now.newest, mount);
		if (!sql_int(columns[1]) && mount != store->number)
			r = sql_lanes_raise(&now, mount, sql_lanes_number(lanes, mount));
	}
	return r < 0 ? r : sql_lanes_copy(&now, lanes);
}

static int list_anything(struct listing *listing)
{
	const struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING, .n = ++listing->n };

	return MIN(listing->fn(listing->arg, &anything), 0);
}

static int list_notes(struct listing *listing, struct sql_answer *notes)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(listing->store, notes, columns)) {
		struct backend_feed feed = sql_feed_at(columns);

		r = sql_lanes_raise(&listing->lanes, feed.mount, feed.n);
		/* Who digests anything has digested these, too (sql_feed_done()). */
		if (r < 0 || listing->loss)
			continue;
		feed.n = ++listing->n;
		r = listing->fn(listing->arg, &feed);
	}
	return MIN(r, 0);
}

/* The questions about mounts and notes that were not read. */
static int say_others(struct sql *store, const struct sql_lanes *read, struct buf *buf)
{
	_cleanup_(buf_done) struct buf unread = { 0 };
	int r = sql_is_mount(store) ? sql_lanes_say(&unread, read, "mount", "number") :
				      buf_append_str(&unread, "1 = 0");
	const struct sql_value values[] = { sql_words(buf_bytes(&unread)), sql_id(store->number) };

	if (r == 0)
		r = sql_say(buf, &store->texts, SQL_FEED_ENDS, &values[1], 1);
	if (r == 0)
		r = sql_say(buf, &store->texts, SQL_MOUNT_LIST, NULL, 0);
	return r < 0 ? r : sql_say(buf, &store->texts, SQL_FEED_LIST, values, 2);
}

enum { ENDS, MOUNTS, NOTES, ANSWERS };
enum { END_NEWEST = 7, END_HERE };

static void answers_done(struct sql *store, struct sql_answer **answers)
{
	for (size_t i = 0; i < ANSWERS; i++)
		store->texts.driver->answer_done(answers[i]);
}

static int list_others(struct listing *listing, struct sql_answer **answers)
{
	struct sql *store = listing->store;
	struct bytes columns[SQL_COLUMNS];
	int r = sql_need_row(store, answers[ENDS], columns);
	/* If it was ended it joins again (watch.c). */
	const bool here = r == 0 && sql_int(columns[END_HERE]);
	const uint64_t newest = r == 0 ? (uint64_t)sql_int(columns[END_NEWEST]) : 0;

	if (r == 0 && (!here || listing->loss)) {
		listing->loss = true;
		r = list_anything(listing);
	}
	if (r == 0)
		r = list_notes(listing, answers[NOTES]);
	return r < 0 ? r : take_mounts(store, answers[MOUNTS], newest, &listing->lanes);
}

int sql_feed_list(struct backend *backend, struct backend_snapshot *snapshot, backend_feed_fn *fn,
		  void *arg)
{
	struct sql *store = sql_of(backend);
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct listing listing = { .store = store, .fn = fn, .arg = arg };
	struct sql_answer *answers[ANSWERS] = { 0 };
	int r;

	if (!sql_is_mount(store))
		return 0;
	pthread_mutex_lock(&store->state.lock);
	r = sql_lanes_copy(&store->state.known, &listing.lanes);
	listing.n = store->state.listed_n;
	listing.loss = store->state.lost_notes;
	pthread_mutex_unlock(&store->state.lock);
	if (r == 0)
		r = say_others(store, &listing.lanes, &buf);
	if (r == 0)
		r = sql_snapshot_ask(snapshot, buf_bytes(&buf), answers, ANSWERS);
	if (r == 0)
		r = list_others(&listing, answers);
	answers_done(store, answers);
	pthread_mutex_lock(&store->state.lock);
	if (r == 0)
		r = sql_lanes_copy(&listing.lanes, &store->state.listed);
	store->state.listed_n = listing.n;
	store->state.listed_loss = listing.loss;
	pthread_mutex_unlock(&store->state.lock);
	sql_lanes_done(&listing.lanes);
	return r;
}

/* With state.lock held.  What was read and not digested is read again when it is needed. */
static int wait_for_nothing(struct sql *store)
{
	const struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING };

	feed_notes_done(&store->state.waiting);
	if (store->state.lost_notes)
		feed_add(&store->state.waiting, &anything);
	return sql_lanes_copy(&store->state.known, &store->state.seen);
}

void sql_feed_done(struct backend *backend, uint64_t n)
{
	struct sql *store = sql_of(backend);

	if (!sql_is_mount(store))
		return;
	WITH_MUTEX(&store->state.lock);
	if (n == store->state.listed_n &&
	    sql_lanes_copy(&store->state.listed, &store->state.known) == 0) {
		store->state.lost_notes &= !store->state.listed_loss;
		store->state.untold_known = true;
		wait_for_nothing(store);
	}
}

void sql_feed_lost(struct sql *store)
{
	WITH_MUTEX(&store->state.lock);

	store->state.lost_notes = store->state.stirred = true;
	store->state.listed_loss = false;
	wait_for_nothing(store);
	pthread_cond_broadcast(&store->state.moved);
}

/* Reading them for transactions, which may not be the snapshot's. */

/* With state.lock held.  number: what this mount had when it asked, which says nothing of a later
 * one. */
static int take_others(struct sql *store, struct sql_answer **answers, uint64_t number,
		       const struct sql_state *state, const struct bytes *ends)
{
	struct bytes columns[SQL_COLUMNS];
	const bool here = !number || sql_int(ends[END_HERE]);
	int r = 0;

	if (number != store->number)
		return 0;
	while (r == 0 && sql_row(store, answers[NOTES], columns)) {
		const struct backend_feed feed = sql_feed_at(columns);

		r = feed_add(&store->state.waiting, &feed);
		if (r == 0)
			r = sql_lanes_raise(&store->state.seen, feed.mount, feed.n);
	}
	if (r == 0)
		r = take_mounts(store, answers[MOUNTS], (uint64_t)sql_int(ends[END_NEWEST]),
				&store->state.seen);
	store->state.turn = state->turn;
	store->state.lost = here ? 0 : number;
	store->state.alone = r == 0 && !store->state.seen.count;
	/* Of one that was ended it stays what it was, so that it commits nothing. */
	if (r == 0 && here)
		store->state.epoch = state->epoch;
	store->state.stirred = true;
	pthread_cond_broadcast(&store->state.moved);
	return r;
}

int sql_others_read(struct sql *store, struct sql_link *link, struct sql_state *ret_state)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_answer *answers[ANSWERS] = { 0 };
	struct bytes ends[SQL_COLUMNS];
	uint64_t number;
	int r;
	WITH_MUTEX(&store->listing);

	pthread_mutex_lock(&store->state.lock);
	number = store->number;
	r = say_others(store, &store->state.seen, &buf);
	pthread_mutex_unlock(&store->state.lock);
	if (r == 0)
		r = sql_ask_each(store, link, buf_bytes(&buf), answers, ANSWERS);
	if (r == 0)
		r = sql_need_row(store, answers[ENDS], ends);
	if (r == 0) {
		*ret_state = sql_state_read(ends);
		pthread_mutex_lock(&store->state.lock);
		r = take_others(store, answers, number, ret_state, ends);
		pthread_mutex_unlock(&store->state.lock);
	}
	answers_done(store, answers);
	return r;
}

/* How far this mount is. */

int sql_feed_begin(struct sql *store)
{
	struct sql_lanes lanes = { .newest = store->number };
	struct sql_cursor cursor =
		sql_cursor_ask(store, store->writer.link, SQL_LANES, SQL_NO_VALUES);
	int r;

	while (sql_cursor_next(&cursor)) {
		const uint64_t mount = (uint64_t)sql_cursor_number(&cursor, 0);

		if (mount != store->number)
			cursor.r = sql_lanes_raise(&lanes, mount,
						   (uint64_t)sql_cursor_number(&cursor, 1));
	}
	r = sql_cursor_end(&cursor);
	pthread_mutex_lock(&store->state.lock);
	if (r == 0)
		r = sql_lanes_copy(&lanes, &store->state.known);
	if (r == 0)
		r = wait_for_nothing(store);
	store->state.untold_known = true;
	pthread_mutex_unlock(&store->state.lock);
	sql_lanes_done(&lanes);
	return r < 0 ? r : sql_feed_tell(store, store->writer.link);
}

static int say_known(struct sql *store, struct buf *buf)
{
	const struct sql_lanes *known = &store->state.known;
	const struct sql_value number = sql_id(store->number);
	int r = 0;

	for (size_t i = 0; r == 0 && i < known->count; i++) {
		const struct sql_value values[] = { number, sql_id(known->lane[i].mount),
						    sql_id(known->lane[i].number) };

		r = i ? sql_say_on(buf, &store->texts, SQL_KNOWN_NEXT, values, 3) :
			sql_say(buf, &store->texts, SQL_KNOWN, values, 3);
	}
	return r < 0 || !known->count ?
		       r :
		       sql_say_on(buf, &store->texts, SQL_KNOWN_END, SQL_NO_VALUES);
}

int sql_feed_tell(struct sql *store, struct sql_link *link)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = 0;

	pthread_mutex_lock(&store->state.lock);
	if (store->state.untold_known && store->number)
		r = say_known(store, &buf);
	store->state.untold_known = false;
	pthread_mutex_unlock(&store->state.lock);
	if (r == 0 && buf.size)
		r = sql_ask(store, link, buf_bytes(&buf), NULL);
	if (r < 0) {
		pthread_mutex_lock(&store->state.lock);
		store->state.untold_known = true;
		pthread_mutex_unlock(&store->state.lock);
	}
	return r;
}

int sql_feed_trim(struct sql *store, struct sql_link *link)
{
	int r = sql_ask_text(store, link, SQL_FEED_TRIM,
			     SQL_VALUES(sql_id(store->number), sql_number(store->writer.lane)),
			     NULL);

	return r < 0 ? r : sql_ask_text(store, link, SQL_KNOWN_TRIM, SQL_NO_VALUES, NULL);
}
