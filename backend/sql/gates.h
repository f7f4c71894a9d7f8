/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_GATES_H
#define BACKEND_SQL_GATES_H

/*
 * What a transaction depends on, as rows of sessfs_gate.
 *
 * Each file, directory and key has one of them, by a hash of its number or its name; several may
 * share one.  A transaction of a mount that is not alone locks those of all that its operations
 * change or depend on, before anything else.  So of two that have to do with each other one comes
 * behind the other, and those that have not do not wait.
 *
 * A gate says which transaction has changed something behind it last.  If this mount has not read
 * that one's notes, the transaction fails before it has done anything; with the gates locked it
 * reads them, and judges by them (backend/feed/feed.h).  Rows that are only appended to a list do
 * not mind others that were, nor do fields of a file that are set, so those are said by themselves.
 *
 * Any two operations of which one leaves a note that hits the other (feed/judge.c) have a gate in
 * common that is locked by both.
 */

#include "backend/backend.h"
#include "backend/sql/before.h"
#include "backend/sql/packet.h"

enum { SQL_GATES = 1024 };

struct sql_gates {
	unsigned char uses[SQL_GATES];
	unsigned count; /* of those that are used */
};

/* Those of the operations of a batch.  placed: rows that are appended to a list come where they are
 * expected, or not at all.  before: of what they change as it is in the store. */
void sql_gates_add(struct sql_gates *gates, const struct backend_batch *batch, bool placed,
		   const struct before *before);
/* Whether all of some are among others. */
bool sql_gates_are_in(const struct sql_gates *gates, const struct sql_gates *others);
/* Lock them; at_once: or fail with -EBUSY. */
void sql_gates_say_lock(struct sql_packet *packet, const struct sql_gates *gates, bool at_once);
/* Leave the number of the transaction; checked: fail with SQL_HEAD_FAILED if something there has
 * changed that was not read. */
void sql_gates_say(struct sql_packet *packet, const struct sql_gates *gates, int64_t number,
		   bool checked);

#endif
