/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_TIMES_H
#define BACKEND_SQLITE_TIMES_H

/* Time stamps of rows. */

#include <sqlite3.h>
#include <stdint.h>

enum { SQLITE_STAMP = 32 }; /* bytes of room for a time stamp */

/* A time in nanoseconds since 1970, as the rows have it: "2026-01-31 23:59:59.123", UTC. */
void sqlite_stamp(int64_t nanoseconds, char stamp[SQLITE_STAMP]);
/* Nanoseconds since 1970 of what any program may have put into this column, a text or a number; 0
 * when it is not a time. */
int64_t sqlite_stamp_read(sqlite3_stmt *statement, int index);
/* The same for statements of this database: sessfs_time(column); NULL when it is not a time. */
int sqlite_stamp_function(sqlite3 *db);

#endif
