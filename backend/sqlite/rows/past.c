/* SPDX-License-Identifier: MIT */
/*
 * History in a SQLite file.
 *
 * Our own connections keep by statements in front of those that take something away: their triggers
 * are off, and so a change costs one seek more, and an append nothing.  For other programs the
 * triggers of schema.c do the same.
 */
#include "backend/sqlite/rows/past.h"

#include <errno.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/rows/times.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"

/* ---- Keeping ---- */

/* A statement that keeps rows of a key, with its first four parameters; NULL: *ret_error. */
static sqlite3_stmt *keep_begin(struct sqlite_conn *conn, enum sqlite_sql sql, struct bytes session,
				struct bytes key, int64_t until, int *ret_error)
{
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, ret_error);

	if (!statement)
		return NULL;
	sqlite3_bind_int64(statement, 1, until);
	sqlite3_bind_int64(statement, 2, getpid());
	sqlite_bind_text(statement, 3, session);
	sqlite_bind_text(statement, 4, key);
	return statement;
}

static int keep(struct sqlite_conn *conn, struct bytes session, struct bytes key, int64_t first,
		int64_t last, int64_t until)
{
	int r = 0;
	sqlite3_stmt *statement = keep_begin(conn, SQL_PAST_KEEP, session, key, until, &r);

	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 5, first);
	sqlite3_bind_int64(statement, 6, last);
	return sqlite_conn_finish(conn, statement);
}

static int keep_later(struct sqlite_conn *conn, const struct backend_op *op, int64_t until)
{
	int r = 0;
	sqlite3_stmt *statement =
		keep_begin(conn, SQL_PAST_KEEP_LATER, op->session, op->key, until, &r);

	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 5, op->created);
	sqlite3_bind_int64(statement, 6, op->at);
	sqlite3_bind_int64(statement, 7, op->to);
	return sqlite_conn_finish(conn, statement);
}

int sqlite_past_delete_later(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_ROW_DELETE_LATER, &r);

	if (!statement)
		return r;
	sqlite_bind_text(statement, 1, op->session);
	sqlite_bind_text(statement, 2, op->key);
	sqlite3_bind_int64(statement, 3, op->at);
	sqlite3_bind_int64(statement, 4, op->to);
	sqlite3_bind_int64(statement, 5, op->created);
	return sqlite_conn_finish(conn, statement);
}

int sqlite_past_moment(struct sqlite_conn *conn, const char *now)
{
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_PAST_MOMENT, &r);

	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 1,
			   conn->store->backend.forgets || conn->store->writer_forgets ?
				   -1 :
				   moment_read(now));
	sqlite3_bind_int64(statement, 2, getpid());
	return sqlite_conn_finish(conn, statement);
}

int sqlite_past_moment_over(struct sqlite_conn *conn)
{
	return sqlite_conn_run(conn, SQL_PAST_MOMENT_OVER);
}

static int note(struct sqlite_conn *conn, const struct backend_past_key *key,
		enum backend_past_what what, int64_t index, int64_t last, int64_t until)
{
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_PAST_NOTE, &r);

	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 1, sqlite_clip(key->ino));
	sqlite_bind_text(statement, 2, key->session);
	sqlite_bind_text(statement, 3, key->key);
	sqlite3_bind_int64(statement, 4, until);
	sqlite3_bind_int64(statement, 5, what);
	sqlite3_bind_int64(statement, 6, index);
	sqlite3_bind_int64(statement, 7, last);
	sqlite3_bind_int64(statement, 8, getpid());
	return sqlite_conn_finish(conn, statement);
}

/* A row comes that does not say by its created_at from when on it is there. */
static int came(struct sqlite_conn *conn, const struct backend_op *op, int64_t until)
{
	const struct backend_past_key key = { 0, op->session, op->key };
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_PAST_EXTEND, &r);

	if (!statement)
		return r;
	sqlite_bind_text(statement, 1, op->session);
	sqlite_bind_text(statement, 2, op->key);
	sqlite3_bind_int64(statement, 3, op->at);
	sqlite3_bind_int64(statement, 4, until);
	r = sqlite_conn_finish(conn, statement);
	return r < 0 || sqlite3_changes(conn->db) ?
		       r :
		       note(conn, &key, PAST_NONE, op->at, op->at, until);
}

static int ask_key(struct sqlite_conn *conn, enum sqlite_sql sql, struct bytes session,
		   struct bytes key, int64_t index, int64_t *ret_number)
{
	struct cursor cursor = cursor_open(conn, sql);

	cursor_bind_text(&cursor, session);
	cursor_bind_text(&cursor, key);
	if (sql == SQL_ROW_THERE)
		cursor_bind_number(&cursor, index);
	if (cursor_only(&cursor, 0))
		*ret_number = cursor_number(&cursor, 0);
	return cursor_end(&cursor);
}

