/* SPDX-License-Identifier: MIT */
/*
 * Removing sessions that are no longer needed.
 *
 * A session goes when it fits all options that were given, or when its ttl has run out: its own, or
 * without one the store's.  A session whose own ttl is 0 or "never" always stays.  A session goes
 * into the trash as a whole (fs/upkeep/trash.c).  --undo brings it back until its grace is over;
 * every later run, and a mount by itself, deletes for good what is past that.
 *
 * A session in use stays.  What is read here is old at once, so each order names the time since
 * which nothing may have changed, and the tree that removes the session checks again: if it has
 * changed, or one of its files is open on any mount, it stays.  An agent that opens its files for
 * each write seems idle in between; so without --older-than, sessions that have changed in the last
 * ten minutes stay, too.
 *
 * Every session is one transaction.  After a run that was killed, the next one goes on.
 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/ttl.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "backend/base/plural.h"
#include "backend/base/tick.h"
#include "src/user/settings.h"
#include "src/user/stop.h"
#include "src/user/units.h"
#include "src/cmd/gc.h"
#include "src/cmd/summary.h"

static const int64_t QUIET = INT64_C(600000000000); /* nanoseconds */

static int take_grace(void *field, const char *value, char **ret_why)
{
	(void)ret_why;
	return duration_parse(bytes_str(value), field);
}

static const struct cmd_option gc_options[] = {
	{ "older-than", 0, "AGE", cmd_take_age, offsetof(struct gc, older),
	  "sessions that have not changed for this long: 30m, 12h, 7d, 2w, 1y" },
	{ "larger-than", 0, "SIZE", cmd_take_size, offsetof(struct gc, larger),
	  "sessions of more bytes: 500, 100K, 20M, 1G" },
	{ "keep-last", 0, "N", cmd_take_number, offsetof(struct gc, keep_last),
	  "all except the N that changed last" },
	{ "name", 0, "GLOB", cmd_take_text, offsetof(struct gc, pattern),
	  "sessions whose name matches a shell pattern" },
	{ "grace", 0, "AGE", take_grace, offsetof(struct gc, grace),
	  "how long they can be restored (7d); 0: not at all" },
	CMD_YES(struct gc, report.dry_run, "dry-run", 'n',
		"print what would be removed, and change nothing"),
	CMD_YES(struct gc, report.trash, "list", 0, "list what can be restored"),
	CMD_YES(struct gc, undo, "undo", 0, "restore PATHs, or all that can be restored"),
	CMD_JSON(struct gc, report.list.json),
	CMD_TABLE,
};

static void gc_done(struct gc *gc)
{
	for (size_t i = 0; i < gc->n_found; i++) {
		free(gc->found[i].name);
		backend_node_done(&gc->found[i].node);
	}
	gc_forget_items(gc);
	free(gc->found);
	free(gc->items);
	backend_close(gc->backend);
	access_close(gc->access);
}

/* Reading. */

static int keep_found(void *arg, struct bytes path, const struct backend_node *node)
{
	struct gc *gc = arg;
	struct found *found;

	if (ARRAY_ROOM(gc->found, gc->n_found, gc->found_room) < 0)
		return -ENOMEM;
	found = &gc->found[gc->n_found++];
	*found = (struct found){ .name = bytes_dup(path) };
	return found->name ? backend_node_copy(node, &found->node) : -ENOMEM;
}

static int read_sessions(struct gc *gc, struct backend_snapshot *snapshot)
{
	int r = home_list(gc->backend, snapshot, gc->layout, keep_found, gc);

	progress_set_total(&gc->progress, gc->n_found, 0);
	for (size_t i = 0; r == 0 && i < gc->n_found; i++) {
		struct found *found = &gc->found[i];

		r = stop_wanted() ? -EINTR :
				    session_look(gc->backend, snapshot, gc->layout, &found->node,
						 NULL, &found->look);
		tick(1);
	}
	return r;
}

static int read_all(struct gc *gc)
{
	_cleanup_(store_look_done) struct store_look look = { 0 };
	int r = store_look(gc->backend, BACKEND_LATEST, &look);

	if (r < 0)
		return r;
	progress_begin(&gc->progress, "look", "session");
	store_follow(&gc->progress, gc->store, 1);
	r = read_sessions(gc, look.snapshot);
	progress_end(&gc->progress);
	return r;
}

/* Reporting. */

