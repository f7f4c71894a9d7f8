/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_CLOCK_H
#define BACKEND_SQL_CLOCK_H

#include "backend/base/tick.h"

static inline int64_t sql_milliseconds(void)
{
	return tick_ms();
}

static inline void sql_pause(int milliseconds)
{
	tick_pause(milliseconds);
}

#endif