/* One row was kept: how much that takes. */
static int kept_one(struct sqlite_conn *conn)
{
	struct cursor cursor = cursor_open(conn, SQL_PAST_BYTES);

	cursor_bind_number(&cursor, sqlite3_last_insert_rowid(conn->db));
	if (cursor_only(&cursor, 0))
		conn->store->room.kept_bytes += (uint64_t)cursor_number(&cursor, 0) + SQLITE_PAGE;
	return cursor_end(&cursor);
}

static int keep_put(struct sqlite_conn *conn, const struct backend_op *op, int64_t until)
{
	const bool tells = conn->store->layout.has_created && !op->created;
	int64_t there = 0;
	int r = 0;
	sqlite3_stmt *statement =
		keep_begin(conn, SQL_PAST_KEEP_OTHER, op->session, op->key, until, &r);

	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 5, op->at);
	sqlite_bind_text(statement, 6, op->data);
	r = sqlite_conn_finish(conn, statement);
	if (r == 0 && sqlite3_changes(conn->db))
		return kept_one(conn);
	if (r < 0 || tells)
		return r;
	r = ask_key(conn, SQL_ROW_THERE, op->session, op->key, op->at, &there);
	return r < 0 || there ? r : came(conn, op, until);
}

/* A key, and what it has of another one: ?1 and ?2 go to ?3 and ?4. */
static int turn_key(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_op *op)
{
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, &r);

	if (!statement)
		return r;
	if (sql == SQL_PAST_GONE) {
		sqlite3_bind_int64(statement, 1, sqlite_clip(op->ino));
		return sqlite_conn_finish(conn, statement);
	}
	sqlite_bind_text(statement, 1, op->session);
	sqlite_bind_text(statement, 2, op->key);
	if (sql == SQL_PAST_MOVE) {
		sqlite_bind_text(statement, 3, op->session_to);
		sqlite_bind_text(statement, 4, op->key_to);
	} else {
		sqlite3_bind_int64(statement, 3, sqlite_clip(op->ino));
	}
	return sqlite_conn_finish(conn, statement);
}

/* number: until when it was kept; SQL_PAST_SHED: how many records stay. */
static int forget(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_past_key *key,
		  int64_t number)
{
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, &r);

	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 1, sqlite_clip(key->ino));
	sqlite_bind_text(statement, 2, key->session);
	sqlite_bind_text(statement, 3, key->key);
	sqlite3_bind_int64(statement, 4, number);
	return sqlite_conn_finish(conn, statement);
}

static int keep_move(struct sqlite_conn *conn, const struct backend_op *op, int64_t until)
{
	const struct backend_past_key from = { 0, op->session, op->key };
	const struct backend_past_key to = { 0, op->session_to, op->key_to };
	int64_t known = 0;
	int r = ask_key(conn, SQL_PAST_KNOWN, to.session, to.key, 0, &known);

	if (r < 0 || (bytes_equal(from.session, to.session) && bytes_equal(from.key, to.key)))
		return r;
	if (!known)
		return turn_key(conn, SQL_PAST_MOVE, op);
	r = keep(conn, to.session, to.key, INT64_MIN, INT64_MAX, until);
	if (r == 0)
		r = forget(conn, SQL_PAST_FORGET, &from, INT64_MAX);
	return r < 0 ? r : note(conn, &to, PAST_NONE, INT64_MIN, INT64_MAX, until);
}

/* A history goes with the file, also where none is being kept. */
static int go_along(struct sqlite_conn *conn, const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_KEY_HIDE:
		return turn_key(conn, SQL_PAST_HIDE, op);
	case BACKEND_KEY_SHOW:
		return turn_key(conn, SQL_PAST_SHOW, op);
	case BACKEND_HIDDEN_DELETE:
		return op->at == INT64_MIN ? turn_key(conn, SQL_PAST_GONE, op) : 0;
	default:
		return 0;
	}
}

int sqlite_past_keep(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	const struct sqlite *store = conn->store;
	const struct backend_past_key key = { 0, op->session, op->key };
	int64_t until;

	if (op->type > BACKEND_HIDDEN_DELETE || store->mode != MODE_WHOLE)
		return 0;
	if (store->backend.forgets || store->writer_forgets)
		return go_along(conn, op);
	if ((op->type == BACKEND_ROW_PUT && store->writer_triggers) ||
	    op->type == BACKEND_ROW_DELETE || op->type == BACKEND_KEY_MOVE)
		conn->store->room.kept = true;
	if (store->writer_triggers)
		return go_along(conn, op);
	if (op->type == BACKEND_ROW_INSERT && !op->created && store->layout.has_created)
		return 0;
	until = moment_read(now);
	switch (op->type) {
	case BACKEND_ROW_INSERT:
		return came(conn, op, until);
	case BACKEND_ROW_PUT:
		return keep_put(conn, op, until);
	case BACKEND_ROW_DELETE:
		return op->created ? keep_later(conn, op, until) :
				     keep(conn, op->session, op->key, op->at, op->to, until);
	case BACKEND_KEY_MOVE:
		return keep_move(conn, op, until);
	case BACKEND_ROWS_SHIFT:
		return note(conn, &key, PAST_MOVED, op->at, op->to, until);
	default:
		return go_along(conn, op);
	}
}

