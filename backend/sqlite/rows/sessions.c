/* SPDX-License-Identifier: MIT */
/* Which sessions and keys there are, and what their rows come to. */
#include <errno.h>

#include "backend/days.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/rows/times.h"
#include "backend/base/cleanup.h"

/* An id, and the bytes by which the store puts it in order: in UTF-16 there are some that are
 * others once they have been UTF-8, and no walk may stay at them, or go past what follows. */
struct id {
	struct buf text;
	struct buf stored;
};

static void id_done(struct id *id)
{
	buf_done(&id->text);
	buf_done(&id->stored);
}

/* What SQLite is told as text loses a byte order mark, so there is one more. */
static int keep_stored(struct cursor *cursor, struct buf *stored)
{
	static const char *const marks[] = { "", "", "\xff\xfe", "\xfe\xff" };
	const char *mark = marks[cursor->conn->store->encoding];
	int r = buf_append_bytes(stored, bytes_str(mark));

	return r < 0 ? r : buf_append_bytes(stored, cursor_bytes(cursor, 0));
}

static int keep_next(struct cursor *cursor, struct id *id)
{
	_cleanup_(buf_done) struct buf stored = { 0 };
	int r = keep_stored(cursor, &stored);

	if (r < 0)
		return r;
	/* A tree that is out of order is damaged. */
	if (bytes_compare(buf_given(&stored), buf_given(&id->stored)) < 0)
		return sqlite_result(cursor->conn, SQLITE_CORRUPT);
	buf_clear(&id->stored);
	buf_clear(&id->text);
	r = buf_append_bytes(&id->stored, buf_given(&stored));
	return r < 0 ? r : buf_append_bytes(&id->text, cursor_bytes(cursor, 1));
}

/* Seek the next id into id, which holds the previous one: 1, or 0 when there is none behind it. */
static int seek_id(struct cursor *cursor, struct id *id)
{
	bool found = cursor_next(cursor);
	int r;

	if (found)
		cursor->r = keep_next(cursor, id);
	r = cursor_end(cursor);
	return r < 0 ? r : found;
}

/* What comes behind it is the next one. */
static int pass_id(const struct sqlite *store, struct id *id)
{
	int r = buf_append_byte(&id->stored, '\0');

	return r < 0 || store->encoding == SQLITE_UTF8 ? r : buf_append_byte(&id->stored, '\0');
}

struct walk {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	backend_key_fn *fn;
	void *arg;
	struct id session;
	struct id key;
};

static int next_session(struct walk *walk)
{
	struct cursor cursor = cursor_open(&walk->snapshot->conn, SQL_NEXT_SESSION, SQL_NO_VALUES);

	cursor_bind_stored(&cursor, 1, buf_given(&walk->session.stored));
	return seek_id(&cursor, &walk->session);
}

static int next_key(struct walk *walk)
{
	struct cursor cursor = cursor_open(&walk->snapshot->conn, SQL_NEXT_KEY,
					   SQL_VALUES(sql_given(buf_given(&walk->session.text))));

	cursor_bind_stored(&cursor, 2, buf_given(&walk->key.stored));
	return seek_id(&cursor, &walk->key);
}

/* The id from which a walk goes on. */
static int begin_behind(struct walk *walk, struct id *id, struct bytes text)
{
	struct cursor cursor =
		cursor_open(&walk->snapshot->conn, SQL_AS_STORED, SQL_VALUES(sql_given(text)));
	int r = buf_append_bytes(&id->text, text);

	if (r == 0 && cursor_only(&cursor, -ENOENT))
		r = keep_stored(&cursor, &id->stored);
	return r < 0 ? r : cursor_end(&cursor);
}

/* The keys from walk->key on.  1 at the session's end, 0 when fn wants no more. */
static int walk_keys(struct walk *walk)
{
	struct bytes session = buf_given(&walk->session.text);
	struct backend_key_stat stat;
	int r;

	while ((r = next_key(walk)) > 0) {
		r = sqlite_key_stat(walk->backend, walk->snapshot, session,
				    buf_given(&walk->key.text), &stat);
		if (r == 0) {
			r = walk->fn(walk->arg, session, buf_given(&walk->key.text), &stat);
			if (r)
				return MIN(r, 0);
		} else if (r != -ENOENT) {
			return r;
		}
		r = pass_id(sqlite_of(walk->backend), &walk->key);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 1;
}

static int walk_sessions(struct walk *walk, struct bytes after_session, struct bytes after_key)
{
	const struct sqlite *store = sqlite_of(walk->backend);
	int r = 0;

	if (after_session.data) {
		r = begin_behind(walk, &walk->session, after_session);
		if (r == 0)
			r = begin_behind(walk, &walk->key, after_key);
		if (r == 0)
			r = pass_id(store, &walk->key);
		if (r == 0)
			r = walk_keys(walk);
		if (r > 0)
			r = pass_id(store, &walk->session);
		else
			return r;
	}
	while (r == 0 && (r = next_session(walk)) > 0) {
		buf_clear(&walk->key.text);
		buf_clear(&walk->key.stored);
		r = walk_keys(walk);
		if (r <= 0)
			break;
		r = pass_id(store, &walk->session);
	}
	return r;
}

int sqlite_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg)
{
	struct walk walk = { .backend = backend, .snapshot = snapshot, .fn = fn, .arg = arg };
	int r = walk_sessions(&walk, after_session, after_key);

	id_done(&walk.session);
	id_done(&walk.key);
	return r;
}

