/* SPDX-License-Identifier: MIT */
#ifndef THREAD_H
#define THREAD_H

#include <pthread.h>

#include "backend/base/cleanup.h"

static inline pthread_mutex_t *lock_taken(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}

static inline void lock_givep(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

/* Hold a lock from here to the end of the block. */
#define LOCKED(lock) _cleanup_(lock_givep) pthread_mutex_t *locked_ = lock_taken(lock)

/*
 * Start a thread that takes no signals: a handler runs in the thread that waits for the signal, or
 * in one of the program that uses the library, and never in one of ours, where it would interrupt
 * nothing.  0 or -errno.
 */
int thread_start(pthread_t *ret_thread, void *run(void *arg), void *arg);

#endif