/* ---- Operations ---- */

static int copy(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_op *op,
		int64_t until)
{
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, &r);

	if (!statement)
		return r;
	sqlite_bind_text(statement, 1, sql == SQL_PAST_NONE ? op->session_to : op->session);
	sqlite_bind_text(statement, 2, sql == SQL_PAST_NONE ? op->key_to : op->key);
	sqlite3_bind_int64(statement, 3, op->at);
	sqlite3_bind_int64(statement, 4, op->to);
	sqlite3_bind_int64(statement, 5, op->seq);
	if (sql == SQL_PAST_NONE) {
		sqlite3_bind_int64(statement, 6, until);
		sqlite3_bind_int64(statement, 7, getpid());
	} else {
		sqlite_bind_text(statement, 6, op->session_to);
		sqlite_bind_text(statement, 7, op->key_to);
	}
	if (sql != SQL_PAST_NONE) {
		sqlite3_bind_int64(statement, 8, op->created);
		sqlite3_bind_int64(statement, 9, MAX(op->version, 1));
		sqlite_bind_text(statement, 10, op->name);
		sqlite_bind_text(statement, 11, op->data);
	}
	return sqlite_conn_finish(conn, statement);
}

/* ?1 to ?3 a key, ?4 and ?5 times. */
static int run_times(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_op *op,
		     int64_t *ret_number)
{
	struct cursor cursor = cursor_open(conn, sql);

	cursor_bind_id(&cursor, op->ino);
	cursor_bind_text(&cursor, op->session);
	cursor_bind_text(&cursor, op->key);
	cursor_bind_number(&cursor, op->at);
	cursor_bind_number(&cursor, op->to);
	if (cursor_next(&cursor) && sqlite3_column_type(cursor.statement, 0) == SQLITE_INTEGER)
		*ret_number = cursor_number(&cursor, 0);
	return cursor_end(&cursor);
}

static int merge(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct backend_past_key key = { op->ino, op->session, op->key };
	int64_t since = op->at;
	int r = run_times(conn, SQL_PAST_MERGED, op, &since);

	if (r == 0)
		r = run_times(conn, SQL_PAST_UNMERGED, op, &since);
	if (r == 0)
		r = run_times(conn, SQL_PAST_DOUBLES, op, &since);
	if (r == 0)
		r = run_times(conn, SQL_PAST_MERGE, op, &since);
	return r < 0 ? r : note(conn, &key, PAST_MERGED, MIN(since, op->at), op->to, op->to);
}

int sqlite_past_apply(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	const struct backend_past_key key = { op->ino, op->session, op->key };
	const bool forgets = conn->store->backend.forgets;
	int64_t until = moment_read(now);
	int r;

	switch (op->type) {
	case BACKEND_PAST_COPY:
		r = !forgets && !conn->store->writer_triggers ?
			    copy(conn, SQL_PAST_NONE, op, until) :
			    0;
		return r < 0 ? r : copy(conn, SQL_PAST_COPY, op, until);
	case BACKEND_ROWS_COPY:
		return copy(conn, SQL_ROWS_COPY, op, until);
	case BACKEND_PAST_NOTE:
		return forgets ? 0 :
				 note(conn, &key, (enum backend_past_what)op->parent, op->at,
				      op->to, until);
	case BACKEND_PAST_MERGE:
		return merge(conn, op);
	case BACKEND_PAST_FORGET:
		if (op->to)
			return forget(conn, SQL_PAST_SHED, &key, op->to);
		r = forget(conn, SQL_PAST_FORGET, &key, op->at);
		return r < 0 || op->at == INT64_MAX || !sqlite3_changes(conn->db) ?
			       r :
			       note(conn, &key, PAST_MERGED, INT64_MIN, op->at, op->at + 1);
	default:
		return -EINVAL;
	}
}

/* ---- Reading ---- */

static struct cursor open_past(struct backend_snapshot *snapshot, enum sqlite_sql sql,
			       const struct backend_past_key *key)
{
	struct cursor cursor = cursor_open(&snapshot->conn, sql);

	cursor_bind_id(&cursor, key->ino);
	cursor_bind_text(&cursor, key->session);
	cursor_bind_text(&cursor, key->key);
	return cursor;
}

