/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_BEFORE_H
#define BACKEND_SQL_BEFORE_H

/*
 * The state before operations, as far as notes and judgements depend on it (backend/feed/feed.h):
 * what is not known is asked for in one question, and what an operation makes of it is known then.
 * That it is still so when the operation is applied is seen to by the head of the transaction.
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
/* Ask for what operations need to have known. */
int before_ask(struct before *before, struct sql_link *link, const struct backend_op *ops,
	       size_t count);
/* An operation was noted: now it is as it makes it. */
int before_apply(struct before *before, const struct backend_op *op);
struct feed_state before_state(struct before *before);

#endif
