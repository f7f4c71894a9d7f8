/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "backend/base/cleanup.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/cmd/cmd.h"

struct following {
	struct options options;
	int64_t since; /* -1: from now on */
};

static const struct cmd_option events_options[] = {
	{ "since", 0, "SEQ", cmd_take_number, offsetof(struct following, since),
	  "start after this event, if the later ones are still known, instead of now" },
	CMD_TABLE,
};

static int print_events(struct access *access, const char *path)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	int r = access_file_open(access, path, ACCESS_FILE_READ, &file);

	while (r == 0 && !stop_wanted() && !ferror(stdout) && !say_is_unheard()) {
		_cleanup_(buf_done) struct buf lines = { 0 };

		r = access_file_next(file, &lines);
		if (lines.size)
			fwrite(lines.data, 1, lines.size, stdout);
		fflush(stdout);
	}
	return r;
}

static int run_events(void *values, char **operands)
{
	const struct following *following = values;
	const char *dir = operands[1] ? operands[1] : "";
	_cleanup_(access_closep) struct access *access = NULL;
	_cleanup_(freep) char *path = NULL;
	char since[32] = "";
	struct stat st;
	int r;

	if (store_open(operands[0], ACCESS_FOLLOW, &following->options, &access) < 0)
		return CMD_FAILED;
	r = access_stat(access, dir, &st);
	if (r == 0 && !S_ISDIR(st.st_mode))
		r = -ENOTDIR;
	if (following->since >= 0)
		snprintf(since, sizeof(since), ",since=%" PRId64, following->since);
	if (r == 0)
		path = str_printf("%s/@as=events%s.jsonl", dir, since);
	if (r == 0)
		r = path ? print_events(access, path) : -ENOMEM;
	return r < 0 ? cmd_fail(operands[0], dir, r) : CMD_DONE;
}

const struct command cmd_events = {
	.name = "events",
	.arguments = "[--since=SEQ] [-o table=NAME] STORE [PATH]",
	.summary = "print changes in a store as they happen",
	.help = "Prints a line of JSON for each change at or below a directory, or anywhere, "
		"whether it comes from this mount, another mount or SQL.  A signal ends the "
		"command.",
	.more = "The same lines are in PATH/@as=events.jsonl of a mount; sessfs(5) describes them.",
	.failed = "the directory does not exist or cannot be followed, or the mount has ended",
	CMD_OPTIONS(events_options),
	.least = 1,
	.most = 2,
	.operands = "takes a store, and perhaps a directory in it",
	.size = sizeof(struct following),
	.defaults = &(const struct following){ .since = -1 },
	.run = run_events,
};
