/* SPDX-License-Identifier: MIT */
#include "backend/sql/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "src/base/array.h"
#include "src/base/cleanup.h"

enum { CHANGE_ID, CHANGE_SESSION, CHANGE_KEY, CHANGE_INDEX, CHANGE_WHAT };

/* The rows of one key, or of many where anything may have changed. */
struct gathering {
	struct buf session;
	struct buf key;
	struct backend_change change;
	uint64_t inserted; /* rows; each by itself */
	bool any;
};

static void gather_begin(struct gathering *gathering)
{
	buf_clear(&gathering->session);
	buf_clear(&gathering->key);
	gathering->change = (struct backend_change){ .first = INT64_MAX, .deleted = INT64_MAX };
	gathering->inserted = 0;
	gathering->any = false;
}

static void gather(struct gathering *gathering, const struct bytes *columns)
{
	struct backend_change *change = &gathering->change;
	int64_t index = sql_int(columns[CHANGE_INDEX]);
	char what = *columns[CHANGE_WHAT].data;

	gathering->any |= !columns[CHANGE_SESSION].data;
	change->first = MIN(change->first, index);
	if (what == 'd' || what == 'a')
		change->deleted = MIN(change->deleted, index);
	change->rewritten |= what != 'i';
	/* Without another trigger an index is inserted once, unless it was deleted. */
	gathering->inserted++;
	change->stamp += sql_int(columns[CHANGE_ID]);
}

/* Rows that were inserted, and nothing else, are new at the end if there are no others there. */
static bool needs_count(const struct gathering *gathering)
{
	return !gathering->any && !gathering->change.rewritten;
}

static int add_id(int64_t **ids, size_t *count, size_t *room, int64_t id)
{
	if (ARRAY_ROOM(*ids, *count, *room) < 0)
		return -ENOMEM;
	(*ids)[(*count)++] = id;
	return 0;
}

/* Listing. */

struct listing {
	struct sql *store;
	struct backend_snapshot *snapshot;
	struct gathering gathering;
	bool everything;
	backend_change_fn *fn;
	void *arg;
};

static int count_rows(struct backend_snapshot *snapshot, struct gathering *gathering)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_ROWS_FROM,
				SQL_VALUES(sql_text(sql_present(&gathering->session)),
					   sql_text(sql_present(&gathering->key)),
					   sql_number(gathering->change.first)));

	if (sql_cursor_only(&cursor, -EIO))
		gathering->change.rewritten =
			(uint64_t)sql_cursor_number(&cursor, 0) != gathering->inserted;
	return sql_cursor_end(&cursor);
}

static int tell(struct listing *listing)
{
	struct gathering *gathering = &listing->gathering;
	int r = 0;

	if (!gathering->inserted || listing->everything)
		return 0;
	if (needs_count(gathering))
		r = count_rows(listing->snapshot, gathering);
	gathering->change.session = sql_present(&gathering->session);
	gathering->change.key = sql_present(&gathering->key);
	return r < 0 ? r : listing->fn(listing->arg, &gathering->change);
}

static bool is_same_key(const struct gathering *gathering, const struct bytes *columns)
{
	return gathering->inserted &&
	       bytes_equal(sql_present(&gathering->session), columns[CHANGE_SESSION]) &&
	       bytes_equal(sql_present(&gathering->key), columns[CHANGE_KEY]);
}

static int list_row(struct listing *listing, const struct bytes *columns)
{
	struct gathering *gathering = &listing->gathering;
	int r = 0;

	if (!is_same_key(gathering, columns)) {
		r = tell(listing);
		gather_begin(gathering);
		if (r == 0)
			r = buf_append_bytes(&gathering->session, columns[CHANGE_SESSION]);
		if (r == 0)
			r = buf_append_bytes(&gathering->key, columns[CHANGE_KEY]);
	}
	gather(gathering, columns);
	return r;
}

