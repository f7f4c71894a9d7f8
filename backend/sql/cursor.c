/* SPDX-License-Identifier: MIT */
#include "backend/sql/cursor.h"

#include <errno.h>
#include <string.h>

#include "backend/sql/mounts.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

enum { FIRST_PAGE = 64, PAGE_GROWS = 16, PAGE_LEAST = 16, PAGE_MOST = 8192, PAGE_BYTES = 4 << 20 };

/* What the snapshot has found of others' doings; -ESTALE: they wait to be digested. */
static int judge_state(struct backend_snapshot *snapshot, struct sql_answer *answer)
{
	struct sql *store = snapshot->store;
	struct bytes columns[SQL_COLUMNS];
	struct sql_state state;

	if (sql_need_row(store, answer, columns) < 0)
		return -EIO;
	state = sql_state_read(columns);
	sql_state_learn(store, &state);
	snapshot->unchanged = !state.changes && !state.apart;
	if (snapshot->flags & BACKEND_ANYWAY)
		return 0;
	if (state.feed)
		return -ESTALE;
	/* Where nothing can be written, what others have changed cannot be taken in. */
	return state.changes && !store->barred && !(snapshot->flags & BACKEND_PAST) ? -ESTALE : 0;
}

static int say_begin(struct backend_snapshot *snapshot, struct buf *buf)
{
	struct sql *store = snapshot->store;
	int r = snapshot->open ? buf_append_str(buf, "COMMIT;") : 0;

	if (r == 0)
		r = buf_append_str(buf, store->texts.driver->begin_read);
	return r < 0 ? r : sql_state_say(store, buf);
}

static int read_begin(struct backend_snapshot *snapshot)
{
	const struct sql_driver *driver = snapshot->store->texts.driver;
	struct sql_answer *answer = NULL;
	int r;

	/* The first that has rows. */
	do
		r = driver->next(snapshot->link, &answer);
	while (r > 0 && !answer);
	if (r == 0)
		r = sql_need_row(snapshot->store, NULL, NULL);
	if (r > 0) {
		snapshot->begun = true;
		r = judge_state(snapshot, answer);
		driver->answer_done(answer);
	}
	if (r == 0 && snapshot->begin)
		r = snapshot->begin(snapshot->arg);
	return MIN(r, 0);
}

static int snapshot_ask(struct backend_snapshot *snapshot, struct bytes statements,
			struct sql_answer **ret_answers, size_t count)
{
	const struct sql_driver *driver = snapshot->store->texts.driver;
	_cleanup_(buf_done) struct buf buf = { 0 };
	bool begins = !snapshot->begun;
	int r = begins ? say_begin(snapshot, &buf) : 0;

	if (r == 0 && begins && statements.size)
		r = buf_append_byte(&buf, ';');
	if (r == 0)
		r = buf_append_bytes(&buf, statements);
	if (r == 0)
		r = driver->send(snapshot->link, buf_bytes(&buf));
	if (r == 0 && begins)
		r = snapshot->error = read_begin(snapshot);
	return r < 0 ? r : sql_answers(snapshot->store, snapshot->link, ret_answers, count);
}

int sql_snapshot_ask(struct backend_snapshot *snapshot, struct bytes statements,
		     struct sql_answer **ret_answers, size_t count)
{
	struct sql *store = snapshot->store;
	_cleanup_(freep) char *why = NULL;
	int64_t begun = tick_ms(), until = sql_until(store);
	bool fresh = !snapshot->link;
	int r;

	if (snapshot->error < 0)
		return snapshot->error;
	for (;;) {
		r = snapshot->link ? 0 : sql_connect(store, false, until, &snapshot->link, &why);
		if (r == 0) {
			store->texts.driver->until(snapshot->link, until);
			r = snapshot_ask(snapshot, statements, ret_answers, count);
			store->texts.driver->until(snapshot->link, 0);
		}
		if (!sql_is_passing(r))
			return r;
		/* A snapshot that has begun ends with its connection: the reader begins again, and
		 * waits for the server then. */
		sql_disconnect(store, &snapshot->link);
		if (snapshot->begun)
			return snapshot->error = -ESTALE;
		if (sql_has_waited(until, r, begun))
			return snapshot->error = sql_gave_up(store, r, why);
		snapshot->error = 0;
		snapshot->open = false;
		if (fresh)
			tick_pause(50);
		fresh = true;
	}
}

int sql_snapshot_begin_now(struct backend_snapshot *snapshot)
{
	return sql_snapshot_ask(snapshot, (struct bytes){ 0 }, NULL, 0);
}

