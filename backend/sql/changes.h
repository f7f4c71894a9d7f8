/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_CHANGES_H
#define BACKEND_SQL_CHANGES_H

/*
 * What other programs have changed.
 *
 * Triggers write a row into sessfs_change for each row that is changed, and nothing else, so that
 * they stand in nobody's way.  The change of a key is all of its rows; its stamp is the sum of
 * their numbers, which moves with each that comes, in whatever order they are committed.  What
 * was digested is deleted by these numbers, so that one that was not told stays.
 */

#include "backend/sql/packet.h"

/* What a digested or set apart key has in the table, asked on the writer's connection. */
struct sql_digest {
	int64_t *ids;
	size_t count, room;
	bool there; /* something was told, and nothing has come since */
	struct backend_change change;
};

void sql_digests_done(struct sql_digest *digests, size_t count);
/* Of all operations of a batch that digest or set apart: in one question; by their places. */
int sql_digests_ask(struct sql *store, struct sql_link *link, const struct backend_op *ops,
		    size_t count, struct sql_digest *digests);
static inline bool sql_is_digest(const struct backend_op *op)
{
	return op->type == BACKEND_CHANGE_DONE || op->type == BACKEND_CHANGE_APART;
}
void sql_digest_say(struct sql_packet *packet, const struct backend_op *op,
		    const struct sql_digest *digest);

#endif
