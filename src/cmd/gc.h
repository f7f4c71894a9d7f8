/* SPDX-License-Identifier: MIT */
#ifndef SRC_CMD_GC_H
#define SRC_CMD_GC_H

/* What gc.c, which removes sessions, and gc-trash.c, about what was removed, share. */

#include "fs/api/trash.h"
#include "src/user/progress.h"
#include "src/cmd/cmd.h"
#include "src/user/say.h"

struct found {
	char *name; /* the path of its home (fs/api/trash.h) */
	struct backend_node node;
	struct session_look look;
	const char *why; /* it goes; NULL: it stays */
	int64_t since;
};

struct item {
	struct trash_item trashed;
	char *name, *session; /* of it; or NULL */
	bool undone;	      /* or it is not wanted */
};

/* What is printed of each session that is removed, kept, or brought back, and their sums. */
struct gc_report {
	struct say_list list;
	bool dry_run;
	bool trash; /* only what is in the trash is listed */
	uint64_t sessions, bytes;
};

struct gc {
	struct options options;
	bool undo;
	int64_t older;	/* nanoseconds; -1: any, likewise */
	int64_t larger; /* bytes */
	int64_t keep_last;
	const char *pattern;
	int64_t grace;
	int64_t ttl; /* the store's, in nanoseconds; 0: none */
	uint64_t layout;

	const char *store;
	int64_t now;
	struct access *access;
	struct backend *backend;
	struct found *found;
	size_t n_found, found_room;
	struct item *items;
	size_t n_items, items_room;
	struct gc_report report;
	struct progress progress;
	bool failed;
};

/* Tells that something could not be done with a path. */
void gc_say_failed(struct gc *gc, const char *name, int error);
void gc_say_wrong(struct gc *gc, const char *name, const char *sentence);
/* Gives an order, which was put into words if made is 0; a dry run gives none. */
int gc_give(struct gc *gc, const struct buf *order, int made);
/* What is past its time goes for good. */
int gc_purge_overdue(struct gc *gc);
/* What is named comes back, or all that can. */
int gc_undo(struct gc *gc, char **names);
int gc_list(struct gc *gc);
void gc_forget_items(struct gc *gc);

/* The name ends with a NUL. */
void gc_report_trashed(struct gc_report *report, const struct trash_item *item, const char *action);
void gc_report_sum(const struct gc_report *report);

#endif
