/* SPDX-License-Identifier: MIT */

/*
 * A history in random order: on one and on two mounts of a store, lists and documents are appended
 * to, saved in each way, compacted, removed, forked, put back as they were and thinned, while days
 * pass.  At each moment each earlier one is seen as it was then, or, where the history is thinned,
 * as it was at one before within the same part of time (fs/upkeep/history.c).
 *
 * SESSFS_HISTORY_STEPS=N sets how many changes are made; a failure names the seed.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/moment.h"
#include "fs/api/history.h"
#include "fs/api/trash.h"
#include "fs/share/share.h"
#include "fs/upkeep/upkeep.h"
#include "tests/unit/clock.h"
#include "tests/unit/many.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"

enum { STEPS = 60, STEPS_SOAK = 200, STEPS_MOST = 1000, SESSIONS = 4, NAMES = 3, SAMPLES = 12 };
enum { FILES = SESSIONS * NAMES };

static const int64_t second = INT64_C(1000000000);
static const int64_t minute = 60 * INT64_C(1000000000);
static const int64_t hour = 3600 * INT64_C(1000000000);

static const char *const sessions[SESSIONS] = { "s", "one", "two", "three" };
static const char *const names[NAMES] = { "l.jsonl", "d.json", "below/l.jsonl" };

static uint64_t state;
static int mounts;
/* What there was behind each step. */
static char *content[STEPS_MOST][FILES]; /* NULL: no file */
static int64_t begun[STEPS_MOST];	 /* it happened between the two */
static int64_t done[STEPS_MOST];
static bool undone[STEPS_MOST][SESSIONS]; /* and perhaps that was undone */
static int step;
static unsigned number;
/* Undo has deleted its rows: a name that is not there shows none. */
static bool deleted[FILES];
static int removed[FILES];	  /* in which step, the last time; */
static int removed_before[FILES]; /* and before the session was */
static char doing[100];

static size_t below(size_t limit)
{
	return random_below(&state, limit);
}

static const char *path_of(int file)
{
	static char paths[8][64];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, 64, "%s/%s", sessions[file / NAMES], names[file % NAMES]);
	return path;
}

static bool is_list(int file)
{
	return file % NAMES != 1;
}

static void any_mount(void)
{
	many_use((int)below((size_t)mounts));
}

/* Text that stays, or NULL. */
static char *read_file(const char *path)
{
	int r = looked_up(path);

	cr_assert(r == 0 || r == -ENOENT, "%s: %s", path, strerror(-r));
	return r == 0 ? strdup(content_of(path)) : NULL;
}

static void pass(int64_t nanoseconds)
{
	clock_set_back -= (long)(nanoseconds / second);
}

static const char *line(void)
{
	static char lines[4][40];
	char *text = lines[number % 4];

	snprintf(text, 40, "{\"n\": %u}\n", number++);
	return text;
}

/* A text of some lines of another, and of new ones. */
static void rewrite(char *text, size_t size, const char *old)
{
	size_t at = 0;

	while (old && *old) {
		size_t length = strcspn(old, "\n") + 1;

		if (at + length + 80 > size || !below(8))
			break;
		if (below(4)) {
			memcpy(text + at, old, length);
			at += length;
		} else if (below(2)) {
			at += (size_t)sprintf(text + at, "%s", line());
		}
		old += length;
	}
	sprintf(text + at, "%s", line());
}

static bool session_is_there(int file)
{
	return looked_up(sessions[file / NAMES]) == 0;
}

static const char *dir_above(int file)
{
	static char dir[64];

	snprintf(dir, sizeof(dir), "%s/below", sessions[file / NAMES]);
	return dir;
}

/* ---- What is done ---- */

static void do_append(int file)
{
	if (is_list(file))
		append(path_of(file), line());
}

static void make_text(int file, char *text, size_t size)
{
	_cleanup_(freep) char *old = read_file(path_of(file));

	rewrite(text, size, is_list(file) ? old : NULL);
}

static void do_save(int file)
{
	char text[4000];

	make_text(file, text, sizeof(text));
	save(path_of(file), text);
}

