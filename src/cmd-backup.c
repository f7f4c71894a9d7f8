/* SPDX-License-Identifier: MIT */
/*
 * A backup holds all that was answered before it began, at one instant.
 *
 * Most of that is in the store's file when a call returns.  What a mount holds back of ordinary
 * files it is asked to write first; and what a killed one has left beside the store is taken in as
 * the next mount would.  A save that is not closed and a line without its end are no answers, and
 * are not in it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/copy.h"
#include "src/say.h"
#include "src/stop.h"
#include "src/verb.h"

struct backup {
	bool json;
	bool force;
	struct options options;
};

static const struct verb_option backup_options[] = {
	VERB_JSON(struct backup),
	{ "force", 0, NULL, verb_take_yes, offsetof(struct backup, force),
	  "replace FILE if it is there" },
	VERB_TABLE(struct backup),
};

static const struct verb backup_verb = {
	&cmd_backup, backup_options, ARRAY_SIZE(backup_options), 2, 2, "takes a store and a file",
};

static int settle(const char *store, const struct options *options)
{
	const struct timespec wait = { .tv_sec = 1 };
	_cleanup_(freep) char *why = NULL;
	int r = access_settle(store, options, &why);

	if (r == -ENOTCONN) {
		log_warning("the mount of %s cannot be reached from here; what was written to "
			    "ordinary files a moment ago may be missing",
			    store);
		nanosleep(&wait, NULL);
		return 0;
	}
	if (r < 0 && r != -EINTR)
		log_error("%s", why ? why : strerror(-r));
	return r;
}

static int backup(const struct backup *backup, char **operands)
{
	struct copy copy = { .what = "backup",
			     .from = operands[0],
			     .to = operands[1],
			     .replace = backup->force,
			     .options = &backup->options };
	int r = copy_judge(&copy);

	if (r == 0)
		r = settle(copy.from, copy.options);
	if (r == 0)
		r = copy_run(&copy);
	if (r < 0)
		return CMD_FAILED;
	copy_print(&copy, backup->json);
	return CMD_DONE;
}

static int run_backup(int argc, char **argv)
{
	struct backup values = { 0 };
	int first = verb_parse(&backup_verb, &values, argc, argv);
	int status;

	if (first < 0)
		return CMD_USAGE;
	stop_watch();
	status = backup(&values, argv + first);
	options_done(&values.options);
	return say_finish() < 0 ? CMD_FAILED : status;
}

static void help(void)
{
	printf("Copies the store into FILE as it is at one instant, and prints what is in it.  The "
	       "store may\n"
	       "be mounted: nobody who writes waits.  FILE is a store, which can be mounted "
	       "itself, and gets\n"
	       "its name when it is whole and was checked.\n"
	       "\n");
	verb_print_options(backup_options, ARRAY_SIZE(backup_options));
	cmd_print_status("there is no backup");
}

const struct command cmd_backup = {
	.name = "backup",
	.arguments = "[--force] [--json] STORE FILE",
	.summary = "copy a store, mounted or not, into one file",
	.help = help,
	.run = run_backup,
};
