/* SPDX-License-Identifier: MIT */
#ifndef TELLING_H
#define TELLING_H

/*
 * All that is in a store as the operations that make it again: telling_all().  They are committed
 * to another store, or only summed up: two stores are equal if their sums are.  Stores list in
 * orders of their own, so the sum does not depend on the order.  It leaves out times of rows, since
 * a table may have whole seconds only.
 */

#include "fs/base/batch.h"
#include "src/exchange/linked.h"
#include "src/exchange/transfer.h"

struct sum {
	uint64_t high, low;
	uint64_t count;
};

struct telling {
	const struct transfer *transfer;
	struct backend *from;
	struct backend_snapshot *snapshot;
	struct backend *to; /* NULL: nothing is committed */
	struct batch batch;
	size_t bytes; /* in the batch */
	struct sum sum;
	struct buf scratch;
	uint64_t *dirs; /* that are still to be listed */
	size_t dirs_count, dirs_room;
	struct linked linked;
	struct backend_node node;  /* of which something is being told, borrowed */
	struct bytes session, key; /* of which rows are being told, borrowed; and in the batch */
	struct bytes kept_session, kept_key;
	bool kept;
	int64_t version; /* of these, as backend_op.version */
	bool orphans;	 /* there are some that have a key */
};

#define ASK(telling, slot, ...)                                                                    \
	(telling)->from->ops->slot((telling)->from, (telling)->snapshot, ##__VA_ARGS__)

/* Call it for each operation that was added to the batch, with its bytes: it commits when there are
 * many.  0, or -errno, which may have been explained. */
int telling_told(struct telling *telling, size_t bytes);
/* Commit the operations that are left. */
int telling_flush(struct telling *telling);
/* A copy in the batch; what has no data has none. */
struct bytes telling_keep(struct telling *telling, struct bytes bytes);

int telling_all(struct telling *telling);
/* Ends the snapshot, too. */
void telling_end(struct telling *telling);

#endif
