/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_CONN_H
#define BACKEND_SQLITE_CONN_H

/*
 * One connection and its prepared statements (conn.c); the pool of those that read (pool.c).
 *
 * Only one thread at a time uses a connection, and its user makes sure of that: the writer for the
 * writer's, the user of a snapshot for the snapshot's.  Functions return 0 or -errno, and have
 * logged what the header of backend.h promises.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/sqlite/rows/times.h"
#include "backend/sqlite/store/sql.h"
#include "backend/values.h"

struct sqlite;

struct sqlite_conn {
	struct sqlite *store; /* borrowed */
	sqlite3 *db;
	sqlite3_stmt *statements[SQL_COUNT]; /* prepared when first used */
	unsigned generation;		     /* of the layout that they were prepared for */
	int patience;			     /* ms to wait for a lock of another program */
	int64_t waits_since;
	char now[SQLITE_STAMP]; /* of the writer's transaction: the stamp of rows without times, */
	int64_t until;		/* and the same as a number */
};

/* Open one with our settings (conn.c says which).  -ESTALE: the path does not lead to the store's
 * file any more. */
int sqlite_conn_open(struct sqlite *store, bool reader, struct sqlite_conn *conn);
/* One more reader of a store that is open: -EIO then, as sqlite_file_there(). */
int sqlite_conn_more(struct sqlite *store, struct sqlite_conn *conn);
/* From now on: wait so many milliseconds for a lock that another program has. */
void sqlite_conn_set_patience(struct sqlite_conn *conn, int ms);
/* Close it with its statements; fine if it was opened in vain or never. */
void sqlite_conn_close(struct sqlite_conn *conn);
/* Forget the statements if the layout has changed; none may be under way. */
void sqlite_conn_renew(struct sqlite_conn *conn);
/* The statement, ready to be bound; NULL after a failure that was logged, *ret_error set. */
sqlite3_stmt *sqlite_conn_take(struct sqlite_conn *conn, enum sqlite_sql sql, int *ret_error);
/* One that is the caller's, to be finalized, of a text with words (sql.h). */
int sqlite_conn_prepare(struct sqlite_conn *conn, const char *words, sqlite3_stmt **ret_statement);
/* Values of a statement; text and blobs are borrowed until it was run.  Tables without times or
 * versions have no parameter for them, nor have statements that only look all that those have which
 * write: SQLite then says no, and we do not mind. */
void sqlite_conn_bind(const struct sqlite_conn *conn, sqlite3_stmt *statement,
		      const struct sql_value *values, size_t count);
/* Run one with values: 1: it has a row, of which *ret_number, unless that is NULL, becomes the
 * first column unless that is NULL, too; or 0. */
int sqlite_conn_ask(struct sqlite_conn *conn, enum sqlite_sql sql, const struct sql_value *values,
		    size_t count, int64_t *ret_number);
/* The same with fields of an operation, a letter each (backend/fields.h). */
int sqlite_conn_op(struct sqlite_conn *conn, enum sqlite_sql sql, const char *fields,
		   const struct backend_op *op, int64_t *ret_number);
/* Run one that has no parameters and whose result does not matter. */
int sqlite_conn_run(struct sqlite_conn *conn, enum sqlite_sql sql);
/* Run one that begins a transaction. */
int sqlite_conn_begin(struct sqlite_conn *conn, enum sqlite_sql sql);
/* One that yields one number. */
int sqlite_conn_number(struct sqlite_conn *conn, enum sqlite_sql sql, int64_t *ret_number);
/* End a transaction that may or may not be open, without a word. */
void sqlite_conn_rollback(struct sqlite_conn *conn);
/* The same if r is an error, which it returns then; otherwise commit it. */
int sqlite_conn_end(struct sqlite_conn *conn, int r);
/* Run a text once.  With ret_number the first column of the first row (fallback without one). */
int sqlite_conn_exec(struct sqlite_conn *conn, const char *text);
int sqlite_conn_query(struct sqlite_conn *conn, const char *text, int64_t fallback,
		      int64_t *ret_number);
/* The same with a text that SQLite has made, which is freed; NULL: there was no memory for it. */
int sqlite_conn_exec_made(struct sqlite_conn *conn, char *text);
int sqlite_conn_query_made(struct sqlite_conn *conn, char *text, int64_t *ret_number);

/* Bind text to a parameter: '' without data, never NULL.  It is borrowed until the statement was
 * run. */
void sqlite_bind_text(sqlite3_stmt *statement, int index, struct bytes text);
/* A number that is not signed as SQLite has it: nothing of ours is above the highest of them. */
static inline int64_t sqlite_clip(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}
/* The bytes of a column of any type; data is never NULL unless the column is. */
struct bytes sqlite_column_bytes(const struct sqlite *store, sqlite3_stmt *statement, int index);

/* A connection that reads, idle in the pool or in a read transaction. */
struct backend_snapshot {
	struct sqlite_conn conn;
	struct backend_snapshot *next; /* in the pool */
	bool at_once;		       /* nobody reads by it, it is kept (BACKEND_AT_ONCE) */
	int64_t version;	       /* MODE_ASIDE, MODE_FROZEN: at least this is visible */
	bool everything;	       /* MODE_ASIDE, MODE_FROZEN: and that was not digested yet */
};

/* Take an idle connection, or a new one; if there are too many, wait until one comes back.
 * at_once: do not wait, -ESTALE.  Takes pool.lock. */
int sqlite_pool_get(struct sqlite *store, bool at_once, struct backend_snapshot **ret_snapshot);
/* Give it back, with no transaction open. */
void sqlite_pool_put(struct sqlite *store, struct backend_snapshot *snapshot);
/* Whether anything reads. */
bool sqlite_pool_is_used(struct sqlite *store);
/* Give the idle readers' page caches back to the system. */
void sqlite_pool_trim(struct sqlite *store);

#endif
