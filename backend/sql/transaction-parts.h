/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TRANSACTION_PARTS_H
#define BACKEND_SQL_TRANSACTION_PARTS_H

/* What transaction.c and head.c share. */

#include "backend/sql/apply.h"
#include "backend/sql/before.h"
#include "backend/sql/gates.h"
#include "backend/sql/transaction.h"

struct transaction {
	struct sql *store;
	struct sql_packet packet;
	struct before before;
	struct feed_gates gates;
	struct feed_notes notes;
	struct sql_applied applied;
	struct sql_request *first;
	const struct sql_request *unguarded; /* guard_requests() */
	struct buf changed;		     /* what the first note depends on, of other programs */
	bool placed;			     /* rows come where they are expected, or not at all */
	bool begun;			     /* the head has been sent and has succeeded */
	size_t failed;
};

/* Send what was said. */
int transaction_flush(struct transaction *transaction);
/* Whether what operations change has to be known as it is in the store: for notes, or for a
 * judgement by those of others. */
bool transaction_needs_before(struct transaction *transaction);

/* head.c: the first statements, of batches, which are sent with what follows. */
int transaction_say_head(struct transaction *transaction,
			 const struct backend_batch *const *batches, size_t count, bool at_once);
/* The same where it has failed: all is locked, and read then. */
int transaction_enter(struct transaction *transaction, const struct backend_batch *const *batches,
		      size_t count, struct sql_turn *turn);
/* Lock what a batch that goes on depends on, beside other mounts. */
int transaction_go_on(struct transaction *transaction, const struct backend_batch *batch);

#endif
