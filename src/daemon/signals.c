/* SPDX-License-Identifier: MIT */
#include "src/daemon/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "backend/base/cleanup.h"

static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGALRM };

static void (*stop)(void);

static sigset_t all(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(&set, numbers[i]);
	return set;
}

static void on_signal(int number)
{
	(void)number;
	stop();
	alarm(1);
}

void signals_hold(void)
{
	sigset_t set = all();

	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void signals_watch(void (*function)(void))
{
	struct sigaction action = { .sa_handler = on_signal }, before;
	sigset_t set = all();

	stop = function;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (numbers[i] != SIGHUP || sigaction(SIGHUP, NULL, &before) < 0 ||
		    before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void signals_end(void)
{
	signals_hold();
	alarm(0);
}
