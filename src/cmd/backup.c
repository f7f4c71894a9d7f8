/* SPDX-License-Identifier: MIT */
/*
 * A backup holds all writes that were answered before it began, as of one instant.
 *
 * Most of these are in the store's file when a call returns.  A mount that holds back writes to
 * ordinary files is asked to write them first; files that a killed mount has left beside the store
 * are taken in, as the next mount would do.  A save that is not closed and a line without its end
 * were not answered, and are left out.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/copy.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/cmd/bucket.h"

struct backup {
	struct options options;
	bool json;
	bool force;
	int64_t keep;
	struct s3_options where;
};

static const struct cmd_option backup_options[] = {
	CMD_JSON(struct backup, json),
	CMD_YES(struct backup, force, "force", 0, "replace FILE if it exists"),
	CMD_VALUE(struct backup, keep, "keep", "N", cmd_take_count,
		  "in a bucket: add the time to NAME, and delete all but the latest N of them"),
	CMD_WHERE(struct backup, where),
	CMD_TABLE,
};

static int settle(const char *store)
{
	_cleanup_(freep) char *why = NULL;
	int r = access_settle(store, &why);

	if (r == -ENOTCONN) {
		log_warning("the mount of %s cannot be reached from here; what was written to "
			    "ordinary files a moment ago may be missing",
			    store);
		sleep(1);
		return 0;
	}
	return r < 0 && r != -EINTR ? say_why(why, r) : r;
}

static int run_backup(void *values, char **operands)
{
	const struct backup *backup = values;
	const bool stream = strcmp(operands[1], "-") == 0;
	struct copy copy = { .what = "backup",
			     .from = operands[0],
			     .to = stream ? NULL : operands[1],
			     .replace = backup->force,
			     .options = &backup->options };
	int r = cmd_judge_bucket(&cmd_backup, operands[1], &backup->keep,
				 sizeof(*backup) - offsetof(struct backup, keep));

	if (r < 0)
		return CMD_USAGE;
	if (stream && (backup->force || backup->json))
		return cmd_misused(&cmd_backup, "--force and --json are for a file, not for the "
						"standard output");
	stop_watch();
	if ((!r && copy_judge(&copy) < 0) || settle(copy.from) < 0 ||
	    (r ? backup_put(&copy, &backup->where, (uint64_t)backup->keep) : copy_run(&copy)) < 0)
		return CMD_FAILED;
	copy_print(&copy, backup->json);
	return CMD_DONE;
}

const struct command cmd_backup = {
	.name = "backup",
	.arguments = "[--force] [--keep=N] [--json] [OPTIONS] STORE FILE|-|s3://BUCKET/NAME",
	.summary = "copy a store, mounted or not, into one file or bucket",
	.help = "Copies STORE, as it is at one instant, into FILE, and prints how much is in it.  "
		"The store may be mounted, and writers do not wait.  FILE is a store that can be "
		"mounted; it gets its name when it is complete and checked.  With -, the copy "
		"goes to the standard output.  STORE, FILE or both can be on a server, named by a "
		"URL.  In a bucket, the copy gets its name when it is complete, and is read back.",
	.failed = "there is no backup",
	CMD_OPTIONS(backup_options),
	.least = 2,
	.most = 2,
	.operands = "takes a store and a file",
	.size = sizeof(struct backup),
	.run = run_backup,
};
