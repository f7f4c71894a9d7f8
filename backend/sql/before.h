/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_BEFORE_H
#define BACKEND_SQL_BEFORE_H

/*
 * The state before operations, as far as notes and judgements depend on it (backend/feed/feed.h):
 * what is not known is asked for in one question, and what an operation makes of it is known then.
 * That it is still so when the operation is applied is seen to by the gates of the transaction.
 */

#include "backend/feed/feed.h"
#include "backend/sql/conn.h"

struct before_node {
	uint64_t ino;
	bool there;
	struct backend_node node; /* owned */
};

struct before_entry {
	uint64_t parent;
	int64_t id;
	bool there;
	uint64_t ino;
	struct buf name;
};

struct before {
	struct sql *store;
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
/* Ask for what operations of some batches need to have known. */
int before_ask(struct before *before, struct sql_link *link,
	       const struct backend_batch *const *batches, size_t count);
/* An operation was noted: now it is as it makes it. */
int before_apply(struct before *before, const struct backend_op *op);
struct feed_state before_state(struct before *before);

#endif
