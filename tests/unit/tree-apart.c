/* SPDX-License-Identifier: MIT */

/* Keys whose change by another program cannot be taken in: they are set apart, and nothing else
 * notices. */

#include <stdio.h>
#include <string.h>
#include <sys/syslog.h>
#include <time.h>

#include "tests/stores/fault.h"
#include "backend/base/log.h"
#include "fs/inode/tree.h"
#include "tests/unit/many.h"
#include "tests/unit/until.h"

#define INSERT                                                                                     \
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "

/* ---- what the log says ---- */

static unsigned sentences;
static char last_sentence[1024];

static void count_sentences(int level, const char *sentence)
{
	if (level > LOG_ERR)
		return;
	sentences++;
	snprintf(last_sentence, sizeof(last_sentence), "%s", sentence);
}

/* ---- keys that fail ---- */

static void open_faulty(void)
{
	tree_close(world_tree);
	world_tree = NULL;
	world_wrap(fault_backend_open);
	cr_assert_eq(world_try(NULL), 0);
	log_set_sink(count_sentences);
}

/* Wait until a file says what it is expected to. */
static void becomes(const char *path, const char *content)
{
	UNTIL(open_error(path, O_RDONLY) == 0);
	cr_expect_str_eq(content_of(path), content, "%s", path);
}

static void use_others(unsigned round)
{
	char text[32];

	snprintf(text, sizeof(text), "[%u]", round);
	save("s/good.json", text);
	cr_expect_str_eq(content_of("s/good.json"), text);
	append("s/good.jsonl", "1\n");
	sql_runs("INSERT OR REPLACE INTO agentscope_sessions (session_id, state_key, item_index, "
		 "state_data) VALUES ('t', 'other', 0, '7')");
	cr_expect_str_eq(content_of("t/other.json"), "7");
	cr_assert_eq(unlinked("s/good.json"), 0);
}

struct bad {
	const char *path;
	const char *key;
	const char *sql; /* of the other program */
	const char *content;
};

static const struct bad bads[] = {
	{ "s/bad.json", "bad",
	  "UPDATE agentscope_sessions SET state_data = '2' WHERE "
	  "state_key = 'bad'",
	  "2" },
	{ "s/bad.jsonl", "bad", INSERT "('s', 'bad', 2, '3')", "1\nx\n2\n3\n" },
	{ "s/bad.jsonl", "bad", "DELETE FROM agentscope_sessions WHERE item_index = 1", "1\nx\n" },
	{ "s/bad.hash", "bad:_hash",
	  "UPDATE agentscope_sessions SET state_data = 'b' WHERE "
	  "state_key = 'bad:_hash'",
	  "b" },
	{ "s/a/b/bad.json", "a/b/bad",
	  "UPDATE agentscope_sessions SET state_data = '2' WHERE "
	  "state_key = 'a/b/bad'",
	  "2" },
};

static void make_bad(const struct bad *bad)
{
	make_dir("s/a");
	make_dir("s/a/b");
	save(bad->path, strstr(bad->path, "jsonl") ? "1\nx\n2\n" : "1");
	save("t.txt", "-");
	open_faulty();
	cr_assert_eq(stat_of(bad->path).st_nlink, 1);
}

static struct criterion_test_params every_bad(void)
{
	static size_t numbers[ARRAY_SIZE(bads)];

	for (size_t i = 0; i < ARRAY_SIZE(bads); i++)
		numbers[i] = i;
	return cr_make_param_array(size_t, numbers, ARRAY_SIZE(bads), NULL);
}

ParameterizedTestParameters(apart, keys_hold_up_nothing_else)
{
	return every_bad();
}

ParameterizedTest(const size_t *number, apart, keys_hold_up_nothing_else)
{
	const struct bad *bad = &bads[*number];
	struct handle *reader;

	world_open(WORLD_SQLITE);
	make_dir("s");
	make_bad(bad);
	reader = open_at(bad->path, O_RDONLY);
	fault_backend_set_key(world_store, bad->key, -EIO);
	sql_runs(bad->sql);

	for (unsigned i = 0; i < 20; i++)
		use_others(i);
	cr_expect_eq(sentences, 1, "%u: %s", sentences, last_sentence);
	cr_expect_not_null(strstr(last_sentence, bad->key), "%s", last_sentence);
	cr_expect_eq(open_error(bad->path, O_RDONLY), -EIO);
	cr_expect_eq(open_error(bad->path, O_WRONLY | O_TRUNC), -EIO);
	cr_expect_eq(renamed(bad->path, "s/elsewhere.json", 0), -EIO);
	cr_expect_eq(renamed("s/good.jsonl", bad->path, 0), -EIO);
	cr_expect_eq(renamed("s", "u", 0), -EIO);
	/* It can still be seen. */
	cr_expect_eq(stat_of(bad->path).st_nlink, 1);
	fault_backend_set_key(world_store, NULL, 0);
	becomes(bad->path, bad->content);
	close_handle(reader);
	cr_expect_eq(renamed("s", "u", 0), 0);
	world_check();
	world_close();
}

