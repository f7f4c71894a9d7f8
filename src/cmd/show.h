/* SPDX-License-Identifier: MIT */
#ifndef CMD_SHOW_H
#define CMD_SHOW_H

/* The content of files as text, through views (as=text). */

#include "src/cmd/cmd.h"
#include "src/user/terminal.h"

enum { SHOW_VERSION = 40 };

struct show_list {
	char *path;
	int64_t next;		    /* index that comes next, */
	char version[SHOW_VERSION]; /* and one that the list has had since then */
};

struct show_found {
	char *path;
	bool is_dir;
};

struct show {
	struct options options;
	bool all;
	bool html;
	bool follow;
	int64_t last; /* below 0: all */
	struct access *access;
	struct paint paint;
	const char *path;	  /* that is asked for, */
	struct show_found *found; /* and what that has led to; owned */
	size_t found_count, found_room;
	bool many;		 /* it may be of several files */
	bool any;		 /* something was shown, */
	char *shown;		 /* and what it was of last, owned; NULL: nothing */
	struct show_list *lists; /* those that were shown */
	size_t count, room;
};

/* Show a list from an index on, and remember how far. */
int show_list(struct show *show, const char *path, int64_t from);
/* What is known of one; NULL: it was not shown. */
struct show_list *show_known(const struct show *show, const char *path);
/* The version that a list has now; "": it has none. */
void show_version(const struct show *show, const char *path, char version[SHOW_VERSION]);
/* What else a file says. */
int show_file(struct show *show, const char *path);

/* What stands around elements of HTML. */
int show_html_begin(const struct show *show);
int show_html_file(const char *path);
void show_html_end(void);

/* Show what comes, until a signal ends it.  The stream of events was begun before anything was
 * shown. */
int show_follow_begin(struct show *show, struct access_file **ret_events);
int show_follow(struct show *show, struct access_file *events);

#endif
