/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_SCHEMA_H
#define BACKEND_SQL_SCHEMA_H

#include "backend/sql/conn.h"

/* Find the store in the database, or make it, on the writer's connection: sets the layout, the
 * texts, and whether there are triggers.  *ret_why as in backend_open(). */
int sql_schema_open(struct sql *store, const struct backend_options *options, char **ret_why);
/* Look whether the rows' table has versions: sets store->versions.  For the writer only. */
int sql_schema_versions(struct sql *store);

/* Once a heartbeat, of a mount, by its thread that watches: whether what tells of other programs'
 * changes is there, and what cannot be told of has not happened.  If not, all that there is is to
 * be looked at. */
int sql_schema_watch(struct sql *store);

#endif
