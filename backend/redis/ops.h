/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_OPS_H
#define BACKEND_REDIS_OPS_H

/* Operations as requests of a commit. */

#include "backend/feed/gates.h"
#include "backend/redis/store.h"

struct ops {
	struct call call;
	struct feed_gates gates;
	unsigned char reads[FEED_GATES]; /* what readers depend on is changed behind these */
	const struct backend_append *append;
};

/* 0, or what is wrong with the operation. */
int ops_add(struct ops *ops, const struct backend_op *op);

#endif