SqliteStore(apart, keys_come_back_when_they_change_again)
{
	save("s/bad.json", "1");
	open_faulty();
	fault_backend_set_key(world_store, "bad", -EIO);
	sql_runs("UPDATE agentscope_sessions SET state_data = '2' WHERE state_key = 'bad'");
	cr_assert_eq(open_error("s/bad.json", O_RDONLY), -EIO);
	fault_backend_set_key(world_store, NULL, 0);
	sql_runs("UPDATE agentscope_sessions SET state_data = '3' WHERE state_key = 'bad'");
	cr_expect_str_eq(content_of("s/bad.json"), "3");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "0");
}

SqliteStore(apart, keys_come_back_with_the_next_mount)
{
	save("s/bad.json", "1");
	open_faulty();
	fault_backend_set_key(world_store, "bad", -EIO);
	sql_runs("UPDATE agentscope_sessions SET state_data = '2' WHERE state_key = 'bad'");
	cr_assert_eq(open_error("s/bad.json", O_RDONLY), -EIO);
	world_reopen();
	cr_expect_str_eq(content_of("s/bad.json"), "2");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "0");
}

SqliteStore(apart, keys_without_a_file_are_given_to_nobody)
{
	open_faulty();
	fault_backend_set_key(world_store, "bad", -EIO);
	sql_runs(INSERT "('s', 'bad', 0, '2'), ('s', 'fine', 0, '3'), ('u', 'fine', 0, '4')");
	cr_expect_str_eq(content_of("s/fine.json"), "3");
	cr_expect_str_eq(content_of("u/fine.json"), "4");
	cr_expect_eq(looked_up("s/bad.json"), -ENOENT);
	cr_expect_eq(open_error("s/bad.json", O_WRONLY | O_CREAT), -EIO);
	cr_expect_eq(open_error("s/bad.jsonl", O_WRONLY | O_CREAT), -EIO);
	fault_backend_set_key(world_store, NULL, 0);
	becomes("s/bad.json", "2");
}

SqliteStore(apart, files_can_be_removed_and_written_again)
{
	save("s/bad.json", "1");
	open_faulty();
	fault_backend_set_key(world_store, "bad", -EIO);
	sql_runs("UPDATE agentscope_sessions SET state_data = '2' WHERE state_key = 'bad'");
	cr_assert_eq(open_error("s/bad.json", O_RDONLY), -EIO);
	cr_assert_eq(unlinked("s/bad.json"), 0);
	fault_backend_set_key(world_store, NULL, 0);
	world_settle();
	cr_expect_str_eq(rows_of("s", "bad"), "");
	UNTIL(open_error("s/bad.json", O_WRONLY | O_CREAT) == 0);
	save("s/bad.json", "3");
	cr_expect_str_eq(rows_of("s", "bad"), "0=3");
	world_reopen();
	cr_expect_str_eq(content_of("s/bad.json"), "3");
}

SqliteStore(apart, rows_of_an_unlinked_file_stay_with_the_program_that_changed_them)
{
	save("s/bad.jsonl", "1\n2\n");
	open_faulty();
	cr_assert_eq(unlinked("s/bad.jsonl"), 0);
	fault_backend_set_key(world_store, "bad", -EIO);
	sql_runs("UPDATE agentscope_sessions SET state_data = '9' WHERE item_index = 0");
	use_others(1);
	cr_assert_eq(unlinked("s/good.jsonl"), 0);
	world_settle();
	cr_expect_str_eq(sql_asks("SELECT group_concat(state_data) FROM agentscope_sessions WHERE "
				  "state_key = 'bad'"),
			 "9,2");
	fault_backend_set_key(world_store, NULL, 0);
	becomes("s/bad.jsonl", "9\n2\n");
}

