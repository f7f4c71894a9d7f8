/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TRANSACTION_H
#define BACKEND_SQL_TRANSACTION_H

/* A transaction of several batches. */

#include "backend/sql/mounts.h"

/* A batch that waits for the writer; see commit.c. */
struct sql_request {
	struct backend_batch *batch;
	unsigned flags;
	int64_t until; /* when whoever waits has waited for long enough, if the server is away */
	int result;
	bool done;
	struct sql_request *next;
};

enum {
	SQL_TURN_TAKEN = -100005, /* another mount has the turn */
	SQL_AGAIN = -100006,	  /* another mount has come, or the last other one has gone */
};

/* Send one transaction for the requests from first on, as far as end (not with it), by the
 * writer's connection.  turn: the last one has failed by its head, and this goes on in it, with all
 * locked before anything is read; what is known of the turn of another mount.  NULL: it begins.
 *
 * Returns 0 when it is committed, or a negative errno: then nothing is, the caller has to end the
 * transaction by ROLLBACK, and *ret_failed is the request whose fault it was, or NULL.
 * SQL_HEAD_FAILED: something has happened that this mount has not read.  For the writer only. */
int sql_transaction(struct sql *store, struct sql_request *first, struct sql_request *end,
		    struct sql_turn *turn, struct sql_request **ret_failed);

/* Whether another program has changed what a request writes and nobody has digested it: -ESTALE.
 * Outside of transactions; for the writer only. */
int sql_transaction_guard(struct sql *store, const struct sql_request *request);

#endif
