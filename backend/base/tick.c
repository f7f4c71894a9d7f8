/* SPDX-License-Identifier: MIT */
#include "backend/base/tick.h"

#include <stdatomic.h>
#include <time.h>

static atomic_uint_fast64_t count;

static void (*_Atomic watcher)(void);

void tick(uint64_t more)
{
	void (*fn)(void) = atomic_load_explicit(&watcher, memory_order_relaxed);

	atomic_fetch_add_explicit(&count, more, memory_order_relaxed);
	if (fn)
		fn();
}

void tick_watch(void (*fn)(void))
{
	atomic_store(&watcher, fn);
}

uint64_t ticks(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}

int64_t tick_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t tick_ms(void)
{
	return tick_now() / 1000000;
}

void tick_pause(int milliseconds)
{
	const struct timespec time = { .tv_sec = milliseconds / 1000,
				       .tv_nsec = milliseconds % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

int tick_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int r = pthread_condattr_init(&attr);

	if (r)
		return -r;
	r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (r == 0)
		r = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return -r;
}

int tick_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until)
{
	const struct timespec moment = {
		.tv_sec = until / 1000000000,
		.tv_nsec = until % 1000000000,
	};

	return -pthread_cond_timedwait(cond, lock, &moment);
}
