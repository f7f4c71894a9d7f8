/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_JOIN_H
#define BACKEND_SQLITE_JOIN_H

/* A layer below SQLite: one write a transaction, a WAL that grows ahead. */

#include <sqlite3.h>
#include <stdbool.h>

/* The VFS to open databases with; NULL: SQLite's own. */
const char *sqlite_join_name(void);
/* Whether the WAL shall grow ahead of what is written, so that syncing it is quicker.  Only for the
 * thread that uses the connection. */
void sqlite_join_ahead(sqlite3 *db, bool ahead);

#endif
