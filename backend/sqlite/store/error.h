/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_ERROR_H
#define BACKEND_SQLITE_ERROR_H

/* SQLITE_* to -errno, and the sentences. */

#include <sqlite3.h>

#include <stdbool.h>

#include "backend/backend.h"

struct sqlite_conn;

/* The one place where SQLITE_* becomes -errno.  Logs SQLite's sentence where the header of
 * backend.h promises it. */
int sqlite_error(sqlite3 *db, int code, const char *path);
/* The same for a connection, and 0 for SQLITE_OK, SQLITE_ROW and SQLITE_DONE. */
int sqlite_result(struct sqlite_conn *conn, int code);
/* Whether no file can be made beside the store at path: its filesystem has no inode left. */
bool sqlite_lacks_inodes(const char *path);

/* Report a sentence as printf(3) makes it. */
void sqlite_tell(backend_report_fn *report, void *arg, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
