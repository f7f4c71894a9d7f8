/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_PAST_H
#define BACKEND_SQLITE_PAST_H

/* What changes of rows take away, kept (backend/history.h). */

#include "backend/backend.h"
#include "backend/sqlite/store/conn.h"

/* In the writer's transaction, before an operation is applied: keep what it takes away. */
int sqlite_past_keep(struct sqlite_conn *conn, const struct backend_op *op);
/* In a transaction that runs the triggers, until SQL_PAST_MOMENT_OVER: of which time and process is
 * what they keep. */
int sqlite_past_moment(struct sqlite_conn *conn);
/* BACKEND_PAST_... and BACKEND_ROWS_COPY. */
int sqlite_past_apply(struct sqlite_conn *conn, const struct backend_op *op);

#endif
