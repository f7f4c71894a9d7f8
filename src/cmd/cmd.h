/* SPDX-License-Identifier: MIT */
#ifndef CMD_H
#define CMD_H

/*
 * The commands of the program.  Each file here defines one or two; main.c lists them in a table.
 * What a command is told is in a table, too: cmd.c reads the command line by it, and makes the help
 * of it.
 */

#include <stddef.h>

#include "src/store/store.h"
#include "backend/base/log.h"
#include "backend/base/cleanup.h"

/* What a command returns; told to the user in the help. */
enum cmd_status {
	CMD_DONE = 0,
	CMD_FAILED = 1, /* a sentence on stderr says why and what to do */
	CMD_USAGE = 2,	/* wrong command line; for check: it could not run */
};

struct cmd_option {
	const char *name;  /* --name, or NULL */
	char letter;	   /* -l, or 0 */
	const char *value; /* a word for its value, or NULL: it has none */
	/* -EINVAL: not understood; *ret_why may then be a sentence that says what is (owned by the
	 * caller), or is left alone.  -ECANCELED: it was said. */
	int (*take)(void *field, const char *value, char **ret_why);
	size_t place; /* of the field in the values */
	const char *help;
};

struct command {
	const char *name;
	const char *arguments; /* behind the name in a usage line */
	const char *summary;   /* one line */
	/* The help, whose words are put into lines: before and behind the options; more and list
	 * may be NULL. */
	const char *help;
	void (*list)(void); /* prints what belongs to the options */
	const char *more;
	const char *failed; /* when the status is CMD_FAILED; NULL: more tells all of it */

	const struct cmd_option *options;
	size_t count;
	int least, most;      /* operands, the least of them not empty; most 0: any number, -1:
			       * none */
	const char *operands; /* "takes a store and a path" */
	int store;	      /* which operand is a store, from 0; -1: none, or more than a store */

	/* The values begin with a struct options, and are these or zeros before the command line
	 * is read; the caller releases the options.  A NULL stands behind the operands. */
	size_t size;
	const void *defaults;
	int (*run)(void *values, char **operands);
};

#define CMD_OPTIONS(table) .options = table, .count = ARRAY_SIZE(table)

extern const struct command cmd_mount, cmd_umount, cmd_check, cmd_ls, cmd_cat, cmd_append, cmd_put,
	cmd_rm, cmd_sessions, cmd_stats, cmd_mounts, cmd_import, cmd_export, cmd_backup,
	cmd_restore, cmd_gc, cmd_config, cmd_events, cmd_compact, cmd_keep, cmd_show, cmd_search,
	cmd_setup, cmd_log, cmd_undo, cmd_fork, cmd_forget;

/* Reads the command line, of which argv[0] is the command's name, and does what it says; the exit
 * status. */
int cmd_run(const struct command *command, int argc, char **argv);
void cmd_print_help(const struct command *command);

/* The store that the environment names, or NULL. */
const char *cmd_default_store(void);
/* Says how the command is used wrongly, and where help is; returns CMD_USAGE. */
#define cmd_misused(command, format, ...)                                                          \
	({                                                                                         \
		log_error(format "; see 'sessfs help %s'", ##__VA_ARGS__, (command)->name);        \
		CMD_USAGE;                                                                         \
	})
/* store_say(), but it returns CMD_FAILED. */
int cmd_fail(const char *store, const char *path, int error);

/* The layouts of a store (fs/base/layout.h).  0, or -errno after a sentence. */
int cmd_read_layouts(const char *store, const struct options *options, uint64_t *ret_layouts);

/* For the tables: a bool, bytes, a time span, a string that lives as long as argv, and -o of a
 * command that writes, or reads. */
int cmd_take_yes(void *field, const char *value, char **ret_why);
int cmd_take_size(void *field, const char *value, char **ret_why);
int cmd_take_age(void *field, const char *value, char **ret_why);
int cmd_take_number(void *field, const char *value, char **ret_why); /* an int64_t, not negative */
int cmd_take_count(void *field, const char *value, char **ret_why);  /* and at least 1 */
int cmd_take_text(void *field, const char *value, char **ret_why);
int cmd_take_writer(void *field, const char *value, char **ret_why);
int cmd_take_reader(void *field, const char *value, char **ret_why);

#define CMD_YES(type, field, name, letter, help)                                                   \
	{                                                                                          \
		name, letter, NULL, cmd_take_yes, offsetof(type, field), help                      \
	}
#define CMD_VALUE(type, field, name, word, take, help)                                             \
	{                                                                                          \
		name, 0, word, take, offsetof(type, field), help                                   \
	}
#define CMD_JSON(type, field) CMD_YES(type, field, "json", 0, "print JSON")
#define CMD_TABLE                                                                                  \
	{                                                                                          \
		NULL, 'o', "table=NAME", cmd_take_reader, 0,                                       \
			"the table that has the rows, instead of agentscope_sessions"              \
	}
#define CMD_WRITER                                                                                 \
	{                                                                                          \
		NULL, 'o', "OPTIONS", cmd_take_writer, 0,                                          \
			"table=NAME, strict, exact: as for a mount, if the store is not mounted"   \
	}

#endif
