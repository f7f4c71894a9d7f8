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
 * not mind others that were, nor do fields of a file that are set, so those are said by themselves.
 *
 * Any two operations of which one leaves a note that hits the other (judge.c) have a gate in
 * common that is locked by both.
 */

#include "backend/feed/before.h"

enum { FEED_GATES = 1024 };

enum gate_use {
	GATE_LOCKED = 1,   /* by all */
	GATE_APPENDED = 2, /* rows come behind those that are there, which are known then */
	GATE_SET = 4,	/* fields of a file are set, and others may be, of which nothing is known */
	GATE_WHOLE = 8, /* depends on what was appended and set, too */
	GATE_CHANGED = 16,
};

struct feed_gates {
	unsigned char uses[FEED_GATES];
	unsigned count; /* of those that are used */
};

/* Those of the operations of a batch.  placed: rows that are appended to a list come where they are
 * expected, or not at all.  before: of what they change as it is in the store. */
void feed_gates_add(struct feed_gates *gates, const struct backend_batch *batch, bool placed,
		    const struct before *before);
/* The gate of a node; and of a key, or with key.data NULL of a session. */
unsigned feed_gate_of_node(uint64_t ino);
unsigned feed_gate_of_key(struct bytes session, struct bytes key);
/* Whether all of some are among others. */
bool feed_gates_are_in(const struct feed_gates *gates, const struct feed_gates *others);

#endif
