/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/rows/cursor.h"

#include <errno.h>

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"

struct cursor cursor_open(struct sqlite_conn *conn, enum sqlite_sql sql,
			  const struct sql_value *values, size_t count)
{
	struct cursor cursor = { .conn = conn, .least = INT64_MIN };

	cursor.statement = sqlite_conn_take(cursor.conn, sql, &cursor.r);
	cursor.own = cursor.statement && sqlite3_stmt_busy(cursor.statement);
	if (cursor.own) {
		cursor.statement = NULL;
		cursor.r =
			sqlite_conn_prepare(cursor.conn, sqlite_sql_text(sql), &cursor.statement);
	}
	if (cursor.r == 0)
		sqlite_conn_bind(conn, cursor.statement, values, count);
	return cursor;
}

struct cursor cursor_open_text(struct sqlite_conn *conn, const char *words,
			       const struct sql_value *values, size_t count)
{
	struct cursor cursor = { .conn = conn, .least = INT64_MIN, .own = true };

	cursor.r = sqlite_conn_prepare(conn, words, &cursor.statement);
	if (cursor.r == 0)
		sqlite_conn_bind(conn, cursor.statement, values, count);
	return cursor;
}

void cursor_bind_stored(struct cursor *cursor, int index, struct bytes text)
{
	if (cursor->r == 0)
		sqlite3_bind_text64(cursor->statement, index, text.data, text.size, SQLITE_STATIC,
				    cursor->conn->store->encoding);
}

bool cursor_next(struct cursor *cursor)
{
	int code;

	if (cursor->r || cursor->short_of_memory)
		return false;
	code = sqlite3_step(cursor->statement);
	cursor->r = sqlite_result(cursor->conn, code);
	return code == SQLITE_ROW;
}

bool cursor_only(struct cursor *cursor, int missing)
{
	if (cursor_next(cursor))
		return true;
	if (cursor->r == 0)
		cursor->r = missing;
	return false;
}

bool cursor_in_order(struct cursor *cursor, int64_t key)
{
	if (key < cursor->least)
		cursor->r = sqlite_result(cursor->conn, SQLITE_CORRUPT);
	cursor->least = key;
	return cursor->r == 0;
}

int64_t cursor_number(struct cursor *cursor, int column)
{
	return sqlite3_column_int64(cursor->statement, column);
}

struct bytes cursor_bytes(struct cursor *cursor, int column)
{
	struct bytes bytes = sqlite_column_bytes(cursor->conn->store, cursor->statement, column);

	/* Of text that is converted nothing comes without memory, and no code says so. */
	if (!bytes.size && sqlite3_errcode(cursor->conn->db) == SQLITE_NOMEM)
		cursor->short_of_memory = true;
	return bytes;
}

int cursor_end(struct cursor *cursor)
{
	if (cursor->own)
		sqlite3_finalize(cursor->statement);
	else if (cursor->statement)
		sqlite3_reset(cursor->statement);
	return cursor->short_of_memory ? -ENOMEM : MIN(cursor->r, 0);
}
