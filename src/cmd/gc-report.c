/* SPDX-License-Identifier: MIT */
#include "src/cmd/gc-report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/plural.h"
#include "src/cmd/summary.h"
#include "src/user/progress.h"
#include "src/user/units.h"

void gc_report_session(struct gc_report *report, const char *name, const struct session_look *look,
		       const char *action, const char *why)
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
