/* SPDX-License-Identifier: MIT */

/* What other programs do to the rows, seen through the tree, which takes it in by itself. */

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/until.h"
#include "tests/unit/world.h"

#define INSERT_ROWS                                                                                \
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
#define INSERT INSERT_ROWS "VALUES "

static const char *read_part(struct handle *handle, uint64_t offset, size_t size)
{
	static struct buf part;

	buf_clear(&part);
	cr_assert_eq(handle_read(world_tree, handle, offset, size, &part), 0);
	cr_assert_eq(buf_append(&part, "", 1), 0);
	return part.data;
}

SqliteStore(sql, that_inserts_makes_files)
{
	sql_runs(INSERT "('s', 'k', 0, '{\"a\":1}'), ('s', 'l', 0, '1'), ('s', 'l', 1, '[2]'), "
			"('new', 'k', 0, '3'), ('s', 'a/b/k', 0, '4')");

	cr_expect_str_eq(content_of("s/k.json"), "{\"a\":1}");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n[2]\n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 6);
	cr_expect_str_eq(content_of("new/k.json"), "3");
	cr_expect_str_eq(content_of("s/a/b/k.json"), "4");
	cr_expect_eq(stat_of("s").st_nlink, 3);
	world_reopen();
	cr_expect_str_eq(content_of("s/a/b/k.json"), "4");
}

SqliteStore(sql, that_inserts_many_makes_files_in_as_many_commits_as_it_takes)
{
	sql_runs("WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < "
		 "299) " INSERT_ROWS
		 "SELECT 'new' || (i % 40), 'a/b' || (i % 3) || '/k' || i, 0, i FROM n");

	cr_expect_str_eq(content_of("new7/a/b1/k127.json"), "127");
	cr_expect_str_eq(content_of("new19/a/b2/k299.json"), "299");
	world_settle();
	world_take_in();
	cr_expect_eq(stat_of("").st_nlink, 43);
	cr_expect_eq(stat_of("new7").st_nlink, 3);
	cr_expect_eq(stat_of("new7/a").st_nlink, 5);
	world_reopen();
	cr_expect_eq(stat_of("").st_nlink, 43);
	cr_expect_str_eq(names_in("new7/a/b1"), "k127.json k247.json");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_node"), "402");
}

/* The store is checked when the case ends. */
SqliteStore(sql, that_deletes_an_item_with_a_mark_leaves_no_mark_of_it)
{
	char text[3 * 300 + 1] = "";

	for (int i = 0; i < 300; i++)
		strcat(text, "10\n");
	append("s/l.jsonl", text);
	cr_expect_str_eq(sql_asks("SELECT item_index FROM sessfs_mark"), "256");
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index = 256");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 3 * 299);
}

SqliteStore(sql, that_inserts_a_key_below_another_ones_file_numbers_the_directory)
{
	sql_runs(INSERT "('t', 'a.json/k', 0, '2'), ('t', 'a', 0, '1'), ('t', 'a.json/l', 0, '3')");

	cr_expect_str_eq(names_in("t"), "a.json a.json%~1");
	cr_expect_str_eq(content_of("t/a.json"), "1");
	cr_expect_str_eq(content_of("t/a.json%~1/k.json"), "2");
	cr_expect_str_eq(content_of("t/a.json%~1/l.json"), "3");
}

SqliteStore(sql, that_inserts_a_sidecar_makes_a_list)
{
	sql_runs(INSERT "('s', 'm', 0, '1'), ('s', 'm:_hash', 0, 'abc')");

	cr_expect_str_eq(content_of("s/m.jsonl"), "1\n");
	cr_expect_str_eq(content_of("s/m.hash"), "abc");
	cr_expect_eq(looked_up("s/m.json"), -ENOENT);
}

SqliteStore(sql, that_adds_a_sidecar_later_makes_a_list_of_the_document)
{
	uint64_t ino;

	sql_runs(INSERT "('s', 'm', 0, '1')");
	ino = stat_of("s/m.json").st_ino;
	sql_runs(INSERT "('s', 'm:_hash', 0, 'abc')");

	cr_expect_str_eq(content_of("s/m.jsonl"), "1\n");
	cr_expect_eq(stat_of("s/m.jsonl").st_ino, ino);
	cr_expect_eq(looked_up("s/m.json"), -ENOENT);
}

