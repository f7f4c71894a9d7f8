/* SPDX-License-Identifier: MIT */
#ifndef COUNTS_H
#define COUNTS_H

/*
 * What session_list() and day_list() of a store in a file say, without reading every row: what each
 * key comes to is kept in a file of its own (src/index/index.h), and only what has changed is read.
 */

#include "backend/days.h"

struct counts_session {
	char *id;
	size_t size;
	struct backend_session_stat stat;
};

/* Of one state of the store. */
struct counts {
	struct counts_session *sessions; /* in the order of their ids */
	size_t count, room;
	struct backend_days days;
};

/* -errno: it is to be asked of the store, since that is as fast, or there is no such file to be
 * had. */
int counts_read(const char *store, const char *table, struct backend *backend,
		struct counts *ret_counts);
int counts_sessions(const struct counts *counts, backend_session_fn *fn, void *arg);
void counts_done(struct counts *counts);

#endif
