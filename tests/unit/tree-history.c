/* SPDX-License-Identifier: MIT */

/* A history that is thinned: what stays of it, what it shows then, and how large it becomes. */

#include <inttypes.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "backend/base/moment.h"
#include "backend/sqlite/store/store.h"
#include "fs/api/history.h"
#include "fs/upkeep/upkeep.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

static const int64_t second = 1000000000;

enum {
	DAY = 86400,
	MEGABYTE = 1000000,
	DOCUMENT = 400000, /* bytes that each kept row says that it has */
};

/* A time two days ago. */
static int64_t start;

static void begin(void)
{
	world_options.history = 7 * DAY * second;
	world_options.history_size = UINT64_C(1) << 40;
	world_open(WORLD_SQLITE);
	make_dir("s");
	start = (time_now() / second - 2 * DAY) * second;
}

/* A document that says how many seconds have passed, saved in each of them: as it would be kept. */
static void play_second(int number, uint64_t bytes)
{
	char sql[400];

	snprintf(sql, sizeof(sql),
		 "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
		 "last_index, bytes, created_at, state_data) VALUES ('s', 'd', %" PRId64
		 ", 0, 0, 0, %" PRIu64 ", '2001-01-01 00:00:00', '%d')",
		 start + number * second, bytes, number - 1);
	sql_runs(sql);
}

static uint64_t kept(void)
{
	return strtoull(sql_asks("SELECT coalesce(sum(bytes), 0) FROM sessfs_past"), NULL, 10);
}

/* What the document said at a second. */
static int seen_at(int number)
{
	char path[100];
	const int64_t time = start / second + number;
	time_t whole = (time_t)time;
	struct tm utc;

	gmtime_r(&whole, &utc);
	strftime(path, sizeof(path), "s/@at=%Y-%m-%dT%H:%M:%SZ/d.json", &utc);
	return atoi(content_of(path));
}

static void play(int seconds)
{
	uint64_t most = 0;

	save("s/d.json", "0");
	sql_runs("UPDATE agentscope_sessions SET created_at = '2001-01-01 00:00:00'");
	world_settle();
	sql_runs("DELETE FROM sessfs_past");
	for (int number = 1; number <= seconds; number++) {
		if (number % 60 == 1)
			sql_runs("BEGIN");
		play_second(number, DOCUMENT);
		if (number % 60)
			continue;
		sql_runs("COMMIT");
		most = MAX(most, kept());
		cr_assert_eq(history_thin(world_tree, start + number * second, number % 3600 == 0),
			     0);
	}
	cr_assert_lt(most, 150 * (uint64_t)MEGABYTE, "%" PRIu64 " bytes", most);
}

Test(history, of_a_document_that_is_saved_each_second_stays_small, .init = begin)
{
	const int seconds = rounds("SESSFS_HISTORY_SECONDS", 2 * 3600, DAY + 3600);
	int before = 0;

	play(seconds);
	/* Each is a state that was there, not older than a part of that age. */
	for (int number = 60; number < seconds; number += seconds / 60) {
		const int age = seconds - number;
		const int part = age < 60 ? 1 : age < 3600 ? 60 : age < DAY ? 600 : 3600;
		const int seen = seen_at(number);

		cr_assert(seen <= number && seen >= number - 2 * part,
			  "at %d of %d it said %d, and a part has %d", number, seconds, seen, part);
		cr_assert_geq(seen, before);
		before = seen;
	}
	world_check();
	world_close();
}

static void begin_small(void)
{
	begin();
	world_options.history_size = 50 * MEGABYTE;
	world_reopen();
}

Test(history, has_the_size_that_is_set, .init = begin_small)
{
	save("s/d.json", "0");
	sql_runs("DELETE FROM sessfs_past");
	for (int number = 1; number <= 50; number++)
		play_second(number * 3600 % (2 * DAY), 10 * (uint64_t)MEGABYTE);
	cr_assert_eq(history_thin(world_tree, time_now(), true), 0);
	cr_assert_leq(kept(), 50 * MEGABYTE);
	cr_assert_gt(kept(), 20 * MEGABYTE);
	world_close();
}