SqliteStore(sql, that_adds_a_second_item_makes_a_list_of_the_document)
{
	save("s/k.json", "1");
	sql_runs(INSERT "('s', 'k', 1, '2')");

	cr_expect_str_eq(content_of("s/k.jsonl"), "1\n2\n");
	cr_expect_eq(looked_up("s/k.json"), -ENOENT);
	append("s/k.jsonl", "3\n");
	cr_expect_str_eq(rows_of("s", "k"), "0=1 1=2 2=3");
}

SqliteStore(sql, that_changes_rows_changes_files_that_are_open)
{
	struct handle *list, *document;

	append("s/l.jsonl", "1\nx\n2\n");
	save("s/k.json", "1");
	list = open_at("s/l.jsonl", O_RDONLY);
	document = open_at("s/k.json", O_RDONLY);
	cr_assert_str_eq(read_by(list), "1\nx\n2\n");
	cr_assert_str_eq(read_by(document), "1");

	sql_runs("UPDATE agentscope_sessions SET state_data = '[11, 12]' WHERE state_key = 'l' AND "
		 "item_index = 0");
	sql_runs("UPDATE agentscope_sessions SET state_data = '{}' WHERE state_key = 'k'");
	sql_runs(INSERT "('s', 'l', 2, '3')");

	cr_expect_str_eq(read_by(list), "[11, 12]\nx\n2\n3\n");
	cr_expect_str_eq(read_by(document), "{}");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 15);
	cr_expect_eq(stat_of("s/k.json").st_size, 2);
	handle_free(world_tree, list);
	handle_free(world_tree, document);
}

SqliteStore(sql, that_deletes_removes_files_and_the_directories_that_they_leave_empty)
{
	sql_runs(INSERT "('t', 'a/b/k', 0, '4'), ('t', 'k', 0, '1')");
	save("s/k.json", "1");
	save("s/o.txt", "x");
	cr_assert_str_eq(content_of("t/a/b/k.json"), "4");

	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'a/b/k'");
	cr_expect_str_eq(names_in("t"), "k.json");
	sql_runs("DELETE FROM agentscope_sessions");
	cr_expect_str_eq(names_in(""), "s");
	cr_expect_str_eq(names_in("s"), "o.txt");
}

SqliteStore(sql, that_deletes_leaves_the_bytes_to_who_has_the_file_open)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");
	handle = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_str_eq(read_by(handle), "1\n2\n");
	sql_runs("DELETE FROM agentscope_sessions");

	cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT);
	handle_free(world_tree, handle);
}

SqliteStore(sql, that_inserts_what_an_appender_would_does_not_lose_either)
{
	struct handle *handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);

	append_to(handle, "1\n");
	sql_runs(INSERT "('s', 'l', 1, '\"other\"')");
	append_to(handle, "2\n{\"torn");
	sql_runs(INSERT "('s', 'l', 3, '\"other\"')");
	close_handle(handle);

	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=\"other\" 2=2 3=\"other\"");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n\"other\"\n2\n\"other\"\n{\"torn");
}

SqliteStore(sql, that_inserts_behind_a_torn_line_closes_it_off)
{
	append("s/l.jsonl", "1\n{\"torn");
	sql_runs(INSERT "('s', 'l', 1, '2')");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"torn\n2\n");
	append("s/l.jsonl", "3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3");
}

SqliteStore(sql, that_inserts_behind_a_line_without_newline_begins_a_line)
{
	append("s/l.jsonl", "1\n2");
	sql_runs(INSERT "('s', 'l', 2, '3')");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
}

SqliteStore(sql, that_changes_a_row_under_a_draft_replaces_it)
{
	save("s/k.json", "1");
	save("s/k.json", "{");
	cr_assert_str_eq(content_of("s/k.json"), "{");
	sql_runs("UPDATE agentscope_sessions SET state_data = '2'");

	cr_expect_str_eq(content_of("s/k.json"), "2");
}

SqliteStore(sql, that_changes_a_row_during_a_save_is_overwritten_by_the_close)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("3\n"));
	sql_runs(INSERT "('s', 'l', 2, '9')");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n9\n");
	close_handle(handle);

	cr_expect_str_eq(rows_of("s", "l"), "0=3");
}

SqliteStore(sql, that_brings_a_key_back_after_an_unlink_keeps_it)
{
	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	sql_runs("UPDATE agentscope_sessions SET state_data = '9' WHERE item_index = 0");
	world_settle();
	world_reopen();

	cr_expect_str_eq(content_of("s/l.jsonl"), "9\n2\n");
}

