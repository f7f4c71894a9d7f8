/* SPDX-License-Identifier: MIT */
/* Tables of an older layout, one row a session, which are only ever read. */
#include <errno.h>

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/rows/times.h"
#include "backend/base/cleanup.h"

static void close_database(sqlite3 **db)
{
	sqlite3_close(*db);
}

static int refuse(sqlite3 *db, const char *path, char **ret_why)
{
	return str_explain(ret_why, -EMEDIUMTYPE, "cannot read %s: %s", path, sqlite3_errmsg(db));
}

/* Which of the columns are there: enum backend_older. */
static int find_columns(sqlite3 *db, const char *path, const char *table, unsigned *ret_found,
			char **ret_why)
{
	static const char text[] =
		"SELECT sum(CASE lower(name) WHEN 'session_id' THEN 1 WHEN 'state_data' THEN 2 "
		"WHEN 'updated_at' THEN 4 WHEN 'item_index' THEN 8 ELSE 0 END) "
		"FROM pragma_table_info(?1)";
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(db, text, -1, &statement, NULL);

	if (code == SQLITE_OK) {
		sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
		code = sqlite3_step(statement);
	}
	if (code == SQLITE_ROW)
		*ret_found = (unsigned)sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	return code == SQLITE_ROW ? 0 : refuse(db, path, ret_why);
}

static struct bytes column(sqlite3_stmt *statement, int index)
{
	const void *data = sqlite3_column_blob(statement, index);

	return bytes_make(data, (size_t)sqlite3_column_bytes(statement, index));
}

static int read_rows(sqlite3 *db, const char *path, const char *text, backend_older_fn *fn,
		     void *arg, char **ret_why)
{
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(db, text, -1, &statement, NULL), r = 0;

	while (code == SQLITE_OK || (r == 0 && code == SQLITE_ROW)) {
		code = sqlite3_step(statement);
		if (code == SQLITE_ROW)
			r = fn(arg, column(statement, 0), column(statement, 1),
			       sqlite_stamp_read(statement, 2));
	}
	if (r == 0 && code != SQLITE_DONE)
		r = refuse(db, path, ret_why);
	sqlite3_finalize(statement);
	return MIN(r, 0);
}

int sqlite_backend_read_older(const char *path, const char *table, backend_older_fn *fn, void *arg,
			      char **ret_why)
{
	_cleanup_(close_database) sqlite3 *db = NULL;
	int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
	unsigned found = 0;
	char *text;
	int r;

	if (code != SQLITE_OK)
		return refuse(db, path, ret_why);
	sqlite3_busy_timeout(db, 10000);
	r = find_columns(db, path, table, &found, ret_why);
	if (r == 0)
		r = backend_judge_older(path, table, found, ret_why);
	if (r < 0)
		return r;
	text = sqlite3_mprintf("SELECT session_id, state_data, %s FROM main.\"%w\"",
			       found & BACKEND_OLDER_UPDATED ? "updated_at" : "NULL", table);
	r = text ? read_rows(db, path, text, fn, arg, ret_why) : -ENOMEM;
	sqlite3_free(text);
	return r;
}
