/* SPDX-License-Identifier: MIT */
#ifndef THREAD_H
#define THREAD_H

#include <pthread.h>

#include "backend/base/cleanup.h"

/*
 * Start a thread that takes no signals: a handler runs in the thread that waits for the signal, or
 * in one of the program that uses the library, and never in one of ours, where it would interrupt
 * nothing.  0 or -errno.
 */
int thread_start(pthread_t *ret_thread, void *run(void *arg), void *arg);

/* Hold a mutex, or none (NULL), until the end of the scope; as: a variable for it. */
#define WITH_MUTEX_AS(as, of)                                                                      \
	__attribute__((unused)) _cleanup_(mutex_unlockp) pthread_mutex_t *as = mutex_lock(of)
#define WITH_MUTEX(of) WITH_MUTEX_AS(mutex_held_, of)

static inline pthread_mutex_t *mutex_lock(pthread_mutex_t *mutex)
{
	if (mutex)
		pthread_mutex_lock(mutex);
	return mutex;
}
static inline void mutex_unlockp(pthread_mutex_t **mutex)
{
	if (*mutex)
		pthread_mutex_unlock(*mutex);
}

#endif
