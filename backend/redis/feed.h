/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_FEED_H
#define BACKEND_REDIS_FEED_H

/*
 * Notes: a stream, of which each entry is what one commit has left, under its number.  A mount
 * remembers how far it has read those of others (state.seen), and how far they were digested
 * (state.known); what lies between the two is in state.waiting.
 */

#include "backend/redis/store.h"

/* With state.lock held: what was read and not digested is read again when it is needed. */
void redis_feed_again(struct redis *store);
/* Some were read, for commits. */
int redis_feed_take(struct redis *store, const struct reply *entries);
/* Some may be missing: anything may have changed. */
void redis_feed_lost(struct redis *store);
/* This mount begins with what there was at a commit. */
void redis_feed_begin(struct redis *store, uint64_t n, bool lost);

#endif
