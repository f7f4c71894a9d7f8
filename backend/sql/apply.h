/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_APPLY_H
#define BACKEND_SQL_APPLY_H

#include "backend/sql/changes.h"

enum { SQL_ROWS_TOGETHER = 256 }; /* that one statement inserts, at the most */

/* What the operations of a transaction have come to, beside statements. */
struct sql_applied {
	uint64_t ino; /* the highest numbers that are used */
	uint64_t entry;
	uint64_t leased_ino; /* the highest that are leased by it */
	uint64_t leased_entry;
	int64_t number; /* of the transaction */
	bool shared;	/* other mounts are there */
	bool moment;	/* the time of what it keeps is said */
	bool single;	/* it has been seen to that the rows' table has no versions */
};

/* Whether the store can have what an operation wants: 0 or -errno. */
int sql_apply_check(const struct sql *store, const struct backend_op *op);
/* Say an operation; those behind it, up to count, may be said with it.  How many were, or -errno.
 */
int sql_apply(struct sql_packet *packet, const struct backend_op *ops, size_t count,
	      const struct sql_digest *digest, struct sql_applied *applied);

#endif