/* Of many keys that are taken in together, the one that fails is found. */
SqliteStore(apart, keys_are_told_from_those_that_were_changed_with_them)
{
	char path[32], text[16];

	open_faulty();
	fault_backend_set_key(world_store, "k77", -EIO);
	sql_runs("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199) "
		 "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "SELECT 's', 'k' || i, 0, i FROM n");
	for (unsigned i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "s/k%u.json", i);
		snprintf(text, sizeof(text), "%u", i);
		if (i == 77)
			cr_expect_eq(looked_up(path), -ENOENT);
		else
			cr_expect_str_eq(content_of(path), text);
	}
	cr_expect_eq(sentences, 1, "%s", last_sentence);
	fault_backend_set_key(world_store, NULL, 0);
	becomes("s/k77.json", "77");
	world_check();
}

/* A place in the tree that leads nowhere. */
SqliteStore(apart, keys_of_a_damaged_tree_hold_up_nothing_else)
{
	save("s/bad.json", "1");
	sql_runs("UPDATE sessfs_node SET parent = 4000 WHERE state_key = 'bad'");
	world_reopen();
	log_set_sink(count_sentences);
	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'bad'");
	for (unsigned i = 0; i < 5; i++)
		use_others(i);
	cr_expect_eq(open_error("s/bad.json", O_RDONLY), -EIO);
	sql_runs("UPDATE sessfs_node SET parent = (SELECT ino FROM sessfs_node WHERE kind = 1 AND "
		 "session_id = 's') WHERE state_key = 'bad'");
	world_reopen();
	cr_expect_eq(looked_up("s/bad.json"), -ENOENT);
}

/* An error that is not a key's is one of all, and is told once. */
SqliteStore(apart, keys_are_not_when_nothing_can_be_written)
{
	save("s/k.json", "1");
	open_faulty();
	sql_runs("UPDATE agentscope_sessions SET state_data = '2' WHERE state_key = 'k'");
	fault_backend_set(world_store, 1, -EBUSY, true);
	for (unsigned i = 0; i < 20; i++)
		cr_expect_lt(open_error("s/k.json", O_RDONLY), 0);
	fault_backend_set(world_store, 0, 0, false);
	cr_expect_leq(sentences, 3, "%u: %s", sentences, last_sentence);
	cr_expect_str_eq(content_of("s/k.json"), "2");
}

/* ---- another mount ---- */

static void open_two(void)
{
	world_wrap(fault_backend_open);
	many_open(WORLD_SQLITE, 2);
	log_set_sink(count_sentences);
	save("s/bad.json", "1");
	save("s/good.json", "2");
}

/* What the mounts' threads do between the steps. */
enum { FIRST_TAKES_IN = 1, SECOND_TAKES_IN = 2, FIRST_DELETES_ROWS = 4 };

static void takes_in(int mount)
{
	many_use(mount);
	cr_assert_eq(world_tree->take_in(world_tree), 0);
}

/* It cannot be read in the second mount any more, and nobody has it open. */
static void unlink_elsewhere(unsigned order)
{
	struct inode *inode;

	open_two();
	many_use(1);
	inode = inode_at("s/bad.json");
	fault_backend_set_key(world_store, "bad", -EIO);
	sql_runs("UPDATE agentscope_sessions SET state_data = '2' WHERE state_key = 'bad'");
	cr_assert_eq(open_error("s/bad.json", O_RDONLY), -EIO);
	many_use(0);
	cr_assert_eq(unlinked("s/bad.json"), 0);
	if (order & FIRST_TAKES_IN)
		takes_in(0);
	if (order & SECOND_TAKES_IN)
		takes_in(1);
	many_use(0);
	if (order & FIRST_DELETES_ROWS)
		many_settle_here();
	for (int mount = 0; mount < 2; mount++) {
		many_use(mount);
		cr_expect_str_eq(content_of("s/good.json"), "2");
		cr_expect_eq(looked_up("s/bad.json"), -ENOENT, "order %u, mount %d", order, mount);
	}
	forget(inode);
	fault_backend_set_key(world_store, NULL, 0);
	many_close();
}

Test(apart, keys_of_files_that_another_mount_unlinks_hold_up_nothing_else)
{
	for (unsigned order = 0; order < 8; order++)
		unlink_elsewhere(order);
}

Test(apart, files_that_another_mount_unlinks_and_that_cannot_be_read_hold_up_nothing_else)
{
	struct inode *inode;

	open_two();
	many_use(1);
	inode = inode_at("s/bad.json");
	many_use(0);
	save("s/bad.json", "3");
	cr_assert_eq(unlinked("s/bad.json"), 0);
	many_use(1);
	fault_backend_set_key(world_store, "bad", -EIO);
	cr_expect_str_eq(content_of("s/good.json"), "2");
	cr_expect_eq(looked_up("s/bad.json"), -ENOENT);
	forget(inode);
	fault_backend_set_key(world_store, NULL, 0);
	many_close();
}
