/* SPDX-License-Identifier: MIT */
#ifndef ROWS_H
#define ROWS_H

/*
 * Questions to a private database of SQLite, each of which is prepared once.
 *
 *	rows_open(&rows, path, flags, texts, "BEGIN")
 *	for (r = ROWS_ASK(&rows, FIND, rows_number(id)); r == 1; r = rows_next(&rows, FIND))
 *		... rows_column(&rows, FIND, 0) ...
 *	rows_close(&rows)
 *
 * Functions return 0 or -errno; -EUCLEAN with rows.damaged: SQLite calls the file corrupt.
 */

#include <sqlite3.h>
#include <stdbool.h>

#include "backend/base/buf.h"

enum { ROWS_TEXTS = 16 };

struct rows {
	sqlite3 *db;
	const char *const *texts; /* borrowed; a question is named by its place here */
	sqlite3_stmt *statements[ROWS_TEXTS];
	bool damaged;
};

/* A database by that name, "" for one that goes when it is closed; then what the text says is done.
 * A zeroed struct, which is to be closed in any case. */
int rows_open(struct rows *rows, const char *path, int flags, const char *const *texts,
	      const char *sql);
void rows_close(struct rows *rows);

/* Errors of SQLite: -EUCLEAN, -ENOSPC, -ENOMEM, -EBUSY, -EACCES, -EIO. */
int rows_error(struct rows *rows, int code);
int rows_exec(struct rows *rows, const char *sql);

/* Borrowed until its question has no more rows. */
struct rows_value {
	int type; /* SQLITE_NULL, _INTEGER, _BLOB, _TEXT */
	int64_t number;
	struct bytes bytes;
};
static inline struct rows_value rows_number(int64_t number)
{
	return (struct rows_value){ .type = SQLITE_INTEGER, .number = number };
}
static inline struct rows_value rows_blob(struct bytes bytes)
{
	return (struct rows_value){ .type = SQLITE_BLOB, .bytes = bytes };
}
static inline struct rows_value rows_string(struct bytes bytes)
{
	return (struct rows_value){ .type = SQLITE_TEXT, .bytes = bytes };
}
static inline struct rows_value rows_text(const char *text)
{
	return rows_string(bytes_str(text));
}

/* 1: rows.statements[text] has a row, until the next question of that text; 0: there is none. */
int rows_ask(struct rows *rows, unsigned text, const struct rows_value *values);
int rows_next(struct rows *rows, unsigned text);
#define ROWS_ASK(rows, text, ...) rows_ask(rows, text, (const struct rows_value[]){ __VA_ARGS__ })
int64_t rows_column(const struct rows *rows, unsigned text, int column);
struct bytes rows_column_bytes(const struct rows *rows, unsigned text, int column);
/* "" for NULL. */
const char *rows_column_text(const struct rows *rows, unsigned text, int column);

#endif
