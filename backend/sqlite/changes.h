/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_CHANGES_H
#define BACKEND_SQLITE_CHANGES_H

/* Others' changes: watching for them. */

#include <stdint.h>

struct sqlite;

int sqlite_watch_start(struct sqlite *store);
void sqlite_watch_stop(struct sqlite *store);
/* A number that moves when another connection changed the file. */
int sqlite_version(struct sqlite *store, int64_t *ret_version);

#endif