/* action: "remove" or "keep". */
static void report_session(struct gc_report *report, const char *name,
			   const struct session_look *look, const char *action, const char *why)
{
	char size[UNITS_TEXT], changed[UNITS_TEXT];
	const bool goes = strcmp(action, "remove") == 0;
	WITH_PROGRESS_HELD;

	if (report->list.json) {
		say_item(&report->list,
			 json_pack("{so ss ss sI so}", "name", say_json_name(name, strlen(name)),
				   "action", action, "why", why, "bytes", look->bytes, "changed",
				   summary_time_json(look->changed)));
		return;
	}
	say_heading(&report->list, "ACTION  WHY            SIZE  CHANGED           SESSION");
	printf("%-6s  %-11s %7s  %-16s  ", action, why, units_show_size(look->bytes, size),
	       units_show_time(look->changed, changed));
	say_name(name, "\n");
	report->sessions += goes;
	report->bytes += goes ? look->bytes : 0;
}

void gc_report_trashed(struct gc_report *report, const struct trash_item *item, const char *action)
{
	char removed[UNITS_TEXT], until[UNITS_TEXT];
	const char *name = item->name.data;
	WITH_PROGRESS_HELD;

	if (report->list.json) {
		say_item(&report->list,
			 json_pack("{so ss so so}", "name", say_json_name(name, item->name.size),
				   "action", action, "removed", summary_time_json(item->removed),
				   "until", summary_time_json(item->until)));
		return;
	}
	units_show_time(item->removed, removed);
	units_show_time(item->until, until);
	if (report->trash)
		say_heading(&report->list, "STATE   REMOVED           UNTIL             PATH");
	if (report->trash && say_has_heading(&report->list))
		printf("%-6s  %-16s  %-16s  ", action, removed, until);
	else
		printf("%-6s  removed %s  until %s  ", action, removed, until);
	say_name(name, "\n");
	report->sessions += item->until != 0;
}

void gc_report_sum(const struct gc_report *report)
{
	const char *s = plural_s(report->sessions);
	char size[UNITS_TEXT];

	if (!say_has_heading(&report->list))
		return;
	if (report->trash)
		printf("%42s  total: %" PRIu64 " path%s can be restored\n", "", report->sessions,
		       s);
	else
		printf("%27s  %-16s  total: %" PRIu64 " session%s %sremoved\n",
		       units_show_size(report->bytes, size), "", report->sessions, s,
		       report->dry_run ? "would be " : "");
}

/* Deciding. */

static int compare_age(const void *a, const void *b)
{
	const struct found *left = a, *right = b;
	int64_t difference = (left->look.changed < right->look.changed) -
			     (left->look.changed > right->look.changed);

	return difference ? (int)difference : strcmp(left->name, right->name);
}

/* rank: how many were changed later. */
static const char *why_asked(const struct gc *gc, const struct found *found, size_t rank)
{
	const char *why = NULL;

	if (gc->pattern && fnmatch(gc->pattern, found->name, 0) != 0)
		return NULL;
	if (gc->keep_last >= 0) {
		if (rank < (size_t)gc->keep_last)
			return NULL;
		why = "keep-last";
	}
	if (gc->larger >= 0) {
		if (found->look.bytes <= (uint64_t)gc->larger)
			return NULL;
		why = "larger-than";
	}
	if (found->look.changed > found->since)
		return NULL;
	return gc->older >= 0 ? "older-than" : why ? why : gc->pattern ? "name" : NULL;
}

static void gc_judge(struct gc *gc)
{
	if (gc->n_found)
		qsort(gc->found, gc->n_found, sizeof(*gc->found), compare_age);
	for (size_t i = 0; i < gc->n_found; i++) {
		struct found *found = &gc->found[i];
		const struct session_look *look = &found->look;
		const int64_t ttl = look->has_ttl ? look->ttl : gc->ttl;

		if (look->has_ttl && !ttl)
			continue;
		found->since = gc->now - ttl;
		if (ttl && look->changed <= found->since) {
			found->why = "ttl";
			continue;
		}
		found->since = gc->now - (gc->older >= 0 ? gc->older : QUIET);
		found->why = why_asked(gc, found, i);
	}
}

/* Giving orders. */

static void remove_session(struct gc *gc, const struct found *found)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	int r = gc_give(gc, &text,
			order_trash(&text, bytes_str(found->name), found->since, gc->grace));

	if (r == 0)
		report_session(&gc->report, found->name, &found->look, "remove", found->why);
	else if (r == -EBUSY)
		report_session(&gc->report, found->name, &found->look, "keep", "in use");
	else if (r == -ECANCELED)
		report_session(&gc->report, found->name, &found->look, "keep", "has changed");
	else if (r == -ENOSPC && gc->grace)
		gc_say_wrong(gc, found->name,
			     "there is no space left to keep it; --grace=0 removes it at once");
	else if (r != -ENOENT) /* another process has removed it meanwhile */
		gc_say_failed(gc, found->name, r);
	progress_add(&gc->progress, 1, found->look.bytes);
}

