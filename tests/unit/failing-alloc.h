/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_FAILING_ALLOC_H
#define TESTS_UNIT_FAILING_ALLOC_H

/*
 * Let an allocation of the code under test fail.  The program is linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc, so that only objects linked into it, and no
 * shared library, come here.
 */

/* From now on the nth allocation (1: the next one) fails, and every one behind it; 0: none. */
void failing_alloc_at(unsigned nth);
/* How many have failed since. */
unsigned failing_alloc_failures(void);

#endif
