/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_TRANSACTION_H
#define BACKEND_MEMORY_TRANSACTION_H

/* The map that a batch makes, entry by entry, out of the one that the store is.  Keys are made with
 * functions that remember a failure; it comes out here. */

#include "backend/memory/internal.h"

struct transaction {
	struct memory *memory;
	struct memory_store *store;
	struct map *map; /* a reference */
	uint64_t used;
	int64_t now;
	bool shared;		   /* other mounts have the store */
	struct feed_notes notes;   /* for the others */
	struct feed_notes waiting; /* of the others */
};

int transaction_put(struct transaction *transaction, const struct key *key, struct bytes value);
int transaction_erase(struct transaction *transaction, struct bytes key);
int transaction_erase_key(struct transaction *transaction, const struct key *key);
/* Erase what has a key of at least from and less than or equal to the longest that begins with to.
 */
int transaction_erase_range(struct transaction *transaction, const struct key *from,
			    const struct key *to);
/* NULL: there is none.  It lives until the next change. */
const struct map_entry *transaction_find(const struct transaction *transaction,
					 const struct key *key);

/* shift.c: operations on marks, and BACKEND_ROWS_SHIFT. */
int memory_mark_put(struct transaction *transaction, const struct backend_op *op);
int memory_mark_delete(struct transaction *transaction, const struct backend_op *op);
int memory_shift(struct transaction *transaction, const struct backend_op *op);

#endif
