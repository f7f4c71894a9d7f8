/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/api/trash.h"
#include "fs/api/text.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/plural.h"
#include "src/user/say.h"
#include "src/cmd/summary.h"
#include "src/user/units.h"
#include "src/cmd/cmd.h"

struct row {
	char *name; /* as the mount shows the id: a path, with a layout */
	char *id;
	size_t id_size;
	char *ttl;   /* its own, as somebody wrote it; NULL without one */
	char *title; /* NULL: there is none, or it is not wanted */
	struct backend_session_stat stat;
};

/* By a number of 64 bits. */
struct row_order {
	const char *name;
	size_t place; /* of it */
	bool falls;   /* the largest first */
};

struct sessions {
	struct options options;
	bool titles;
	const struct row_order *order; /* NULL: as they come, by id */
	int64_t older;		       /* nanoseconds; -1: any */
	int64_t newer;
	int64_t larger; /* bytes */
	const char *pattern;
	int64_t now;
	struct row *rows; /* to be sorted */
	size_t count;
	size_t room;
	struct say_list list;
	uint64_t shown; /* how many, and what they sum up to */
	struct backend_session_stat sum;
	struct summary_questions questions;
};

static int take_order(void *field, const char *value, char **ret_why)
{
	static const struct row_order orders[] = {
		{ "age", offsetof(struct row, stat.updated), false },
		{ "size", offsetof(struct row, stat.bytes), true },
		{ "items", offsetof(struct row, stat.items), true },
	};

	(void)ret_why;
	*(const struct row_order **)field = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		if (strcmp(orders[i].name, value) == 0)
			*(const struct row_order **)field = &orders[i];
	return *(const struct row_order **)field || strcmp(value, "id") == 0 ? 0 : -EINVAL;
}

static const struct cmd_option sessions_options[] = {
	CMD_JSON(struct sessions, list.json),
	CMD_YES(struct sessions, titles, "titles", 't',
		"also print the first words that a person wrote; reads each session"),
	{ "sort", 0, "id|age|size|items", take_order, offsetof(struct sessions, order),
	  "by id, longest unchanged first, or largest first" },
	{ "older-than", 0, "AGE", cmd_take_age, offsetof(struct sessions, older),
	  "not changed for this long: 30m, 12h, 7d, 2w, 1y" },
	{ "newer-than", 0, "AGE", cmd_take_age, offsetof(struct sessions, newer),
	  "changed in this time" },
	{ "larger-than", 0, "SIZE", cmd_take_size, offsetof(struct sessions, larger),
	  "more bytes than this: 500, 100K, 20M, 1G" },
	{ "name", 0, "GLOB", cmd_take_text, offsetof(struct sessions, pattern),
	  "whose name matches a shell pattern" },
	CMD_TABLE,
};

static bool is_wanted(const struct sessions *sessions, const struct row *row)
{
	const struct backend_session_stat *stat = &row->stat;
	int64_t age = stat->updated ? sessions->now - stat->updated : 0;

	if (sessions->older >= 0 && (!stat->updated || age <= sessions->older))
		return false;
	if (sessions->newer >= 0 && (!stat->updated || age > sessions->newer))
		return false;
	if (sessions->larger >= 0 && stat->bytes <= (uint64_t)sessions->larger)
		return false;
	return !sessions->pattern || fnmatch(sessions->pattern, row->name, 0) == 0;
}

static json_t *row_json(const struct row *row, bool titles)
{
	json_t *value = json_pack("{so so}", "name", say_json_name(row->name, strlen(row->name)),
				  "id", say_json_name(row->id, row->id_size));

	summary_add_json(value, &row->stat);
	json_object_set_new(value, "ttl",
			    row->ttl ? say_json_name(row->ttl, strlen(row->ttl)) : json_null());
	if (titles)
		json_object_set_new(value, "title",
				    row->title ? json_string(row->title) : json_null());
	return value;
}

static void print_stat(const struct backend_session_stat *stat)
{
	char size[UNITS_TEXT], changed[UNITS_TEXT];

	printf("%6" PRIu64 " %9" PRIu64 " %7s  %-16s  ", stat->keys, stat->items,
	       units_show_size(stat->bytes, size), units_show_time(stat->updated, changed));
}

