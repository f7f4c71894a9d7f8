/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_CLOCK_H
#define TESTS_UNIT_CLOCK_H

#include <stdatomic.h>

/* What the clock was set back by, in seconds (tree-clock.c). */
extern atomic_long clock_set_back;
/* By how many seconds the clock is ahead that cannot be set. */
extern atomic_long clock_ahead;

#endif
