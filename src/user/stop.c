/* SPDX-License-Identifier: MIT */
/*
 * A handler runs when the call that waits returns.  A call on a mount whose daemon is stopped does
 * not return: the kernel waits there until the answer comes or a fatal signal ends the process, and
 * a signal with a handler is not fatal.  So a thread waits a while after a signal; if the handler
 * has still not run, it ends the process as the signal would have.
 */
#include "src/user/stop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "backend/base/descriptor.h"
#include "backend/base/thread.h"

enum { PATIENCE_S = 5 };

static volatile sig_atomic_t stopped_by;
static sigset_t watched; /* by the thread */

static void on_signal(int number)
{
	stopped_by = number;
}

static void *watch(void *arg)
{
	/* Only poll(2) sees signals that another thread may take. */
	struct pollfd waiting = { .fd = descriptor_above(signalfd(-1, &watched, SFD_CLOEXEC)),
				  .events = POLLIN };
	static const struct timespec now = { 0 };
	sigset_t set;
	int number;

	for (;;) {
		if (waiting.fd < 0 || poll(&waiting, 1, -1) < 0)
			return arg;
		for (int i = 0; i < PATIENCE_S && poll(&waiting, 1, 0) == 1; i++)
			sleep(1);
		number = poll(&waiting, 1, 0) == 1 ? sigtimedwait(&watched, NULL, &now) : -1;
		if (number <= 0)
			continue;
		sigemptyset(&set);
		sigaddset(&set, number);
		signal(number, SIG_DFL);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		raise(number);
	}
}

void stop_watch(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal }, before;
	static bool watching;
	pthread_t thread;

	if (watching)
		return;
	watching = true;
	sigemptyset(&watched);
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		/* What nohup(1) has set stays. */
		if (sigaction(numbers[i], NULL, &before) < 0 || before.sa_handler == SIG_IGN)
			continue;
		sigaction(numbers[i], &action, NULL);
		sigaddset(&watched, numbers[i]);
	}
	/* Without the thread, a signal is still obeyed where its handler runs. */
	if (thread_start(&thread, watch, NULL) == 0)
		pthread_detach(thread);
}

bool stop_wanted(void)
{
	return stopped_by;
}

/* A signal between the question and a read(2) would not end the read.  So signals wait until
 * ppoll(2), which lets them in and is ended by them. */
bool stop_await(int fd)
{
	struct pollfd waiting = { .fd = fd, .events = POLLIN };
	sigset_t before;

	pthread_sigmask(SIG_BLOCK, &watched, &before);
	while (!stopped_by && ppoll(&waiting, 1, NULL, &before) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !stopped_by;
}

void stop_now(void)
{
	if (!stopped_by)
		return;
	signal(stopped_by, SIG_DFL);
	raise(stopped_by);
}
