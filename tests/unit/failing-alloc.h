/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_FAILING_ALLOC_H
#define TESTS_UNIT_FAILING_ALLOC_H

#include <stddef.h>

/*
 * Let an allocation of the code under test fail.  The program is linked with
 * -Wl,--wrap= malloc, calloc, realloc and reallocarray, so that only objects linked into it, and no
 * shared library, come here.
 */

/* From now on the nth allocation (1: the next one) fails, and every one behind it; 0: none. */
void failing_alloc_at(unsigned nth);
/* How many have failed since. */
unsigned failing_alloc_failures(void);
/* All bytes that were asked for since, also those that were freed again. */
size_t failing_alloc_bytes(void);

#endif
