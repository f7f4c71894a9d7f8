/* SPDX-License-Identifier: MIT */
#ifndef BASE_TICK_H
#define BASE_TICK_H

/*
 * A count of what this process has done, of whatever its work is made of: files looked at, records
 * rescued.  It is counted where it is done, so that who shows progress (src/progress.h) needs no
 * way down there.  Any thread.
 */

#include <stdint.h>

void tick(uint64_t more);
uint64_t ticks(void);

#endif
