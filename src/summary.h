/* SPDX-License-Identifier: MIT */
#ifndef SUMMARY_H
#define SUMMARY_H

/* Questions to a store about all of its rows, for the commands that list and count. */

#include <jansson.h>

#include "backend/backend.h"
#include "src/options.h"

/* session_list() of a store; 0, or -errno after a sentence. */
int summary_sessions(const char *store, const struct options *options, backend_session_fn *fn,
		     void *arg);

struct summary_questions {
	backend_session_fn *session;
	backend_day_fn *day;
	void *arg;
	struct backend_space space; /* the answer */
};
/* The same with day_list() and space(), of one state of the store. */
int summary_all(const char *store, const struct options *options,
		struct summary_questions *questions);

/* keys, items, bytes, created, changed; times in seconds since 1970, or null. */
void summary_add_json(json_t *object, const struct backend_session_stat *stat);

#endif
