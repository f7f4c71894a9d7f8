/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TRIGGERS_H
#define BACKEND_SQL_TRIGGERS_H

/* The triggers on the rows' table, which log what other programs change. */

#include "backend/sql/conn.h"

/* Make them where they are missing, on the writer's connection: sets store->triggers.  A user who
 * may make none is warned, and 0 returned. */
int sql_triggers_make(struct sql *store, bool is_new, const struct backend_options *options);

/* Once a heartbeat, of a mount, by its thread that watches: make the triggers again if they are
 * gone, and have everything looked at again where changes were not logged. */
int sql_triggers_watch(struct sql *store);

#endif
