/* SPDX-License-Identifier: MIT */
#ifndef BASE_MOMENT_H
#define BASE_MOMENT_H

#include <stdint.h>
#include <time.h>

/*
 * Nanoseconds since 1970 of a text in ISO 8601: a day, or a day and a time of day with T or a blank
 * between them; UTC, unless a zone follows.  0: it is none, or out of range.
 */
int64_t moment_read(const char *text);

/* The time of day in nanoseconds since 1970. */
int64_t time_now(void);
struct timespec time_split(int64_t time);
/* What does not fit (before 1678, after 2261) is the nearest that does. */
int64_t time_join(struct timespec time);

#endif
