/* SPDX-License-Identifier: MIT */
#include "backend/base/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, void *run(void *arg), void *arg)
{
	/* What a thread does itself comes to it in any case. */
	static const int own[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV };
	sigset_t held, before;
	int r;

	sigfillset(&held);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigdelset(&held, own[i]);
	pthread_sigmask(SIG_SETMASK, &held, &before);
	r = -pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}
