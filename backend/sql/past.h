/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_PAST_H
#define BACKEND_SQL_PAST_H

/* What changes of rows take away, kept (backend/history.h). */

#include "backend/sql/apply.h"

/* Before a block of operations: say the time, if any of them keeps something. */
void sql_past_begin(struct sql_packet *packet, const struct backend_op *ops, size_t count,
		    struct sql_applied *applied);
/* Before an operation is said: keep what it takes away. */
void sql_past_keep(struct sql_packet *packet, const struct backend_op *op,
		   struct sql_applied *applied);
/* BACKEND_PAST_..., BACKEND_ROWS_COPY, and BACKEND_ROW_DELETE with created. */
int sql_past_apply(struct sql_packet *packet, const struct backend_op *op,
		   struct sql_applied *applied);

#endif
