/* SPDX-License-Identifier: MIT */

/*
 * What is told of rows that another program inserts while those before them are taken in: each
 * once, whenever they come.
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

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

static void meddle(enum moment moment)
{
	if (atomic_compare_exchange_strong(&meddler.moment, &moment, NEVER))
		sql_runs(meddler.sql);
}

static _Thread_local bool committed;

static int meddled_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	int r;

	meddle(BEFORE_COMMIT);
	r = meddler.real->commit(backend, batch, flags);
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

static int meddle_with(struct backend *inner, struct backend **ret_backend)
{
	*ret_backend = inner;
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

static void notified(void *owner, void *arg)
{
	(void)arg;
	sem_post(owner);
}

/* All that is told of what others have done by now. */
static const char *told(struct handle *stream)
{
	static char text[4096];
	_cleanup_(buf_done) struct buf lines = { 0 };
	char *to = text;
	sem_t known;

	sem_init(&known, 0, 0);
	tree_when_notified(world_tree, notified, &known, "", 1);
	while (sem_wait(&known) != 0)
		;
	sem_destroy(&known);
	cr_assert_eq(stream_read(stream, 1 << 16, &lines), 0);
	cr_assert_eq(buf_append(&lines, "", 1), 0);
	for (const char *at = strstr(lines.data, "\"what\""); at; at = strstr(at, "\"what\""))
		while (*at && (*to++ = *at++) != '\n')
			;
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
