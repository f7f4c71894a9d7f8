/* SPDX-License-Identifier: MIT */
/*
 * Which mounts have the store.
 *
 * Each has a row in sessfs_mount that it touches now and then; one that was silent for
 * SQL_LEASE_S by the clock of the server is ended by another, with its locks and what it has in
 * use, if that one was not silent itself for as long: where the server was away, nobody was
 * heard of.  Who joins ends nobody, and who wants the store for himself alone waits before it
 * does.  Each coming and going moves the epoch of the store, which a mount that is alone names in
 * each transaction: so none takes itself to be alone that is not.  One that was ended has no row,
 * which each transaction needs, and so commits nothing until it has joined again.  A handle
 * that writes without being a mount has a row too, for its lane.
 *
 * A database that was copied while it was mounted has the rows of those mounts, which are none of
 * its own: so it notes its name, and who finds another one there ends them all.
 */
#include "backend/sql/mounts.h"

#include <errno.h>

#include "backend/sql/cursor.h"
#include "backend/sql/feed.h"
#include "backend/sql/packet.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum { TURN_MS = 10000, TURN_IDLE_MS = 1000, PAUSE_MS = 2, OUTWAIT_MS = 500 };

bool sql_mounts_lost(struct sql *store)
{
	WITH_MUTEX(&store->state.lock);

	return store->number && store->state.lost == store->number;
}

/* Those that were silent for too long. */
static struct sql_cursor ask_silent(struct sql *store, struct sql_link *link)
{
	return sql_cursor_ask(store, link, SQL_MOUNTS_SILENT,
			      SQL_VALUES(sql_number(SQL_LEASE_S), sql_id(store->number),
					 sql_number(SQL_FRESH_S)));
}

/* In a transaction with the store locked; a handle that was no mount is not said to have gone. */
static int end_mount(struct sql *store, struct sql_link *link, struct sql_value number, bool gone)
{
	static const enum sql_text texts[] = { SQL_MOUNT_LEAVE, SQL_MOUNT_LOCKS, SQL_MOUNT_USES,
					       SQL_MOUNT_KNOWN, SQL_MOUNT_GONE };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts) - !gone; i++)
		r = sql_ask_text(store, link, texts[i], &number, 1, NULL);
	return r;
}

static int end_listed(struct sql *store, struct sql_link *link, struct sql_cursor mounts)
{
	while (sql_cursor_next(&mounts))
		mounts.r = end_mount(store, link, sql_number(sql_cursor_number(&mounts, 0)), true);
	return sql_cursor_end(&mounts);
}

/* All, if they are those of the database that this one was copied from. */
static int end_copied(struct sql *store, struct sql_link *link)
{
	struct sql_cursor place = sql_cursor_ask(store, link, SQL_PLACE_ASK, SQL_NO_VALUES);
	bool noted = sql_cursor_next(&place), fits = noted && sql_cursor_number(&place, 0);
	int r = sql_cursor_end(&place);

	if (r < 0 || fits)
		return r;
	if (noted)
		r = end_listed(store, link,
			       sql_cursor_ask(store, link, SQL_MOUNT_LIST, SQL_NO_VALUES));
	if (r == 0)
		r = sql_ask_text(store, link, SQL_PLACE_FORGET, SQL_NO_VALUES, NULL);
	return r < 0 ? r : sql_ask_text(store, link, SQL_PLACE_NOTE, SQL_NO_VALUES, NULL);
}

static int begin(struct sql *store, struct sql_link *link)
{
	int r = sql_ask(store, link, bytes_str(store->texts.driver->begin_write), NULL);

	return r < 0 ? r : sql_ask_text(store, link, SQL_STATE_LOCK, SQL_NO_VALUES, NULL);
}

static int end(struct sql *store, struct sql_link *link, int r)
{
	int ended =
		sql_ask_text(store, link, r == 0 ? SQL_COMMIT : SQL_ROLLBACK, SQL_NO_VALUES, NULL);

	return r < 0 ? r : ended;
}