Test(history, ends_when_its_time_is_over, .init = begin)
{
	save("s/d.json", "0");
	sql_runs("DELETE FROM sessfs_past");
	for (int number = 1; number <= 50; number++)
		play_second(number, 10);
	cr_assert_eq(history_thin(world_tree, start + 8 * DAY * second, true), 0);
	cr_assert_eq(kept(), 0);
	world_close();
}

static const struct backend_ops *under;
static int most_changes;

static int commit_counted(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	sqlite3 *db = ((struct sqlite *)backend)->writer.db;
	const int before = sqlite3_total_changes(db);
	const int r = under->commit(backend, batch, flags);

	most_changes = MAX(most_changes, sqlite3_total_changes(db) - before);
	return r;
}

/* Of a list of a hundred lines that is saved seven times a second, all other. */
Test(history, is_thinned_in_commits_that_hold_up_nobody, .init = begin)
{
	enum { LINES = 100, SAVES = 400, BOUND = 10000 };
	struct backend_ops ops = *world_tree->backend->ops;
	char sql[600];

	save("s/d.json", "0");
	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
		 "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
		 "last_index, bytes, created_at, state_data) SELECT 's', 'd', %" PRId64
		 " + i / %d * 140000000, 0, i %% %d, i %% %d, 1, '2001-01-01 00:00:00', i / %d "
		 "FROM n",
		 LINES * SAVES - 1, start / 60 / second * 60 * second, LINES, LINES, LINES, LINES);
	sql_runs("DELETE FROM sessfs_past");
	sql_runs(sql);
	under = world_tree->backend->ops;
	ops.commit = commit_counted;
	world_tree->backend->ops = &ops;
	cr_assert_eq(history_thin(world_tree, time_now(), true), 0);
	world_tree->backend->ops = under;
	cr_assert_str_eq(sql_asks("SELECT count(*) || ' ' || sum(state_data) FROM sessfs_past "
				  "WHERE what = 0"),
			 "100 0");
	cr_assert_gt(most_changes, 100);
	cr_assert_lt(most_changes, BOUND, "%d", most_changes);
	/* What has no time any more goes in the same way. */
	sql_runs("DELETE FROM sessfs_past");
	sql_runs(sql);
	most_changes = 0;
	world_tree->backend->ops = &ops;
	cr_assert_eq(history_thin(world_tree, start + 8 * DAY * second, true), 0);
	world_tree->backend->ops = under;
	cr_assert_eq(kept(), 0);
	cr_assert_gt(most_changes, 100);
	cr_assert_lt(most_changes, BOUND, "%d", most_changes);
	world_close();
}

static const struct history_fork whole = { .session = BYTES("s"),
					   .to = BYTES("new"),
					   .time = INT64_MAX,
					   .first = INT64_MIN,
					   .last = INT64_MAX };

Test(history, of_a_session_is_the_beginning_of_another, .init = begin)
{
	uint64_t rows = 0;

	append("s/l.jsonl", "1\n2\n3\n");
	make_dir("s/deep");
	save("s/deep/d.json", "[1]");
	save("s/note.txt", "text");
	cr_assert_eq(tree_fork(world_tree, &whole, &rows), 0);
	cr_assert_eq(rows, 4);
	cr_assert_str_eq(content_of("new/l.jsonl"), "1\n2\n3\n");
	cr_assert_str_eq(content_of("new/deep/d.json"), "[1]");
	cr_assert_str_eq(content_of("new/note.txt"), "text");
	append("new/l.jsonl", "4\n");
	cr_assert_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
	cr_assert_eq(tree_fork(world_tree, &whole, &rows), -EEXIST);
	world_check();
	world_close();
}

/* What a commit is allowed to write before the room is looked at again is without it, since nobody
 * has counted it. */
Test(history, of_a_change_makes_it_look_for_room, .init = begin)
{
	const struct rlimit limit = { .rlim_cur = 4 << 20, .rlim_max = RLIM_INFINITY };
	struct sqlite *store = (struct sqlite *)world_store;

	append("s/l.jsonl", "1\n2\n");
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	store->room.allowance = 1 << 20;
	store->room.nearly_full = false;
	append("s/l.jsonl", "3\n");
	cr_assert(!store->room.nearly_full, "an append takes nothing away");
	save("s/l.jsonl", "4\n");
	cr_assert(store->room.nearly_full);
	world_close();
}
