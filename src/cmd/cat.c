/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "backend/base/cleanup.h"
#include "src/user/stop.h"
#include "src/cmd/cmd.h"

enum { BLOCK = 128 * 1024 };

static const struct cmd_option cat_options[] = { CMD_TABLE };

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

static int run_cat(void *values, char **operands)
{
	_cleanup_(access_closep) struct access *access = NULL;
	int status = CMD_DONE;

	if (store_open(operands[0], 0, values, &access) < 0)
		return CMD_FAILED;
	for (char **path = operands + 1; *path && !stop_wanted() && !ferror(stdout); path++) {
		int r = print_file(access, *path);

		if (r < 0)
			status = cmd_fail(operands[0], *path, r);
	}
	return status;
}

const struct command cmd_cat = {
	.name = "cat",
	.arguments = "[-o table=NAME] STORE PATH...",
	.summary = "print files",
	.help = "Writes files of the store to the standard output, one after the other, byte for "
		"byte.  PATH is a path as in a mount, such as S/K.json or S/K.jsonl.",
	.failed = "a file cannot be read (the others are written)",
	CMD_OPTIONS(cat_options),
	.least = 2,
	.operands = "takes a store, and paths in it",
	.size = sizeof(struct options),
	.run = run_cat,
};