/* Words for who has the store and is silent, or is not; NULL: nobody. */
static int find_owners(struct sql *store, struct sql_link *link, bool silent, char **ret_owners)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	struct sql_cursor owners =
		sql_cursor_ask(store, link, SQL_MOUNT_OWNERS,
			       SQL_VALUES(sql_id(store->number), sql_number(SQL_LEASE_S),
					  sql_number(silent)));
	int r;

	while (sql_cursor_next(&owners))
		owners.r = buf_printf(&words, "%s%.*s", words.size ? " and " : "",
				      (int)owners.columns[0].size, owners.columns[0].data);
	r = sql_cursor_end(&owners);
	if (r == 0)
		*ret_owners = steal_ptr(words.data);
	return r;
}

/* Nobody else may be there: -EBUSY, or -EAGAIN if all who are have been silent. */
static int find_alone(struct sql *store, bool outwaited, char **ret_owners)
{
	_cleanup_(freep) char *silent = NULL;
	int r = find_owners(store, store->writer.link, false, ret_owners);

	if (r == 0 && *ret_owners)
		return -EBUSY;
	if (r == 0)
		r = find_owners(store, store->writer.link, true, &silent);
	return r == 0 && silent && !outwaited ? -EAGAIN : r;
}

/* What a transaction has made of this mount, which it is from when that is committed on. */
struct joined {
	uint64_t number;
	struct sql_state state;
};

/* In a transaction with the store locked. */
static int join(struct sql *store, struct joined *ret_joined)
{
	const char *owner = store->owner;
	struct sql_link *link = store->writer.link;
	struct sql_cursor cursor;
	int r = sql_ask_text(store, link, SQL_MOUNT_JOIN,
			     SQL_VALUES(sql_number(!owner), sql_text(bytes_str(owner ? owner : "")),
					sql_number(SQL_FORMAT)),
			     NULL);

	if (r == 0)
		r = sql_ask_text(store, link, SQL_MOUNT_COUNT, SQL_VALUES(sql_number(!!owner)),
				 NULL);
	if (r < 0)
		return r;
	cursor = sql_cursor_ask(store, link, SQL_MOUNT_NUMBER, SQL_NO_VALUES);
	if (sql_cursor_only(&cursor, -EIO))
		*ret_joined = (struct joined){ (uint64_t)sql_cursor_number(&cursor, 9),
					       sql_state_read(cursor.columns) };
	r = sql_cursor_end(&cursor);
	/* Nobody else knows which files are in use here. */
	if (r == 0 && owner)
		r = sql_ask_text(store, link, SQL_MOUNT_UNTOLD,
				 SQL_VALUES(sql_id(ret_joined->number), sql_number(1)), NULL);
	return r;
}

/* That is committed: be it. */
static int come(struct sql *store, bool again, const struct joined *joined)
{
	struct sql_state state;
	int r;

	pthread_mutex_lock(&store->state.lock);
	store->number = joined->number;
	/* Notes that were left meanwhile may have been taken away. */
	store->state.lost_notes |= again;
	store->state.listed_loss = false;
	store->state.settings = joined->state.settings;
	store->state.untold = store->owner;
	pthread_mutex_unlock(&store->state.lock);
	store->writer.lane = 0;
	r = sql_feed_begin(store);
	return r < 0 ? r : sql_others_read(store, store->writer.link, &state);
}

/* Nothing is in use yet, so others that are there may know; it waits for none of them. */
static int tell_none(struct sql *store)
{
	store->state.untold = false;
	return sql_ask_text(store, store->writer.link, SQL_MOUNT_UNTOLD,
			    SQL_VALUES(sql_id(store->number), sql_number(0)), NULL);
}

static int join_first(struct sql *store, bool shared, bool outwaited, char **ret_owners)
{
	struct joined joined;
	int r = begin(store, store->writer.link), found = 0;

	if (r < 0)
		return r;
	r = end_copied(store, store->writer.link);
	if (r < 0)
		return end(store, store->writer.link, r);
	found = shared || !store->owner ? 0 : find_alone(store, outwaited, ret_owners);
	r = end(store, store->writer.link, found < 0 ? found : join(store, &joined));
	if (r == 0)
		r = come(store, false, &joined);
	return r == 0 && store->owner && !sql_mounts_alone(store) ? tell_none(store) : r;
}

