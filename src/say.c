/* SPDX-License-Identifier: MIT */
#include "src/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/base/log.h"

static void print_stderr(int level, const char *sentence)
{
	(void)level;
	fprintf(stderr, "sessfs: %s\n", sentence);
}

static void print_syslog(int level, const char *sentence)
{
	syslog(level, "%s", sentence);
}

static void print_while_starting(int level, const char *sentence)
{
	if (level <= LOG_WARNING)
		print_stderr(level, sentence);
	else
		print_syslog(level, sentence);
}

void say_to_stderr(int level)
{
	log_set_level(level);
	log_set_sink(print_stderr);
}

void say_while_starting(void)
{
	openlog("sessfs", LOG_PID, LOG_DAEMON);
	log_set_level(LOG_INFO);
	log_set_sink(print_while_starting);
}

void say_to_syslog(void)
{
	log_set_sink(print_syslog);
}

int say_finish(void)
{
	int r = 0;

	if (fflush(stdout) != 0)
		r = -errno;
	else if (ferror(stdout))
		r = -EIO;
	if (r < 0)
		log_error("cannot write to the standard output: %s", strerror(-r));
	return r;
}