SqliteStore(sql, with_strange_ids_makes_no_path_outside_a_session)
{
	sql_runs(INSERT
		 "('a/b', 'k', 0, '1'), ('..', 'k', 0, '2'), ('', 'k', 0, '3'), "
		 "('s', '../x', 0, '4'), ('s', '/etc/x', 0, '5'), ('s', '', 0, '6'), "
		 "('s', 'a//b', 0, '7'), ('s', 'tab' || char(9), 0, '8'), ('.', '..', 0, '9')");

	cr_expect_str_eq(content_of("a%2Fb/k.json"), "1");
	cr_expect_str_eq(content_of("%2E%2E/k.json"), "2");
	cr_expect_str_eq(content_of("%/k.json"), "3");
	cr_expect_str_eq(content_of("s/%2E%2E/x.json"), "4");
	cr_expect_str_eq(content_of("s/%/etc/x.json"), "5");
	cr_expect_str_eq(content_of("s/a/%/b.json"), "7");
	cr_expect_str_eq(content_of("s/tab%09.json"), "8");
	cr_expect_eq(looked_up("x.json"), -ENOENT);

	/* A save goes back to the same row. */
	save("s/%2E%2E/x.json", "44");
	append("a%2Fb/k.json", "1");
	cr_expect_str_eq(rows_of("s", "../x"), "0=44");
	cr_expect_str_eq(rows_of("a/b", "k"), "0=11");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM agentscope_sessions"), "9");
}

SqliteStore(sql, with_a_taken_name_makes_a_file_under_another)
{
	save("s/k.json", "1");
	save("s/k.jsonl", "2\n");
	cr_assert_str_eq(keys(), "s/k[0-0] s/k.jsonl[0-0]");
	/* k.jsonl.json would be its name, and k.json is another key. */
	sql_runs(INSERT "('s', 'k.json', 0, '3')");

	cr_expect_str_eq(content_of("s/k.json"), "1");
	cr_expect_str_eq(content_of("s/k.jsonl"), "2\n");
	cr_expect_str_eq(content_of("s/k.json.json"), "3");
}

SqliteStore(sql, that_pretty_prints_shows_a_line_a_row)
{
	sql_runs(INSERT "('s', 'l', 0, '{' || char(10) || ' \"a\": 1' || char(10) || '}'), "
			"('s', 'l', 1, '2'), "
			"('s', 'k', 0, '{' || char(10) || ' \"a\": 1' || char(10) || '}')");

	cr_expect_str_eq(content_of("s/l.jsonl"), "{  \"a\": 1 }\n2\n");
	cr_expect_str_eq(content_of("s/k.json"), "{\n \"a\": 1\n}");
	/* A client that rewrites what it has read leaves the row as it is. */
	save("s/l.jsonl", "{  \"a\": 1 }\n2\n3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0={\n \"a\": 1\n} 1=2 2=3");
}

SqliteStore(sql, that_leaves_holes_shows_the_rows_in_their_order)
{
	sql_runs(INSERT "('s', 'l', 3, '3'), ('s', 'l', 7, '7'), ('s', 'l', -2, '0')");
	cr_expect_str_eq(content_of("s/l.jsonl"), "0\n3\n7\n");
	append("s/l.jsonl", "8\n");
	cr_expect_str_eq(rows_of("s", "l"), "-2=0 3=3 7=7 8=8");
	save("s/l.jsonl", "0\n3\n7\n8\n9\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=0 1=3 2=7 3=8 4=9");
}

SqliteStore(sql, that_shortens_a_list_leaves_pieces_in_their_order)
{
	append("s/l.jsonl", "1\nx\n2\ny\n3\nz\n");
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index >= 1");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\nx\ny\nz\n");
	append("s/l.jsonl", "4\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\nx\ny\nz\n4\n");
}

SqliteStore(sql, that_changes_a_long_list_leaves_it_right_at_every_offset)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct handle *handle;

	for (unsigned i = 0; i < 2000; i++)
		cr_assert_eq(buf_printf(&expected, "{\"n\":%u}\n", i + 1000), 0);
	cr_assert_eq(buf_append_byte(&expected, '\0'), 0);
	append("s/l.jsonl", expected.data);
	sql_runs("UPDATE agentscope_sessions SET state_data = '\"' || item_index || '\"'"
		 " WHERE item_index % 3 = 0");

	buf_clear(&expected);
	for (unsigned i = 0; i < 2000; i++)
		cr_assert_eq(buf_printf(&expected, i % 3 ? "{\"n\":%u}\n" : "\"%u\"\n",
					i % 3 ? i + 1000 : i),
			     0);
	handle = open_at("s/l.jsonl", O_RDONLY);
	for (size_t at = 0; at < expected.size; at += 997) {
		_cleanup_(buf_done) struct buf out = { 0 };
		size_t from = expected.size - 1 - at;

		cr_assert_eq(handle_read(world_tree, handle, from, 20, &out), 0);
		cr_assert(bytes_equal(buf_bytes(&out), bytes_make(expected.data + from,
								  MIN(20, expected.size - from))),
			  "at %zu", from);
	}
	handle_free(world_tree, handle);
}