static void do_save_by_rename(int file)
{
	char text[4000], temporary[80];

	snprintf(temporary, sizeof(temporary), "%s.tmp", path_of(file));
	make_text(file, text, sizeof(text));
	save(temporary, text);
	cr_assert_eq(renamed(temporary, path_of(file), 0), 0);
}

static void do_save_again(int file)
{
	char text[4000];

	make_text(file, text, sizeof(text));
	if (looked_up(path_of(file)) == 0)
		cr_assert_eq(unlinked(path_of(file)), 0);
	save(path_of(file), text);
}

static void do_remove(int file)
{
	if (looked_up(path_of(file)) < 0)
		return;
	cr_assert_eq(unlinked(path_of(file)), 0);
	removed[file] = step;
	many_settle();
}

static void do_compact(int file)
{
	const struct stat empty = { 0 };
	struct handle *handle;
	char path[100];

	if (!is_list(file) || looked_up(path_of(file)) < 0)
		return;
	snprintf(path, sizeof(path), "%s/@items=%zu-%zu/%s", sessions[file / NAMES], below(2),
		 2 + below(4), names[file % NAMES]);
	handle = open_at(path, O_RDWR);
	read_by(handle);
	cr_assert_eq(set_attr_by(handle, &empty, TREE_SET_SIZE), 0);
	write_at(handle, 0, bytes_str(line()));
	close_handle(handle);
}

