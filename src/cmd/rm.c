/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/user/progress.h"
#include "src/user/stop.h"
#include "src/cmd/cmd.h"

struct rm {
	struct options options;
	bool recursive;
};

static const struct cmd_option rm_options[] = {
	CMD_YES(struct rm, recursive, NULL, 'r',
		"also remove directories, with everything in them"),
	CMD_TABLE,
};

static int remove_path(const struct rm *rm, struct access *access, const char *store,
		       const char *path)
{
	int r = access_remove(access, path, rm->recursive);

	if (r != -EISDIR && r != -EBUSY)
		return r < 0 ? cmd_fail(store, path, r) : CMD_DONE;
	if (r == -EISDIR)
		log_error("%s: %s: it is a directory; -r removes it with its files", store, path);
	else
		log_error("%s: %s: it cannot be removed", store, path);
	return CMD_FAILED;
}

static int run_rm(void *values, char **operands)
{
	const struct rm *rm = values;
	_cleanup_(access_closep) struct access *access = NULL;
	struct progress progress;
	int status = CMD_DONE;

	if (store_open(operands[0], ACCESS_WRITE, &rm->options, &access) < 0)
		return CMD_FAILED;
	progress_begin(&progress, "rm", "file");
	progress_follow(&progress, PROGRESS_TICKS);
	for (char **path = operands + 1; *path && !stop_wanted(); path++)
		if (remove_path(rm, access, operands[0], *path) != CMD_DONE)
			status = CMD_FAILED;
	progress_end(&progress);
	return status;
}

const struct command cmd_rm = {
	.name = "rm",
	.arguments = "[-r] [-o table=NAME] STORE PATH...",
	.summary = "remove files or sessions",
	.help = "Removes files of the store, and with -r sessions and other directories, file by "
		"file.  After an interruption, each file that is left is complete.",
	.failed = "something does not exist or cannot be removed (the rest is)",
	CMD_OPTIONS(rm_options),
	.least = 2,
	.operands = "takes a store, and paths in it",
	.size = sizeof(struct rm),
	.run = run_rm,
};