/* What there is in all, so that it can be said later that this was digested. */
static int remember(struct sql *store, struct sql_answer *answer, bool *ret_any)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	pthread_mutex_lock(&store->everything.lock);
	store->everything.count = 0;
	store->everything.stamp = 0;
	while (r == 0 && sql_row(store, answer, columns)) {
		int64_t id = sql_int(columns[CHANGE_ID]);

		if (!id)
			continue;
		*ret_any |= !columns[CHANGE_SESSION].data;
		store->everything.stamp = MAX(store->everything.stamp, id);
		r = add_id(&store->everything.ids, &store->everything.count,
			   &store->everything.room, id);
	}
	pthread_mutex_unlock(&store->everything.lock);
	return r;
}

static int list_apart(struct sql *store, struct sql_answer *answer, backend_change_fn *fn,
		      void *arg)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(store, answer, columns)) {
		const struct backend_change change = {
			.session = columns[0],
			.key = columns[1],
			.first = sql_int(columns[2]),
			.deleted = sql_int(columns[2]),
			.stamp = sql_int(columns[3]),
			.apart = true,
			.rewritten = true,
		};

		r = fn(arg, &change);
	}
	return r;
}

static struct sql_cursor all_changes(struct backend_snapshot *snapshot)
{
	return sql_cursor_open(snapshot, SQL_CHANGE_LIST,
			       SQL_VALUES(sql_number(0), sql_blob(BYTES(""))));
}

int sql_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		    backend_change_fn *fn, void *arg)
{
	struct listing listing = {
		.store = sql_of(backend), .snapshot = snapshot, .fn = fn, .arg = arg
	};
	struct sql_cursor cursor = all_changes(snapshot);
	int r = cursor.r;

	if (r == 0)
		r = remember(listing.store, cursor.answer, &listing.everything);
	sql_cursor_end(&cursor);
	gather_begin(&listing.gathering);
	if (r == 0 && listing.everything) {
		const struct backend_change change = { .rewritten = true,
						       .stamp = listing.store->everything.stamp };

		return MIN(fn(arg, &change), 0);
	}
	cursor = all_changes(snapshot);
	while (r == 0 && sql_cursor_next(&cursor))
		r = list_row(&listing, cursor.columns);
	if (r == 0)
		r = tell(&listing);
	if (sql_cursor_end(&cursor) < 0)
		r = cursor.r;
	buf_done(&listing.gathering.session);
	buf_done(&listing.gathering.key);
	if (r)
		return MIN(r, 0);
	cursor = sql_cursor_open(snapshot, SQL_APART_LIST, SQL_NO_VALUES);
	r = cursor.r;
	if (r == 0)
		r = list_apart(listing.store, cursor.answer, fn, arg);
	sql_cursor_end(&cursor);
	return MIN(r, 0);
}

int sql_change_find(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	struct gathering gathering = { 0 };
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_CHANGE_FIND, SQL_VALUES(sql_blob(session)));
	int r;

	(void)backend;
	gather_begin(&gathering);
	while (sql_cursor_next(&cursor))
		if (!cursor.columns[CHANGE_SESSION].data || !key.data ||
		    bytes_equal(cursor.columns[CHANGE_KEY], key))
			gather(&gathering, cursor.columns);
	r = sql_cursor_end(&cursor);
	if (r < 0)
		return r;
	if (!gathering.inserted)
		return -ENOENT;
	if (gathering.any) {
		gathering.change = (struct backend_change){ .rewritten = true,
							    .stamp = gathering.change.stamp };
	} else {
		gathering.change.session = session;
		gathering.change.key = key;
	}
	*ret_change = gathering.change;
	return 0;
}

int sql_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest)
{
	struct sql *store = sql_of(backend);
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	int r = sql_aside_text(store, SQL_CHANGE_ENDS, SQL_NO_VALUES, &answer);

	*ret_oldest = *ret_newest = 0;
	if (r == 0 && sql_row(store, answer, columns)) {
		*ret_oldest = sql_int(columns[0]);
		*ret_newest = sql_int(columns[1]);
	}
	store->texts.driver->answer_done(answer);
	return r;
}

