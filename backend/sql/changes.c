/* SPDX-License-Identifier: MIT */
#include "backend/sql/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

enum { CHANGE_ID, CHANGE_SESSION, CHANGE_KEY, CHANGE_INDEX, CHANGE_WHAT, CHANGE_COUNT, CHANGE_END };

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

enum { PAGE_KEYS = 100 }; /* more than anybody digests at once */

/* A page of keys that have changed. */
struct listing {
	struct sql *store;
	struct sql_answer *counts; /* of the rows of those of its keys of which some were added */
	struct gathering gathering;
	unsigned keys;
	backend_change_fn *fn;
	void *arg;
};

static int tell(struct listing *listing)
{
	struct gathering *gathering = &listing->gathering;
	struct bytes columns[SQL_COLUMNS];

	if (!gathering->inserted)
		return 0;
	gathering->change.session = sql_present(&gathering->session);
	gathering->change.key = sql_present(&gathering->key);
	/* The keys have the same order there. */
	if (needs_count(gathering))
		gathering->change.rewritten = !sql_row(listing->store, listing->counts, columns) ||
					      !bytes_equal(columns[0], gathering->change.session) ||
					      !bytes_equal(columns[1], gathering->change.key) ||
					      (uint64_t)sql_int(columns[2]) != gathering->inserted;
	return listing->fn(listing->arg, &gathering->change);
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
		listing->keys++;
		if (r == 0)
			r = buf_append_bytes(&gathering->session, columns[CHANGE_SESSION]);
		if (r == 0)
			r = buf_append_bytes(&gathering->key, columns[CHANGE_KEY]);
	}
	gather(gathering, columns);
	return r;
}

static int say_page(struct buf *buf, const struct listing *listing)
{
	const struct gathering *last = &listing->gathering;
	const bool first = !last->inserted;
	const struct sql_value values[] = {
		sql_blob(first ? (struct bytes){ 0 } : sql_present(&last->session)),
		sql_blob(first ? (struct bytes){ 0 } : sql_present(&last->key)),
		sql_number(PAGE_KEYS),
	};
	static const enum sql_text texts[] = { SQL_CHANGE_ANYTHING, SQL_CHANGE_PAGE,
					       SQL_CHANGE_COUNTS };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = sql_say(buf, &listing->store->texts, texts[i], values, ARRAY_SIZE(values));
	return r;
}

/* The keys behind the last one that was gathered; 1: there is nothing that they could tell. */
static int list_page(struct listing *listing, struct backend_snapshot *snapshot, bool *ret_anything)
{
	const struct sql_driver *driver = listing->store->texts.driver;
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_answer *answers[3];
	struct bytes columns[SQL_COLUMNS];
	int r = say_page(&buf, listing);

	if (r == 0)
		r = sql_snapshot_ask(snapshot, buf_bytes(&buf), answers, ARRAY_SIZE(answers));
	if (r < 0)
		return r;
	listing->counts = answers[2];
	listing->keys = 0;
	gather_begin(&listing->gathering);
	*ret_anything = sql_row(listing->store, answers[0], columns);
	while (r == 0 && !*ret_anything && sql_row(listing->store, answers[1], columns))
		r = list_row(listing, columns);
	if (r == 0)
		r = tell(listing);
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		driver->answer_done(answers[i]);
	return r;
}

/* What there is in all, so that it can be said later that this was digested. */
static int remember(struct sql *store, struct backend_snapshot *snapshot)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_CHANGE_IDS, SQL_NO_VALUES);

	pthread_mutex_lock(&store->everything.lock);
	while (sql_cursor_next(&cursor)) {
		int64_t id = sql_cursor_number(&cursor, 0);

		store->everything.stamp = MAX(store->everything.stamp, id);
		cursor.r = add_id(&store->everything.ids, &store->everything.count,
				  &store->everything.room, id);
	}
	pthread_mutex_unlock(&store->everything.lock);
	return sql_cursor_end(&cursor);
}

