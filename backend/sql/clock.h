/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_CLOCK_H
#define BACKEND_SQL_CLOCK_H

#include <stdint.h>

/* Of a clock that never jumps. */
int64_t sql_milliseconds(void);
void sql_pause(int milliseconds);

#endif
