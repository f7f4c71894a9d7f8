/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_FEED_H
#define BACKEND_SQL_FEED_H

/* Notes that mounts leave for each other. */

#include "backend/sql/packet.h"

/* Say the notes of a transaction, with numbers from n on; how many there are. */
uint64_t sql_feed_say(struct sql_packet *packet, const struct feed_notes *notes, uint64_t n);
/* Read what others have left since it was last looked, with all up to and with n, on a connection
 * that may be in a transaction. */
int sql_feed_read(struct sql *store, struct sql_link *link, uint64_t n);
/* So much was committed by this mount itself, behind what it knew. */
void sql_feed_own(struct sql *store, uint64_t n);

#endif
