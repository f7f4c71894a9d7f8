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
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/rows/read.h"
#include "backend/sqlite/rows/times.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"

/* ---- Keeping ---- */

int sqlite_past_moment(struct sqlite_conn *conn)
{
	const bool forgets = conn->store->backend.forgets || conn->store->writer_forgets;

	return sqlite_conn_ask(conn, SQL_PAST_MOMENT,
			       SQL_VALUES(sql_number(forgets ? -1 : conn->until),
					  sql_number(getpid())),
			       NULL);
}

static int note(struct sqlite_conn *conn, uint64_t ino, struct bytes session, struct bytes key,
		enum backend_past_what what, int64_t index, int64_t last, int64_t until)
{
	return sqlite_conn_ask(conn, SQL_PAST_NOTE,
			       SQL_VALUES(sql_id(ino), sql_given(session), sql_given(key),
					  sql_number(until), sql_number(what), sql_number(index),
					  sql_number(last), sql_number(getpid())),
			       NULL);
}

/* A row comes that does not say by its created_at from when on it is there. */
static int came(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r = sqlite_conn_op(conn, SQL_PAST_EXTEND, "sk@u", op, NULL);

	return r < 0 || sqlite3_changes(conn->db) ?
		       r :
		       note(conn, 0, op->session, op->key, PAST_NONE, op->at, op->at, conn->until);
}

/* One row was kept: how much that takes. */
static int kept_one(struct sqlite_conn *conn)
{
	int64_t bytes = 0;
	int r = sqlite_conn_ask(conn, SQL_PAST_BYTES,
				SQL_VALUES(sql_number(sqlite3_last_insert_rowid(conn->db))),
				&bytes);

	conn->store->room.kept_bytes += (uint64_t)bytes + SQLITE_PAGE;
	return MIN(r, 0);
}

static int keep_put(struct sqlite_conn *conn, const struct backend_op *op)
{
	const bool tells = conn->store->layout.has_created && !op->created;
	int64_t there = 0;
	int r = sqlite_conn_op(conn, SQL_PAST_KEEP_OTHER, "uPsk@D", op, NULL);

	if (r == 0 && sqlite3_changes(conn->db))
		return kept_one(conn);
	if (r < 0 || tells)
		return r;
	r = sqlite_conn_op(conn, SQL_ROW_THERE, "sk@", op, &there);
	return r < 0 || there ? MIN(r, 0) : came(conn, op);
}

static int keep_move(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct backend_op from = { .session = op->session, .key = op->key, .at = INT64_MAX };
	const struct backend_op to = {
		.session = op->session_to, .key = op->key_to, .at = INT64_MIN, .to = INT64_MAX
	};
	int64_t known = 0;
	int r = sqlite_conn_op(conn, SQL_PAST_KNOWN, "SK", op, &known);

	if (r < 0 || (bytes_equal(op->session, op->session_to) && bytes_equal(op->key, op->key_to)))
		return MIN(r, 0);
	if (!known)
		return sqlite_conn_op(conn, SQL_PAST_MOVE, "skSK", op, NULL);
	r = sqlite_conn_op(conn, SQL_PAST_KEEP, "uPsk@t", &to, NULL);
	if (r == 0)
		r = sqlite_conn_op(conn, SQL_PAST_FORGET, "isk@", &from, NULL);
	return r < 0 ? r :
		       note(conn, 0, op->session_to, op->key_to, PAST_NONE, INT64_MIN, INT64_MAX,
			    conn->until);
}

/* A history goes with the file, also where none is being kept. */
static int go_along(struct sqlite_conn *conn, const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_KEY_HIDE:
		return sqlite_conn_op(conn, SQL_PAST_HIDE, "ski", op, NULL);
	case BACKEND_KEY_SHOW:
		return sqlite_conn_op(conn, SQL_PAST_SHOW, "ski", op, NULL);
	case BACKEND_HIDDEN_DELETE:
		return op->at == INT64_MIN ? sqlite_conn_op(conn, SQL_PAST_GONE, "i", op, NULL) : 0;
	default:
		return 0;
	}
}

int sqlite_past_keep(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct sqlite *store = conn->store;

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
	switch (op->type) {
	case BACKEND_ROW_INSERT:
		return came(conn, op);
	case BACKEND_ROW_PUT:
		return keep_put(conn, op);
	case BACKEND_ROW_DELETE:
		return op->created ?
			       sqlite_conn_op(conn, SQL_PAST_KEEP_LATER, "uPskc@t", op, NULL) :
			       sqlite_conn_op(conn, SQL_PAST_KEEP, "uPsk@t", op, NULL);
	case BACKEND_KEY_MOVE:
		return keep_move(conn, op);
	case BACKEND_ROWS_SHIFT:
		return note(conn, 0, op->session, op->key, PAST_MOVED, op->at, op->to, conn->until);
	default:
		return go_along(conn, op);
	}
}

