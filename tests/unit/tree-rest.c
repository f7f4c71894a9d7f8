/* SPDX-License-Identifier: MIT */

/* Rows that were there before the store, in which nobody has told of them: fs/inode/waiting.h.  And
 * those that come all the time. */

#include <stdio.h>
#include <string.h>

#include "fs/share/share.h"
#include "tests/unit/world.h"

#define ROWS "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "

/* As if they had been there first; name: of a layout's setting, or NULL. */
static void are_there(const char *rows, const char *layout)
{
	tree_close(world_tree);
	sql_runs(rows);
	sql_runs("DELETE FROM sessfs_change");
	sql_runs("INSERT INTO sessfs_meta (key, value) VALUES ('setting:unadopted', '1')");
	if (layout) {
		sql_runs("DELETE FROM sessfs_node WHERE ino > 1");
		sql_runs("DELETE FROM sessfs_entry");
		sql_runs("UPDATE sessfs_node SET nlink = 2");
		sql_runs(layout);
	}
	cr_assert_eq(world_try(NULL), 0);
}

/* Keys that have files, of those that the walk has not come to perhaps. */
static const char *nodes(void)
{
	return sql_asks("SELECT count(*) FROM sessfs_node WHERE kind > 1");
}

static bool is_through(void)
{
	return *sql_asks("SELECT 1 FROM sessfs_meta WHERE key = 'setting:unadopted'") == '\0';
}

#define MANY                                                                                       \
	"WITH RECURSIVE n(i) AS (SELECT 10000 UNION ALL SELECT i + 1 FROM n WHERE i < "            \
	"14999) " ROWS "SELECT 'n' || i, 'k', 0, i FROM n"

SqliteStore(rest, is_there_when_it_is_asked_for_by_name)
{
	are_there(MANY, NULL);
	cr_expect_str_eq(content_of("n14999/k.json"), "14999");
	cr_expect_eq(looked_up("n14998/other.json"), -ENOENT);
	cr_expect_eq(looked_up("n15000"), -ENOENT);
	cr_expect(!is_through());
	cr_expect_eq(make_file("n14997/k.json", 0644), -EEXIST);
	save("n14996/new.json", "1");
	cr_expect_str_eq(names_in("n14996"), "k.json new.json");
	cr_expect_eq(removed_dir("n14995"), -ENOTEMPTY);
	cr_expect_eq(renamed("n14994", "m14994", 0), 0);
	cr_expect_str_eq(rows_of("m14994", "k"), "0=14994");
}

SqliteStore(rest, is_listed_whole_and_once)
{
	size_t names = 1;
	const char *listed;

	are_there(MANY, NULL);
	cr_expect_str_eq(content_of("n12000/k.json"), "12000");
	listed = names_in("");
	for (const char *at = listed; *at; at++)
		names += *at == ' ';
	cr_expect_eq(names, 5001);
	cr_expect_not(strchr(listed, '%'));
	cr_expect_str_eq(nodes(), "5000");
	cr_expect(is_through());
	world_check();
	world_reopen();
	cr_expect_str_eq(nodes(), "5000");
}

SqliteStore(rest, becomes_a_list_or_a_document_as_ever)
{
	are_there(ROWS "VALUES ('t', 'd', 0, '1'), ('t', 'd:other', 0, '2'), ('t', 'l', 0, '3'), "
		       "('t', 'l-x', 0, '4'), ('t', 'l:_hash', 0, 'ab'), ('t', 'm', 0, '5'), "
		       "('t', 'm', 1, '6'), ('t', 'a/b', 0, '7'), ('t', '', 0, '8'), "
		       "('z', 'l', 0, '9'), ('z', 'l:_hash', 0, 'cd')",
		  NULL);
	names_in("");
	cr_expect_str_eq(names_in("t"), "%.json a d.json d:other.json l.jsonl l-x.json l.hash "
					"m.jsonl");
	cr_expect_str_eq(names_in("z"), "l.jsonl l.hash");
	cr_expect_str_eq(content_of("t/a/b.json"), "7");
	cr_expect(is_through());
}

SqliteStore(rest, that_has_files_already_keeps_them)
{
	save("s/k.json", "1");
	append("s/l.jsonl", "1\n2\ntorn");
	are_there(MANY, NULL);
	names_in("");
	cr_expect(is_through());
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\ntorn");
	cr_expect_str_eq(names_in("s"), "k.json l.jsonl");
}

SqliteStore(rest, that_others_change_meanwhile_is_what_they_say)
{
	are_there(MANY, NULL);
	sql_runs("DELETE FROM agentscope_sessions WHERE session_id = 'n14000'");
	sql_runs(ROWS "VALUES ('n14001', 'l', 0, '1'), ('n14001', 'l', 1, '2'), "
		      "('o', 'k', 0, '3')");
	cr_expect_str_eq(names_in("n14001"), "l.jsonl k.json");
	cr_expect_eq(looked_up("n14000"), -ENOENT);
	names_in("");
	world_settle();
	cr_expect(is_through());
	cr_expect_str_eq(nodes(), "5001");
}

SqliteStore(rest, is_where_the_layout_has_it)
{
	are_there("WITH RECURSIVE n(i) AS (SELECT 10000 UNION ALL SELECT i + 1 FROM n WHERE "
		  "i < 14999) " ROWS "SELECT 'bob:n' || i, 'k', 0, i FROM n UNION ALL VALUES "
		  "('plain', 'k', 0, '1'), ('alice:s', 'k', 0, '2'), ('pi:p:x', 'transcript', 0, "
		  "'3'), ('zoe:a/b', 'k', 0, '4')",
		  "INSERT INTO sessfs_meta (key, value) VALUES ('setting:layout', '80')");
	cr_expect_str_eq(content_of("pi/sessions/p/x.jsonl"), "3\n");
	cr_expect_str_eq(content_of("bob/n14999/k.json"), "14999");
	cr_expect_str_eq(content_of("%/plain/k.json"), "1");
	cr_expect_eq(looked_up("dora"), -ENOENT);
	cr_expect_eq(looked_up("zoe"), -ENOENT);
	cr_expect(!is_through());
	cr_expect_str_eq(names_in("alice"), "s");
	cr_expect_str_eq(names_in("%"), "plain zoe:a%2Fb");
	cr_expect(is_through());
	cr_expect_eq(strlen(names_in("")), strlen("pi bob % alice"));
}

enum { KEYS = 2 * 64, TIMES = 40 }; /* more than are taken in at once */

static const struct backend_ops *ops;
static unsigned times;

static void make_keys(unsigned number)
{
	char sql[300];

	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
		 "%d) " ROWS "SELECT 's', 'k%u-' || i, 0, '1' FROM n",
		 KEYS, number);
	sql_runs(sql);
}

/* Behind each commit another program makes more keys than it has taken in. */
static int commit_slowly(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	int r = ops->commit(backend, batch, flags);

	if (times < TIMES)
		make_keys(++times);
	return r;
}

SqliteStore(rest, that_comes_quicker_than_it_is_taken_in_is_not_waited_for)
{
	struct backend_ops slow = *world_store->ops;

	slow.commit = commit_slowly;
	ops = world_store->ops;
	world_store->ops = &slow;
	make_keys(0);
	cr_expect_geq(tree_reconcile(world_tree), 0);
	world_store->ops = ops;
	cr_assert_gt(times, 1);
	cr_assert_lt(times, TIMES / 2);
	cr_expect_str_eq(content_of("s/k0-1.json"), "1");
	cr_expect_str_eq(content_of("s/k1-1.json"), "1");
}
