/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "src/base/cleanup.h"
#include "src/copy.h"
#include "src/say.h"
#include "src/stop.h"
#include "src/verb.h"

struct restore {
	bool json;
	bool force;
	struct options options;
};

static const struct verb_option restore_options[] = {
	VERB_JSON(struct restore),
	{ "force", 0, NULL, verb_take_yes, offsetof(struct restore, force),
	  "replace STORE if it is there" },
	VERB_TABLE(struct restore),
};

static const struct verb restore_verb = {
	&cmd_restore,
	restore_options,
	ARRAY_SIZE(restore_options),
	2,
	2,
	"takes a file and a store",
};

static int restore(const struct restore *restore, char **operands)
{
	struct copy copy = { .what = "restore",
			     .from = operands[0],
			     .to = operands[1],
			     .replace = restore->force,
			     .options = &restore->options };
	int r = copy_judge(&copy);

	if (r == 0)
		r = copy_run(&copy);
	if (r < 0)
		return CMD_FAILED;
	copy_print(&copy, restore->json);
	return CMD_DONE;
}

static int run_restore(int argc, char **argv)
{
	struct restore values = { 0 };
	int first = verb_parse(&restore_verb, &values, argc, argv);
	int status;

	if (first < 0)
		return CMD_USAGE;
	stop_watch();
	status = restore(&values, argv + first);
	options_done(&values.options);
	return say_finish() < 0 ? CMD_FAILED : status;
}

static void help(void)
{
	printf("Copies a backup to STORE and checks it before it gets that name.  A store that is "
	       "replaced\n"
	       "must not be mounted; it keeps its owner and mode, and is there as it was until the "
	       "other one\n"
	       "takes its place.\n"
	       "\n");
	verb_print_options(restore_options, ARRAY_SIZE(restore_options));
	cmd_print_status("STORE is as it was");
}

const struct command cmd_restore = {
	.name = "restore",
	.arguments = "[--force] [--json] FILE STORE",
	.summary = "make a store of a backup",
	.help = help,
	.run = run_restore,
};
