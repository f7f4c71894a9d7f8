/* SPDX-License-Identifier: MIT */
#ifndef SEARCH_H
#define SEARCH_H

/*
 * Which items of a store hold words, by an index in a file of its own (index.h).
 *
 *	index_beside("/home/a/s.db", NULL, backend, &index, &why)
 *	search_update(index, backend, &progress)
 *	search_ask(index, &question, on_hit, arg)
 *	index_close(index)
 *
 * The hits are exactly those of one state of the store, the one that search_update() has brought
 * the index up to (update.c, ask.c).  Functions return 0 or -errno; -EINTR when a signal has come
 * (src/user/stop.h).  When index.damaged is set then, the caller calls index_anew() and both again:
 * no hit was reported yet.
 */

#include <stdbool.h>

#include "backend/backend.h"
#include "src/search/index.h"
#include "src/user/progress.h"

/* Read what has changed since the last time.  The layout is the store's.  The progress is of items
 * and their bytes. */
int search_update(struct index *index, struct backend *backend, uint64_t layout,
		  struct progress *progress);

struct search_hit {
	struct bytes session;
	struct bytes key;
	uint64_t ino; /* of the file; 0: there is none yet */
	bool list;
	int64_t item;
	int64_t made;	   /* when the row was made, in nanoseconds since 1970 */
	double score;	   /* the higher, the better */
	struct bytes data; /* of the row */
};
/* 0 to go on, 1 to stop, -errno. */
typedef int search_hit_fn(void *arg, const struct search_hit *hit);

struct search_question {
	char *const *words; /* ended by NULL; all are needed; "wor*" is how one begins */
	bool all;	    /* also what is not talk (fs/api/text.h) */
	const char *role;   /* as text_role() has it; or NULL */
	int64_t since;	    /* made then or later, by text_time(); INT64_MIN: at any time */
	int64_t most;	    /* at most so many hits */
	/* True when a session is to be searched; NULL: all are. */
	bool (*wanted)(void *arg, struct bytes session);
};
/* The hits that fit best come first; of equal ones the newer first.  If more than SEARCH_RANKED
 * items have the words, only the newest so many are put in order, unless the question wants more
 * than that, or has a condition.  The index is released before the first hit is reported, so that
 * other processes do not wait for the reader of the hits; the snapshot stays. */
enum { SEARCH_RANKED = 10000 };
int search_ask(struct index *index, const struct search_question *question, search_hit_fn *fn,
	       void *arg);

#endif