/* ---- Operations ---- */

static int copy(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_op *op)
{
	struct backend_op copied = *op;

	copied.version = MAX(op->version, 1);
	return sqlite_conn_op(conn, sql, "sk@tqSKcvND", &copied, NULL);
}

static int merge(struct sqlite_conn *conn, const struct backend_op *op)
{
	static const enum sqlite_sql steps[] = { SQL_PAST_UNMERGED, SQL_PAST_DOUBLES,
						 SQL_PAST_MERGE };
	int64_t since = INT64_MAX;
	int r = sqlite_conn_op(conn, SQL_PAST_MERGED, "isk@t", op, &since);

	if (r < 0 || since == INT64_MAX)
		return r;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(steps); i++)
		r = sqlite_conn_op(conn, steps[i], "isk@t", op, NULL);
	return r < 0 ? r :
		       note(conn, op->ino, op->session, op->key, PAST_MERGED, MIN(since, op->at),
			    op->to, op->to);
}

static int compare(struct sqlite_conn *conn, const struct backend_op *op)
{
	const int r = sqlite_conn_op(conn, SQL_PAST_SAME, "isk@tq", op, NULL);

	return r < 0 ? r : r ? 0 : -ESTALE;
}

int sqlite_past_apply(struct sqlite_conn *conn, const struct backend_op *op)
{
	const bool forgets = conn->store->backend.forgets;
	int r = 0;

	switch (op->type) {
	case BACKEND_PAST_COPY:
		if (!forgets && !conn->store->writer_triggers)
			r = sqlite_conn_op(conn, SQL_PAST_NONE, "SK@tquP", op, NULL);
		return r < 0 ? r : copy(conn, SQL_PAST_COPY, op);
	case BACKEND_ROWS_COPY:
		return copy(conn, SQL_ROWS_COPY, op);
	case BACKEND_PAST_NOTE:
		return forgets ? 0 :
				 note(conn, op->ino, op->session, op->key,
				      (enum backend_past_what)op->parent, op->at, op->to,
				      conn->until);
	case BACKEND_PAST_MERGE:
		return merge(conn, op);
	case BACKEND_PAST_SAME:
		return compare(conn, op);
	case BACKEND_PAST_FORGET:
		if (op->to)
			return sqlite_conn_op(conn, SQL_PAST_SHED, "iskt", op, NULL);
		r = sqlite_conn_op(conn, SQL_PAST_FORGET, "isk@", op, NULL);
		return r < 0 || op->at == INT64_MAX || !sqlite3_changes(conn->db) ?
			       r :
			       note(conn, op->ino, op->session, op->key, PAST_MERGED, INT64_MIN,
				    op->at, op->at + 1);
	default:
		return -EINVAL;
	}
}

/* ---- Reading ---- */

/* A store of an older format that is only read has none. */
static bool has_past(const struct backend *backend)
{
	return ((const struct sqlite *)backend)->layout.has_past;
}

static int list_past(struct backend_snapshot *snapshot, enum sqlite_sql sql,
		     const struct backend_past_key *key, int64_t after, backend_past_fn *fn,
		     void *arg)
{
	struct cursor cursor = cursor_open(&snapshot->conn, sql,
					   SQL_VALUES(sql_id(key->ino), sql_given(key->session),
						      sql_given(key->key), sql_number(after)));

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

int sqlite_past_read(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct backend_past_key *key, int64_t first, int64_t last, bool back,
		     backend_row_time_fn *fn, void *arg)
{
	struct cursor cursor;

	if (!has_past(backend))
		return 0;
	cursor = cursor_open(&snapshot->conn, back ? SQL_PAST_READ_BACK : SQL_PAST_READ,
			     SQL_VALUES(sql_id(key->ino), sql_given(key->session),
					sql_given(key->key), sql_number(first), sql_number(last)));
	return sqlite_tell_times(&cursor, back ? last : first, back, fn, arg);
}

int sqlite_hidden_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		       int64_t from, bool back, backend_row_time_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, back ? SQL_HIDDEN_READ_BACK : SQL_HIDDEN_READ,
			    SQL_VALUES(sql_id(ino), sql_number(from)));

	return sqlite_tell_times(&cursor, from, back, fn, arg);
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
		struct cursor cursor =
			cursor_open(&snapshot->conn, SQL_PAST_NEXT,
				    SQL_VALUES(sql_id(key.ino), sql_given(key.session),
					       sql_given(key.key)));

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
		key.session = buf_given(&session);
		key.key = buf_given(&name);
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
	cursor = cursor_open(&snapshot->conn, SQL_PAST_SIZE, SQL_NO_VALUES);
	if (cursor_only(&cursor, 0)) {
		*ret_bytes = (uint64_t)cursor_number(&cursor, 0);
		*ret_last = cursor_number(&cursor, 1);
	}
	return cursor_end(&cursor);
}