/* As of a step's end. */
static const char *as_of(int at, const char *path)
{
	static char paths[4][140];
	static unsigned next;
	char *text = paths[next++ % 4];
	const time_t whole = (time_t)(done[at] / second);
	struct tm utc;
	size_t size;

	gmtime_r(&whole, &utc);
	size = strftime(text, 140, "@at=%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + size, 140 - size, ".%03dZ/%s", (int)(done[at] % second / 1000000), path);
	return text;
}

static void take_in(void)
{
	for (int i = 0; i < mounts; i++) {
		many_use(i);
		cr_assert_eq(world_tree->take_in(world_tree), 0);
		cr_assert_eq(tree_reconcile(world_tree), 0);
	}
}

static void do_fork(int file)
{
	const int at = step ? (int)below((size_t)step) : 0, to = file / NAMES;
	const bool now = !step || below(2);
	struct history_fork fork = {
		.session = BYTES("s"),
		.to = bytes_str(sessions[to]),
		.time = now ? INT64_MAX : done[at],
		.first = INT64_MIN,
		.last = INT64_MAX,
	};
	uint64_t rows;
	int r;

	if (session_is_there(file))
		return;
	r = tree_fork(world_tree, &fork, &rows);
	cr_assert_eq(r, 0, "%s", strerror(-r));
	for (int i = 0; i < NAMES; i++) {
		const char *from = path_of(i);
		_cleanup_(freep) char *is = read_file(path_of(to * NAMES + i));
		/* Names that were removed do not come along. */
		_cleanup_(freep) char *was = looked_up(from) < 0 || (!now && at < removed[i]) ?
						     NULL :
						     read_file(now ? from : as_of(at, from));

		cr_assert_eq(!is, !was, "%s of the fork as of step %d", from, now ? -1 : at);
		if (is)
			cr_assert_str_eq(is, was,
					 "%s of the fork as of step %d is\n%s, and was\n%s", from,
					 at, is, was);
	}
}

static int count_undone(void *arg, const struct history_undone *key)
{
	(void)key;
	++*(int *)arg;
	return 0;
}

static void put_back(int session, int64_t time)
{
	const struct backend_options options = { .rows_only = true };
	struct backend *backend;
	int keys = 0;
	int r = backend_open(world_path(), &options, &backend, NULL);

	cr_assert_eq(r, 0, "%s", strerror(-r));
	r = history_undo(backend, bytes_str(sessions[session]), (struct bytes){ 0 }, time, false,
			 count_undone, &keys);
	cr_assert(r == 0 || r == -ENODATA, "%s", strerror(-r));
	backend_close(backend);
	take_in();
}

static void keep_session(int session, int at, char *kept[NAMES])
{
	for (int i = 0; i < NAMES; i++) {
		const char *path = path_of(session * NAMES + i);

		/* What was removed does not come back. */
		kept[i] = at < 0 ? read_file(path) :
			  looked_up(path) == 0 && at >= removed[session * NAMES + i] ?
				   read_file(as_of(at, path)) :
				   NULL;
	}
}

static void free_session(char *kept[NAMES])
{
	for (int i = 0; i < NAMES; i++)
		free(kept[i]);
}

static void expect_session(int session, char *kept[NAMES], const char *when)
{
	for (int i = 0; i < NAMES; i++) {
		const char *path = path_of(session * NAMES + i);
		_cleanup_(freep) char *is = read_file(path);

		cr_assert_eq(!is, !kept[i], "%s %s: it is %s, and was %s", path, when,
			     is ? is : "not there", kept[i] ? kept[i] : "not there");
		if (is)
			cr_assert_str_eq(is, kept[i], "%s %s", path, when);
	}
	free_session(kept);
}

static void do_undo(int file)
{
	const int session = file / NAMES, at = step ? (int)below((size_t)step) : 0;
	char *then[NAMES], *before[NAMES];
	int64_t last = time_now();
	bool goes = false;

	if (!step || !session_is_there(file))
		return;
	many_settle();
	keep_session(session, at, then);
	keep_session(session, -1, before);
	/* What an undo takes wholly away goes as if SQL had deleted it. */
	for (int i = 0; i < NAMES; i++)
		goes |= before[i] && !then[i];
	if (goes) {
		free_session(then);
		free_session(before);
		return;
	}
	pass(second);
	undone[step][session] = true;
	put_back(session, done[at]);
	expect_session(session, then, "put back");
	if (below(2)) {
		pass(second);
		put_back(session, last);
		expect_session(session, before, "put back again");
	} else {
		free_session(before);
	}
}

static void do_thin(int file)
{
	(void)file;
	cr_assert_eq(history_thin(world_tree, time_now(), below(2)), 0);
	cr_assert_eq(history_thin_removed(world_tree, time_now()), 0);
}

static int find_session(void *arg, const struct trash_item *item)
{
	uint64_t *id = arg;

	if (!item->single && item->until && looked_up("three") == -ENOENT)
		*id = item->id;
	return 0;
}

/* One that was removed as a whole, and may come back. */
static void do_trash(int file)
{
	struct backend_snapshot *snapshot;
	uint64_t id = 0;

	if (file / NAMES != SESSIONS - 1)
		return;
	if (session_is_there(file)) {
		int r;

		/* What an undo has changed may still wait to be taken in. */
		world_inodes();
		r = tree_trash(world_tree, BYTES("three"), INT64_MAX, 1000 * hour);

		cr_assert_eq(r, 0, "%s", strerror(-r));
		for (int i = FILES - NAMES; i < FILES; i++) {
			removed_before[i] = removed[i];
			removed[i] = step;
		}
		return;
	}
	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(trash_list(world_store, snapshot, find_session, &id), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	if (!id)
		return;
	cr_assert_eq(tree_trash_undo(world_tree, id), 0);
	for (int i = FILES - NAMES; i < FILES; i++)
		removed[i] = removed_before[i];
}

static const struct {
	const char *name;
	void (*fn)(int file);
	bool needs_session;
} deeds[] = {
	{ "append", do_append, true },
	{ "append", do_append, true },
	{ "append", do_append, true },
	{ "save", do_save, true },
	{ "save", do_save, true },
	{ "save by rename", do_save_by_rename, true },
	{ "unlink and save", do_save_again, true },
	{ "remove", do_remove, true },
	{ "compact", do_compact, true },
	{ "compact", do_compact, true },
	{ "fork", do_fork, false },
	{ "undo", do_undo, true },
	{ "thin", do_thin, false },
	{ "trash", do_trash, false },
};

/* ---- What is seen ---- */

static int64_t part_of(int64_t time)
{
	const int64_t age = time_now() - time;

	return age < minute ? 1 : age < hour ? minute : age < 24 * hour ? 10 * minute : hour;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether the changes of two steps may count as one by now. */
static bool may_be_one(int a, int b)
{
	const int64_t part = MAX(part_of(begun[a]), part_of(begun[b]));

	return done[a] / part == done[b] / part || begun[a] / part == begun[b] / part ||
	       done[a] / part == begun[b] / part || begun[a] / part == done[b] / part;
}

static bool changed_at(int file, int at)
{
	return at &&
	       (undone[at][file / NAMES] || !same_text(content[at][file], content[at - 1][file]));
}

static void check_file(int file, int at)
{
	_cleanup_(freep) char *seen = read_file(as_of(at, path_of(file)));
	int next = at + 1, change = at;

	if (same_text(seen, content[at][file]))
		return;
	if (deleted[file] && !content[step - 1][file])
		return;
	while (next < step && !changed_at(file, next))
		next++;
	while (change && !changed_at(file, change))
		change--;
	for (int last = next; last < step && change > 0 && may_be_one(last, change);) {
		if (same_text(seen, content[change - 1][file]))
			return;
		last = change--;
		while (change && !changed_at(file, change))
			change--;
	}
	cr_assert_fail("after step %d (%s) %s of step %d, %" PRId64 " s old, is %s, and was %s",
		       step - 1, doing, path_of(file), at, (time_now() - done[at]) / second,
		       seen ? seen : "not there",
		       content[at][file] ? content[at][file] : "not there");
}

/* Each mount sees the same now, and then. */
static void look(bool all)
{
	take_in();
	for (int file = 0; file < FILES; file++)
		for (int i = 0; i < mounts; i++) {
			char *now;

			many_use(i);
			now = read_file(path_of(file));
			if (i)
				cr_assert(same_text(now, content[step][file]), "%s differs",
					  path_of(file));
			free(content[step][file]);
			content[step][file] = now;
		}
	for (int file = 0; file < FILES; file++) {
		if (content[step][file])
			deleted[file] = false;
		else if (step && content[step - 1][file] && strcmp(doing, "undo") == 0)
			deleted[file] = true;
	}
	done[step++] = time_now();
	pass(second);
	for (int i = 0; i < (all ? step : SAMPLES); i++) {
		any_mount();
		for (int file = 0; file < FILES; file++)
			check_file(file, all ? i : (int)below((size_t)step));
	}
}

static void let_pass(void)
{
	static const int64_t lengths[] = { 0, 0, 5, 20, 300, 4000, 40000 };

	pass(lengths[below(ARRAY_SIZE(lengths))] * second);
}

static void play(int count)
{
	const struct stat owner = { .st_uid = 1000, .st_gid = 1000 };
	const int steps = (int)rounds("SESSFS_HISTORY_STEPS", STEPS, STEPS_SOAK);

	state = random_seed("history-random") + (uint64_t)count;
	mounts = count;
	clock_set_back = 90 * 86400;
	world_options.history = 1000 * hour;
	world_options.history_size = UINT64_C(1) << 40;
	many_open(WORLD_SQLITE, count);
	/* Another user's file would not inherit a history. */
	cr_assert_eq(set_attr("", &owner, TREE_SET_UID | TREE_SET_GID), 0);
	cr_assert_eq(set_attr("s", &owner, TREE_SET_UID | TREE_SET_GID), 0);
	make_dir("s/below");
	strcpy(doing, "nothing");
	begun[0] = time_now();
	pass(second);
	look(false);
	while (step < steps) {
		const size_t deed = below(ARRAY_SIZE(deeds));
		const int file = (int)below(FILES);

		/* Where an undo leaves no rows, the session is gone, as where SQL deletes them. */
		if (looked_up("s") == -ENOENT)
			make_dir("s");
		any_mount();
		begun[step] = time_now();
		if (deeds[deed].needs_session && !session_is_there(file))
			continue;
		if (deeds[deed].needs_session && looked_up(dir_above(file)) == -ENOENT)
			make_dir(dir_above(file));
		snprintf(doing, sizeof(doing), "%s", deeds[deed].name);
		deeds[deed].fn(file);
		pass(second);
		look(step % 20 == 19 || step + 1 == steps);
		let_pass();
	}
	many_settle();
	clock_set_back = 0;
	many_close();
	for (int i = 0; i < step; i++)
		for (int file = 0; file < FILES; file++)
			free(content[i][file]);
}

Test(history_random, is_seen_at_each_moment_of_one_mount)
{
	play(1);
}

Test(history_random, is_seen_at_each_moment_of_two_mounts)
{
	play(2);
}
