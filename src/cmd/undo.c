/* SPDX-License-Identifier: MIT */
/* undo: a session, or one key, as it was. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/log.h"
#include "src/cmd/past.h"
#include "src/user/say.h"

struct undo_values {
	struct options options; /* must be first */
	bool dry_run;
	int64_t to;
	struct say_list list;
	const char *session;
};

static const struct cmd_option undo_options[] = {
	{ "to", 0, "TIME", past_take_time, offsetof(struct undo_values, to),
	  "as of this time, or this age (2h); otherwise the last change is undone" },
	CMD_YES(struct undo_values, dry_run, "dry-run", 'n', "only print what would change"),
	CMD_JSON(struct undo_values, list.json),
	CMD_TABLE,
};

static int print_undone(void *arg, const struct history_undone *undone)
{
	struct undo_values *values = arg;
	_cleanup_(freep) char *key = bytes_dup(undone->key);
	char time[PAST_TIME];

	if (!key)
		return -ENOMEM;
	past_show_time(undone->time, time);
	if (values->list.json) {
		say_item(&values->list,
			 json_pack("{s:o, s:o, s:s, s:I, s:I}", "session",
				   say_json_name(values->session, strlen(values->session)), "key",
				   say_json_name(key, undone->key.size), "to", time, "restored",
				   (json_int_t)undone->restored, "removed",
				   (json_int_t)undone->removed));
		return 0;
	}
	printf("%s  %" PRIu64 " back, %" PRIu64 " away  ", time, undone->restored, undone->removed);
	say_name(key, "\n");
	return 0;
}

static int keep_time(void *arg, const struct history_change *change)
{
	*(int64_t *)arg = change->time - 1;
	return 0;
}

static int run_undo(void *given, char **operands)
{
	struct undo_values *values = given;
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(past_place_done) struct past_place place = { 0 };
	int64_t time = values->to;
	int r = past_find(operands, &values->options, true, &backend, &place);

	if (r < 0)
		return CMD_FAILED;
	if (!time)
		r = history_changes(backend, bytes_str(place.session), past_key(&place), 1,
				    keep_time, &time);
	values->session = place.session;
	if (r == 0)
		r = time ? history_undo(backend, bytes_str(place.session), past_key(&place), time,
					values->dry_run, print_undone, values) :
			   -ENODATA;
	say_list_end(&values->list);
	if (r == -ENODATA)
		log_error("%s: %s has not changed since then, as far as the history goes",
			  operands[0], operands[1]);
	else if (r < 0)
		return cmd_fail(operands[0], operands[1], r);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_undo = {
	.name = "undo",
	.arguments = "[--to=TIME] [--dry-run] [--json] [-o table=NAME] STORE SESSION[/KEY]",
	.summary = "put a session back as it was",
	.help = "Puts the items of a session, or of one key, back as they were at a time, in one "
		"transaction; without a time, as they were before the last change.  Prints each "
		"key that changes: how many items come back, and how many go.",
	.more = "This is a change itself, and can be undone as any other.  Files that were removed "
		"come back with 'sessfs gc --undo'.  The store may be mounted.",
	.failed = "nothing was changed",
	CMD_OPTIONS(undo_options),
	.least = 2,
	.most = 2,
	.operands = "takes a store and a session",
	.size = sizeof(struct undo_values),
	.run = run_undo,
};
