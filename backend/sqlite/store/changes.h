/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_CHANGES_H
#define BACKEND_SQLITE_CHANGES_H

/* Others' changes: watching for them.  (slots.h has how they are listed and waited for.) */

#include "backend/backend.h"

struct sqlite;
struct sqlite_conn;

/* Open the connection that asks, and what wakes it, before anybody else knows the store.  0, or
 * -errno, and then sqlite_watch_stop() is due as well. */
int sqlite_watch_start(struct sqlite *store);
/* When nobody waits any more. */
void sqlite_watch_stop(struct sqlite *store);
/* A number that moves when another connection has changed the file.  Takes version_lock. */
int sqlite_version(struct sqlite *store, int64_t *ret_version);
/* In a transaction of the writer's, while changes wait: -ESTALE when one of them is of a key that
 * an operation names, or may be. */
int sqlite_changes_judge(struct sqlite_conn *conn, const struct backend_op *op);

#endif
