/* SPDX-License-Identifier: MIT */
#include "src/verb.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/say.h"
#include "src/stop.h"
#include "src/units.h"

enum { OPTIONS_MAX = 16 };

int verb_take_yes(void *field, const char *value)
{
	(void)value;
	*(bool *)field = true;
	return 0;
}

int verb_take_size(void *field, const char *value)
{
	return units_size(value, field);
}

int verb_take_age(void *field, const char *value)
{
	return units_age(value, field);
}

int verb_take_text(void *field, const char *value)
{
	*(const char **)field = value;
	return 0;
}

int verb_take_options(void *field, const char *value)
{
	_cleanup_(freep) char *why = NULL;

	return options_parse(field, value, &why);
}

/* As getopt_long() wants them: what an option is known by is 256 and its place in the table. */
struct known {
	char letters[2 * OPTIONS_MAX + 2];
	struct option names[OPTIONS_MAX + 1];
};

static void make_known(const struct verb *verb, struct known *known)
{
	size_t letters = 0, names = 0;

	known->letters[letters++] = ':';
	for (size_t i = 0; i < verb->count && i < OPTIONS_MAX; i++) {
		const struct verb_option *option = &verb->options[i];

		if (option->letter) {
			known->letters[letters++] = option->letter;
			if (option->value)
				known->letters[letters++] = ':';
		}
		if (option->name)
			known->names[names++] =
				(struct option){ option->name, option->value != NULL, NULL,
						 256 + (int)i };
	}
}

static const struct verb_option *find_option(const struct verb *verb, int known)
{
	if (known >= 256)
		return &verb->options[known - 256];
	for (size_t i = 0; i < verb->count; i++)
		if (verb->options[i].letter == known && known)
			return &verb->options[i];
	return NULL;
}

static int take_option(const struct verb *verb, int found, void *values, const char *word)
{
	const struct verb_option *option = find_option(verb, found);

	if (found == ':')
		cmd_misused(verb->command, "the value is missing behind %s", word);
	else if (!option)
		cmd_misused(verb->command, "the option '%s' is not understood", word);
	else if (option->take((char *)values + option->place, optarg) < 0)
		cmd_misused(verb->command, "'%s' is not understood; here stands %s", optarg,
			    option->value);
	else
		return 0;
	return -1;
}

int verb_parse(const struct verb *verb, void *values, int argc, char **argv)
{
	struct known known = { 0 };
	int found, operands;

	make_known(verb, &known);
	opterr = 0;
	optind = 1;
	while ((found = getopt_long(argc, argv, known.letters, known.names, NULL)) != -1)
		if (take_option(verb, found, values, argv[optind - 1]) < 0)
			return -1;
	operands = argc - optind;
	if (operands < verb->least || (verb->most && operands > MAX(verb->most, 0))) {
		cmd_misused(verb->command, "%s %s", verb->command->name, verb->operands);
		return -1;
	}
	return optind;
}

void verb_print_options(const struct verb_option *options, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct verb_option *option = &options[i];
		char shown[64];

		if (option->name)
			snprintf(shown, sizeof(shown), "--%s%s%s", option->name,
				 option->value ? "=" : "", option->value ? option->value : "");
		else
			snprintf(shown, sizeof(shown), "-%c%s%s", option->letter,
				 option->value ? " " : "", option->value ? option->value : "");
		printf("  %-26s  %s\n", shown, option->help);
	}
}

static int say_opened(int r, const char *why)
{
	if (r < 0)
		log_error("%s", why ? why : strerror(-r));
	return r;
}

int verb_open(const char *store, unsigned flags, const struct options *options,
	      struct access **ret_access)
{
	_cleanup_(freep) char *why = NULL;
	int r;

	stop_watch();
	r = access_open(store, flags, options, ret_access, &why);
	return say_opened(r, why);
}

int verb_run(const struct verb *verb, void *values, struct options *options, unsigned flags,
	     verb_fn *fn, int argc, char **argv)
{
	int first = verb_parse(verb, values, argc, argv);
	struct access *access;
	int status = CMD_FAILED;

	if (first < 0)
		return CMD_USAGE;
	if (verb_open(argv[first], flags, options, &access) == 0) {
		status = fn(values, access, argv + first);
		access_close(access);
	}
	options_done(options);
	return say_finish() < 0 ? CMD_FAILED : status;
}

int verb_open_backend(const char *store, const struct options *options,
		      struct backend **ret_backend)
{
	_cleanup_(freep) char *why = NULL;
	int r = access_backend(store, options, ret_backend, &why);

	return say_opened(r, why);
}

void verb_follow_store(struct progress *progress, const char *store, unsigned times)
{
	struct stat st;

	if (stat(store, &st) == 0)
		progress_set_total(progress, 0, (uint64_t)st.st_size * times);
	progress_follow(progress, PROGRESS_TICKS | PROGRESS_READS);
}

int verb_check(const char *store, struct backend *backend, backend_report_fn *report, void *arg,
	       struct check_result *ret_result)
{
	enum { TIMES = 5 }; /* twice by SQLite, and three times what are rows by us */
	struct progress progress;
	int r;

	progress_begin(&progress, "check", "files");
	verb_follow_store(&progress, store, TIMES);
	r = check_store(backend, report, arg, ret_result);
	progress_end(&progress);
	return r;
}

int verb_fail(const char *store, const char *path, int error)
{
	static const struct {
		int error;
		const char *sentence;
	} sentences[] = {
		{ -ENOENT, "there is no such file or session" },
		{ -EISDIR, "it is a directory" },
		{ -EBUSY, "it is in use" },
		{ -ELOOP, "there is a symbolic link on the path; name where it leads to" },
		{ -EXDEV, "the path leads out of the store" },
		{ -EOPNOTSUPP, "it is no regular file" },
		{ -ENOSPC, "there is no room" },
		{ -EINVAL, "it is refused: the bytes are not JSON, and the mount is strict" },
		{ -ENOTCONN, "the mount has ended meanwhile" },
	};
	const char *sentence = strerror(-error);

	if (error == -EINTR && stop_wanted())
		return CMD_FAILED;
	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++)
		if (sentences[i].error == error)
			sentence = sentences[i].sentence;
	log_error("%s: %s: %s", store, *path ? path : "/", sentence);
	return CMD_FAILED;
}
