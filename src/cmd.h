/* SPDX-License-Identifier: MIT */
#ifndef CMD_H
#define CMD_H

/*
 * The commands of the program.  Each file cmd-*.c defines one; main.c lists them in a table.
 */

/* What a command returns; told to the user in the help. */
enum cmd_status {
	CMD_DONE = 0,
	CMD_FAILED = 1, /* a sentence on stderr says why and what to do */
	CMD_USAGE = 2,	/* wrong command line; for check: it could not run */
};

struct command {
	const char *name;
	const char *arguments; /* behind the name in a usage line */
	const char *summary;   /* one line */
	void (*help)(void);    /* prints what else there is to know to stdout; may be NULL */
	/* argv[0] is the command's name.  --help has been dealt with. */
	int (*run)(int argc, char **argv);
};

extern const struct command cmd_mount;
extern const struct command cmd_umount;
extern const struct command cmd_check;

extern const struct command cmd_backup;
extern const struct command cmd_restore;
extern const struct command cmd_gc;

extern const struct command cmd_ls;
extern const struct command cmd_cat;
extern const struct command cmd_append;
extern const struct command cmd_put;
extern const struct command cmd_rm;
extern const struct command cmd_sessions;
extern const struct command cmd_stats;
extern const struct command cmd_mounts;
extern const struct command cmd_import;
extern const struct command cmd_export;

/* The end of a help text: the statuses, failed is said about CMD_FAILED. */
void cmd_print_status(const char *failed);

/* Says how the command is used wrongly, and where help is; returns CMD_USAGE. */
int cmd_misused(const struct command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