static int list_apart(struct backend_snapshot *snapshot, backend_change_fn *fn, void *arg)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_APART_LIST, SQL_NO_VALUES);

	while (sql_cursor_next(&cursor)) {
		const struct backend_change change = {
			.session = cursor.columns[0],
			.key = cursor.columns[1],
			.first = sql_cursor_number(&cursor, 2),
			.deleted = sql_cursor_number(&cursor, 2),
			.stamp = sql_cursor_number(&cursor, 3),
			.apart = true,
			.rewritten = true,
		};

		cursor.r = fn(arg, &change);
	}
	return sql_cursor_end(&cursor);
}

int sql_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		    backend_change_fn *fn, void *arg)
{
	struct sql *store = sql_of(backend);
	struct listing listing = { .store = store, .fn = fn, .arg = arg };
	bool anything = false;
	int r;

	pthread_mutex_lock(&store->everything.lock);
	store->everything.count = 0;
	store->everything.stamp = 0;
	pthread_mutex_unlock(&store->everything.lock);
	r = snapshot->begun ? 0 : sql_snapshot_begin_now(snapshot);
	if (r < 0 || snapshot->unchanged)
		return r;
	gather_begin(&listing.gathering);
	do
		r = list_page(&listing, snapshot, &anything);
	while (r == 0 && !anything && listing.keys == PAGE_KEYS);
	buf_done(&listing.gathering.session);
	buf_done(&listing.gathering.key);
	if (r == 0 && anything) {
		r = remember(store, snapshot);
		return r < 0 ? r :
			       MIN(fn(arg,
				      &(struct backend_change){ .rewritten = true,
								.stamp = store->everything.stamp }),
				   0);
	}
	return r ? MIN(r, 0) : list_apart(snapshot, fn, arg);
}

/* What the log has of one key, with whether it was rewritten. */
static int gather_key(struct backend_snapshot *snapshot, struct bytes session, struct bytes key,
		      struct gathering *gathering)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_CHANGE_OF,
						   SQL_VALUES(sql_blob(session), sql_blob(key),
							      sql_text(session), sql_text(key)));
	int64_t rows = 0;

	gather_begin(gathering);
	while (sql_cursor_next(&cursor)) {
		gather(gathering, cursor.columns);
		rows = MAX(rows, sql_cursor_number(&cursor, CHANGE_COUNT));
	}
	if (needs_count(gathering))
		gathering->change.rewritten = (uint64_t)rows != gathering->inserted;
	return sql_cursor_end(&cursor);
}

int sql_change_find(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	struct gathering gathering = { 0 };
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_CHANGE_FIND, SQL_VALUES(sql_blob(session)));
	int r;

	gather_begin(&gathering);
	while (sql_cursor_next(&cursor))
		if (!cursor.columns[CHANGE_SESSION].data || !key.data ||
		    bytes_equal(cursor.columns[CHANGE_KEY], key))
			gather(&gathering, cursor.columns);
	r = sql_cursor_end(&cursor);
	if (r == 0 && gathering.inserted && key.data && needs_count(&gathering))
		r = gather_key(snapshot, session, key, &gathering);
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
	struct sql_cursor cursor =
		sql_cursor_ask(sql_of(backend), NULL, SQL_CHANGE_ENDS, SQL_NO_VALUES);

	*ret_oldest = *ret_newest = 0;
	if (sql_cursor_next(&cursor)) {
		*ret_oldest = sql_cursor_number(&cursor, 0);
		*ret_newest = sql_cursor_number(&cursor, 1);
	}
	return sql_cursor_end(&cursor);
}

/* Digesting. */

void sql_digests_done(struct sql_digest *digests, size_t count)
{
	for (size_t i = 0; digests && i < count; i++)
		free(digests[i].ids);
	free(digests);
}

