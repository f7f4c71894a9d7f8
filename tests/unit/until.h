/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_UNTIL_H
#define TESTS_UNIT_UNTIL_H

/*
 * Waits of tests.  What is waited for comes soon, but a machine that has much else to do may take
 * its time: the limit is for what would never come.
 */

#include <stdbool.h>
#include <time.h>

#include "backend/base/tick.h"

enum { UNTIL_SECONDS = 600 };

/* Wait until the condition holds; whether it did in the end. */
#define UNTIL(condition)                                                                           \
	({                                                                                         \
		static const struct timespec moment_ = { .tv_nsec = 5000000 };                     \
		const int64_t end_ = tick_now() + UNTIL_SECONDS * INT64_C(1000000000);             \
		bool holds_;                                                                       \
		while (!(holds_ = (condition)) && tick_now() < end_)                               \
			nanosleep(&moment_, NULL);                                                 \
		holds_;                                                                            \
	})

#endif
