/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_BEFORE_H
#define BACKEND_SQL_BEFORE_H

#include "backend/feed/before.h"
#include "backend/sql/conn.h"

/* Ask for what operations of some batches need to have known, in one question each. */
int sql_before_ask(struct sql *store, struct before *before, struct sql_link *link,
		   const struct backend_batch *const *batches, size_t count);

#endif