static int collect(struct gc *gc)
{
	uint64_t count = 0, bytes = 0;
	int r = read_all(gc);

	if (r < 0)
		return r;
	gc_judge(gc);
	for (size_t i = 0; i < gc->n_found; i++) {
		count += gc->found[i].why != NULL;
		bytes += gc->found[i].why ? gc->found[i].look.bytes : 0;
	}
	progress_begin(&gc->progress, "gc", "session");
	progress_set_total(&gc->progress, count, bytes);
	/* The oldest first. */
	for (size_t i = gc->n_found; i-- > 0 && !stop_wanted();)
		if (gc->found[i].why)
			remove_session(gc, &gc->found[i]);
	progress_end(&gc->progress);
	gc_report_sum(&gc->report);
	return gc_purge_overdue(gc);
}

static int work(struct gc *gc, char **operands)
{
	bool reads = gc->report.dry_run || gc->report.trash;
	struct settings settings;
	int r = store_open(operands[0], reads ? 0 : ACCESS_WRITE, &gc->options, &gc->access);

	if (r == 0)
		r = store_open_backend(operands[0], &gc->options, &settings, &gc->backend);
	if (r < 0)
		return CMD_FAILED;
	gc->ttl = setting_time(&settings, SETTING_TTL);
	gc->layout = settings.value[SETTING_LAYOUT];
	if (gc->grace < 0)
		gc->grace = setting_time(&settings, SETTING_GRACE);
	gc->store = operands[0];
	r = gc->report.trash ? gc_list(gc) : gc->undo ? gc_undo(gc, operands + 1) : collect(gc);
	if (r < 0 && r != -EINTR)
		log_error("%s cannot be read: %s", operands[0], strerror(-r));
	say_list_end(&gc->report.list);
	return r < 0 || gc->failed ? CMD_FAILED : CMD_DONE;
}

/* An option that chooses what is removed does not go with those that remove nothing; a dry run goes
 * with --undo, which does something. */
static int judge_options(const struct gc *gc)
{
	const struct {
		bool given;
		const char *name;
	} chooses[] = {
		{ gc->older >= 0, "older-than" },
		{ gc->larger >= 0, "larger-than" },
		{ gc->keep_last >= 0, "keep-last" },
		{ gc->pattern, "name" },
		{ gc->grace >= 0, "grace" },
		{ gc->report.trash && gc->undo, "undo" },
		{ gc->report.trash && gc->report.dry_run, "dry-run" },
	};

	for (size_t i = 0; (gc->report.trash || gc->undo) && i < ARRAY_SIZE(chooses); i++)
		if (chooses[i].given)
			return cmd_misused(&cmd_gc, "--%s does not go with --%s", chooses[i].name,
					   gc->report.trash ? "list" : "undo");
	return CMD_DONE;
}

static int run_gc(void *values, char **operands)
{
	struct gc *gc = values;
	int status;

	if (judge_options(gc) != CMD_DONE)
		return CMD_USAGE;
	if (operands[1] && !gc->undo)
		return cmd_misused(&cmd_gc, "gc takes a store; paths are for --undo");
	gc->now = time_now();
	status = work(gc, operands);
	gc_done(gc);
	return status;
}

const struct command cmd_gc = {
	.name = "gc",
	.arguments = "[OPTIONS] STORE | --undo STORE [PATH|SESSION...]",
	.summary = "remove old sessions, and restore them",
	.help = "Removes sessions that match all given options, and sessions that have not "
		"changed for longer than their ttl, which is the attribute " TRASH_TTL " of "
		"their directory or the setting of the store ('sessfs config'); without options "
		"only the latter.  Sessions that are in use stay and, without --older-than, those "
		"that changed in the last ten minutes.  A session with the ttl 'never' is not "
		"removed.  Prints what is removed.",
	.more = "Until their grace period ends, removed sessions can be restored, and use as much "
		"space as before.  Files and directories that were removed through a mount or by "
		"'sessfs rm' can be restored as well, for as long as the setting trash says; a "
		"directory comes back with what was removed from it since it was made.  The store "
		"may be mounted.",
	.failed = "something could not be removed or restored",
	CMD_OPTIONS(gc_options),
	.least = 1,
	.operands = "takes a store",
	.size = sizeof(struct gc),
	.defaults = &(const struct gc){ .older = -1, .larger = -1, .keep_last = -1, .grace = -1 },
	.run = run_gc,
};
