/* SPDX-License-Identifier: MIT */
#ifndef THREAD_H
#define THREAD_H

#include <pthread.h>

/*
 * Start a thread that takes no signals: a handler runs in the thread that waits for the signal, or
 * in one of the program that uses the library, and never in one of ours, where it would interrupt
 * nothing.  0 or -errno.
 */
int thread_start(pthread_t *ret_thread, void *run(void *arg), void *arg);

#endif
