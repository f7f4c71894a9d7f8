/* SPDX-License-Identifier: MIT */

/*
 * What is told of rows that another program inserts while those before them are taken in: each
 * once, whenever they come.
 */

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "fs/api/events.h"
#include "fs/share/share.h"
#include "tests/unit/world.h"

/* When another program comes. */
enum moment {
	NEVER,
	BEFORE_COMMIT,
	BEHIND_COMMIT, /* before the tree looks at the store again */
	BEHIND_LOOK,
};

static struct {
	struct backend_ops ops;
	const struct backend_ops *real;
	_Atomic enum moment moment;
	const char *sql;
} meddler;

/* Another mount, which commits when it is told to. */
static struct {
	struct tree *tree;
	struct backend *store;
	_Atomic bool commits;
	_Atomic bool is_next; /* behind the next commit */
	const char *then;     /* and then another program comes, or NULL */
} neighbour;

static void wait_for_neighbour(void)
{
	static const struct timespec step = { .tv_nsec = 1000000 };

	while (!neighbour.commits)
		nanosleep(&step, NULL);
}

static void neighbour_takes_in(void)
{
	neighbour.commits = true;
	cr_assert_eq(tree_reconcile(neighbour.tree), 0);
	/* What comes from now on it leaves to this mount. */
	neighbour.commits = !neighbour.then;
	if (neighbour.then)
		sql_runs(neighbour.then);
}

static void meddle(enum moment moment)
{
	if (atomic_compare_exchange_strong(&meddler.moment, &moment, NEVER))
		sql_runs(meddler.sql);
}

static _Thread_local bool committed;

/* Not what the tree writes by itself. */
static bool takes_changes_in(const struct backend_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		if (batch->ops[i].type == BACKEND_CHANGE_DONE)
			return true;
	return false;
}

static int meddled_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	int r;

	if (backend == neighbour.store)
		wait_for_neighbour();
	if (backend == neighbour.store || !takes_changes_in(batch))
		return meddler.real->commit(backend, batch, flags);
	meddle(BEFORE_COMMIT);
	r = meddler.real->commit(backend, batch, flags);
	if (meddler.moment == NEVER && atomic_exchange(&neighbour.is_next, false))
		neighbour_takes_in();
	meddle(BEHIND_COMMIT);
	committed = true;
	return r;
}

static int meddled_begin(struct backend *backend, unsigned flags,
			 struct backend_snapshot **ret_snapshot)
{
	int r = meddler.real->snapshot_begin(backend, flags, ret_snapshot);

	if (committed)
		meddle(BEHIND_LOOK);
	committed = false;
	return r;
}

/* All that is taken in is committed. */
static bool no_change_stays(struct backend *backend, int64_t stamp)
{
	(void)backend, (void)stamp;
	return false;
}

static int meddle_with(struct backend *inner, struct backend **ret_backend)
{
	*ret_backend = inner;
	inner->changes.change_seen = no_change_stays;
	if (inner->ops == &meddler.ops)
		return 0;
	meddler.real = inner->ops;
	meddler.ops = *inner->ops;
	meddler.ops.commit = meddled_commit;
	meddler.ops.snapshot_begin = meddled_begin;
	inner->ops = &meddler.ops;
	return 0;
}

static void begin(void)
{
	world_wrap(meddle_with);
}

TestSuite(told, .init = begin);

#define ROW(index, data)                                                                           \
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "  \
	"('s', 'l', " #index ", '" data "')"

/* Others change something, that is taken in, and in the middle of that they change more. */
static void change(const char *sql, enum moment moment, const char *more)
{
	meddler.sql = more;
	committed = false;
	meddler.moment = moment;
	sql_runs(sql);
	/* Or the tree's own thread does, which may be quicker. */
	cr_assert_eq(tree_reconcile(world_tree), 0);
	cr_assert_eq(meddler.moment, NEVER, "they have come");
	cr_assert_eq(tree_reconcile(world_tree), 0);
}

