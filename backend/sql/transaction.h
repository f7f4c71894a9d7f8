/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TRANSACTION_H
#define BACKEND_SQL_TRANSACTION_H

/* A transaction of several batches. */

#include "backend/sql/store.h"

/* A batch that waits for the writer; see commit.c. */
struct sql_request {
	struct backend_batch *batch;
	unsigned flags;
	int64_t until; /* when whoever waits has waited for long enough, if the server is away */
	int result;
	bool done;
	struct sql_request *next;
};

/* Send one transaction for the requests from first on, as far as end (not with it), by the
 * writer's connection; locked: in one that has begun, with the row of the store locked.
 *
 * Returns 0 when it is committed, or a negative errno: then nothing is, the caller has to end the
 * transaction by ROLLBACK, and *ret_failed is the request whose fault it was, or NULL.
 * SQL_HEAD_FAILED: something has happened that this mount has not read.  For the writer only. */
int sql_transaction(struct sql *store, struct sql_request *first, struct sql_request *end,
		    bool locked, struct sql_request **ret_failed);

/* Whether another program has changed what a request writes and nobody has digested it: -ESTALE.
 * Outside of transactions; for the writer only. */
int sql_transaction_guard(struct sql *store, const struct sql_request *request);

#endif