/* Sessions that have rows, and those that have none, each in the order of their ids: what comes
 * next of both, and the session that is being added up. */
struct sessions {
	struct cursor rows;
	struct cursor empty;
	struct buf session;
	struct backend_session_stat stat;
};

static void add_key(struct sessions *sessions)
{
	struct backend_session_stat *stat = &sessions->stat;
	struct cursor *rows = &sessions->rows;
	int64_t created = cursor_number(rows, 3);
	int64_t updated = cursor_number(rows, 4);

	stat->created = stat->keys && stat->created < created ? stat->created : created;
	stat->updated = MAX(stat->updated, updated);
	stat->keys++;
	stat->items += (uint64_t)cursor_number(rows, 1);
	stat->bytes += (uint64_t)cursor_number(rows, 2);
}

/* Add up the keys of the session that the cursor is at; whether it is at a next one then. */
static bool add_session(struct sessions *sessions)
{
	struct cursor *rows = &sessions->rows;
	bool more;

	buf_clear(&sessions->session);
	sessions->stat = (struct backend_session_stat){ 0 };
	rows->r = buf_append_bytes(&sessions->session, cursor_bytes(rows, 0));
	if (rows->r < 0)
		return false;
	do {
		add_key(sessions);
		more = cursor_next(rows);
	} while (more && bytes_equal(cursor_bytes(rows, 0), buf_given(&sessions->session)));
	return more;
}

static int tell_sessions(struct sessions *sessions, backend_session_fn *fn, void *arg)
{
	bool rows = cursor_next(&sessions->rows);
	bool empty = cursor_next(&sessions->empty);
	int r = 0;

	while (r == 0 && sessions->rows.r == 0 && sessions->empty.r == 0 && (rows || empty)) {
		struct bytes id = empty ? cursor_bytes(&sessions->empty, 0) : (struct bytes){ 0 };

		if (empty && (!rows || bytes_compare(id, cursor_bytes(&sessions->rows, 0)) < 0)) {
			const struct backend_session_stat stat = {
				.updated = cursor_number(&sessions->empty, 1),
			};

			r = fn(arg, id, &stat);
			empty = r == 0 && cursor_next(&sessions->empty);
		} else {
			rows = add_session(sessions);
			if (sessions->rows.r == 0)
				r = fn(arg, buf_given(&sessions->session), &sessions->stat);
		}
	}
	return MIN(r, 0);
}

int sqlite_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg)
{
	struct sessions sessions = {
		.rows = cursor_open(&snapshot->conn, SQL_SESSION_ROWS, SQL_NO_VALUES),
		.empty = cursor_open(&snapshot->conn, SQL_SESSION_EMPTY, SQL_NO_VALUES)
	};
	int r = tell_sessions(&sessions, fn, arg);
	int rows = cursor_end(&sessions.rows), empty = cursor_end(&sessions.empty);

	buf_done(&sessions.session);
	return rows < 0 ? rows : empty < 0 ? empty : r;
}

int sqlite_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat)
{
	struct sessions sessions = { .rows = cursor_open(&snapshot->conn, SQL_SESSION_STAT,
							 SQL_VALUES(sql_given(session))) };
	int r;

	if (cursor_only(&sessions.rows, -ENOENT))
		add_session(&sessions);
	r = cursor_end(&sessions.rows);
	if (r == 0)
		*ret_stat = sessions.stat;
	buf_done(&sessions.session);
	return r;
}

int sqlite_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg)
{
	_cleanup_(backend_days_done) struct backend_days days = { 0 };
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_DAY_LIST, SQL_NO_VALUES);
	int r;

	while (cursor_next(&cursor))
		cursor.r = backend_days_add(&days, sqlite_stamp_read(cursor.statement, 0),
					    (uint64_t)cursor_number(&cursor, 1));
	r = cursor_end(&cursor);
	return r < 0 ? r : backend_days_tell(&days, fn, arg);
}
