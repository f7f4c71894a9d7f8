/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_FEED_GATES_H
#define BACKEND_FEED_GATES_H

/*
 * What a transaction depends on, as a few numbers.
 *
 * Each file, directory and key has one of them, by a hash of its number or its name; several may
 * share one.  A transaction of a mount that is not alone locks those of all that its operations
 * change or depend on, before anything else.  So of two that have to do with each other one comes
 * behind the other, and those that have not do not wait.
 *
 * A gate says which transaction has changed something behind it last.  If this mount has not read
 * that one's notes, the transaction fails before it has done anything; with the gates locked it
 * reads them, and judges by them (feed.h).  Rows that are only appended to a list do
 * not mind others that were, so those are said by themselves.
 *
 * Any two operations of which one leaves a note that hits the other (judge.c) have a gate in
 * common that is locked by both.
 */

#include "backend/feed/before.h"

enum { FEED_GATES = 1024 };

enum gate_use {
	GATE_LOCKED = 1,   /* by all */
	GATE_APPENDED = 2, /* rows come behind those that are there */
	GATE_WHOLE = 4,	   /* depends on what was appended, too */
	GATE_CHANGED = 8,
};

struct feed_gates {
	unsigned char uses[FEED_GATES];
	unsigned count; /* of those that are used */
};

/* Those of the operations of a batch.  before: of what they change as it is in the store. */
void feed_gates_add(struct feed_gates *gates, const struct backend_batch *batch,
		    const struct before *before);
/* The gate of a node; and of a key, or with key.data NULL of a session. */
unsigned feed_gate_of_node(uint64_t ino);
unsigned feed_gate_of_key(struct bytes session, struct bytes key);
/* Whether all of some are among others. */
bool feed_gates_are_in(const struct feed_gates *gates, const struct feed_gates *others);

#endif
