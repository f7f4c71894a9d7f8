/* SPDX-License-Identifier: MIT */
/*
 * One connection of ours.  (pool.c has those that read.)
 *
 * A connection is used by one thread at a time (NOMUTEX).  Statements are prepared when they are
 * first used and kept for the life of the connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/fields.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/disk/join.h"
#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/rows/times.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

/* SQLite's own handler comes to look ten times a second, and never finds the lock free beside a
 * program that commits all the time. */
static int is_patient(void *arg, int count)
{
	struct sqlite_conn *conn = arg;

	if (!count)
		conn->waits_since = tick_ms();
	if (tick_ms() - conn->waits_since >= conn->patience)
		return 0;
	usleep(1000);
	return 1;
}

void sqlite_conn_set_patience(struct sqlite_conn *conn, int ms)
{
	conn->patience = ms;
}

/* The functions that are not SQLite's own and not safe: names and numbers of parameters, NULs
 * between them.  *ret_json: of its own, those of JSON and no others are not safe. */
static int list_unsafe(sqlite3 *db, struct buf *unsafe, bool *ret_json)
{
	enum { NAME, BUILTIN, PARAMETERS = 4, FLAGS };
	sqlite3_stmt *list = NULL;
	bool json = false, others = false;
	int r = 0, code = SQLITE_DONE;

	if (sqlite3_prepare_v2(db, "PRAGMA function_list", -1, &list, NULL) != SQLITE_OK)
		return -ENOMEM;
	while (r == 0 && (code = sqlite3_step(list)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(list, NAME);
		int flags = sqlite3_column_int(list, FLAGS);

		if (name && (flags & SQLITE_INNOCUOUS))
			continue;
		if (!name)
			r = -ENOMEM;
		else if (!sqlite3_column_int(list, BUILTIN))
			r = buf_printf(unsafe, "%s%c%d%c", name, 0,
				       sqlite3_column_int(list, PARAMETERS), 0);
		else if (strncmp(name, "json", 4) == 0 || strncmp(name, "->", 2) == 0)
			json = true;
		else
			others |= !(flags & SQLITE_DIRECTONLY);
	}
	sqlite3_finalize(list);
	*ret_json = json && !others;
	return r == 0 && code != SQLITE_DONE ? -ENOMEM : r;
}

/*
 * A schema may call functions in a CHECK, whether it is trusted or not, and some belong to modules
 * that are dropped: so those that are not safe are taken away.
 *
 * Versions of SQLite up to 3.40 say of their functions for JSON that they are not safe, and take a
 * database for damaged of which an index or a column calls one, as many do.  There what is left is
 * trusted.
 */
static int drop_functions(sqlite3 *db)
{
	_cleanup_(buf_done) struct buf unsafe = { 0 };
	bool json = false;
	int r = list_unsafe(db, &unsafe, &json), code = SQLITE_OK;

	if (r < 0)
		return r;
	for (size_t at = 0; code == SQLITE_OK && at < unsafe.size;) {
		const char *name = unsafe.data + at;
		const char *parameters = name + strlen(name) + 1;

		code = sqlite3_create_function_v2(db, name, atoi(parameters), SQLITE_ANY, NULL,
						  NULL, NULL, NULL, NULL);
		at += strlen(name) + strlen(parameters) + 2;
	}
	if (code == SQLITE_OK && json)
		sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1, NULL);
	return code == SQLITE_OK ? 0 : -ENOMEM;
}

/*
 * A store is untrusted input.  Its triggers and views never run in our connections: our triggers
 * are for other programs only (a guest turns them on where it is one of them: commit.c), and we do
 * not run anything else in the schema.
 */
static int configure(struct sqlite_conn *conn, bool no_modules)
{
	static const struct {
		int option, value;
	} options[] = {
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
		{ SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0 },
	};
	sqlite3 *db = conn->db;

	/* Nor do virtual tables, whose modules would read tables with invented content.  A
	 * connection that writes with triggers on may need them: another program's trigger may fill
	 * an index. */
	if (no_modules)
		sqlite3_drop_modules(db, NULL);
	sqlite3_extended_result_codes(db, 1);
	sqlite_conn_set_patience(conn, SQLITE_BUSY_MS);
	sqlite3_busy_handler(db, is_patient, conn);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		sqlite3_db_config(db, options[i].option, options[i].value, NULL);
	return drop_functions(db);
}

/* secure_delete: some builds overwrite all that is deleted with zeros, so that deleting writes as
 * much as was there, which a full disk does not allow. */
