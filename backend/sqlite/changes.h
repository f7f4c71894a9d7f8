/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_CHANGES_H
#define BACKEND_SQLITE_CHANGES_H

/* Others' changes: watching for them.  (slots.h has how they are listed and waited for.) */

#include <stdint.h>

struct sqlite;

/* Open the connection that asks, and what wakes it, before anybody else knows the store.  0, or
 * -errno, and then sqlite_watch_stop() is due as well. */
int sqlite_watch_start(struct sqlite *store);
/* When nobody waits any more. */
void sqlite_watch_stop(struct sqlite *store);
/* A number that moves when another connection has changed the file.  Takes version_lock. */
int sqlite_version(struct sqlite *store, int64_t *ret_version);

#endif