/* A line from its member "what" on. */
#define LINE(what, numbers) "\"what\":\"" what "\"," numbers ",\"by\":\"sql\"}\n"
#define APPEND(first, count, items, size)                                                          \
	LINE("append",                                                                             \
	     "\"first\":" #first ",\"count\":" #count ",\"items\":" #items ",\"size\":" #size)
#define SAVE(items, size)                                                                          \
	LINE("save", "\"first\":null,\"count\":null,\"items\":" #items ",\"size\":" #size)

/* All that is told of what others have done by now: until a directory of ours that comes last. */
static const char *told(struct handle *stream)
{
	static const struct timespec step = { .tv_nsec = 1000000 };
	static char text[4096];
	_cleanup_(buf_done) struct buf lines = { 0 };
	char *to = text;

	make_dir("s/end");
	while (!lines.size || !strstr(lines.data, "s/end")) {
		nanosleep(&step, NULL);
		cr_assert_eq(stream_read(stream, 1 << 16, &lines), 0);
		cr_assert_eq(buf_append(&lines, "", 1), 0);
		lines.size--;
	}
	for (const char *at = lines.data, *end; (end = strchr(at, '\n')); at = end + 1) {
		const char *line = strstr(at, "\"what\"");

		if (!line || line > end || memmem(at, end - at, "s/end", 5))
			continue;
		to = mempcpy(to, line, end + 1 - line);
	}
	*to = '\0';
	return text;
}

static struct handle *follow(void)
{
	return open_at("s/@as=events.jsonl", O_RDONLY);
}

/* A list with an item. */
static struct handle *follow_one(void)
{
	append("s/l.jsonl", "[0]\n");
	return follow();
}

/* One without, of which nothing is known. */
static struct handle *follow_none(void)
{
	append("s/l.jsonl", "");
	world_reopen();
	return follow();
}

static void expect_told(struct handle *stream, const char *sql, enum moment moment,
			const char *more, const char *expected)
{
	change(sql, moment, more);
	cr_expect_str_eq(told(stream), expected);
	close_handle(stream);
}

#define CASE(name, begin_, sql, moment, more, expected)                                            \
	SqliteStore(told, name)                                                                    \
	{                                                                                          \
		expect_told(begin_(), sql, moment, more, expected);                                \
	}
#define TWO_ROWS "BEGIN;" ROW(0, "[0]") ";" ROW(1, "[1]") ";COMMIT"
#define REPLACE "UPDATE agentscope_sessions SET state_data = '[10]'"

/* Rows that are there before the change is taken in are told with it, later ones by themselves. */
CASE(a_row_before_the_commit, follow_one, ROW(1, "[1]"), BEFORE_COMMIT, ROW(2, "[2]"),
     APPEND(1, 2, 3, 12))
CASE(a_row_behind_the_commit, follow_one, ROW(1, "[1]"), BEHIND_COMMIT, ROW(2, "[2]"),
     APPEND(1, 1, 2, null) APPEND(2, 1, 3, 12))
CASE(a_row_behind_the_next_look, follow_one, ROW(1, "[1]"), BEHIND_LOOK, ROW(2, "[2]"),
     APPEND(1, 1, 2, 8) APPEND(2, 1, 3, 12))
CASE(first_rows_before_the_commit, follow_none, ROW(0, "[0]"), BEFORE_COMMIT, ROW(1, "[1]"),
     APPEND(0, 2, 2, 8))
CASE(first_rows_behind_the_commit, follow_none, ROW(0, "[0]"), BEHIND_COMMIT, ROW(1, "[1]"),
     APPEND(0, 1, 1, null) APPEND(1, 1, 2, 8))
/* What is told of a file that another program makes is not how many rows it has if these are told
 * once more. */
CASE(rows_of_a_new_key_before_the_commit, follow, TWO_ROWS, BEFORE_COMMIT, ROW(2, "[2]"),
     SAVE(null, null) APPEND(0, 3, 3, 12))
CASE(rows_of_a_new_key_behind_the_commit, follow, TWO_ROWS, BEHIND_COMMIT, ROW(2, "[2]"),
     SAVE(2, null) APPEND(2, 1, 3, 12))
CASE(rows_that_are_replaced_before_the_commit, follow_one, REPLACE, BEFORE_COMMIT, ROW(1, "[1]"),
     SAVE(1, null) SAVE(2, 9))
CASE(rows_that_are_replaced_behind_the_commit, follow_one, REPLACE, BEHIND_COMMIT, ROW(1, "[1]"),
     SAVE(1, null) APPEND(1, 1, 2, 9))

/* A reader in the middle of a list goes on with rows that others add, also when they are read
 * before they are taken in. */
static void expect_read_on(enum moment moment)
{
	_cleanup_(buf_done) struct buf lines = { 0 };
	struct handle *handle;

	append("s/l.jsonl", "[0]\n[1]\n");
	world_reopen();
	handle = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_eq(handle_read(world_tree, handle, 0, 4, &lines), 0);
	change(ROW(2, "[2]"), moment, ROW(3, "[3]"));
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 16);
	cr_assert_eq(handle_read(world_tree, handle, 4, 100, &lines), 0);
	cr_expect(bytes_equal(buf_bytes(&lines), BYTES("[0]\n[1]\n[2]\n[3]\n")), "%.*s",
		  (int)lines.size, lines.data);
	close_handle(handle);
}

SqliteStore(told, a_reader_goes_on_with_rows_from_before_the_commit)
{
	expect_read_on(BEFORE_COMMIT);
}

SqliteStore(told, a_reader_goes_on_with_rows_from_behind_the_commit)
{
	expect_read_on(BEHIND_COMMIT);
}

SqliteStore(told, a_reader_goes_on_with_rows_from_behind_the_next_look)
{
	expect_read_on(BEHIND_LOOK);
}

/* ... and what another mount has taken in meanwhile is told as that says. */
static void expect_told_by_neighbour(struct handle *begin_(void), const char *sql, const char *more,
				     const char *then, const char *expected)
{
	struct handle *stream;

	world_shared = true;
	world_open(WORLD_SQLITE);
	make_dir("s");
	stream = begin_();
	neighbour.commits = true;
	neighbour.store = world_join();
	cr_assert_eq(tree_open(neighbour.store, &world_options, &neighbour.tree, NULL), 0);
	neighbour.commits = false;
	neighbour.is_next = true;
	neighbour.then = then;
	expect_told(stream, sql, BEFORE_COMMIT, more, expected);
	cr_expect(!neighbour.is_next, "it was in between");
	neighbour.commits = true;
	tree_close(neighbour.tree);
	world_close();
}

Test(told, rows_before_the_commit_that_another_mount_has_taken_in_behind_it)
{
	expect_told_by_neighbour(follow_one, ROW(1, "[1]"), ROW(2, "[2]"), NULL,
				 APPEND(1, 2, 3, null));
}

Test(told, rows_that_another_mount_has_taken_in_before_more_of_them_come)
{
	expect_told_by_neighbour(follow_one, ROW(1, "[1]"), ROW(2, "[2]"), ROW(3, "[3]"),
				 APPEND(1, 2, 3, null) APPEND(3, 1, 4, 16));
}

Test(told, rows_of_a_new_key_that_another_mount_has_taken_in_before_more_of_them_come)
{
	expect_told_by_neighbour(follow, TWO_ROWS, ROW(2, "[2]"), ROW(3, "[3]"),
				 SAVE(null, null) APPEND(0, 3, 3, null) APPEND(3, 1, 4, 16));
}

static void open_without_meddling(void)
{
	world_wrap(NULL);
	world_shared = true;
	world_open(WORLD_SQLITE);
	make_dir("s");
}

static void expect_seen(const char *sql, const char *path, const char *content)
{
	sql_runs(sql);
	cr_expect_str_eq(content_of(path), content);
}

/* What stays in the log is told once. */
Test(told, rows_whose_change_stays_in_the_log)
{
	struct handle *stream;

	open_without_meddling();
	stream = follow_one();
	expect_seen(ROW(1, "[1]"), "s/l.jsonl", "[0]\n[1]\n");
	expect_seen("BEGIN;" ROW(2, "[2]") ";" ROW(3, "[3]") ";COMMIT", "s/l.jsonl",
		    "[0]\n[1]\n[2]\n[3]\n");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "1");
	cr_expect_str_eq(told(stream), APPEND(1, 1, 2, 8) APPEND(2, 2, 4, 16));
	close_handle(stream);
	world_close();
}

/* ... also beside a mount that comes and settles it. */
Test(told, rows_whose_change_stays_in_the_log_until_another_mount_comes)
{
	struct handle *stream;
	const char *all;

	open_without_meddling();
	stream = follow_one();
	expect_seen(ROW(1, "[1]"), "s/l.jsonl", "[0]\n[1]\n");
	neighbour.store = world_join();
	cr_assert_eq(tree_open(neighbour.store, &world_options, &neighbour.tree, NULL), 0);
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "0");
	expect_seen(ROW(2, "[2]"), "s/l.jsonl", "[0]\n[1]\n[2]\n");
	all = told(stream);
	/* If the neighbour has taken it in, this tree has not seen the size. */
	cr_expect(strcmp(all, APPEND(1, 1, 2, 8) APPEND(2, 1, 3, 12)) == 0 ||
			  strcmp(all, APPEND(1, 1, 2, 8) APPEND(2, 1, 3, null)) == 0,
		  "%s", all);
	close_handle(stream);
	tree_close(neighbour.tree);
	world_close();
}
