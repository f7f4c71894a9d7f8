/* SPDX-License-Identifier: MIT */
/* Which sessions and keys there are, and what their rows come to. */
#include <errno.h>

#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"

enum { KEYS = 1000 }; /* in one answer */

struct walk {
	struct backend_snapshot *snapshot;
	backend_key_fn *fn;
	void *arg;
	struct buf session; /* the last one that was told, */
	struct buf key;	    /* and its key */
	bool full;	    /* there may be more behind it */
	struct bytes only;  /* keys of this session alone; data NULL: of all */
};

static int remember(struct buf *buf, struct bytes bytes)
{
	buf_clear(buf);
	return buf_append_bytes(buf, bytes);
}

/* Keys behind the last one, of its session or (SQL_KEY_LIST_ON) of those behind that. */
static int walk_on(struct walk *walk, enum sql_text text)
{
	struct sql_cursor cursor =
		sql_cursor_open(walk->snapshot, text,
				SQL_VALUES(sql_text(sql_present(&walk->session)),
					   sql_text(sql_present(&walk->key)), sql_number(KEYS)));
	unsigned count = 0;

	while (sql_cursor_next(&cursor)) {
		const struct bytes *columns = cursor.columns;
		const struct backend_key_stat stat = {
			.first = sql_int(columns[2]),
			.last = sql_int(columns[3]),
			.created = sql_moment(columns[4]),
			.updated = sql_moment(columns[5]),
		};

		cursor.r = remember(&walk->session, columns[0]);
		if (cursor.r == 0)
			cursor.r = remember(&walk->key, columns[1]);
		if (cursor.r == 0 && (!walk->only.data || bytes_equal(columns[0], walk->only)))
			cursor.r = walk->fn(walk->arg, columns[0], columns[1], &stat);
		count++;
	}
	/* Of a page of ids that have several spellings, the first may be one that was told. */
	walk->full = count + 1 >= KEYS;
	return cursor.r > 0 ? (sql_cursor_end(&cursor), 1) : sql_cursor_end(&cursor);
}

int sql_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		 struct bytes after_session, struct bytes after_key, backend_key_fn *fn, void *arg)
{
	struct walk walk = { .snapshot = snapshot, .fn = fn, .arg = arg, .full = true };
	int r = 0;

	if (after_session.data) {
		r = remember(&walk.session, after_session);
		if (r == 0)
			r = remember(&walk.key, after_key);
	} else {
		r = walk_on(&walk, SQL_KEY_LIST_ALL);
	}
	while (r == 0 && walk.full) {
		while (r == 0 && walk.full)
			r = walk_on(&walk, SQL_KEY_LIST);
		if (r == 0)
			r = walk_on(&walk, SQL_KEY_LIST_ON);
	}
	buf_done(&walk.session);
	buf_done(&walk.key);
	return MIN(r, 0);
}

int sql_session_keys(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes after_key, backend_key_fn *fn, void *arg)
{
	struct walk walk = { .snapshot = snapshot, .fn = fn, .arg = arg, .only = session };
	int r = remember(&walk.session, session);

	if (r == 0)
		r = remember(&walk.key, after_key);
	if (r == 0)
		r = walk_on(&walk, after_key.data ? SQL_KEY_LIST : SQL_SESSION_KEYS);
	while (r == 0 && walk.full)
		r = walk_on(&walk, SQL_KEY_LIST);
	buf_done(&walk.session);
	buf_done(&walk.key);
	return MIN(r, 0);
}

static struct backend_session_stat stat_at(const struct bytes *columns)
{
	return (struct backend_session_stat){
		.keys = (uint64_t)sql_int(columns[1]),
		.items = (uint64_t)sql_int(columns[2]),
		.bytes = (uint64_t)sql_int(columns[3]),
		.created = sql_moment(columns[4]),
		/* Of a session without rows, that of its directory. */
		.updated = sql_int(columns[2]) ? sql_moment(columns[5]) : sql_int(columns[6]),
	};
}

int sql_session_list(struct backend *backend, struct backend_snapshot *snapshot,
		     backend_session_fn *fn, void *arg)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_SESSION_LIST, SQL_NO_VALUES);

	while (sql_cursor_next(&cursor)) {
		const struct backend_session_stat stat = stat_at(cursor.columns);

		cursor.r = fn(arg, cursor.columns[0], &stat);
	}
	return sql_cursor_end(&cursor);
}

int sql_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct backend_session_stat *ret_stat)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_SESSION_STAT, SQL_VALUES(sql_text(session)));

	if (sql_cursor_only(&cursor, -ENOENT)) {
		*ret_stat = stat_at(cursor.columns);
		cursor.r = ret_stat->items ? 0 : -ENOENT;
	}
	return sql_cursor_end(&cursor);
}

int sql_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		 void *arg)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_DAY_LIST, SQL_NO_VALUES);

	while (sql_cursor_next(&cursor)) {
		const struct backend_day day = {
			.day = sql_cursor_number(&cursor, 0),
			.items = (uint64_t)sql_cursor_number(&cursor, 1),
			.bytes = (uint64_t)sql_cursor_number(&cursor, 2),
		};

		cursor.r = fn(arg, &day);
	}
	return sql_cursor_end(&cursor);
}
