/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_JOIN_H
#define BACKEND_SQLITE_JOIN_H

/* A layer below SQLite: one write a transaction, a WAL that grows ahead, checkpoints that no writer
 * overtakes. */

#include <sqlite3.h>
#include <stdbool.h>

/* The VFS to open a database with that others may have open, too. */
const char *sqlite_join_name(void);
/* True when this version of SQLite, by its number, has the defect from which the layer protects its
 * databases. */
bool sqlite_join_mends(int version);
/* Whether the WAL shall grow ahead of what is written, so that syncing it is quicker.  Only for the
 * thread that uses the connection. */
void sqlite_join_ahead(sqlite3 *db, bool ahead);

#endif
