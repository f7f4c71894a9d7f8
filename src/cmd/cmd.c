/* SPDX-License-Identifier: MIT */
#include "src/cmd/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "fs/base/ttl.h"
#include "src/mounts/holders.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/user/units.h"

enum { OPTIONS_MAX = 16 };

int cmd_take_yes(void *field, const char *value, char **ret_why)
{
	(void)value, (void)ret_why;
	*(bool *)field = true;
	return 0;
}

int cmd_take_size(void *field, const char *value, char **ret_why)
{
	uint64_t size;
	int r = units_size(value, &size);

	(void)ret_why;
	if (r == 0)
		*(int64_t *)field = (int64_t)MIN(size, (uint64_t)INT64_MAX);
	return r;
}

int cmd_take_age(void *field, const char *value, char **ret_why)
{
	(void)ret_why;
	return units_age(value, field);
}

int cmd_take_number(void *field, const char *value, char **ret_why)
{
	struct bytes text = bytes_str(value);
	uint64_t number;

	(void)ret_why;
	if (!number_take(&text, INT64_MAX, &number) || text.size)
		return -EINVAL;
	*(int64_t *)field = (int64_t)number;
	return 0;
}

int cmd_take_count(void *field, const char *value, char **ret_why)
{
	int r = cmd_take_number(field, value, ret_why);

	return r == 0 && !*(int64_t *)field ? -EINVAL : r;
}

int cmd_take_text(void *field, const char *value, char **ret_why)
{
	(void)ret_why;
	*(const char **)field = value;
	return 0;
}

int cmd_take_writer(void *field, const char *value, char **ret_why)
{
	return options_parse(field, OPTIONS_WRITER, value, ret_why);
}

int cmd_take_reader(void *field, const char *value, char **ret_why)
{
	return options_parse(field, OPTIONS_READER, value, ret_why);
}

/* The table for getopt_long(): an option's value is 256 and its place in the table. */
struct known {
	char letters[2 * OPTIONS_MAX + 2];
	struct option names[OPTIONS_MAX + 1];
};

