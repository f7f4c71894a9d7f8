/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "src/base/cleanup.h"
#include "src/say.h"
#include "src/stop.h"
#include "src/verb.h"

enum { BLOCK = 128 * 1024 };

struct cat {
	struct options options;
};

static const struct verb_option cat_options[] = { VERB_TABLE(struct cat) };

static const struct verb cat_verb = {
	&cmd_cat, cat_options, ARRAY_SIZE(cat_options), 2, 0, "takes a store, and paths in it",
};

static int print_file(struct access *access, const char *path)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	_cleanup_(buf_done) struct buf block = { 0 };
	int r = access_file_open(access, path, ACCESS_FILE_READ, &file);

	if (r < 0)
		return r;
	do {
		buf_clear(&block);
		r = stop_wanted() ? -EINTR : access_file_read(file, BLOCK, &block);
		fwrite(block.data, 1, block.size, stdout);
	} while (r == 0 && block.size && !ferror(stdout));
	return r;
}

static int print_files(void *values, struct access *access, char **operands)
{
	int status = CMD_DONE;

	(void)values;
	for (char **path = operands + 1; *path && !stop_wanted() && !ferror(stdout); path++) {
		int r = print_file(access, *path);

		if (r < 0)
			status = verb_fail(operands[0], *path, r);
	}
	return status;
}

static int run_cat(int argc, char **argv)
{
	struct cat cat = { 0 };

	return verb_run(&cat_verb, &cat, &cat.options, 0, print_files, argc, argv);
}

static void help(void)
{
	printf("Writes files of the store to the standard output, one behind the other, byte for "
	       "byte.\n"
	       "PATH is one that the mount would have: S/K.json, S/K.jsonl.\n"
	       "\n");
	verb_print_options(cat_options, ARRAY_SIZE(cat_options));
	cmd_print_status("a file cannot be read; the others are written");
}

const struct command cmd_cat = {
	.name = "cat",
	.arguments = "[-o table=NAME] STORE PATH...",
	.summary = "print files",
	.help = help,
	.run = run_cat,
};
