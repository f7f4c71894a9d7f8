/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_SCHEMA_H
#define BACKEND_SQL_SCHEMA_H

#include "backend/sql/cursor.h"

/* Find the store in the database, or make it, on the writer's connection: sets the layout, the
 * texts, and whether there are triggers.  *ret_why as in backend_open(). */
int sql_schema_open(struct sql *store, const struct backend_options *options, char **ret_why);
/* Look whether the rows' table has versions: sets store->versions.  For the writer only.
 * AgentScope's services compare and swap singles by a column "version", which the table may get or
 * lose at any time.  So a transaction that writes a single names the column, or checks first that
 * there is none (SQL_VERSION_NONE); when that fails, this function looks again. */
int sql_schema_versions(struct sql *store);

/* Do a statement with the layout's {names} filled in, on a connection. */
int sql_schema_ask(struct sql *store, struct sql_link *link, const char *text,
		   const struct sql_value *values, size_t count, struct sql_answer **ret_answer);
struct sql_cursor sql_schema_look(struct sql *store, struct sql_link *link, const char *text,
				  const struct sql_value *values, size_t count);
/* The first column of the first row, if there is one; asked on the writer's. */
int sql_schema_text(struct sql *store, const char *text, const struct sql_value *values,
		    size_t count, char **ret_text);
/* From now on no other mount makes tables or triggers, nor setup does; and end that.  -EBUSY: one
 * has done so for twenty seconds (MariaDB; PostgreSQL: -ENOTCONN, after thirty). */
int sql_schema_lock(struct sql *store, struct sql_link *link, bool lock);
/* Do one that makes or changes tables, or report it to a setup. */
int sql_schema_bring(struct sql *store, struct sql_link *link, const char *text,
		     const struct sql_value *values, size_t count);

#endif
