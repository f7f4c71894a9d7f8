/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_READ_H
#define BACKEND_REDIS_READ_H

/* Reading in a snapshot: requests of one call, and what they depend on. */

#include "backend/redis/store.h"

/* What there was of a key when a snapshot first read it. */
struct redis_clip {
	uint64_t key;
	int64_t end;
};

struct backend_snapshot {
	unsigned flags;
	int64_t n; /* -1: not begun */
	int error;
	backend_begun_fn *begin;
	void *arg;
	struct redis_clip clips[REDIS_CLIPS];
	unsigned clip_count;
	struct names sessions; /* in their order, once */
	bool listed;	       /* they were found */
};

struct reading {
	struct redis *store;
	struct backend_snapshot *snapshot;
	struct call call; /* which has the requests */
	struct reply reply;
	bool goes_on; /* what it reads belongs to what was read before */
};

struct reading reading_in(struct backend *backend, struct backend_snapshot *snapshot);
void reading_done(struct reading *reading);
int reading_ask(struct reading *reading);
/* The answer to a request, from 0 on. */
const struct reply *reading_answer(const struct reading *reading, size_t i);
/* Ask one request.  *ret_value: the answer, borrowed; missing: the error when there is none.  Where
 * it need not be a text: 0 and NULL. */
int reading_one(struct reading *reading, const char *form, const struct backend_op *op, int missing,
		struct bytes *ret_value);

/* All keys of the map from one on that are before another, in their order: forms of both, and of
 * what they depend on.  A page of them is read at a time. */
struct range {
	const char *how; /* "range", or "orphans": of these the nodes, if they may be reaped */
	const char *needs, *from, *to;
	unsigned page;
	struct backend_op op;
};
/* What stands in the key behind the table and the number of a node. */
typedef int range_fn(void *arg, struct bytes key, struct bytes value);
int redis_range(struct backend *backend, struct backend_snapshot *snapshot,
		const struct range *range, range_fn *fn, void *arg);

void names_done(struct names *names);
/* What stands between a beginning and an end of each such key of the server, in no order, perhaps
 * more than once. */
int redis_scan(struct redis *store, const char *begin, struct bytes end, backend_name_fn *fn,
	       void *arg);
/* Read the answer to "stat"; false if the key has no rows. */
bool redis_take_stat(struct backend_snapshot *snapshot, const struct reply *found,
		     struct bytes session, struct bytes key, struct backend_key_stat *ret_stat);

/* What there is of a key as far as this snapshot has seen: -1, it has not. */
int64_t snapshot_clip(const struct backend_snapshot *snapshot, struct bytes session,
		      struct bytes key);
int64_t snapshot_see(struct backend_snapshot *snapshot, struct bytes session, struct bytes key,
		     int64_t end);

#endif