static int set_pragmas(struct sqlite_conn *conn, bool reader)
{
	static const char format[] = "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF; "
				     "PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY; "
				     "PRAGMA journal_size_limit = %lld; "
				     "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; "
				     "PRAGMA secure_delete = FAST; "
				     "PRAGMA cache_size = -%d; PRAGMA query_only = %d";

	return sqlite_conn_exec_made(conn, sqlite3_mprintf(format, SQLITE_WAL_KIB * 1024LL,
							   reader ? SQLITE_READER_CACHE_KIB :
								    SQLITE_WRITER_CACHE_KIB,
							   reader));
}

int sqlite_conn_open(struct sqlite *store, bool reader, struct sqlite_conn *conn)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
		    SQLITE_OPEN_URI;
	int r, code;

	*conn = (struct sqlite_conn){ .store = store,
				      .generation = atomic_load(&store->generation) };
	r = descriptor_fill();
	if (r < 0)
		return r;
	code = sqlite3_open_v2(store->name, &conn->db, flags, sqlite_join_name());
	if (code != SQLITE_OK) {
		r = conn->db ? sqlite_result(conn, code) : -ENOMEM;
		goto fail;
	}
	/* SQLite has opened what is there now. */
	r = sqlite_place_stands(&store->place) ? 0 : -ESTALE;
	if (r < 0)
		goto fail;
	r = configure(conn, !store->guest || store->backend.read_only);
	if (r < 0)
		goto fail;
	code = sqlite_stamp_function(conn->db);
	r = code == SQLITE_OK ? set_pragmas(conn, reader) : sqlite_result(conn, code);
	/* Our tables are in a private file: names without a schema are found there, as main has
	 * none of them. */
	if (r == 0 && store->aside)
		r = sqlite_conn_exec_made(
			conn, sqlite3_mprintf("ATTACH %Q AS aside; PRAGMA aside.synchronous = OFF; "
					      "PRAGMA wal_autocheckpoint = 1000",
					      store->aside));
	if (r < 0)
		goto fail;
	return 0;
fail:
	sqlite_conn_close(conn);
	return r;
}

int sqlite_conn_more(struct sqlite *store, struct sqlite_conn *conn)
{
	int r = sqlite_conn_open(store, true, conn);

	if (r != -ESTALE)
		return r;
	if (sqlite_file_there(store) == 0)
		log_error("%s leads to another file now: cannot open it again", store->place.path);
	return -EIO;
}

static void forget_statements(struct sqlite_conn *conn)
{
	for (size_t i = 0; i < ARRAY_SIZE(conn->statements); i++) {
		sqlite3_finalize(conn->statements[i]);
		conn->statements[i] = NULL;
	}
}

void sqlite_conn_renew(struct sqlite_conn *conn)
{
	unsigned generation = atomic_load(&conn->store->generation);

	if (conn->generation == generation)
		return;
	forget_statements(conn);
	conn->generation = generation;
}

void sqlite_conn_close(struct sqlite_conn *conn)
{
	forget_statements(conn);
	/* The last one to close deletes the log, by its name: it may be another store's now. */
	if (conn->db && !sqlite_place_stands(&conn->store->place))
		sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_close(conn->db);
	*conn = (struct sqlite_conn){ 0 };
}

int sqlite_conn_prepare(struct sqlite_conn *conn, const char *words, sqlite3_stmt **ret_statement)
{
	char *text = sqlite_sql_expand(words, &conn->store->layout, "main.");
	int code;

	if (!text)
		return -ENOMEM;
	code = sqlite3_prepare_v3(conn->db, text, -1, SQLITE_PREPARE_PERSISTENT, ret_statement,
				  NULL);
	sqlite3_free(text);
	return sqlite_result(conn, code);
}

sqlite3_stmt *sqlite_conn_take(struct sqlite_conn *conn, enum sqlite_sql sql, int *ret_error)
{
	if (!conn->statements[sql]) {
		int r = sqlite_conn_prepare(conn, sqlite_sql_text(sql), &conn->statements[sql]);

		if (r < 0) {
			*ret_error = r;
			return NULL;
		}
	}
	return conn->statements[sql];
}

static void bind_value(const struct sqlite_conn *conn, sqlite3_stmt *statement, int index,
		       const struct sql_value *value)
{
	const struct bytes bytes = value->bytes;
	char stamp[SQLITE_STAMP];

	if (value->is == SQL_NUMBER) {
		sqlite3_bind_int64(statement, index, value->number);
	} else if (value->is == SQL_TIME && value->number) {
		sqlite_stamp(value->number, stamp);
		sqlite3_bind_text(statement, index, stamp, -1, SQLITE_TRANSIENT);
	} else if (value->is == SQL_TIME) {
		sqlite_bind_text(statement, index, bytes_str(conn->now));
	} else if (value->is == SQL_UNTIL) {
		sqlite3_bind_int64(statement, index, conn->until);
	} else if (!bytes.data) {
		sqlite3_bind_null(statement, index);
	} else if (value->is == SQL_TEXT) {
		sqlite_bind_text(statement, index, bytes);
	} else {
		sqlite3_bind_blob64(statement, index, bytes.data, bytes.size, SQLITE_STATIC);
	}
}

