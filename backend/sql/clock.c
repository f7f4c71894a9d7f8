/* SPDX-License-Identifier: MIT */
#include "backend/sql/clock.h"

#include <time.h>

int64_t sql_milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sql_pause(int milliseconds)
{
	const struct timespec time = { .tv_sec = milliseconds / 1000,
				       .tv_nsec = milliseconds % 1000 * 1000000L };

	nanosleep(&time, NULL);
}