static _Atomic unsigned entries_told;

static void count_entry(void *arg, uint64_t parent, struct bytes name, bool same)
{
	(void)arg;
	(void)parent;
	(void)name;
	(void)same;
	entries_told++;
}

SqliteStore(sql, is_taken_in_without_anyone_asking)
{
	const struct tree_watcher watcher = { .entry = count_entry };

	tree_set_watcher(world_tree, &watcher);
	sql_runs(INSERT "('s', 'k', 0, '1')");

	cr_expect(UNTIL(entries_told));
}

SqliteStore(sql, that_changed_rows_while_nobody_had_them_mounted_is_seen)
{
	append("s/l.jsonl", "1\nx\n2\n");
	save("s/k.json", "{");
	save("s/m.json", "1");
	tree_close(world_tree);
	sql_runs(INSERT "('s', 'l', 2, '3'), ('s', 'k', 0, '[]'), ('t', 'k', 0, '4')");
	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'm'");
	cr_assert_eq(world_try(NULL), 0);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\nx\n2\n3\n");
	cr_expect_str_eq(content_of("s/k.json"), "[]");
	cr_expect_str_eq(content_of("t/k.json"), "4");
	cr_expect_eq(looked_up("s/m.json"), -ENOENT);
}

/* All that is known then is that anything may have changed. */
SqliteStore(sql, that_replaces_the_table_leaves_lists_without_rows_empty)
{
	_cleanup_(buf_done) struct buf text = { 0 };

	for (unsigned i = 0; i < 600; i++)
		cr_assert_eq(buf_printf(&text, "%u\n", i), 0);
	cr_assert_eq(buf_append_byte(&text, '\0'), 0);
	save("s/l.jsonl", text.data);
	save("s/k.json", "1");
	save("s/empty.jsonl", "");
	append("s/pieces.jsonl", "x\n");
	cr_assert_eq(stat_of("s/l.jsonl").st_size, (off_t)text.size - 1);
	sql_runs("DROP TABLE agentscope_sessions");

	cr_expect_str_eq(content_of("s/l.jsonl"), "");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 0);
	cr_expect_eq(looked_up("s/k.json"), -ENOENT);
	cr_expect_str_eq(content_of("s/empty.jsonl"), "");
	cr_expect_str_eq(content_of("s/pieces.jsonl"), "x\n");
	append("s/l.jsonl", "1\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	world_check();
}

/* A read-only mount still follows the rows, though it may not touch one. */
SqliteStore(sql, that_deletes_a_key_below_a_read_only_mount_takes_its_file_away)
{
	save("s/k.json", "1");
	make_dir("s/d");
	append("s/d/l.jsonl", "1\n2\n");
	save("s/m.json", "2");
	world_options.read_only = true;
	world_reopen();
	cr_assert_str_eq(content_of("s/k.json"), "1");
	sql_runs("DELETE FROM agentscope_sessions WHERE state_key != 'm'");

	cr_expect_eq(looked_up("s/k.json"), -ENOENT);
	cr_expect_eq(looked_up("s/d"), -ENOENT);
	cr_expect_str_eq(content_of("s/m.json"), "2");
	world_options.read_only = false;
	world_reopen();
}

SqliteStore(sql, that_deletes_the_last_row_leaves_its_number_to_the_next)
{
	append("s/l.jsonl", "1\n2\nx\n");
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index = 1");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\nx\n");
	append("s/l.jsonl", "3\n");

	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\nx\n3\n");
	world_check();
}