void sqlite_conn_bind(const struct sqlite_conn *conn, sqlite3_stmt *statement,
		      const struct sql_value *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bind_value(conn, statement, (int)i + 1, &values[i]);
}

int sqlite_conn_ask(struct sqlite_conn *conn, enum sqlite_sql sql, const struct sql_value *values,
		    size_t count, int64_t *ret_number)
{
	int r = 0, code;
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, &r);

	if (!statement)
		return r;
	sqlite_conn_bind(conn, statement, values, count);
	code = sqlite3_step(statement);
	r = sqlite_result(conn, code);
	if (code == SQLITE_ROW && ret_number && sqlite3_column_type(statement, 0) != SQLITE_NULL)
		*ret_number = sqlite3_column_int64(statement, 0);
	sqlite3_reset(statement);
	return r < 0 ? r : code == SQLITE_ROW;
}

int sqlite_conn_op(struct sqlite_conn *conn, enum sqlite_sql sql, const char *fields,
		   const struct backend_op *op, int64_t *ret_number)
{
	struct sql_value values[12];

	return sqlite_conn_ask(conn, sql, values, op_values(fields, op, values), ret_number);
}

int sqlite_conn_run(struct sqlite_conn *conn, enum sqlite_sql sql)
{
	int r = sqlite_conn_ask(conn, sql, SQL_NO_VALUES, NULL);

	return MIN(r, 0);
}

int sqlite_conn_begin(struct sqlite_conn *conn, enum sqlite_sql sql)
{
	/* Without memory the last one could not even be rolled back. */
	sqlite_conn_rollback(conn);
	return sqlite_conn_run(conn, sql);
}

int sqlite_conn_number(struct sqlite_conn *conn, enum sqlite_sql sql, int64_t *ret_number)
{
	int r = sqlite_conn_ask(conn, sql, SQL_NO_VALUES, ret_number);

	return r < 0 ? r : r ? 0 : -ENOENT;
}

void sqlite_conn_rollback(struct sqlite_conn *conn)
{
	/* After a full disk or an I/O error SQLite may have rolled back by itself. */
	if (conn->db && !sqlite3_get_autocommit(conn->db))
		sqlite3_exec(conn->db, "ROLLBACK", NULL, NULL, NULL);
}

int sqlite_conn_end(struct sqlite_conn *conn, int r)
{
	if (r == 0)
		r = sqlite_conn_exec(conn, "COMMIT");
	if (r < 0)
		sqlite_conn_rollback(conn);
	return r;
}

int sqlite_conn_exec(struct sqlite_conn *conn, const char *text)
{
	return sqlite_result(conn, sqlite3_exec(conn->db, text, NULL, NULL, NULL));
}

int sqlite_conn_query(struct sqlite_conn *conn, const char *text, int64_t fallback,
		      int64_t *ret_number)
{
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(conn->db, text, -1, &statement, NULL);
	int r = sqlite_result(conn, code);

	if (r < 0)
		return r;
	code = sqlite3_step(statement);
	r = sqlite_result(conn, code);
	if (r == 0)
		*ret_number = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : fallback;
	sqlite3_finalize(statement);
	return r;
}

int sqlite_conn_exec_made(struct sqlite_conn *conn, char *text)
{
	int r = text ? sqlite_conn_exec(conn, text) : -ENOMEM;

	sqlite3_free(text);
	return r;
}

int sqlite_conn_query_made(struct sqlite_conn *conn, char *text, int64_t *ret_number)
{
	int r = text ? sqlite_conn_query(conn, text, 0, ret_number) : -ENOMEM;

	sqlite3_free(text);
	return r;
}

void sqlite_bind_text(sqlite3_stmt *statement, int index, struct bytes text)
{
	/* With a NULL pointer it would bind NULL, not ''. */
	sqlite3_bind_text64(statement, index, text.data ? text.data : "", text.size, SQLITE_STATIC,
			    SQLITE_UTF8);
}

struct bytes sqlite_column_bytes(const struct sqlite *store, sqlite3_stmt *statement, int index)
{
	int type = sqlite3_column_type(statement, index);
	const void *data;

	if (type == SQLITE_NULL)
		return (struct bytes){ 0 };
	/* As a blob, text is not copied to get a NUL behind it; numbers have to become text. */
	if (type == SQLITE_BLOB || (type == SQLITE_TEXT && store->encoding == SQLITE_UTF8))
		data = sqlite3_column_blob(statement, index);
	else
		data = sqlite3_column_text(statement, index);
	return bytes_make(data ? data : "", (size_t)sqlite3_column_bytes(statement, index));
}
