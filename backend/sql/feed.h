/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_FEED_H
#define BACKEND_SQL_FEED_H

/* Notes that mounts leave for each other, and which mounts there are. */

#include "backend/sql/mounts.h"
#include "backend/sql/packet.h"

/* Where the rows of a note begin. */
typedef int sql_first_fn(void *arg, const struct backend_feed *feed, struct buf *words,
			 uint64_t *ret_node);

/* Say the notes of a transaction with this number.  They cannot be made if this mount has ended:
 * SQL_LOST; nor, unless changed is NULL, if other programs have changed one of those keys
 * (SQL_GUARD_CHANGED_KEY): SQL_NOTE_FAILED then, in both cases. */
void sql_feed_say(struct sql_packet *packet, const struct feed_notes *notes, int64_t number,
		  const struct buf *changed, sql_first_fn *first, void *arg);
/* Read which mounts there are, and what they have left since it was last read, on a connection that
 * may be in a transaction.  Of the state epoch, n and turn are set. */
int sql_others_read(struct sql *store, struct sql_link *link, struct sql_state *ret_state);
/* As a mount that has just come, on the writer's connection: nothing has to be read of what was
 * left before. */
int sql_feed_begin(struct sql *store);
/* Let other mounts know what this one has digested. */
int sql_feed_tell(struct sql *store, struct sql_link *link);
/* Notes of this mount that all know are of no use, but for what tells what became of the last
 * transaction. */
int sql_feed_trim(struct sql *store, struct sql_link *link);
/* Anything may have changed of which this mount has no notes. */
void sql_feed_lost(struct sql *store);

#endif