/* The change that fails is set apart, and the others are taken in. */
SqliteStore(sql, that_cannot_be_taken_in_at_a_mount_holds_up_no_mount)
{
	save("s/k.json", "1");
	tree_close(world_tree);
	sql_runs(INSERT "('a', 'k', 0, '1')");
	sql_runs("DELETE FROM agentscope_sessions WHERE session_id = 's'");
	sql_runs("UPDATE sessfs_node SET parent = parent + 1000000 WHERE state_key = 'k' AND "
		 "session_id = 's'");
	cr_assert_eq(world_try(NULL), 0);
	cr_expect_str_eq(content_of("a/k.json"), "1");
	cr_expect_eq(open_error("s/k.json", O_RDONLY), -EIO);
	tree_close(world_tree);
	sql_runs("UPDATE sessfs_node SET parent = parent - 1000000 WHERE parent > 1000000");

	cr_assert_eq(world_try(NULL), 0);
	cr_expect_eq(looked_up("s"), -ENOENT);
	cr_expect_str_eq(content_of("a/k.json"), "1");
}

/* A save that ends in a torn line is a draft. */
SqliteStore(sql, that_deletes_all_rows_below_a_draft_takes_the_other_lines_along)
{
	struct handle *handle;

	save("s/l.jsonl", "\n1\n2\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("[3"));
	close_handle(handle);
	cr_assert_str_eq(rows_of("s", "l"), "0=1 1=2");
	sql_runs("DELETE FROM agentscope_sessions WHERE state_key = 'l'");
	cr_expect_str_eq(content_of("s/l.jsonl"), "[3");
	sql_runs(INSERT "('s', 'l', 0, '4')");

	cr_expect_str_eq(content_of("s/l.jsonl"), "4\n");
}

/* Each version is in the log of the database only while somebody has it. */
SqliteStore(sql, that_replaces_a_list_leaves_readers_the_version_that_they_began)
{
	static const char *const replace[] = {
		"UPDATE agentscope_sessions SET state_data = state_data + 111",
		"DELETE FROM agentscope_sessions WHERE state_key = 'l'; " INSERT
		"('s', 'l', 0, '7'), ('s', 'l', 1, '8'), ('s', 'l', 2, '9')",
		"DELETE FROM agentscope_sessions WHERE state_key = 'l'",
	};
	struct handle *other, *reader;

	save("s/k.jsonl", "0\n");
	sql_runs(INSERT "('s', 'l', 0, '111'), ('s', 'l', 1, '111')");
	other = open_at("s/k.jsonl", O_RDONLY);
	cr_assert_str_eq(read_part(other, 0, 9), "0\n");
	for (size_t i = 0; i < ARRAY_SIZE(replace); i++) {
		/* Nobody reads this version before, and the file is not in memory behind it. */
		sql_runs("UPDATE agentscope_sessions SET state_data = '222' WHERE state_key = 'l'");
		cr_assert_eq(stat_of("s/l.jsonl").st_size, i == 2 ? 12 : 8);
		reader = open_at("s/l.jsonl", O_RDONLY);
		cr_assert_str_eq(read_part(reader, 0, 4), "222\n");
		sql_runs(replace[i]);
		cr_assert_eq(looked_up("s/l.jsonl"), i == 2 ? -ENOENT : 0);

		cr_expect_str_eq(read_part(reader, 4, 99), i == 2 ? "222\n222\n" : "222\n",
				 "way %zu", i);
		close_handle(reader);
	}
	close_handle(other);
}

SqliteStore(sql, that_inserts_and_replaces_a_list_leaves_readers_the_version_that_they_began)
{
	struct handle *other, *reader;

	save("s/k.jsonl", "0\n");
	other = open_at("s/k.jsonl", O_RDONLY);
	cr_assert_str_eq(read_part(other, 0, 9), "0\n");
	sql_runs(INSERT "('s', 'l', 0, '111'), ('s', 'l', 1, '111')");
	reader = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_str_eq(read_part(reader, 0, 4), "111\n");
	sql_runs("UPDATE agentscope_sessions SET state_data = state_data + 111");
	cr_assert_eq(stat_of("s/l.jsonl").st_size, 8);

	cr_expect_str_eq(read_part(reader, 4, 99), "111\n");
	close_handle(reader);
	close_handle(other);
}
SqliteStore(sql, that_leaves_a_gap_behind_a_torn_line_closes_it_off)
{
	append("s/l.jsonl", "1\ntorn");
	sql_adds("3", "3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\ntorn\n3\n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 9);
	sql_runs("DELETE FROM agentscope_sessions WHERE item_index = 3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\ntorn\n");
}

SqliteStore(sql, that_adds_a_row_is_kept_by_a_save_that_only_cuts)
{
	const struct stat four = { .st_size = 4 };
	struct handle *handle;

	save("s/l.jsonl", "[0]\n[1]\n");
	handle = open_at("s/l.jsonl", O_RDWR);
	cr_assert_eq(set_attr_by(handle, &four, TREE_SET_SIZE), 0);
	sql_adds("2", "[2]");
	close_handle(handle);
	cr_expect_str_eq(rows_of("s", "l"), "0=[0] 1=[2]");
	cr_expect_str_eq(content_of("s/l.jsonl"), "[0]\n[2]\n");
}

/* What a program reads and writes in one transaction. */
#define DEFERRED "BEGIN; SELECT count(*) FROM agentscope_sessions"

SqliteStore(sql, that_changes_files_which_nobody_writes_is_followed_by_no_commit)
{
	save("s/d.json", "1");
	append("s/l.jsonl", "[0]\n");
	world_settle();
	for (int i = 1; i <= 3; i++) {
		char sql[300];

		snprintf(sql, sizeof(sql),
			 "UPDATE agentscope_sessions SET state_data = %d WHERE state_key = "
			 "'d'; " INSERT "('s', 'l', %d, '[%d]')",
			 i + 1, i, i);
		sql_runs(sql);
		sql_runs(DEFERRED);
		cr_expect_eq(stat_of("s/l.jsonl").st_size, 4 * (i + 1));
		cr_expect_eq(*content_of("s/d.json"), '1' + i);
		world_settle();
		cr_expect_str_eq(names_in("s"), "d.json l.jsonl");
		/* It fails if anybody has committed since. */
		sql_runs("UPDATE agentscope_sessions SET updated_at = 7; COMMIT");
	}
	cr_expect_str_eq(content_of("s/l.jsonl"), "[0]\n[1]\n[2]\n[3]\n");

	/* Who writes them has all of it. */
	append("s/l.jsonl", "[4]\n");
	save("s/d.json", "5");
	cr_expect_str_eq(rows_of("s", "l"), "0=[0] 1=[1] 2=[2] 3=[3] 4=[4]");
	cr_expect_str_eq(rows_of("s", "d"), "0=5");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "0");
	world_check();
}

/* What has to be written for it is written. */
SqliteStore(sql, that_changes_what_is_torn_is_a_draft_or_becomes_another_thing_is_settled)
{
	save("s/bad.json", "{");
	append("s/torn.jsonl", "[0]\n{\"a\":");
	sql_runs(INSERT "('s', 'one', 0, '1'), ('s', 'bad', 0, '2'), ('s', 'torn', 1, '[1]')");
	cr_expect_str_eq(content_of("s/torn.jsonl"), "[0]\n{\"a\":\n[1]\n");
	cr_expect_str_eq(content_of("s/bad.json"), "2");
	sql_runs(INSERT "('s', 'one', 1, '2')");
	cr_expect_str_eq(content_of("s/one.jsonl"), "1\n2\n");
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "0");
}

/* The kernel's copy and the times are as if it were. */
SqliteStore(sql, that_stays_in_the_log_has_its_times_and_outlives_a_kill)
{
	const struct timespec tick = { .tv_nsec = 20000000 };
	int64_t before, seen;

	append("s/l.jsonl", "[0]\n");
	before = nanoseconds(stat_of("s/l.jsonl").st_mtim);
	nanosleep(&tick, NULL);
	sql_adds("1", "[1]");
	seen = nanoseconds(stat_of("s/l.jsonl").st_mtim);
	cr_expect_gt(seen, before);
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "1");
	world_reopen();
	cr_expect_str_eq(sql_asks("SELECT count(*) FROM sessfs_change"), "0");
	cr_expect_eq(nanoseconds(stat_of("s/l.jsonl").st_mtim), seen);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[0]\n[1]\n");
}

SqliteStore(sql, that_adds_much_to_a_list_has_marks_in_the_end)
{
	append("s/l.jsonl", "[0]\n");
	sql_runs("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
		 "20000) " INSERT_ROWS "SELECT 's', 'l', i, '[1]' FROM n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 4 * 20001);
	sql_adds("20001", "[1]");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 4 * 20002);
	/* The first who needed them has asked for it. */
	for (int i = 0; i < 2000 && strcmp(sql_asks("SELECT count(*) FROM sessfs_mark"), "0") == 0;
	     i++) {
		const struct timespec moment = { .tv_nsec = 1000000 };

		nanosleep(&moment, NULL);
		sql_adds("(SELECT max(item_index) + 1 FROM agentscope_sessions)", "[1]");
		(void)stat_of("s/l.jsonl");
	}
	cr_expect_str_neq(sql_asks("SELECT count(*) FROM sessfs_mark"), "0");
	world_check();
}
