/* SPDX-License-Identifier: MIT */
#ifndef SUMMARY_H
#define SUMMARY_H

/* Questions to a store about all of its rows, for the commands that list and count. */

#include <jansson.h>

#include "backend/backend.h"
#include "src/user/options.h"

struct summary_questions {
	const char *what; /* progress is of */
	backend_session_fn *session;
	backend_day_fn *day;
	void *arg;
	struct backend_space space; /* the answer */
	uint64_t layout;	    /* of the store */
	struct backend *backend;    /* for what session and day ask, in snapshots of their own */
};
/* session_list() of a store, and with day also day_list() and space(), of one state of it; 0, or
 * -errno after a sentence. */
int summary_all(const char *store, const struct options *options,
		struct summary_questions *questions);

/* The name that the mount shows for a session, or with a layout its path, appended; for one that no
 * mount has seen yet the one that it will get. */
int summary_name(const struct summary_questions *questions, struct bytes session, struct buf *name);

/* Whether all that a session has is what was unlinked a moment ago, whose rows wait for a file that
 * is written again: 1, 0, -errno.  Nobody sees it by a path. */
int summary_is_going(const struct summary_questions *questions, struct bytes session);

/* To what others sum up to. */
void summary_add(struct backend_session_stat *sum, const struct backend_session_stat *stat);

/* A time in seconds since 1970; null for 0. */
json_t *summary_time_json(int64_t time);
/* keys, items, bytes, created, changed. */
void summary_add_json(json_t *object, const struct backend_session_stat *stat);

/* The title of a session: the first words that a person wrote, in the first of its keys that has
 * any, as far as TITLE_ROWS rows of each tell; appended, tame.  Nothing: there are none. */
enum { TITLE_ROWS = 32, TITLE_KEYS = 16, TITLE_MOST = 60 };
int title_of(struct backend *backend, struct backend_snapshot *snapshot, uint64_t layout,
	     struct bytes session, struct buf *title);

#endif
