/* SPDX-License-Identifier: MIT */
#ifndef GC_REPORT_H
#define GC_REPORT_H

/* What gc prints of each session that it removes, keeps, or brings back, and their sums. */

#include "fs/api/trash.h"
#include "src/user/say.h"

struct gc_report {
	struct say_list list;
	bool dry_run;
	bool trash; /* only what is in the trash is listed */
	uint64_t sessions, bytes;
};

/* action: "remove" or "keep". */
void gc_report_session(struct gc_report *report, const char *name, const struct session_look *look,
		       const char *action, const char *why);
/* The name ends with a NUL. */
void gc_report_trashed(struct gc_report *report, const struct trash_item *item, const char *action);
void gc_report_sum(const struct gc_report *report);

#endif