/* Digesting. */

void sql_digest_done(struct sql_digest *digest)
{
	free(digest->ids);
	*digest = (struct sql_digest){ 0 };
}

static bool was_told(struct sql *store, int64_t id)
{
	for (size_t i = 0; i < store->everything.count; i++)
		if (store->everything.ids[i] == id)
			return true;
	return false;
}

static int count_on(struct sql *store, struct sql_link *link, const struct backend_op *op,
		    struct gathering *gathering)
{
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	int r = sql_ask_text(store, link, SQL_ROWS_FROM,
			     SQL_VALUES(sql_text(op->session), sql_text(op->key),
					sql_number(gathering->change.first)),
			     &answer);

	if (r == 0 && sql_row(store, answer, columns))
		gathering->change.rewritten = (uint64_t)sql_int(columns[0]) != gathering->inserted;
	store->texts.driver->answer_done(answer);
	return r;
}

static int ask_key(struct sql *store, struct sql_link *link, const struct backend_op *op,
		   struct sql_digest *digest)
{
	struct gathering gathering = { 0 };
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	bool told = true;
	int r = sql_ask_text(store, link, SQL_CHANGE_LIST,
			     SQL_VALUES(sql_number(1), sql_blob(op->session)), &answer);

	gather_begin(&gathering);
	pthread_mutex_lock(&store->everything.lock);
	while (r == 0 && sql_row(store, answer, columns)) {
		int64_t id = sql_int(columns[CHANGE_ID]);

		if (!bytes_equal(columns[CHANGE_KEY], op->key))
			continue;
		gather(&gathering, columns);
		if (!id)
			continue;
		told = told && was_told(store, id);
		r = add_id(&digest->ids, &digest->count, &digest->room, id);
	}
	pthread_mutex_unlock(&store->everything.lock);
	store->texts.driver->answer_done(answer);
	/* Where anything might have changed, the stamp is of all of it. */
	digest->there =
		gathering.change.stamp == op->at || (op->type == BACKEND_CHANGE_APART && told);
	if (r == 0 && needs_count(&gathering) && gathering.inserted)
		r = count_on(store, link, op, &gathering);
	digest->change = gathering.change;
	return r;
}

int sql_digest_ask(struct sql *store, struct sql_link *link, const struct backend_op *op,
		   struct sql_digest *digest)
{
	int r = 0;

	if (op->session.data)
		return ask_key(store, link, op, digest);
	pthread_mutex_lock(&store->everything.lock);
	digest->there = store->everything.stamp == op->at;
	for (size_t i = 0; r == 0 && digest->there && i < store->everything.count; i++)
		r = add_id(&digest->ids, &digest->count, &digest->room, store->everything.ids[i]);
	pthread_mutex_unlock(&store->everything.lock);
	return r;
}

void sql_digest_say(struct sql_packet *packet, const struct backend_op *op,
		    const struct sql_digest *digest)
{
	char number[24];

	if (op->type == BACKEND_CHANGE_APART && digest->there)
		packet_say(packet, -EIO, SQL_APART_PUT,
			   SQL_VALUES(sql_blob(op->session), sql_blob(op->key), sql_number(op->to),
				      sql_number(-op->at)));
	else if (op->session.data && op->type == BACKEND_CHANGE_DONE)
		packet_say(packet, -EIO, SQL_APART_DELETE,
			   SQL_VALUES(sql_blob(op->session), sql_blob(op->key), sql_number(op->at),
				      sql_number(digest->there)));
	if (!digest->there || !digest->count)
		return;
	packet_say(packet, -EIO, SQL_CHANGES_DELETE, SQL_NO_VALUES);
	for (size_t i = 0; i < digest->count; i++) {
		snprintf(number, sizeof(number), "%s%lld", i ? "," : "", (long long)digest->ids[i]);
		packet_add(packet, number);
	}
	packet_add(packet, ")");
}