static void print_row(struct sessions *sessions, const struct row *row)
{
	const struct backend_session_stat *stat = &row->stat;
	WITH_PROGRESS_HELD;

	if (sessions->list.json) {
		say_item(&sessions->list, row_json(row, sessions->titles));
		return;
	}
	say_heading(&sessions->list, "  KEYS     ITEMS    SIZE  CHANGED           SESSION");
	print_stat(stat);
	sessions->shown++;
	summary_add(&sessions->sum, stat);
	say_name(row->name, row->title ? "" : "\n");
	if (row->title)
		printf("  \"%s\"\n", row->title);
}

static void row_done(struct row *row)
{
	free(row->name);
	free(row->id);
	free(row->ttl);
	free(row->title);
}

/* What JSON and --titles show beside the sums. */
static int read_more(struct sessions *sessions, struct row *row)
{
	struct backend *backend = sessions->questions.backend;
	const uint64_t layout = sessions->questions.layout;
	const struct bytes id = bytes_make(row->id, row->id_size);
	_cleanup_(buf_done) struct buf ttl = { 0 }, title = { 0 };
	_cleanup_(store_look_done) struct store_look look = { 0 };
	int r, found = -ENODATA;

	if (!sessions->list.json && !sessions->titles)
		return 0;
	r = store_look(backend, BACKEND_LATEST, &look);
	if (r == 0 && sessions->list.json)
		found = session_ttl(backend, look.snapshot, layout, id, &ttl);
	if (r == 0 && sessions->titles)
		r = title_of(backend, look.snapshot, layout, id, &title);
	if (r < 0 || (found < 0 && found != -ENODATA))
		return r < 0 ? r : found;
	row->ttl = found == 0 ? bytes_dup(buf_bytes(&ttl)) : NULL;
	row->title = title.size ? bytes_dup(buf_bytes(&title)) : NULL;
	return (found == 0 && !row->ttl) || (title.size && !row->title) ? -ENOMEM : 0;
}

/* Takes the row over. */
static int add_row(struct sessions *sessions, struct row *row)
{
	if (!row->name || !row->id)
		return -ENOMEM;
	if (!is_wanted(sessions, row))
		return 0;
	if (!sessions->order) {
		print_row(sessions, row);
		return ferror(stdout);
	}
	if (ARRAY_ROOM(sessions->rows, sessions->count, sessions->room) < 0)
		return -ENOMEM;
	sessions->rows[sessions->count++] = *row;
	*row = (struct row){ 0 };
	return 0;
}

/* ---- Strands' folder in a store without a layout ---- */

/* The folder "session" is one session there, but each folder in it that has snapshots is one of its
 * client, and is listed by its path. */
struct folder {
	struct sessions *sessions;
	struct backend_snapshot *snapshot;
	struct buf name; /* of the one whose keys are read; empty: none */
	struct buf title;
	struct backend_session_stat stat;
	struct backend_session_stat rest; /* of what is in none of them */
	bool any;
};

static int folder_end(struct folder *folder)
{
	_cleanup_(row_done) struct row row = { .stat = folder->stat };
	const struct backend_session_stat *stat = &folder->stat;

	if (!folder->name.size)
		return 0;
	folder->any = true;
	folder->rest.keys -= stat->keys;
	folder->rest.items -= stat->items;
	folder->rest.bytes -= stat->bytes;
	row.name = str_printf("session/%.*s", (int)folder->name.size, folder->name.data);
	row.id = row.name ? bytes_dup(bytes_str(row.name)) : NULL;
	row.id_size = row.id ? strlen(row.id) : 0;
	if (folder->sessions->titles && folder->title.size)
		row.title = bytes_dup(buf_bytes(&folder->title));
	folder->stat = (struct backend_session_stat){ 0 };
	buf_clear(&folder->name);
	buf_clear(&folder->title);
	return add_row(folder->sessions, &row);
}

static int on_folder_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	const struct backend_session_stat stat = {
		.items = 1, .bytes = data.size, .created = times.created, .updated = times.updated
	};
	struct folder *folder = arg;

	(void)index;
	summary_add(&folder->stat, &stat);
	return folder->title.size ? 0 : text_title(data, TITLE_MOST, &folder->title);
}

