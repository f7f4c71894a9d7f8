/* SPDX-License-Identifier: MIT */

#include "src/exchange/copy.h"
#include "src/user/stop.h"
#include "src/cmd/bucket.h"

struct restore {
	struct options options;
	bool json;
	bool force;
	struct s3_options where;
};

static const struct cmd_option restore_options[] = {
	CMD_JSON(struct restore, json),
	CMD_YES(struct restore, force, "force", 0, "replace STORE if it exists"),
	CMD_WHERE(struct restore, where),
	CMD_TABLE,
};

static int run_restore(void *values, char **operands)
{
	const struct restore *restore = values;
	struct copy copy = { .what = "restore",
			     .from = operands[0],
			     .to = operands[1],
			     .replace = restore->force,
			     .options = &restore->options };
	int r = cmd_judge_bucket(&cmd_restore, operands[0], &restore->where,
				 sizeof(restore->where));

	if (r < 0)
		return CMD_USAGE;
	stop_watch();
	if (copy_judge(&copy) < 0 || (r ? backup_get(&copy, &restore->where) : copy_run(&copy)) < 0)
		return CMD_FAILED;
	copy_print(&copy, restore->json);
	return CMD_DONE;
}

const struct command cmd_restore = {
	.name = "restore",
	.arguments = "[--force] [--json] [OPTIONS] FILE|s3://BUCKET/NAME STORE",
	.summary = "copy a backup to a store",
	.help = "Copies a backup to STORE, and checks the copy before it gets that name.  A store "
		"that is replaced must not be mounted; the new one gets its owner and mode, and "
		"until then the old one is unchanged.  A store on a server must be empty; with "
		"--force, its data is deleted first.",
	.failed = "STORE is unchanged",
	CMD_OPTIONS(restore_options),
	.least = 2,
	.most = 2,
	.operands = "takes a file and a store",
	.store = 1,
	.size = sizeof(struct restore),
	.run = run_restore,
};
