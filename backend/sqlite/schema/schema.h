/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SCHEMA_H
#define BACKEND_SQLITE_SCHEMA_H

/* Our tables, their versions, the triggers that log others' changes. */

#include <stdbool.h>
#include <stdint.h>

struct sqlite;
struct sqlite_conn;
struct look;

enum {
	SQLITE_SCHEMA_OLDEST = 5, /* from which on they are brought forward */
	SQLITE_SCHEMA_PAST = 6,	  /* the first in which rows are kept (rows/past.c) */
};

/* The version of our tables; 0: there are none. */
int sqlite_schema_version(struct sqlite_conn *conn, int64_t *ret_version);
/* Make or adopt what was found; in one transaction.  -EBUSY: mounts of an older program have it. */
int sqlite_schema_bring(struct sqlite *store, const struct look *look, char **ret_why);
/* The same tables in the private file of MODE_ASIDE. */
int sqlite_schema_aside(struct sqlite *store);
/* Inside a write transaction, what sqlite_schema_pending() has told of: take the columns as they
 * are now; where our triggers are cut off put them back, and log that anything may have changed. */
int sqlite_schema_mend(struct sqlite_conn *conn);
/* Are the triggers in place? */
int sqlite_schema_intact(struct sqlite_conn *conn, bool *ret_intact);
/* Parts of these: the rows' table that we make, the triggers, "anything may have changed". */
int sqlite_schema_put_rows(struct sqlite_conn *conn);
int sqlite_schema_put_triggers(struct sqlite_conn *conn);
int sqlite_schema_log_everything(struct sqlite_conn *conn);
int sqlite_schema_any_rows(struct sqlite_conn *conn, bool *ret_any);
/* What we remember of the store by a word: put or replace it, and get it. */
int sqlite_meta_put(struct sqlite_conn *conn, const char *key, const char *value);
/* *ret_value is NULL when there is none; free(). */
int sqlite_meta_get(struct sqlite_conn *conn, const char *key, char **ret_value);

/* What waits to be digested: others' changes, and what other mounts have left. */
enum { SQLITE_PENDING_CHANGES = 1, SQLITE_PENDING_FEED = 2 };
/* Which of these wait; for a transaction that commits, also what change_seen() has let pass.
 * *ret_cut says that the schema was changed under us in a way that cut our triggers off, or that
 * statements of this connection do not fit: the caller has to mend it (sqlite_schema_mend). */
int sqlite_schema_pending(struct sqlite_conn *conn, bool commits, unsigned *ret_pending,
			  bool *ret_cut);

#endif