struct sql_cursor sql_cursor_open(struct backend_snapshot *snapshot, enum sql_text text,
				  const struct sql_value *values, size_t count)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_cursor cursor = { .store = snapshot->store };

	cursor.r = sql_say(&buf, &snapshot->store->texts, text, values, count);
	if (cursor.r == 0)
		cursor.r = sql_snapshot_ask(snapshot, buf_bytes(&buf), &cursor.answer, 1);
	return cursor;
}

struct sql_cursor sql_cursor_ask(struct sql *store, struct sql_link *link, enum sql_text text,
				 const struct sql_value *values, size_t count)
{
	struct sql_cursor cursor = { .store = store };

	cursor.r = link ? sql_ask_text(store, link, text, values, count, &cursor.answer) :
			  sql_aside_text(store, text, values, count, &cursor.answer);
	return cursor;
}

bool sql_cursor_next(struct sql_cursor *cursor)
{
	return !cursor->r && sql_row(cursor->store, cursor->answer, cursor->columns);
}

bool sql_cursor_only(struct sql_cursor *cursor, int missing)
{
	bool found = sql_cursor_next(cursor);

	if (!found && cursor->r == 0)
		cursor->r = missing == -EIO ? sql_need_row(cursor->store, NULL, NULL) : missing;
	return found;
}

int sql_cursor_end(struct sql_cursor *cursor)
{
	cursor->store->texts.driver->answer_done(cursor->answer);
	return MIN(cursor->r, 0);
}

int sql_ask_number(struct sql *store, struct sql_link *link, enum sql_text text,
		   const struct sql_value *values, size_t count, int64_t *ret_number)
{
	struct sql_cursor cursor = sql_cursor_ask(store, link, text, values, count);

	if (sql_cursor_next(&cursor))
		*ret_number = sql_cursor_number(&cursor, 0);
	return sql_cursor_end(&cursor);
}

bool sql_pages_rising(const struct bytes *columns, struct sql_value *values)
{
	int64_t last = sql_int(columns[0]);

	values[0] = sql_number(last + (last < INT64_MAX));
	return last < INT64_MAX;
}

bool sql_pages_falling(const struct bytes *columns, struct sql_value *values)
{
	int64_t last = sql_int(columns[0]);

	values[0] = sql_number(last - (last > INT64_MIN));
	return last > INT64_MIN;
}

int sql_pages_timed(const struct sql_pages *pages, const struct bytes *columns)
{
	return pages->timed(pages->arg, sql_int(columns[0]),
			    (struct backend_times){ sql_moment(columns[2]),
						    sql_moment(columns[3]) },
			    columns[1]);
}

static uint64_t bytes_in(const struct bytes *columns)
{
	uint64_t bytes = 0;

	for (int i = 0; i < SQL_COLUMNS; i++)
		bytes += columns[i].size + sizeof(*columns);
	return bytes;
}

/* Rows of the next page, by the bytes of this page's rows.  The reader may stop soon. */
static uint64_t next_limit(uint64_t limit, uint64_t rows, uint64_t bytes)
{
	uint64_t fit = PAGE_BYTES / (bytes / MAX(rows, 1U) + 1);

	fit = MIN(fit, MIN(limit * PAGE_GROWS, (uint64_t)PAGE_MOST));
	return MAX((uint64_t)PAGE_LEAST, fit);
}

int sql_pages_read(struct backend_snapshot *snapshot, const struct sql_pages *pages,
		   const struct sql_value *values, size_t count)
{
	uint64_t limit = FIRST_PAGE, rows, bytes, most = pages->most ? pages->most : UINT64_MAX;
	struct sql_value now[6];
	struct sql_cursor cursor;
	bool more = true;
	int r = 0;

	memcpy(now, values, count * sizeof(*values));
	while (r == 0 && more && most) {
		limit = MIN(limit, most);
		now[2] = sql_id(limit);
		cursor = sql_cursor_open(snapshot, pages->text, now, count);
		rows = bytes = 0;
		while (sql_cursor_next(&cursor)) {
			rows++;
			bytes += bytes_in(cursor.columns);
			more = (pages->next ? pages->next : sql_pages_rising)(cursor.columns, now);
			cursor.r = pages->row(pages, cursor.columns);
		}
		most -= rows;
		more = more && rows == limit && !cursor.r;
		limit = next_limit(limit, rows, bytes);
		r = sql_cursor_end(&cursor);
	}
	return r;
}
