/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_DAYS_H
#define BACKEND_DAYS_H

/*
 * Adds rows up by the day on which they were made: what day_list() of a store answers that has no
 * better way.  Memory grows with the days, not with the rows.  A zeroed struct is empty.
 */

#include "backend/backend.h"

struct backend_days {
	struct backend_day *day; /* in their order */
	size_t count;
	size_t room;
};

/* created: nanoseconds since 1970; 0: not known, and then the row does not count. */
int backend_days_add(struct backend_days *days, int64_t created, uint64_t bytes);
/* Hand all of them out, as day_list() does. */
int backend_days_tell(const struct backend_days *days, backend_day_fn *fn, void *arg);
void backend_days_done(struct backend_days *days);

#endif