static bool was_told(struct sql *store, int64_t id)
{
	for (size_t i = 0; i < store->everything.count; i++)
		if (store->everything.ids[i] == id)
			return true;
	return false;
}

static int take_key(struct sql *store, struct sql_answer *answer, const struct backend_op *op,
		    struct sql_digest *digest)
{
	struct gathering gathering = { 0 };
	struct bytes columns[SQL_COLUMNS];
	int64_t rows = 0, end = 0;
	bool told = true;
	int r = 0;

	gather_begin(&gathering);
	pthread_mutex_lock(&store->everything.lock);
	while (r == 0 && sql_row(store, answer, columns)) {
		int64_t id = sql_int(columns[CHANGE_ID]);

		gather(&gathering, columns);
		rows = MAX(rows, sql_int(columns[CHANGE_COUNT]));
		end = sql_int(columns[CHANGE_END]);
		if (!id)
			continue;
		told = told && was_told(store, id);
		r = add_id(&digest->ids, &digest->count, &digest->room, id);
	}
	pthread_mutex_unlock(&store->everything.lock);
	/* Where anything might have changed, the stamp is of all of it. */
	digest->there =
		gathering.change.stamp == op->at || (op->type == BACKEND_CHANGE_APART && told);
	if (needs_count(&gathering) && gathering.inserted)
		gathering.change.rewritten = (uint64_t)rows != gathering.inserted;
	digest->change = gathering.change;
	digest->change.end = end;
	return r;
}

static int take_everything(struct sql *store, const struct backend_op *op,
			   struct sql_digest *digest)
{
	int r = 0;
	WITH_MUTEX(&store->everything.lock);

	digest->there = store->everything.stamp == op->at;
	for (size_t i = 0; r == 0 && digest->there && i < store->everything.count; i++)
		r = add_id(&digest->ids, &digest->count, &digest->room, store->everything.ids[i]);
	return r;
}

/* Whether the store is asked which change of the key it is. */
static bool asks_key(const struct backend_op *op)
{
	return sql_is_digest(op) && op->session.data && op->at != BACKEND_STAMP_APART;
}

int sql_digests_ask(struct sql *store, struct sql_link *link, const struct backend_op *ops,
		    size_t count, struct sql_digest *digests)
{
	_cleanup_(freep) struct sql_answer **answers =
		calloc(count + 1, sizeof(struct sql_answer *));
	_cleanup_(buf_done) struct buf buf = { 0 };
	size_t asked = 0, at = 0;
	int r = answers ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++)
		if (asks_key(&ops[i])) {
			r = sql_say(&buf, &store->texts, SQL_CHANGE_OF,
				    SQL_VALUES(sql_blob(ops[i].session), sql_blob(ops[i].key),
					       sql_text(ops[i].session), sql_text(ops[i].key)));
			asked++;
		}
	if (r == 0 && asked)
		r = sql_ask_each(store, link, buf_bytes(&buf), answers, asked);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (asks_key(&ops[i]))
			r = take_key(store, answers[at++], &ops[i], &digests[i]);
		else if (sql_is_digest(&ops[i]) && !ops[i].session.data)
			r = take_everything(store, &ops[i], &digests[i]);
	}
	while (asked)
		store->texts.driver->answer_done(answers[--asked]);
	return r;
}

void sql_digest_say(struct sql_packet *packet, const struct backend_op *op,
		    const struct sql_digest *digest)
{
	char range[80];
	size_t next;

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
	/* One statement of a program has numbers one after the other. */
	for (size_t i = 0; i < digest->count; i = next) {
		for (next = i + 1;
		     next < digest->count && digest->ids[next] - digest->ids[next - 1] == 1;)
			next++;
		snprintf(range, sizeof(range), "%sid BETWEEN %lld AND %lld", i ? " OR " : "",
			 (long long)digest->ids[i], (long long)digest->ids[next - 1]);
		packet_add(packet, range);
	}
}