/* As long as it takes to know that those who are silent do not come back. */
static int outwait(struct sql *store)
{
	struct sql_beats beats = { .last = tick_ms(), .steady = tick_ms() };
	int r;

	log_warning("%s: the server has not heard from another mount for %d seconds; waiting as "
		    "long for it to come back",
		    store->database, SQL_LEASE_S);
	do {
		tick_pause(OUTWAIT_MS);
		r = sql_ask_text(store, store->writer.link, SQL_STATE_SHARE, SQL_NO_VALUES, NULL);
	} while (r == 0 && !sql_beats_heard(&beats, tick_ms()));
	return r;
}

int sql_mounts_join(struct sql *store, bool shared, char **ret_why)
{
	_cleanup_(freep) char *others = NULL;
	int r = join_first(store, shared, false, &others);

	if (r == -EAGAIN) {
		r = outwait(store);
		if (r == 0)
			r = join_first(store, shared, true, &others);
		if (r == 0)
			r = sql_mounts_judge(store, store->writer.link);
	}
	if (r == -EBUSY && ret_why)
		*ret_why = str_printf("%s is already mounted by %s", store->database,
				      others ? others : "another mount");
	store->state.stirred = false;
	return r;
}

int sql_mounts_rejoin(struct sql *store)
{
	struct joined joined;
	int r = begin(store, store->writer.link);

	if (r == 0)
		r = end(store, store->writer.link, join(store, &joined));
	/* What is not committed for sure is done again. */
	if (r < 0)
		return r;
	log_warning("%s: the server did not hear from this mount for %d seconds, so programs here "
		    "have lost their file locks",
		    store->database, SQL_LEASE_S);
	r = come(store, true, &joined);
	return r == 0 && !sql_mounts_alone(store) ? sql_uses_tell(store, store->writer.link) : r;
}

void sql_mounts_leave(struct sql *store)
{
	struct sql_link *link = store->writer.link;
	int r;

	if (!store->number || !link)
		return;
	r = begin(store, link);
	if (r == 0)
		r = end_mount(store, link, sql_id(store->number), !store->guest);
	end(store, link, r);
}

int sql_mounts_beat(struct sql *store, struct sql_link *link)
{
	return sql_ask_text(store, link, SQL_MOUNT_BEAT, SQL_VALUES(sql_id(store->number)), NULL);
}

int sql_mounts_judge(struct sql *store, struct sql_link *link)
{
	struct sql_cursor cursor = ask_silent(store, link);
	bool silent = sql_cursor_next(&cursor);
	int r = sql_cursor_end(&cursor);

	if (!silent)
		return r;
	r = begin(store, link);
	return r < 0 ? r : end(store, link, end_listed(store, link, ask_silent(store, link)));
}

bool sql_beats_heard(struct sql_beats *beats, int64_t now)
{
	const int64_t lease = SQL_LEASE_S * INT64_C(1000);

	if (now - beats->last > lease / 2)
		beats->steady = now;
	beats->last = now;
	return now - beats->steady >= lease;
}

bool sql_is_shared(struct backend *backend)
{
	struct sql *store = sql_of(backend);

	return sql_is_mount(store) && !sql_mounts_alone(store);
}

uint64_t sql_lease(struct backend *backend)
{
	return sql_of(backend)->number;
}

static bool take_duty(struct sql *store, uint64_t number)
{
	int64_t who = 0;

	return sql_aside_text(store, SQL_DUTY_TAKE, SQL_VALUES(sql_id(number)), NULL) == 0 &&
	       sql_ask_number(store, NULL, SQL_DUTY_ASK, SQL_NO_VALUES, &who) == 0 &&
	       (uint64_t)who == number;
}