/* A store of an older format that is only read has none. */
static bool has_past(const struct backend *backend)
{
	return ((const struct sqlite *)backend)->layout.has_past;
}

static int list_past(struct backend_snapshot *snapshot, enum sqlite_sql sql,
		     const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		     void *arg)
{
	struct cursor cursor = open_past(snapshot, sql, key);

	cursor_bind_number(&cursor, after);
	while (cursor_next(&cursor)) {
		const struct backend_past past = {
			.n = cursor_number(&cursor, 0),
			.what = (enum backend_past_what)cursor_number(&cursor, 1),
			.index = cursor_number(&cursor, 2),
			.last = cursor_number(&cursor, 3),
			.until = cursor_number(&cursor, 4),
			.pid = cursor_number(&cursor, 5),
			.bytes = (uint64_t)cursor_number(&cursor, 6),
			.created = sqlite_stamp_read(cursor.statement, 7),
		};

		cursor.r = fn(arg, &past);
	}
	return cursor_end(&cursor);
}

int sqlite_past_list(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		     void *arg)
{
	return has_past(backend) ? list_past(snapshot, SQL_PAST_LIST, key, after, fn, arg) : 0;
}

int sqlite_past_times(struct backend *backend, struct backend_snapshot *snapshot,
		      const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		      void *arg)
{
	return has_past(backend) ? list_past(snapshot, SQL_PAST_TIMES, key, after, fn, arg) : 0;
}

static int read_times(struct cursor *cursor, int64_t from, bool back, backend_row_time_fn *fn,
		      void *arg)
{
	cursor->least = back ? ~from : from;
	while (cursor_next(cursor)) {
		int64_t at = cursor_number(cursor, 0);

		if (cursor_in_order(cursor, back ? ~at : at))
			cursor->r = fn(arg, at,
				       (struct backend_times){
					       sqlite_stamp_read(cursor->statement, 2),
					       sqlite_stamp_read(cursor->statement, 3) },
				       cursor_bytes(cursor, 1));
	}
	return cursor_end(cursor);
}

int sqlite_past_read(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct backend_past_key *key, int64_t first, int64_t last, bool back,
		     backend_row_time_fn *fn, void *arg)
{
	struct cursor cursor;

	if (!has_past(backend))
		return 0;
	cursor = open_past(snapshot, back ? SQL_PAST_READ_BACK : SQL_PAST_READ, key);
	cursor_bind_number(&cursor, first);
	cursor_bind_number(&cursor, last);
	return read_times(&cursor, back ? last : first, back, fn, arg);
}

int sqlite_hidden_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		       int64_t from, bool back, backend_row_time_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, back ? SQL_HIDDEN_READ_BACK : SQL_HIDDEN_READ);

	(void)backend;
	cursor_bind_id(&cursor, ino);
	cursor_bind_number(&cursor, from);
	return read_times(&cursor, from, back, fn, arg);
}

int sqlite_past_keys(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct backend_past_key *after, backend_past_key_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, name = { 0 };
	struct backend_past_key key = { .session = BYTES(""), .key = BYTES("") };
	bool more = has_past(backend);
	int r = 0;

	if (after)
		key = *after;
	while (r == 0 && more) {
		struct cursor cursor = open_past(snapshot, SQL_PAST_NEXT, &key);

		more = cursor_next(&cursor);
		if (more) {
			buf_clear(&session);
			buf_clear(&name);
			key.ino = (uint64_t)cursor_number(&cursor, 0);
			cursor.r = buf_append_bytes(&session, cursor_bytes(&cursor, 1));
			if (cursor.r == 0)
				cursor.r = buf_append_bytes(&name, cursor_bytes(&cursor, 2));
		}
		r = cursor_end(&cursor);
		key.session = bytes_make(session.data ? session.data : "", session.size);
		key.key = bytes_make(name.data ? name.data : "", name.size);
		if (r == 0 && more)
			r = fn(arg, &key);
	}
	return MIN(r, 0);
}

int sqlite_past_size(struct backend *backend, struct backend_snapshot *snapshot,
		     uint64_t *ret_bytes, int64_t *ret_last)
{
	struct cursor cursor;

	*ret_bytes = 0;
	*ret_last = 0;
	if (!has_past(backend))
		return 0;
	cursor = cursor_open(&snapshot->conn, SQL_PAST_SIZE);
	if (cursor_only(&cursor, 0)) {
		*ret_bytes = (uint64_t)cursor_number(&cursor, 0);
		*ret_last = cursor_number(&cursor, 1);
	}
	return cursor_end(&cursor);
}
