/* SPDX-License-Identifier: MIT */
#ifndef SEARCH_H
#define SEARCH_H

/*
 * Which items of a store hold words, by an index in a file of its own.
 *
 *	search_open("/home/a/s.db-search", identity, false, &search, &why)
 *	search_update(search, backend, &progress)
 *	search_ask(search, &question, on_hit, arg)
 *	search_close(search)
 *
 * The file has nothing that the store has not: it can be deleted at any time, and is made anew
 * when it is not what was left (index.c).  It is of one process at a time; others wait.
 *
 * What is found is what one state of the store holds, the one that search_update() has brought the
 * index up to: all of it, and nothing else (update.c, ask.c).  Functions return 0 or -errno; -EINTR
 * when a signal has come (src/user/stop.h).
 */

#include <stdbool.h>

#include "backend/backend.h"
#include "src/user/progress.h"

struct search;

/* The identity tells stores apart.  Waits for who has it.  ours: nothing but an index can have that
 * name; otherwise -EEXIST when the file is something else.  On failure *ret_why is a sentence, or
 * NULL. */
int search_open(const char *path, struct bytes identity, bool ours, struct search **ret_search,
		char **ret_why);
/* Without search_update() it is as it was.  NULL is fine. */
void search_close(struct search *search);
static inline void search_closep(struct search **search)
{
	search_close(*search);
}

/* Read what has changed since the last time.  The progress is of items and their bytes. */
int search_update(struct search *search, struct backend *backend, struct progress *progress);

/* What the index is up to date with, until search_close(). */
struct backend_snapshot *search_snapshot(const struct search *search);

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
	char *const *words; /* all of them, NULL ends them; "wor*" is how one begins */
	const char *role;   /* in lower case; or NULL */
	int64_t since;	    /* made then or later; INT64_MIN: whenever */
	int64_t most;	    /* so many */
	/* Whether a session is to be looked into; NULL: all are. */
	bool (*wanted)(void *arg, struct bytes session);
};
/* Those that fit best first; of equal ones the newer first.  Of words that are in more items than
 * SEARCH_RANKED the newest so many are put in order, unless more than that are wanted, or not just
 * any.  The index is given up before the first hit is told, so that nobody waits for who reads
 * them; the snapshot stays.  -EUCLEAN: it was damaged and is empty now, and nothing was told. */
enum { SEARCH_RANKED = 20000 };
int search_ask(struct search *search, const struct search_question *question, search_hit_fn *fn,
	       void *arg);

#endif
