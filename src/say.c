/* SPDX-License-Identifier: MIT */
#include "src/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/model/names.h"
#include "src/base/cleanup.h"
#include "src/base/json.h"
#include "src/base/log.h"
#include "src/progress.h"
#include "src/service.h"

static void print_stderr(int level, const char *sentence)
{
	WITH_PROGRESS_HELD;

	(void)level;
	fprintf(stderr, "sessfs: %s\n", sentence);
}

/* The journal knows who speaks. */
static void print_journal(int level, const char *sentence)
{
	fprintf(stderr, "<%d>%s\n", level, sentence);
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
	log_set_sink(service_has_journal() ? print_journal : print_stderr);
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

/* Something could not even be made. */
static int lost;

static void say_value(json_t *value)
{
	if (!value || json_dumpf(value, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER) < 0)
		lost = -ENOMEM;
	json_decref(value);
}

void say_json(json_t *value)
{
	say_value(value);
	putchar('\n');
}

void say_item(struct say_list *list, json_t *value)
{
	fputs(list->begun ? ",\n" : "[\n", stdout);
	list->begun = true;
	say_value(value);
}

void say_list_end(struct say_list *list)
{
	if (list->json)
		puts(list->begun ? "\n]" : "[]");
}

json_t *say_json_name(const char *name, size_t size)
{
	_cleanup_(buf_done) struct buf shown = { 0 };
	struct bytes bytes = bytes_make(name, size);

	if (utf8_valid(bytes))
		return json_stringn(name, size);
	if (names_encode(NAMES_KEY, bytes, NAME_LIMIT, &shown) < 0)
		return NULL;
	return json_stringn(shown.data, shown.size);
}

void say_name(const char *name, const char *end)
{
	bool guarded = isatty(STDOUT_FILENO);

	for (; *name; name++)
		putchar(guarded && ((unsigned char)*name < ' ' || *name == 0x7f) ? '?' : *name);
	fputs(end, stdout);
}

int say_finish(void)
{
	int r = lost;

	if (r < 0)
		fflush(stdout);
	else if (fflush(stdout) != 0)
		r = -errno;
	else if (ferror(stdout))
		r = -EIO;
	if (r < 0)
		log_error("cannot write to the standard output: %s", strerror(-r));
	return r;
}
