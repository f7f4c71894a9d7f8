/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TRIGGERS_H
#define BACKEND_SQL_TRIGGERS_H

/*
 * The triggers on the rows' table, which log what other programs change.
 *
 * Our own connections switch them off.  A user who may not make triggers sees changes by others
 * only after the next mount.  Each heartbeat checks what no trigger logs (sql_triggers_watch()):
 * whether the triggers are there; and on MariaDB, whether the table is still the same and was not
 * emptied by TRUNCATE: then a snapshot from the last heartbeat can no longer read it (error 1412).
 */

#include "backend/sql/conn.h"

/* Make them where they are missing, on the writer's connection: sets store->triggers.  A user who
 * may make none is warned, and 0 returned. */
int sql_triggers_make(struct sql *store, bool is_new, const struct backend_options *options);

/* Once a heartbeat, of a mount, by its thread that watches: make the triggers again if they are
 * gone, and have everything looked at again where changes were not logged. */
int sql_triggers_watch(struct sql *store);

#endif
