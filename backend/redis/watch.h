/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_WATCH_H
#define BACKEND_REDIS_WATCH_H

/*
 * A thread that says that this mount lives, and hears by the server's tracking of keys of what
 * others do: of mounts since they write to the stream of notes, upon which it is looked whether
 * one of them was another's, of other programs since they write the keys of sessions.
 *
 * Tracking takes two connections: one that has asked for it and one that is told.  The loss of
 * either is silent, so the first also writes a key of ours now and then, of which the second must
 * be told.  What was written while nobody was told is found by comparing each key with its print:
 * quickly for all of them (suspects_sweep()), and as a whole when it is next needed.
 */

#include "backend/redis/store.h"

int redis_watch_start(struct redis *store, bool first);
void redis_watch_stop(struct redis *store);

/* suspects.c: keys of Redis that may have changed. */

/* This mount has just written a key (call_key_hash()): the server telling of it is not news. */
void redis_note_own(struct redis *store, uint64_t key);

struct suspect {
	struct bytes key;
	char *owned;	    /* its bytes */
	int64_t first, due; /* when it is compared as a whole */
};

struct suspects {
	struct suspect **items;
	size_t count, room;
	void *by_key;	     /* the same, as a tree of tsearch(3) */
	int64_t quick_until; /* no comparison by length before, */
	int64_t rest_until;  /* and none as a whole */
};

void suspects_done(struct suspects *suspects);
/* The server has told of it: compared by its length now, and soon as a whole. */
int suspects_tell(struct suspects *suspects, struct bytes key);
/* Those that are due: how many have changed, or -errno. */
int suspects_check(struct suspects *suspects, struct redis *store, int64_t now);
/* When the next one is due. */
int64_t suspects_due(const struct suspects *suspects);
/* All there is, and all that there was. */
int suspects_sweep(struct redis *store);

#endif
