/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/progress.h"
#include "src/stop.h"
#include "src/verb.h"

struct rm {
	bool recursive;
	struct options options;
};

static const struct verb_option rm_options[] = {
	{ NULL, 'r', NULL, verb_take_yes, offsetof(struct rm, recursive),
	  "directories, too, with all that is in them" },
	VERB_TABLE(struct rm),
};

static const struct verb rm_verb = {
	&cmd_rm, rm_options, ARRAY_SIZE(rm_options), 2, 0, "takes a store, and paths in it",
};

static int remove_path(const struct rm *rm, struct access *access, const char *store,
		       const char *path)
{
	int r = access_remove(access, path, rm->recursive);

	if (r != -EISDIR && r != -EBUSY)
		return r < 0 ? verb_fail(store, path, r) : CMD_DONE;
	if (r == -EISDIR)
		log_error("%s: %s: it is a directory; -r removes it with all that is in it", store,
			  path);
	else
		log_error("%s: %s: it cannot be removed", store, path);
	return CMD_FAILED;
}

static int remove_paths(void *values, struct access *access, char **operands)
{
	struct progress progress;
	int status = CMD_DONE;

	progress_begin(&progress, "rm", "files");
	progress_follow(&progress, PROGRESS_TICKS);
	for (char **path = operands + 1; *path && !stop_wanted(); path++)
		if (remove_path(values, access, operands[0], *path) != CMD_DONE)
			status = CMD_FAILED;
	progress_end(&progress);
	return status;
}

static int run_rm(int argc, char **argv)
{
	struct rm rm = { 0 };

	return verb_run(&rm_verb, &rm, &rm.options, ACCESS_WRITE, remove_paths, argc, argv);
}

static void help(void)
{
	printf("Removes files of the store, and with -r sessions and other directories, file by "
	       "file.\n"
	       "When it is interrupted, what has not been removed yet is whole.\n"
	       "\n");
	verb_print_options(rm_options, ARRAY_SIZE(rm_options));
	cmd_print_status("something is not there or cannot be removed; the rest is");
}

const struct command cmd_rm = {
	.name = "rm",
	.arguments = "[-r] [-o table=NAME] STORE PATH...",
	.summary = "remove files or sessions",
	.help = help,
	.run = run_rm,
};
