/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_SLOTS_H
#define BACKEND_SQL_SLOTS_H

/* What the table of slots is filled with (open.c); backend.h describes each. */

#define SLOT(slot) sql_##slot
#include "backend/slots-declare.h"
#undef SLOT

struct sql;

/* Of the pool (snapshot.c), at the end. */
void sql_pool_done(struct sql *store);
/* Now and then: transactions do not outlive their snapshots by much. */
void sql_pool_rest(struct sql *store);
/* Become the writer (commit.c), and give that up. */
void sql_writer_take(struct sql *store);
void sql_writer_give(struct sql *store);

#endif
