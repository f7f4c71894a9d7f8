/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_TTL_H
#define FS_BASE_TTL_H

/* Numbers, alone or with a unit: sizes, and how long a session lives. */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

/* Nanoseconds of "3600" (seconds), "90m", "12h", "30d", "2w", "1y"; or -EINVAL. */
int duration_parse(struct bytes text, int64_t *ret_duration);
/* The same; and 0 for "never". */
int ttl_parse(struct bytes text, int64_t *ret_ttl);

struct unit {
	char letter; /* 0 ends the list */
	int64_t size;
};

extern const struct unit units_of_time[]; /* s, m, h, d, w, y in nanoseconds */
extern const struct unit units_of_size[]; /* K, M, G, T in bytes */

/* A number with one of these units behind it, 1, or without, 0; or -EINVAL. */
int amount_parse(struct bytes text, const struct unit *units, bool any_case, int64_t *ret_amount);

/* The number, up to most, that a text begins with; the text is what stands behind it then. */
bool number_take(struct bytes *text, uint64_t most, uint64_t *ret_number);

#endif
