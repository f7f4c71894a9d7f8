/* SPDX-License-Identifier: MIT */
#ifndef UNITS_H
#define UNITS_H

/*
 * Numbers with units, as people type and read them: 500M, 2w.
 */

#include <stdint.h>

/* A number up to most; *end is what stands behind it.  0 or -EINVAL, as all of these. */
int units_number(const char *text, int base, uint64_t most, uint64_t *ret_number, char **end);
/* Bytes; K, M, G and T are powers of 1024. */
int units_size(const char *text, uint64_t *ret_size);
/* Nanoseconds; s, m, h, d, w, or y for 365 days.  A unit must be named. */
int units_age(const char *text, int64_t *ret_age);

enum { UNITS_TEXT = 32 };
/* "812", "1.5K", "20M". */
const char *units_show_size(uint64_t size, char text[UNITS_TEXT]);
/* Local time, to the minute; "-" for 0, a time that is not known. */
const char *units_show_time(int64_t time, char text[UNITS_TEXT]);

#endif
