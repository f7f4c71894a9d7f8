/* SPDX-License-Identifier: MIT */
/* log: what has changed in a session, the newest change first. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "src/cmd/past.h"
#include "src/user/say.h"
#include "src/user/units.h"

enum { MOST = 100 };

struct log_values {
	struct options options; /* must be first */
	int64_t most;
	struct say_list list;
	const char *session;
	bool one_key;
};

static const struct cmd_option log_options[] = {
	CMD_JSON(struct log_values, list.json),
	{ NULL, 'n', "N", cmd_take_number, offsetof(struct log_values, most),
	  "print N changes at the most (100)" },
	CMD_TABLE,
};

static const char *const words[] = {
	[HISTORY_SAVE] = "save",     [HISTORY_APPEND] = "append", [HISTORY_DELETE] = "delete",
	[HISTORY_MOVE] = "compact",  [HISTORY_UNDO] = "undo",	  [HISTORY_MERGED] = "changes",
	[HISTORY_RETURN] = "return",
};

static char *describe(const struct history_change *change)
{
	char time[PAST_TIME];

	switch (change->what) {
	case HISTORY_APPEND:
		return str_printf("append: %" PRIu64, change->added);
	case HISTORY_MOVE:
		return change->items ? str_printf("compacted %" PRId64 "-%" PRId64, change->first,
						  change->last) :
				       str_printf("moved by %" PRId64, change->by);
	case HISTORY_UNDO:
		return str_printf("undone to %s", past_show_time(change->to, time));
	case HISTORY_MERGED:
		return str_printf("several changes: %" PRIu64 " items", change->items);
	case HISTORY_RETURN:
		return strdup("restored");
	case HISTORY_SAVE:
	case HISTORY_DELETE:
		break;
	}
	return change->added ? str_printf("save: %" PRIu64 " items, %" PRIu64 " new", change->items,
					  change->added) :
			       str_printf("save: %" PRIu64 " item%s", change->items,
					  change->items == 1 ? "" : "s");
}

static const char *who(const struct history_change *change, char text[UNITS_TEXT])
{
	if (change->pid < 0)
		return "";
	if (!change->pid)
		return "SQL";
	snprintf(text, UNITS_TEXT, "process %" PRId64, change->pid);
	return text;
}

static void print_json(struct log_values *values, const struct history_change *change)
{
	char time[PAST_TIME], to[PAST_TIME];
	json_t *item = json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:I}", "time",
				 past_show_time(change->time, time), "session",
				 say_json_name(values->session, strlen(values->session)), "key",
				 say_json_name(change->key.data, change->key.size), "what",
				 words[change->what], "items", (json_int_t)change->items, "added",
				 (json_int_t)change->added, "bytes", (json_int_t)change->bytes);

	if (item && change->what == HISTORY_UNDO)
		json_object_set_new(item, "to", json_string(past_show_time(change->to, to)));
	if (item && change->pid >= 0)
		json_object_set_new(item, "by",
				    change->pid ? json_integer(change->pid) : json_string("sql"));
	say_item(&values->list, item);
}

static int print_change(void *arg, const struct history_change *change)
{
	struct log_values *values = arg;
	char time[PAST_TIME], size[UNITS_TEXT], pid[UNITS_TEXT];
	_cleanup_(freep) char *what = NULL, *key = NULL;

	if (values->list.json) {
		print_json(values, change);
		return ferror(stdout);
	}
	what = describe(change);
	key = bytes_dup(change->key);
	if (!what || !key)
		return -ENOMEM;
	say_heading(&values->list, "TIME                      SIZE  BY               CHANGE");
	printf("%s %9s  %-15s  ", past_show_time(change->time, time),
	       units_show_size(change->bytes, size), who(change, pid));
	if (values->one_key) {
		printf("%s\n", what);
	} else {
		say_name(key, "  ");
		printf("%s\n", what);
	}
	return ferror(stdout);
}

static int run_log(void *given, char **operands)
{
	struct log_values *values = given;
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(past_place_done) struct past_place place = { 0 };
	int r = past_find(operands, &values->options, false, &backend, &place);

	if (r < 0)
		return CMD_FAILED;
	values->session = place.session;
	values->one_key = place.key;
	r = history_changes(backend, bytes_str(place.session), past_key(&place),
			    (size_t)values->most, print_change, values);
	if (r == 0)
		say_list_end(&values->list);
	return r < 0 ? cmd_fail(operands[0], operands[1], r) : CMD_DONE;
}

const struct command cmd_log = {
	.name = "log",
	.arguments = "[--json] [-n N] [-o table=NAME] STORE SESSION[/KEY]",
	.summary = "list what has changed in a session",
	.help = "Lists the changes of a session, or of one key, one a line, the newest first: the "
		"time, the bytes that were taken away, who has done it, the key, and what.  "
		"'sessfs undo --to=TIME' takes such a time, and so does the view @at=TIME: both "
		"mean the state right behind that change.",
	.more = "Changes are told as far as the history keeps them: of those older than a minute "
		"one "
		"a minute, of those older than an hour one in ten minutes, of those older than a "
		"day one an hour.  The store may be mounted.",
	.failed = "there is no such session, or STORE cannot be read",
	CMD_OPTIONS(log_options),
	.least = 2,
	.most = 2,
	.operands = "takes a store and a session",
	.size = sizeof(struct log_values),
	.defaults = &(const struct log_values){ .most = MOST },
	.run = run_log,
};
