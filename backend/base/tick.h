/* SPDX-License-Identifier: MIT */
#ifndef BASE_TICK_H
#define BASE_TICK_H

/*
 * A count of the units of this process's work: files checked, records rescued.  The code that does
 * the work counts them, and the line of progress (src/user/progress.h) reads the count.  Long work
 * before the first unit ticks with 0.  Any thread.
 */

#include <pthread.h>
#include <stdint.h>

void tick(uint64_t more);
uint64_t ticks(void);
/* Called at each tick, in the thread that ticks; NULL: nothing. */
void tick_watch(void (*fn)(void));

/*
 * Waiting.  The time of day is set by people and by NTP, so no wait is measured by it.
 */

/* Nanoseconds of a clock that only rises and cannot be set; it begins anywhere above 0. */
int64_t tick_now(void);
int64_t tick_ms(void);
void tick_pause(int milliseconds);
/* A condition whose timed waits end by that clock; 0 or -errno. */
int tick_cond_init(pthread_cond_t *cond);
/* Wait until a moment of that clock; 0, or -ETIMEDOUT when it has come. */
int tick_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until);

#endif
