/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_CURSOR_H
#define BACKEND_SQLITE_CURSOR_H

/*
 * A statement under way in a snapshot.
 *
 *	struct cursor cursor =
 *		cursor_open(&snapshot->conn, SQL_XATTR_LIST, SQL_VALUES(sql_id(ino)));
 *
 *	while (cursor_next(&cursor))
 *		cursor.r = fn(arg, cursor_bytes(&cursor, 0));
 *	return cursor_end(&cursor);
 *
 * A failure, or what a callback stops with, is remembered in r: then there is no further row.  No
 * lock is taken; a cursor is its snapshot's.
 */

#include "backend/sqlite/store/conn.h"

struct cursor {
	struct sqlite_conn *conn;
	sqlite3_stmt *statement;
	bool own; /* made for this alone, perhaps as a callback of the same query asks again */
	int r;
	int64_t least;	      /* that the next key may be */
	bool short_of_memory; /* bytes that were handed out were not all: an error at the end */
};

struct cursor cursor_open(struct sqlite_conn *conn, enum sqlite_sql sql,
			  const struct sql_value *values, size_t count);
/* Of a statement that is prepared for this alone, with words as in sql.h. */
struct cursor cursor_open_text(struct sqlite_conn *conn, const char *words,
			       const struct sql_value *values, size_t count);
/* Another parameter: text in the encoding of the store. */
void cursor_bind_stored(struct cursor *cursor, int index, struct bytes text);

/* Whether there is one more row. */
bool cursor_next(struct cursor *cursor);
/* The same of the only row there can be; without it r is missing, an error. */
bool cursor_only(struct cursor *cursor, int missing);
/* The keys of a tree are in order, unless it is damaged: then a loop that asks for what is behind
 * the last answer might never end.  False: it is damaged. */
bool cursor_in_order(struct cursor *cursor, int64_t key);
/* Columns of the row; bytes live until the next one. */
int64_t cursor_number(struct cursor *cursor, int column);
struct bytes cursor_bytes(struct cursor *cursor, int column);

/* Give the statement back: 0, also when a callback stopped it, or what has failed. */
int cursor_end(struct cursor *cursor);

#endif
