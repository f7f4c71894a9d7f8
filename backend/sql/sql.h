/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_SQL_H
#define BACKEND_SQL_SQL_H

/*
 * A store in a database of an SQL server, by the driver of a kind of server.  Each file does one
 * thing for it:
 *
 *   open.c     open and close: the connections, the tables, the handle's row in sessfs_mount
 *   schema.c   our tables (tables.h); the rows' table as we find it; triggers.c its triggers
 *   text.c     every statement that runs more than once, as one table (texts.h), and values in them
 *   conn.c     connections: the pool of those that read, and answers
 *   cursor.c   questions in a snapshot, page by page
 *   snapshot.c, read.c, sessions.c, join.c   the reading half of backend.h
 *   commit.c   the writing half: group commit, lanes, what is tried again
 *   transaction.c   one transaction of several batches; head.c how it begins
 *   gates.c    what it depends on; lanes.c what was read of other mounts'
 *   packet.c   statements that go together, and what a failure of each means
 *   apply.c    operations as SQL
 *   before.c   the state before operations, for notes
 *   feed.c     notes: listing them, leaving them
 *   mounts.c   which mounts there are: leases, turn, duty, locks
 *   uses.c     which files are in use
 *   watch.c    the thread that asks the server what is new
 *   changes.c  changes of other programs
 */

#include "backend/backend.h"
#include "backend/sql/driver.h"

/* A table of the drivers: as many rows of sessfs_gate as there are gates (gates.h). */
#define SQL_DIGITS                                                                                 \
	"(SELECT 0 AS i UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL "       \
	"SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7)"
#define SQL_MAKE_GATES                                                                             \
	"INSERT {unless} INTO sessfs_gate (gate) SELECT a.i + 8 * b.i + 64 * c.i + 512 * d.i "     \
	"FROM " SQL_DIGITS " a, " SQL_DIGITS " b, " SQL_DIGITS " c, (SELECT 0 AS i UNION ALL "     \
	"SELECT 1) d {there}"

/* As backend_open().  The URL is copied as far as it is needed again. */
int sql_backend_open(const struct sql_driver *driver, const struct url *url,
		     const struct backend_options *options, struct backend **ret_backend,
		     char **ret_why);
/* As backend_read_older(). */
int sql_read_older(const struct sql_driver *driver, const struct url *url, const char *table,
		   backend_older_fn *fn, void *arg, char **ret_why);

#endif
