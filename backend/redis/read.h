/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_READ_H
#define BACKEND_REDIS_READ_H

/* Reading in a snapshot: requests of one call, and what they depend on. */

#include "backend/redis/store.h"

enum { READ_GATES = 512, READ_ANSWERS = 2 /* the first answer's place */ };

struct reading {
	struct redis *store;
	struct backend_snapshot *snapshot;
	struct call call;
	unsigned gates[READ_GATES];
	size_t gate_count;
	struct reply reply;
};

struct reading reading_in(struct backend *backend, struct backend_snapshot *snapshot);
void reading_done(struct reading *reading);
/* The answer depends on what a node or key is. */
void reading_needs_node(struct reading *reading, uint64_t ino);
void reading_needs_key(struct reading *reading, struct bytes session, struct bytes key);
/* The number of a key's group, for requests; the answer depends on it. */
void reading_group(struct reading *reading, struct bytes session, struct bytes key);
int reading_ask(struct reading *reading);
/* The answer to a request, from 0 on. */
const struct reply *reading_answer(const struct reading *reading, size_t i);

/* All keys of the map from one on that are before another, each with its value, in their order. */
struct range {
	struct key from, end;
	uint64_t ino;  /* whose they are; 0: nobody's */
	unsigned page; /* that are read at a time */
};
typedef int range_fn(void *arg, struct bytes key, struct bytes value);
int redis_range(struct backend *backend, struct backend_snapshot *snapshot, struct range *range,
		range_fn *fn, void *arg);
/* The last one from a key back to another one: 1, or 0. */
int redis_range_last(struct backend *backend, struct backend_snapshot *snapshot,
		     struct range *range, struct reply *ret_pair);
/* Bounds: a key, or the first behind all that begin with it. */
struct key key_end(struct key key);

/* A request for keys from one on that are before another. */
void reading_range(struct reading *reading, struct bytes from, struct bytes end, unsigned most);
/* What an answer to "stat" says; false: there are no rows. */
bool redis_take_stat(struct backend_snapshot *snapshot, const struct reply *found,
		     struct bytes session, struct bytes key, struct backend_key_stat *ret_stat);

/* A page of a directory's entries behind one; and one of them, which borrows from it. */
int redis_entry_page(struct reading *reading, uint64_t parent, uint64_t after, unsigned most);
int redis_entry_at(const struct reply *list, size_t i, uint64_t parent,
		   struct backend_entry *ret_entry, struct backend_node *ret_node);

/* A number of a key, that tells it from others well enough for what is only looked at sooner. */
uint64_t redis_key_hash(struct bytes session, struct bytes key);
/* What there is of a key as far as this snapshot has seen: -1, it has not. */
int64_t snapshot_clip(const struct backend_snapshot *snapshot, struct bytes session,
		      struct bytes key);
int64_t snapshot_see(struct backend_snapshot *snapshot, struct bytes session, struct bytes key,
		     int64_t end);

#endif
