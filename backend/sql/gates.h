/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_GATES_H
#define BACKEND_SQL_GATES_H

/* What a transaction depends on (backend/feed/gates.h), as rows of sessfs_gate. */

#include "backend/feed/gates.h"
#include "backend/sql/packet.h"

/* Lock them; at_once: or fail with -EBUSY. */
void sql_gates_say_lock(struct sql_packet *packet, const struct feed_gates *gates, bool at_once);
/* Leave the number of the transaction; checked: fail with SQL_HEAD_FAILED if something there has
 * changed that was not read. */
void sql_gates_say(struct sql_packet *packet, const struct feed_gates *gates, int64_t number,
		   bool checked);

#endif
