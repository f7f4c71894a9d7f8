/* SPDX-License-Identifier: MIT */
#include "src/rows/rows.h"

#include <errno.h>

int rows_error(struct rows *rows, int code)
{
	switch (code & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
		return -EBUSY;
	case SQLITE_CANTOPEN:
		return -EACCES;
	case SQLITE_IOERR:
		return -EIO;
	default:
		rows->damaged = true;
		return -EUCLEAN;
	}
}

int rows_exec(struct rows *rows, const char *sql)
{
	int code = sqlite3_exec(rows->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : rows_error(rows, code);
}

static void bind(sqlite3_stmt *statement, int place, const struct rows_value *value)
{
	const char *data = value->bytes.data ? value->bytes.data : "";

	switch (value->type) {
	case SQLITE_INTEGER:
		sqlite3_bind_int64(statement, place, value->number);
		break;
	case SQLITE_BLOB:
		sqlite3_bind_blob64(statement, place, data, value->bytes.size, SQLITE_STATIC);
		break;
	case SQLITE_TEXT:
		sqlite3_bind_text64(statement, place, data, value->bytes.size, SQLITE_STATIC,
				    SQLITE_UTF8);
		break;
	default:
		sqlite3_bind_null(statement, place);
	}
}

int rows_ask(struct rows *rows, unsigned text, const struct rows_value *values)
{
	sqlite3_stmt **statement = &rows->statements[text];
	int code = SQLITE_OK;

	if (*statement)
		sqlite3_reset(*statement);
	else
		code = sqlite3_prepare_v3(rows->db, rows->texts[text], -1,
					  SQLITE_PREPARE_PERSISTENT, statement, NULL);
	if (code != SQLITE_OK)
		return rows_error(rows, code);
	for (int i = sqlite3_bind_parameter_count(*statement); i > 0; i--)
		bind(*statement, i, &values[i - 1]);
	return rows_next(rows, text);
}

int rows_next(struct rows *rows, unsigned text)
{
	int code = sqlite3_step(rows->statements[text]);

	if (code == SQLITE_ROW)
		return 1;
	sqlite3_reset(rows->statements[text]);
	return code == SQLITE_DONE ? 0 : rows_error(rows, code);
}

int64_t rows_column(const struct rows *rows, unsigned text, int column)
{
	return sqlite3_column_int64(rows->statements[text], column);
}

struct bytes rows_column_bytes(const struct rows *rows, unsigned text, int column)
{
	const char *data = sqlite3_column_blob(rows->statements[text], column);

	return bytes_make(data, (size_t)sqlite3_column_bytes(rows->statements[text], column));
}

const char *rows_column_text(const struct rows *rows, unsigned text, int column)
{
	const unsigned char *value = sqlite3_column_text(rows->statements[text], column);

	return value ? (const char *)value : "";
}

int rows_open(struct rows *rows, const char *path, int flags, const char *const *texts,
	      const char *sql)
{
	int code = sqlite3_open_v2(path, &rows->db, flags | SQLITE_OPEN_NOMUTEX, NULL);

	rows->texts = texts;
	if (code != SQLITE_OK)
		return rows_error(rows, code);
	sqlite3_busy_timeout(rows->db, 10000);
	return rows_exec(rows, sql);
}

void rows_close(struct rows *rows)
{
	for (size_t i = 0; i < ROWS_TEXTS; i++)
		sqlite3_finalize(rows->statements[i]);
	sqlite3_close(rows->db);
	*rows = (struct rows){ .damaged = rows->damaged };
}
