/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "fs/kernel/session.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "src/cmd/cmd.h"
#include "src/user/say.h"
#include "src/user/stop.h"

static const struct command *const commands[] = {
	&cmd_mount,   &cmd_umount, &cmd_check,	  &cmd_ls,    &cmd_cat,	   &cmd_append, &cmd_put,
	&cmd_compact, &cmd_rm,	   &cmd_sessions, &cmd_stats, &cmd_events, &cmd_mounts, &cmd_import,
	&cmd_export,  &cmd_backup, &cmd_restore,  &cmd_gc,    &cmd_config, &cmd_keep,	&cmd_show,
	&cmd_search,  &cmd_setup,  &cmd_log,	  &cmd_undo,  &cmd_fork,   &cmd_forget,
};

static const struct command *main_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

static void print_overview(void)
{
	printf("usage: sessfs COMMAND [ARGUMENT...]\n"
	       "\n"
	       "Shows the sessions of agents, which are in a SQLite database (the store), as "
	       "files.\n"
	       "\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s  %s\n", commands[i]->name, commands[i]->summary);
	printf("  help      print help about a command: sessfs help COMMAND\n"
	       "\n"
	       "'sessfs STORE DIR [-o OPTIONS]' also mounts; mount(8) and fstab(5) use this form.\n"
	       "The exit status is 0 on success, 1 on failure, and 2 if the command line is "
	       "wrong.\n");
}

static int print_help(const struct command *command)
{
	if (command)
		cmd_print_help(command);
	else
		print_overview();
	return say_finish() < 0 ? CMD_FAILED : CMD_DONE;
}

static int run_help(int argc, char **argv)
{
	const struct command *command = argc > 1 ? main_find(argv[1]) : NULL;

	if (argc > 1 && !command)
		return log_fail(CMD_USAGE, "there is no command '%s'; 'sessfs help' lists them",
				argv[1]);
	return print_help(command);
}

/* -h is help, unless the command has an option -h. */
static bool main_asks_for_help(const struct command *command, int argc, char **argv)
{
	bool with_h = true;

	for (size_t i = 0; i < command->count; i++)
		with_h &= command->options[i].letter != 'h';
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || (with_h && strcmp(argv[i], "-h") == 0))
			return true;
	}
	return false;
}

static int main_run(const struct command *command, int argc, char **argv)
{
	int status;

	if (main_asks_for_help(command, argc, argv))
		return print_help(command);
	status = cmd_run(command, argc, argv);
	stop_now();
	return status;
}

/* mount(8) calls "sessfs STORE DIR -o OPTIONS": two operands, the first of which is not a command.
 * A single word that does not name a file is a mistyped command: do not make a store of it. */
static bool main_means_mount(int argc, char **argv)
{
	const char *first = NULL;
	int operands = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-o") == 0)
			i++;
		else if (argv[i][0] != '-' && operands++ == 0)
			first = argv[i];
	}
	return operands == 2 && (strpbrk(first, "/.:") || access(first, F_OK) == 0);
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	const struct command *command = main_find(word);

	/* Before anything else opens a file. */
	if (descriptor_fill() < 0)
		return CMD_FAILED;
	/* Writing beyond a limit on the size of files, or to a reader that has gone, makes the call
	 * fail; it must not end the process.  We wait for children, even if our parent ignores
	 * SIGCHLD. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	if (say_begin() < 0)
		return CMD_FAILED;
	say_to_stderr(LOG_NOTICE);
	if (command)
		return main_run(command, argc - 1, argv + 1);
	if (strcmp(word, "help") == 0)
		return run_help(argc - 1, argv + 1);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return run_help(1, argv);
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		printf("sessfs %s\nlibfuse %s, built with %s\nSQLite %s\n", PACKAGE_VERSION,
		       session_library(), FUSE_BUILT, backend_library(NULL));
		return say_finish() < 0 ? CMD_FAILED : CMD_DONE;
	}
	if (main_means_mount(argc, argv))
		return main_run(&cmd_mount, argc, argv);
	if (argc < 2)
		log_error("a command is missing; 'sessfs help' lists them");
	else
		log_error("there is no command '%s'; 'sessfs help' lists them", word);
	return CMD_USAGE;
}
