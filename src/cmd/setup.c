/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "backend/setup.h"
#include "backend/base/log.h"
#include "src/user/say.h"
#include "src/cmd/cmd.h"

struct setup {
	struct options options;
	bool dry_run;
	bool told; /* what the rights are for */
};

static const struct cmd_option setup_options[] = {
	CMD_YES(struct setup, dry_run, "dry-run", 'n', "change nothing, and print the SQL"),
};

static void print_statement(void *arg, const char *statement, bool rights)
{
	struct setup *setup = arg;

	if (rights && !setup->told)
		printf("-- What a user of the server needs to mount it:\n");
	setup->told |= rights;
	if (rights && !setup->dry_run)
		printf("%s", statement);
	else if (setup->dry_run)
		printf("%s%s", rights ? "-- " : "", statement);
}

static int run_setup(void *values, char **operands)
{
	struct setup *setup = values;
	const struct backend_setup how = { .dry_run = setup->dry_run,
					   .statement = print_statement,
					   .arg = setup };
	_cleanup_(freep) char *why = NULL;
	int r = backend_set_up(operands[0], &how, &why);

	if (r == -EOPNOTSUPP && !why)
		log_error("%s is not on a server: the first mount creates it", operands[0]);
	else if (r < 0)
		say_why(why, r);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_setup = {
	.name = "setup",
	.arguments = "[--dry-run] URL",
	.summary = "create a store on a server, for users who may not",
	.help = "Creates the tables of a store on a server, and the triggers that report the "
		"changes of other programs to the mounts, as the user in the URL, and prints the "
		"rights that another user needs to mount it.  What exists already stays, so you "
		"can run it again, for example after triggers were lost.  A mount does the same "
		"if its user may.",
	.failed = "the store cannot be created, or only a part of it",
	CMD_OPTIONS(setup_options),
	.least = 1,
	.most = 1,
	.operands = "takes a URL",
	.store = -1,
	.size = sizeof(struct setup),
	.run = run_setup,
};