static void make_known(const struct command *command, struct known *known)
{
	size_t letters = 0, names = 0;

	known->letters[letters++] = ':';
	for (size_t i = 0; i < command->count && i < OPTIONS_MAX; i++) {
		const struct cmd_option *option = &command->options[i];

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

static const struct cmd_option *find_option(const struct command *command, int known)
{
	if (known >= 256)
		return &command->options[known - 256];
	for (size_t i = 0; i < command->count; i++)
		if (command->options[i].letter == known && known)
			return &command->options[i];
	return NULL;
}

/* The meaning of a word that stands for a value, for the message about a wrong value. */
static const char *meaning(const char *word)
{
	static const struct {
		const char *word, *meaning;
	} meanings[] = {
		{ "AGE", "a time with s, m, h, d, w or y, such as 30m, 12h or 7d" },
		{ "SIZE", "a number of bytes, also with K, M, G or T, such as 500M" },
		{ "N", "a whole number" },
		{ "SEQ", "the number of an event, the seq of a line" },
		{ "id|age|size|items", "one of id, age, size and items" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (strcmp(meanings[i].word, word) == 0)
			return meanings[i].meaning;
	return word;
}

static int take_option(const struct command *command, int found, void *values, const char *word)
{
	const struct cmd_option *option = find_option(command, found);
	/* A letter may stand among others. */
	const char letter[] = { '-', (char)optopt, '\0' };
	_cleanup_(freep) char *why = NULL;
	int r = -ECANCELED;

	if (found == '?' && optopt > 0 && optopt < 256)
		word = letter;
	if (found == ':')
		cmd_misused(command, "%s needs a value", word);
	else if (!option)
		cmd_misused(command, "there is no option '%s'", word);
	else
		r = option->take((char *)values + option->place, optarg, &why);
	if (r == -EINVAL && why)
		cmd_misused(command, "%s", why);
	else if (r == -EINVAL)
		cmd_misused(command, "'%s' is not valid: %s%s takes %s", optarg,
			    option->name ? "--" : "-",
			    option->name ? option->name : (char[]){ option->letter, '\0' },
			    meaning(option->value));
	else if (r < 0 && r != -ECANCELED)
		log_error("%s", strerror(-r));
	return r;
}

static bool has_empty(char **operands, int count)
{
	for (int i = 0; i < count; i++)
		if (!*operands[i])
			return true;
	return false;
}

const char *cmd_default_store(void)
{
	const char *store = getenv("SESSFS_STORE");

	return store && *store ? store : NULL;
}

/* STORE may be left out where there would be too few operands, if the environment names one. */
static const char *store_left_out(const struct command *command, int operands)
{
	return command->store >= 0 && operands == command->least - 1 ? cmd_default_store() : NULL;
}

/* A mount stands for the store that it shows, and "-" for the store that the environment names. */
static int take_mount(char **operand)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(freep) char *path = NULL;

	if (strcmp(*operand, "-") == 0 && cmd_default_store())
		*operand = (char *)(uintptr_t)cmd_default_store();
	if (backend_has_path(*operand) && mounts_absolute_unasked(*operand, &path) == 0 &&
	    mounts_find(path, &entry) == 0 && strcmp(entry.type, MOUNTS_TYPE) == 0 &&
	    strcmp(entry.root, "/") == 0 && mounts_is_believed(&entry)) {
		/* As it was given to the mount. */
		*operand = backend_has_path(entry.source) ? NULL : holders_url(&entry);
		if (!*operand)
			*operand = steal_ptr(entry.source);
	} else {
		*operand = strdup(*operand);
	}
	return *operand ? 0 : -ENOMEM;
}

static int run(const struct command *command, void *values, char **given, int count)
{
	const char *left_out = store_left_out(command, count);
	_cleanup_(freep) char **operands = calloc((size_t)count + 2, sizeof(*operands));
	_cleanup_(freep) char *store = NULL;
	int status = CMD_FAILED, before = left_out ? command->store : 0;

	if (!operands)
		return say_why(NULL, -ENOMEM), status;
	memcpy(operands, given, (size_t)before * sizeof(*given));
	operands[before] = (char *)(uintptr_t)left_out;
	memcpy(operands + before + !!left_out, given + before,
	       (size_t)(count - before) * sizeof(*given));
	if (command->store < 0)
		return command->run(values, operands);
	if (take_mount(&operands[command->store]) < 0)
		return say_why(NULL, -ENOMEM), status;
	store = operands[command->store];
	return command->run(values, operands);
}

/* The index of the first operand, or -1 after a sentence. */
static int parse(const struct command *command, void *values, int argc, char **argv)
{
	struct known known = { 0 };
	int found, operands;

	make_known(command, &known);
	opterr = 0;
	optind = 1;
	while ((found = getopt_long(argc, argv, known.letters, known.names, NULL)) != -1)
		if (take_option(command, found, values, argv[optind - 1]) < 0)
			return -1;
	operands = argc - optind;
	operands += store_left_out(command, operands) != NULL;
	if (operands < command->least || (command->most && operands > MAX(command->most, 0)) ||
	    has_empty(argv + optind, MIN(command->least, argc - optind))) {
		cmd_misused(command, "%s %s", command->name, command->operands);
		return -1;
	}
	return optind;
}

int cmd_run(const struct command *command, int argc, char **argv)
{
	_cleanup_(freep) void *values = calloc(1, command->size);
	int first, status = CMD_USAGE;

	if (!values)
		return say_why(NULL, -ENOMEM), CMD_FAILED;
	if (command->defaults)
		memcpy(values, command->defaults, command->size);
	first = parse(command, values, argc, argv);
	if (first >= 0)
		status = run(command, values, argv + first, argc - first);
	options_done(values);
	return say_finish() < 0 && status == CMD_DONE ? CMD_FAILED : status;
}

int cmd_fail(const char *store, const char *path, int error)
{
	store_say(store, path, error);
	return CMD_FAILED;
}

/* Words in lines; a newline ends one. */
static void print_filled(const char *text)
{
	enum { WIDTH = 92 };
	size_t column = 0;

	for (; *text; text += *text == '\n') {
		size_t blanks = strspn(text, " ");
		size_t word = strcspn(text + blanks, " \n");

		if (column + blanks + word > WIDTH) {
			printf("\n");
			text += blanks;
			column = blanks = 0;
		}
		printf("%.*s", (int)(blanks + word), text);
		text += blanks + word;
		column += blanks + word;
		if (*text != '\n')
			continue;
		printf("\n");
		column = 0;
	}
	printf("\n");
}

static void print_option(const struct cmd_option *option)
{
	const char *value = option->value ? option->value : "";
	char letter[] = "-x, ", shown[64];

	letter[1] = option->letter;
	if (option->name)
		snprintf(shown, sizeof(shown), "%4s--%s%s%s", option->letter ? letter : "",
			 option->name, *value ? "=" : "", value);
	else
		snprintf(shown, sizeof(shown), "-%c%s%s", option->letter, *value ? " " : "", value);
	printf("  %-28s  %s\n", shown, option->help);
}

void cmd_print_help(const struct command *command)
{
	printf("usage: sessfs %s %s\n\n%s\n\n", command->name, command->arguments,
	       command->summary);
	print_filled(command->help);
	printf("\n");
	for (size_t i = 0; i < command->count; i++)
		print_option(&command->options[i]);
	if (command->list)
		command->list();
	if (command->more) {
		printf("\n");
		print_filled(command->more);
	}
	if (command->failed)
		printf("\nThe exit status is 0; 1 if %s;\n2 if the command line is wrong.\n",
		       command->failed);
}
