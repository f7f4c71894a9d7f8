/* SPDX-License-Identifier: MIT */
#ifndef VERB_H
#define VERB_H

/*
 * What the commands that work on a store have in common: options in a table, a store that is
 * opened, sentences about what went wrong.
 */

#include "fs/model/check.h"
#include "src/access.h"
#include "src/cmd.h"
#include "src/progress.h"

struct verb_option {
	const char *name;  /* --name, or NULL */
	char letter;	   /* -l, or 0 */
	const char *value; /* a word for its value, or NULL: it has none */
	int (*take)(void *field, const char *value); /* -EINVAL: not understood */
	size_t place;				     /* of the field in the values */
	const char *help;
};

struct verb {
	const struct command *command;
	const struct verb_option *options;
	size_t count;
	int least, most;      /* operands; most 0: any number, -1: none */
	const char *operands; /* "takes a store and a path" */
};

/* For the tables: a bool, bytes, a time span, a string that lives as long as argv, and -o. */
int verb_take_yes(void *field, const char *value);
int verb_take_size(void *field, const char *value);
int verb_take_age(void *field, const char *value);
int verb_take_text(void *field, const char *value);
int verb_take_options(void *field, const char *value);

#define VERB_JSON(type)                                                                            \
	{                                                                                          \
		"json", 0, NULL, verb_take_yes, offsetof(type, json), "print JSON"                 \
	}
#define VERB_TABLE(type)                                                                           \
	{                                                                                          \
		NULL, 'o', "table=NAME", verb_take_options, offsetof(type, options),               \
			"the table of the rows, instead of agentscope_sessions"                    \
	}

/* The index of the first operand, or -1 after a sentence. */
int verb_parse(const struct verb *verb, void *values, int argc, char **argv);
/* The options, a line each. */
void verb_print_options(const struct verb_option *options, size_t count);

/* Parse, open the store that is the first operand, and do what is to be done with the operands,
 * behind which is a NULL; returns the exit status, as fn does.  The options are in the values. */
typedef int verb_fn(void *values, struct access *access, char **operands);
int verb_run(const struct verb *verb, void *values, struct options *options, unsigned flags,
	     verb_fn *fn, int argc, char **argv);

/* Open a store, or say why not; then 0 or -errno. */
int verb_open(const char *store, unsigned flags, const struct options *options,
	      struct access **ret_access);
int verb_open_backend(const char *store, const struct options *options,
		      struct backend **ret_backend);

/* check_store() of a store that is open, with a line of progress. */
int verb_check(const char *store, struct backend *backend, backend_report_fn *report, void *arg,
	       struct check_result *ret_result);

/* Follow what is ticked off, and what is read of a store that is read so many times. */
void verb_follow_store(struct progress *progress, const char *store, unsigned times);

/* Say what is wrong with a path, unless a signal ends us.  Returns CMD_FAILED. */
int verb_fail(const char *store, const char *path, int error);

#endif
