/* SPDX-License-Identifier: MIT */
#include "src/user/stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stopped_by;

static void on_signal(int number)
{
	stopped_by = number;
}

void stop_watch(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal }, before;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		/* What nohup(1) has set stays. */
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

bool stop_wanted(void)
{
	return stopped_by;
}

void stop_now(void)
{
	if (!stopped_by)
		return;
	signal(stopped_by, SIG_DFL);
	raise(stopped_by);
}
