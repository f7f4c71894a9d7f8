/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SHIFT_H
#define BACKEND_SQLITE_SHIFT_H

#include "backend/backend.h"
#include "backend/sqlite/store/conn.h"

/* BACKEND_ROWS_SHIFT, in the writer's transaction. */
int sqlite_shift(struct sqlite_conn *conn, const struct backend_op *op);

#endif
