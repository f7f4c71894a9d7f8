/* SPDX-License-Identifier: MIT */
#ifndef BASE_MOMENT_H
#define BASE_MOMENT_H

#include <stdint.h>
#include <time.h>

#include "backend/base/buf.h"

/*
 * Nanoseconds since 1970 of a text in ISO 8601: a day, or a day and a time of day with T or a blank
 * between them; UTC, unless a zone follows.  0: it is none, or out of range.
 */
int64_t moment_read(const char *text);
/* The same of a whole text that is a day of the calendar, or with it a time of day to the minute,
 * the second or a fraction of it, in UTC: false if it is not. */
bool moment_exact(struct bytes text, int64_t *ret_time);

/* The time of day in nanoseconds since 1970. */
int64_t time_now(void);
struct timespec time_split(int64_t time);
/* What does not fit (before 1678, after 2261) is the nearest that does. */
int64_t time_join(struct timespec time);

#endif
