/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_TTL_H
#define FS_BASE_TTL_H

/* How long a session lives, in words. */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

/* Nanoseconds of "3600" (seconds), "90m", "12h", "30d", "2w", "1y"; or -EINVAL. */
int duration_parse(struct bytes text, int64_t *ret_duration);
/* The same; and 0 for "never". */
int ttl_parse(struct bytes text, int64_t *ret_ttl);

/* The number, up to most, that a text begins with; the text is what stands behind it then. */
bool number_take(struct bytes *text, uint64_t most, uint64_t *ret_number);

#endif
