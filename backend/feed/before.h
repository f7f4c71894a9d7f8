/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_FEED_BEFORE_H
#define BACKEND_FEED_BEFORE_H

/*
 * The state before operations, as far as notes and judgements depend on it (backend/feed/feed.h):
 * what is not known is asked for in one question, and what an operation makes of it is known then.
 * That it is still so when the operation is applied is seen to by the gates of the transaction
 * (gates.h).
 */

#include "backend/feed/feed.h"

struct before_node {
	uint64_t ino;
	bool there;
	bool asked;
	struct backend_node node; /* owned */
};

struct before_entry {
	uint64_t parent;
	int64_t id;
	bool there;
	bool asked;
	uint64_t ino;
	struct buf name;
};

struct before {
	struct before_node *nodes;
	size_t node_count, node_room;
	struct before_entry *entries;
	size_t entry_count, entry_room;
	const struct backend_change *change; /* that the operation digests, or NULL */
};

void before_done(struct before *before);
/* A node as it is known to be in the store, borrowed; or NULL. */
const struct backend_node *before_node(const struct before *before, uint64_t ino);
/* The node of which an operation's note needs to know what it was; 0: none. */
uint64_t before_needs(const struct backend_op *op);
/* What operations need to have known and is not: it is missing until an answer says otherwise, and
 * is to be asked for, where asked is not set. */
int before_want(struct before *before, const struct backend_op *ops, size_t count);
/* What the store has answered; NULL, false: it is not there. */
int before_take_node(struct before *before, uint64_t ino, const struct backend_node *node);
int before_take_entry(struct before *before, uint64_t parent, int64_t id, struct bytes name,
		      uint64_t ino, bool there);
/* An operation was noted: now it is as it makes it. */
int before_apply(struct before *before, const struct backend_op *op);
struct feed_state before_state(struct before *before);

#endif
