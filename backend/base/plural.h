/* SPDX-License-Identifier: MIT */
#ifndef BASE_PLURAL_H
#define BASE_PLURAL_H

#include <stdint.h>

/* What a noun has at its end behind a number: "%" PRIu64 " file%s". */
static inline const char *plural_s(uint64_t count)
{
	return count == 1 ? "" : "s";
}

#endif