static int on_folder_key(void *arg, struct bytes session, struct bytes key,
			 const struct backend_key_stat *stat)
{
	struct folder *folder = arg;
	const char *slash = memchr(key.data, '/', key.size);
	struct bytes name = bytes_make(key.data, slash ? (size_t)(slash - key.data) : 0);
	int r = 0;

	(void)stat;
	if (!slash ||
	    !bytes_starts_with(bytes_make(slash, key.size - name.size), BYTES("/scopes/")))
		return 0;
	if (!bytes_equal(name, buf_bytes(&folder->name))) {
		r = folder_end(folder);
		if (r == 0)
			r = buf_append_bytes(&folder->name, name);
	}
	folder->stat.keys++;
	return r != 0 ? r :
			backend_row_read_times(folder->sessions->questions.backend,
					       folder->snapshot, session, key, INT64_MIN, false,
					       UINT64_MAX, on_folder_row, folder);
}

/* 1: all of it was listed; *stat is what is left. */
static int list_folder(struct sessions *sessions, struct bytes session,
		       struct backend_session_stat *stat)
{
	struct backend *backend = sessions->questions.backend;
	_cleanup_(store_look_done) struct store_look look = { 0 };
	struct folder folder = { .sessions = sessions, .rest = *stat };
	int r = store_look(backend, BACKEND_LATEST, &look);

	folder.snapshot = look.snapshot;
	if (r == 0)
		r = backend_session_keys(backend, look.snapshot, session, (struct bytes){ 0 },
					 on_folder_key, &folder);
	if (r == 0)
		r = folder_end(&folder);
	buf_done(&folder.name);
	buf_done(&folder.title);
	*stat = folder.rest;
	return r != 0 ? r : folder.any && !stat->keys;
}

static int on_session(void *arg, struct bytes session, const struct backend_session_stat *given)
{
	struct sessions *sessions = arg;
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(row_done) struct row row = { .stat = *given };
	int r = summary_name(&sessions->questions, session, &name);

	if (r == 0 && bytes_starts_with(buf_bytes(&name), BYTES("%/"))) {
		r = summary_is_going(&sessions->questions, session);
		if (r > 0)
			return 0;
	}
	if (r == 0 && !sessions->questions.layout && bytes_equal(session, BYTES("session"))) {
		r = list_folder(sessions, session, &row.stat);
		if (r > 0)
			return 0;
	}
	if (r < 0)
		return r;
	row.name = bytes_dup(buf_bytes(&name));
	row.id = bytes_dup(session);
	row.id_size = session.size;
	if (row.name && row.id && is_wanted(sessions, &row))
		r = read_more(sessions, &row);
	return r < 0 ? r : add_row(sessions, &row);
}

/* Equal ones stay in the order of their ids. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct row_order *order = ((const struct sessions *)arg)->order;
	const int64_t one = *(const int64_t *)((const char *)a + order->place);
	const int64_t other = *(const int64_t *)((const char *)b + order->place);

	if (one != other)
		return (one > other) != order->falls ? 1 : -1;
	return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int run_sessions(void *values, char **operands)
{
	struct sessions *sessions = values;
	int r;

	sessions->now = (int64_t)time(NULL) * 1000000000;
	sessions->questions = (struct summary_questions){ .what = "sessions",
							  .session = on_session,
							  .arg = sessions };
	r = summary_all(operands[0], &sessions->options, &sessions->questions);
	if (r == 0 && sessions->count)
		qsort_r(sessions->rows, sessions->count, sizeof(struct row), compare, sessions);
	for (size_t i = 0; i < sessions->count; i++) {
		if (r == 0)
			print_row(sessions, &sessions->rows[i]);
		row_done(&sessions->rows[i]);
	}
	free(sessions->rows);
	if (r == 0 && say_has_heading(&sessions->list)) {
		print_stat(&sessions->sum);
		printf("total: %" PRIu64 " session%s\n", sessions->shown,
		       plural_s(sessions->shown));
	}
	if (r == 0)
		say_list_end(&sessions->list);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_sessions = {
	.name = "sessions",
	.arguments = "[OPTIONS] STORE",
	.summary = "list sessions and their sizes",
	.help = "Lists sessions, one a line: the number of keys and of items, the bytes of the "
		"items, the time of the last change, and the name.  Ordinary files are not "
		"counted.",
	.more = "Only sessions that match all given options are listed.  The store may be mounted.",
	.failed = "STORE cannot be read",
	CMD_OPTIONS(sessions_options),
	.least = 1,
	.most = 1,
	.operands = "takes a store",
	.size = sizeof(struct sessions),
	.defaults = &(const struct sessions){ .older = -1, .newer = -1, .larger = -1 },
	.run = run_sessions,
};
