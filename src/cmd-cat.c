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

static int print_files(struct access *access, const char *store, char **paths)
{
	int status = CMD_DONE;

	for (; *paths && !stop_wanted() && !ferror(stdout); paths++) {
		int r = print_file(access, *paths);

		if (r < 0)
			status = verb_fail(store, *paths, r);
	}
	return status;
}

static int run_cat(int argc, char **argv)
{
	_cleanup_(access_closep) struct access *access = NULL;
	struct cat cat = { 0 };
	int first = verb_parse(&cat_verb, &cat, argc, argv);
	int status = CMD_FAILED;

	if (first < 0)
		return CMD_USAGE;
	if (verb_open(argv[first], 0, &cat.options, &access) == 0)
		status = print_files(access, argv[first], argv + first + 1);
	options_done(&cat.options);
	return say_finish() < 0 ? CMD_FAILED : status;
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