bool sql_on_duty(struct backend *backend)
{
	struct sql *store = sql_of(backend);
	const uint64_t number = store->number;

	if (!sql_is_mount(store))
		return true;
	if (store->state.duty != number && take_duty(store, number))
		store->state.duty = number;
	return store->state.duty == number;
}

bool sql_turn_is_idle(struct sql_turn *turn, const struct sql_state *state)
{
	const int64_t now = tick_ms();

	if (turn->mount != state->turn || turn->n != state->n)
		*turn = (struct sql_turn){ state->turn, state->n, now };
	return now - turn->since >= TURN_IDLE_MS;
}

/* Whether this mount has the turn now. */
static bool take_turn(struct sql *store, struct sql_turn *turn)
{
	struct sql_cursor cursor;
	struct sql_state state = { 0 };

	if (sql_aside_text(store, SQL_TURN_TAKE, SQL_VALUES(sql_id(store->number)), NULL) < 0)
		return false;
	cursor = sql_cursor_ask(store, NULL, SQL_TURN_ASK, SQL_NO_VALUES);
	if (sql_cursor_next(&cursor))
		state = sql_state_read(cursor.columns);
	sql_cursor_end(&cursor);
	if (state.turn && state.turn != store->number && sql_turn_is_idle(turn, &state))
		sql_aside_text(store, SQL_TURN_GIVE, SQL_VALUES(sql_id(state.turn)), NULL);
	return state.turn == store->number;
}

void sql_turn(struct backend *backend, bool take)
{
	struct sql *store = sql_of(backend);
	int64_t until = tick_ms() + TURN_MS;
	struct sql_turn turn = { 0 };
	bool first;

	if (!sql_is_mount(store))
		return;
	pthread_mutex_lock(&store->state.lock);
	first = take ? store->state.turns++ == 0 : --store->state.turns == 0;
	pthread_mutex_unlock(&store->state.lock);
	if (first && !take)
		sql_aside_text(store, SQL_TURN_GIVE, SQL_VALUES(sql_id(store->number)), NULL);
	while (first && take && !take_turn(store, &turn) && tick_ms() < until)
		tick_pause(PAUSE_MS);
}

/* Read the list of mounts, aside. */
static int look_again(struct sql *store)
{
	struct sql_state state;
	int r;

	pthread_mutex_lock(&store->aside.lock);
	r = store->aside.link ?
		    0 :
		    sql_connect(store, true, sql_until(store), &store->aside.link, NULL);
	if (r == 0)
		r = sql_others_read(store, store->aside.link, &state);
	if (r < 0)
		sql_disconnect(store, &store->aside.link);
	pthread_mutex_unlock(&store->aside.lock);
	return r;
}

int sql_hold(struct backend *backend, bool untold)
{
	struct sql *store = sql_of(backend);
	int r;

	if (!sql_is_mount(store))
		return 0;
	r = sql_aside_text(store, SQL_MOUNT_HOLD,
			   SQL_VALUES(sql_id(store->number), sql_number(untold)), NULL);
	/* One that joins counts itself and then looks who has untold locks. */
	if (r == 0 && untold)
		r = look_again(store);
	return r < 0 ? r : sql_mounts_lost(store) ? -EAGAIN : 1;
}

int sql_lock_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		  const struct backend_lock *lock, struct backend_lock *ret_lock)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_LOCK_FIND,
				SQL_VALUES(sql_id(ino), sql_id(sql_of(backend)->number),
					   sql_number(lock->whole), sql_number(lock->exclusive),
					   sql_id(lock->start), sql_id(lock->end)));

	if (sql_cursor_only(&cursor, -ENOENT))
		*ret_lock = (struct backend_lock){
			.start = (uint64_t)sql_cursor_number(&cursor, 0),
			.end = (uint64_t)sql_cursor_number(&cursor, 1),
			.pid = sql_cursor_number(&cursor, 2),
			.whole = (uint32_t)sql_cursor_number(&cursor, 3),
			.exclusive = (uint32_t)sql_cursor_number(&cursor, 4),
		};
	return sql_cursor_end(&cursor);
}
