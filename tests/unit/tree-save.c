/* SPDX-License-Identifier: MIT */

/* Saves: content is replaced whole, at the end, and only what differs. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/until.h"
#include "tests/unit/world.h"

/* Rows that were not touched since backdate() as "0,1 " and those that keep their creation. */
static void backdate(void)
{
	sql_runs("UPDATE agentscope_sessions SET created_at = '2001-02-03 04:05:06', "
		 "updated_at = '2001-02-03 04:05:06'");
}

static const char *untouched(void)
{
	return sql_asks("SELECT group_concat(item_index) FROM (SELECT item_index FROM "
			"agentscope_sessions WHERE updated_at = '2001-02-03 04:05:06' "
			"AND created_at = '2001-02-03 04:05:06' ORDER BY item_index)");
}

static const char *updated_in_place(void)
{
	return sql_asks("SELECT group_concat(item_index) FROM (SELECT item_index FROM "
			"agentscope_sessions WHERE updated_at <> '2001-02-03 04:05:06' "
			"AND created_at = '2001-02-03 04:05:06' ORDER BY item_index)");
}

/* ---- until the end nobody sees it ---- */

EveryStore(save, is_seen_by_its_writer_alone_until_it_is_closed)
{
	struct handle *handle;

	save("s/k.json", "{\"old\":1}");
	save("s/l.jsonl", "1\n2\n");

	handle = open_at("s/k.json", O_RDWR | O_TRUNC);
	write_at(handle, 0, BYTES("[2]"));
	cr_expect_str_eq(content_of("s/k.json"), "{\"old\":1}");
	cr_expect_str_eq(rows_of("s", "k"), "0={\"old\":1}");
	cr_expect_str_eq(read_by(handle), "[2]");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/k.json"), "[2]");
	cr_expect_str_eq(rows_of("s", "k"), "0=[2]");

	handle = open_at("s/l.jsonl", O_RDWR | O_TRUNC);
	write_at(handle, 0, BYTES("3\n4\n5\n"));
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 4);
	cr_expect_str_eq(read_by(handle), "3\n4\n5\n");
	close_handle(handle);
	cr_expect_str_eq(rows_of("s", "l"), "0=3 1=4 2=5");
}

EveryStore(save, that_only_empties_leaves_what_others_have_saved_since)
{
	struct handle *a = open_at("s/k.json", O_WRONLY | O_CREAT | O_TRUNC);

	save("s/k.json", "[1]");
	close_handle(a);
	cr_expect_str_eq(content_of("s/k.json"), "[1]");

	a = open_at("s/k.json", O_WRONLY | O_TRUNC);
	close_handle(a);
	cr_expect_str_eq(content_of("s/k.json"), "");
}

EveryStore(save, that_only_adds_to_a_document_adds_to_what_it_is_by_then)
{
	struct handle *a, *b;

	save("s/k.json", "1");
	a = open_at("s/k.json", O_WRONLY | O_APPEND);
	b = open_at("s/k.json", O_WRONLY | O_APPEND);
	append_to(a, "2");
	append_to(b, "3");
	append_to(a, "4");
	close_handle(b);
	cr_expect_str_eq(content_of("s/k.json"), "13");
	close_handle(a);
	cr_expect_str_eq(content_of("s/k.json"), "1324");
}

EveryStore(save, by_two_writers_is_that_of_the_last_close_entire)
{
	struct handle *a, *b;

	save("s/l.jsonl", "0\n");
	a = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	b = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(a, 0, BYTES("[\"a\",1]\n"));
	write_at(b, 0, BYTES("[\"b\",1]\n[\"b\",2]\n[\"b\",3]\n"));
	write_at(a, 8, BYTES("[\"a\",2]\n"));
	close_handle(b);
	close_handle(a);

	cr_expect_str_eq(content_of("s/l.jsonl"), "[\"a\",1]\n[\"a\",2]\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=[\"a\",1] 1=[\"a\",2]");
}

EveryStore(save, that_is_abandoned_leaves_what_was_there)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("3\n"));
	handle_abandon(world_tree, handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2");
}

EveryStore(save, is_published_by_fsync_and_by_each_close)
{
	struct handle *handle;

	save("s/k.json", "1");
	handle = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("23"));
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_expect_str_eq(rows_of("s", "k"), "0=23");

	write_at(handle, 2, BYTES("4"));
	cr_expect_str_eq(rows_of("s", "k"), "0=23");
	cr_assert_eq(handle_flush(world_tree, handle, getpid()), 0);
	cr_expect_str_eq(rows_of("s", "k"), "0=234");
	close_handle(handle);
}

EveryStore(save, in_place_begins_with_what_is_there)
{
	struct handle *handle;

	save("s/l.jsonl", "10\n20\n30\n");
	handle = open_at("s/l.jsonl", O_RDWR);
	write_at(handle, 3, BYTES("99"));
	cr_expect_str_eq(read_by(handle), "10\n99\n30\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "10\n20\n30\n");
	close_handle(handle);

	cr_expect_str_eq(rows_of("s", "l"), "0=10 1=99 2=30");
}

EveryStore(save, by_a_second_close_lies_over_its_own_and_not_over_another_one)
{
	struct handle *a, *b;

	save("s/l.jsonl", "1\n");
	a = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(a, 0, BYTES("2\n"));
	cr_assert_eq(handle_flush(world_tree, a, getpid()), 0);
	b = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(b, 0, BYTES("8\n9\n"));
	close_handle(b);
	write_at(a, 2, BYTES("3\n"));
	close_handle(a);

	cr_expect_str_eq(content_of("s/l.jsonl"), "2\n3\n");
}

EveryStore(save, of_a_writer_that_pauses_is_published_when_it_is_whole)
{
	struct handle *list, *single, *torn;

	world_options.pause = 1;
	world_reopen();
	save("s/l.jsonl", "1\n2\n");
	save("s/k.json", "1");
	save("s/t.jsonl", "1\n");
	list = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(list, 0, BYTES("3\n4\n"));
	single = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(single, 0, BYTES("{}"));
	torn = open_at("s/t.jsonl", O_WRONLY | O_TRUNC);
	write_at(torn, 0, BYTES("2\n{\"a"));

	UNTIL(strcmp(rows_of("s", "k"), "0=1") != 0 && strcmp(rows_of("s", "l"), "0=1 1=2") != 0);

	cr_expect_str_eq(rows_of("s", "l"), "0=3 1=4");
	cr_expect_str_eq(rows_of("s", "k"), "0={}");
	cr_expect_str_eq(rows_of("s", "t"), "0=1");
	close_handle(list);
	close_handle(single);
	close_handle(torn);
}

/* ---- readers ---- */

EveryStore(save, does_not_mix_into_the_version_that_a_reader_is_in)
{
	_cleanup_(buf_done) struct buf out = { 0 };
	struct handle *reader;

	save("s/k.json", "[\"an old document\"]");
	reader = open_at("s/k.json", O_RDONLY);
	cr_assert_eq(handle_read(world_tree, reader, 0, 8, &out), 0);
	save("s/k.json", "[\"another, which is longer\"]");

	cr_assert_eq(handle_read(world_tree, reader, 8, 100, &out), 0);
	cr_expect(bytes_equal(buf_bytes(&out), BYTES("[\"an old document\"]")));

	buf_clear(&out);
	cr_assert_eq(handle_read(world_tree, reader, 0, 100, &out), 0);
	cr_expect(bytes_equal(buf_bytes(&out), BYTES("[\"another, which is longer\"]")));
	handle_free(world_tree, reader);
}

EveryStore(save, is_read_by_another_handle_that_reads_and_writes)
{
	struct handle *handle;

	save("s/k.json", "1");
	handle = open_at("s/k.json", O_RDWR);
	cr_expect_str_eq(read_by(handle), "1");
	save("s/k.json", "22");

	cr_expect_str_eq(read_by(handle), "22");
	write_at(handle, 2, BYTES("3"));
	close_handle(handle);
	cr_expect_str_eq(rows_of("s", "k"), "0=223");
}

/* ---- only what differs ---- */

struct diff_case {
	const char *before;
	const char *after;
	const char *untouched;
	const char *updated;
};

static const struct diff_case diff_cases[] = {
	{ "1\n2\n3\n", "1\n2\n3\n", "0,1,2", "NULL" },
	{ "1\n2\n3\n", "1\n2\n3\n4\n", "0,1,2", "NULL" },
	{ "1\n2\n3\n", "1\n9\n3\n", "0,2", "1" },
	{ "1\n2\n3\n", "1\n2\n", "0,1", "NULL" },
	{ "1\n2\n3\n", "1\n2", "0,1", "NULL" },
	{ "1\n2\n3\n", "# new\n1\n\n2\n3\n", "0,1,2", "NULL" },
	{ "x\n1\n2\n\n3\n", "1\n2\n3\n", "0,1,2", "NULL" },
	{ "1\n2\n3\n", "0\n1\n2\n3\n", "NULL", "0,1,2" },
	{ "1\n2\n3\n", "2\n2\n3\n", "1,2", "0" },
	{ "1\n2\n3\n", "1\n2 \n3\n", "0,2", "1" },
	{ "1\n2\n3\n", "1\n2\n{\"torn", "0,1,2", "NULL" },
	{ "1\n2\n3\n", "", "NULL", "NULL" },
};

static void by_truncation(const char *text)
{
	save("s/l.jsonl", text);
}

static void by_unlinking(const char *text)
{
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	save("s/l.jsonl", text);
}

static void by_rename(const char *text)
{
	save("s/l.jsonl.tmp", text);
	cr_assert_eq(renamed("s/l.jsonl.tmp", "s/l.jsonl", 0), 0);
}

static void in_place(const char *text)
{
	const struct stat size = { .st_size = (off_t)strlen(text) };
	struct handle *handle = open_at("s/l.jsonl", O_RDWR);

	write_at(handle, 0, bytes_str(text));
	cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
	close_handle(handle);
}

static void try_diffs(void (*save_as)(const char *text))
{
	for (size_t i = 0; i < ARRAY_SIZE(diff_cases); i++) {
		const struct diff_case *diff = &diff_cases[i];

		save("s/l.jsonl", diff->before);
		backdate();
		save_as(diff->after);

		cr_expect_str_eq(content_of("s/l.jsonl"), diff->after);
		cr_expect_str_eq(untouched(), diff->untouched, "case %zu: untouched are %s", i,
				 untouched());
		cr_expect_str_eq(updated_in_place(), diff->updated, "case %zu: updated are %s", i,
				 updated_in_place());
		cr_assert_eq(unlinked("s/l.jsonl"), 0);
		world_settle();
		cr_assert_str_eq(keys(), "");
	}
}

SqliteStore(save, touches_only_rows_that_differ)
{
	try_diffs(by_truncation);
}

SqliteStore(save, by_unlinking_and_writing_again_touches_only_rows_that_differ)
{
	try_diffs(by_unlinking);
}

SqliteStore(save, by_renaming_over_touches_only_rows_that_differ)
{
	try_diffs(by_rename);
}

SqliteStore(save, in_place_touches_only_rows_that_differ)
{
	try_diffs(in_place);
}

SqliteStore(save, of_an_equal_document_leaves_its_times)
{
	save("s/k.json", "{\"a\": 1}");
	backdate();
	save("s/k.json", "{\"a\": 1}");
	cr_expect_str_eq(untouched(), "0");
	cr_assert_eq(unlinked("s/k.json"), 0);
	save("s/k.json", "{\"a\": 1}");
	cr_expect_str_eq(untouched(), "0");

	save("s/k.json", "{\"a\": 2}");
	cr_expect_str_eq(untouched(), "NULL");
	cr_expect_str_eq(updated_in_place(), "0");
}

SqliteStore(save, that_follows_an_unlink_shows_the_old_rows_until_it_is_closed)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_EXCL);
	write_at(handle, 0, BYTES("1\n"));
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2");
	write_at(handle, 2, BYTES("3\n"));
	close_handle(handle);

	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=3");
}

EveryStore(save, that_never_follows_an_unlink_lets_the_rows_go)
{
	save("s/l.jsonl", "1\n2\n");
	save("s/k.json", "1");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	cr_assert_eq(unlinked("s/k.json"), 0);
	cr_expect_eq(looked_up("s/l.jsonl"), -ENOENT);

	world_settle();

	cr_expect_str_eq(keys(), "");
	cr_expect_str_eq(names_in("s"), "");
}

EveryStore(save, that_never_follows_an_unlink_lets_the_rows_go_soon_by_itself)
{

	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);

	UNTIL(!*keys());

	cr_expect_str_eq(keys(), "");
}

EveryStore(save, of_unlinked_rows_does_not_come_back_after_a_new_start)
{
	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	world_reopen();

	cr_expect_str_eq(keys(), "");
	cr_expect_str_eq(names_in("s"), "");
}

EveryStore(save, by_an_append_after_an_unlink_begins_anew)
{
	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	append("s/l.jsonl", "3\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=3");
}

/* ---- large ---- */

static void numbered_lines(struct buf *text, unsigned count, unsigned special)
{
	buf_clear(text);
	for (unsigned i = 0; i < count; i++)
		cr_assert_eq(buf_printf(text,
					i % 1000 == 999 ? "note %u %0200u\n" :
							  "{\"n\":%u,\"text\":\"%0200u\"}\n",
					i, i == special ? 1 : 0),
			     0);
}

static void write_text(const char *path, int flags, const struct buf *text)
{
	struct handle *handle = open_at(path, flags);

	for (size_t at = 0; at < text->size; at += 131072)
		write_at(handle, at, bytes_make(text->data + at, MIN(131072, text->size - at)));
	close_handle(handle);
}

/* More operations than one block, more bytes than stay in memory. */
SqliteStore(save, of_a_large_list_touches_only_rows_that_differ)
{
	_cleanup_(buf_done) struct buf text = { 0 };

	numbered_lines(&text, 25000, 0);
	write_text("s/l.jsonl", O_WRONLY | O_CREAT, &text);
	cr_assert_str_eq(keys(), "s/l[0-24974]");
	backdate();

	numbered_lines(&text, 25000, 12345);
	write_text("s/l.jsonl", O_WRONLY | O_TRUNC, &text);
	cr_expect(bytes_equal(bytes_of("s/l.jsonl"), buf_bytes(&text)));
	cr_expect_str_eq(updated_in_place(), "0,12333");

	write_text("s/l.tmp", O_WRONLY | O_CREAT, &text);
	backdate();
	cr_assert_eq(renamed("s/l.tmp", "s/l.jsonl", 0), 0);
	cr_expect_str_eq(updated_in_place(), "NULL");
	cr_expect(bytes_equal(bytes_of("s/l.jsonl"), buf_bytes(&text)));
	world_check();

	cr_assert_eq(renamed("s/l.jsonl", "s/l.txt", 0), 0);
	cr_expect_str_eq(keys(), "");
	cr_assert_eq(renamed("s/l.txt", "s/m.jsonl", 0), 0);
	cr_expect_str_eq(keys(), "s/m[0-24974]");
	world_reopen();
	cr_expect(bytes_equal(bytes_of("s/m.jsonl"), buf_bytes(&text)));
}

EveryStore(save, of_a_file_that_was_replaced_meanwhile_stays_with_its_writer)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/h.hash" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle;

		save(paths[i], "1\n");
		handle = open_at(paths[i], O_RDWR | O_TRUNC);
		write_at(handle, 0, BYTES("2\n"));
		save("s/new", "3\n");
		cr_assert_eq(renamed("s/new", paths[i], 0), 0);
		write_at(handle, 2, BYTES("4\n"));
		cr_expect_str_eq(read_by(handle), "2\n4\n", "%s", paths[i]);
		close_handle(handle);

		cr_expect_str_eq(content_of(paths[i]), "3\n", "%s", paths[i]);
	}
}

/* ---- drafts ---- */

struct draft_case {
	const char *name;
	const char *path;
	const char *key;
	struct bytes valid;
	struct bytes draft;
};

static const struct draft_case draft_cases[] = {
	{ "empty", "s/a.json", "a", { "[1]", 3 }, { "", 0 } },
	{ "half", "s/b.json", "b", { "[1]", 3 }, { "[1", 2 } },
	{ "with a comment", "s/c.json", "c", { "[1]", 3 }, { "[1] // one", 10 } },
	{ "NaN", "s/d.json", "d", { "[1]", 3 }, { "{\"a\":NaN}", 9 } },
	{ "two documents", "s/e.json", "e", { "[1]", 3 }, { "1\n2\n", 4 } },
	{ "NULs", "s/f.json", "f", { "[1]", 3 }, { "\0\0\0\0", 4 } },
	{ "a torn list", "s/g.jsonl", "g", { "1\n2", 3 }, { "1\n{\"a", 6 } },
	{ "an empty sidecar", "s/h.hash", "h:_hash", { "abc", 3 }, { "", 0 } },
	{ "a sidecar that is no text", "s/i.hash", "i:_hash", { "abc", 3 }, { "a\0c\xff", 4 } },
};

static void write_whole(const char *path, struct bytes bytes)
{
	struct handle *handle = open_at(path, O_WRONLY | O_CREAT | O_TRUNC);

	write_at(handle, 0, bytes);
	close_handle(handle);
}

static void check_draft(const struct draft_case *draft, const char *rows)
{
	cr_expect(bytes_equal(bytes_of(draft->path), draft->draft), "%s", draft->name);
	cr_expect_eq(stat_of(draft->path).st_size, (off_t)draft->draft.size, "%s", draft->name);
	cr_expect_str_eq(rows_of("s", draft->key), rows, "%s", draft->name);
}

EveryStore(save, that_is_no_json_keeps_its_bytes_and_the_last_valid_rows)
{
	for (size_t i = 0; i < ARRAY_SIZE(draft_cases); i++) {
		const struct draft_case *draft = &draft_cases[i];
		char rows[64];

		write_whole(draft->path, draft->valid);
		strcpy(rows, rows_of("s", draft->key));
		cr_assert_neq(*rows, '\0', "%s", draft->name);
		write_whole(draft->path, draft->draft);
		check_draft(draft, rows);
		world_reopen();
		check_draft(draft, rows);

		write_whole(draft->path, draft->valid);
		cr_expect(bytes_equal(bytes_of(draft->path), draft->valid), "%s", draft->name);
		cr_expect_str_eq(rows_of("s", draft->key), rows, "%s", draft->name);
	}
}

EveryStore(save, of_a_new_file_that_is_no_json_has_no_row)
{
	save("s/k.json", "{");
	cr_expect_str_eq(content_of("s/k.json"), "{");
	cr_assert_eq(make_file("s/e.json", S_IFREG | 0644), 0);
	cr_expect_eq(stat_of("s/e.json").st_size, 0);
	cr_expect_str_eq(keys(), "");
	world_reopen();
	cr_expect_str_eq(content_of("s/k.json"), "{");
	cr_expect_str_eq(content_of("s/e.json"), "");
	cr_expect_str_eq(names_in("s"), "k.json e.json");
}

EveryStore(save, that_is_strict_and_no_json_fails_at_its_close)
{
	struct handle *handle;

	save("s/k.json", "[1]");
	world_options.strict = true;
	world_reopen();
	handle = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("[1"));

	cr_expect_eq(handle_flush(world_tree, handle, getpid()), -EINVAL);
	handle_free(world_tree, handle);

	cr_expect_str_eq(content_of("s/k.json"), "[1");
	cr_expect_str_eq(rows_of("s", "k"), "0=[1]");
}

EveryStore(save, that_is_strict_and_has_a_bad_line_fails_at_its_close_and_keeps_the_rows)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");
	world_options.strict = true;
	world_reopen();
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("3\nbad\n4\n"));

	cr_expect_eq(handle_flush(world_tree, handle, getpid()), -EINVAL);
	handle_free(world_tree, handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "3\nbad\n4\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2");
	save("s/l.jsonl", "5\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=5");
}

EveryStore(save, that_is_strict_and_a_rename_is_refused_and_changes_nothing)
{
	static const char *const over[] = { "s/k.json", "s/l.jsonl", "s/new.json" };

	save("s/k.json", "1");
	save("s/l.jsonl", "1\n2\n");
	world_options.strict = true;
	world_reopen();
	for (size_t i = 0; i < ARRAY_SIZE(over); i++) {
		save("s/tmp", "1\n[2,\n");
		cr_expect_eq(renamed("s/tmp", over[i], 0), -EINVAL, "%s", over[i]);
		cr_expect_str_eq(content_of("s/tmp"), "1\n[2,\n", "%s", over[i]);
	}
	cr_expect_eq(renamed("s/tmp", "s/k.json", RENAME_EXCHANGE), -EINVAL);

	cr_expect_str_eq(names_in("s"), "k.json l.jsonl tmp");
	cr_expect_str_eq(content_of("s/k.json"), "1");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	cr_expect_str_eq(keys(), "s/k[0-0] s/l[0-1]");
	save("s/tmp", "3");
	cr_expect_eq(renamed("s/tmp", "s/new.json", 0), 0);
	cr_expect_str_eq(rows_of("s", "new"), "0=3");
}

EveryStore(save, that_is_strict_and_pauses_is_not_published_with_a_bad_line)
{
	struct handle *bad, *good;

	save("s/b.jsonl", "1\n");
	save("s/g.jsonl", "1\n");
	world_options.strict = true;
	world_options.pause = 1;
	world_reopen();
	bad = open_at("s/b.jsonl", O_WRONLY | O_TRUNC);
	write_at(bad, 0, BYTES("2\nbad\n3\n"));
	good = open_at("s/g.jsonl", O_WRONLY | O_TRUNC);
	write_at(good, 0, BYTES("2\n"));

	UNTIL(strcmp(rows_of("s", "g"), "0=1") != 0);

	cr_expect_str_eq(rows_of("s", "g"), "0=2");
	cr_expect_str_eq(content_of("s/b.jsonl"), "1\n");
	cr_expect_str_eq(rows_of("s", "b"), "0=1");
	cr_expect_eq(handle_flush(world_tree, bad, getpid()), -EINVAL);
	handle_free(world_tree, bad);
	close_handle(good);
}

EveryStore(save, says_where_a_file_is_no_json)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct inode *inode;

	save("s/l.jsonl", "1\n\nx\n2\ny\n");
	inode = inode_at("s/l.jsonl");
	cr_assert_eq(tree_get_xattr(world_tree, inode, BYTES("user.sessfs.invalid"), &value), 0);
	cr_assert_eq(buf_append_byte(&value, '\0'), 0);
	cr_expect_not_null(strstr(value.data, "2"), "how many: %s", value.data);
	cr_expect_not_null(strstr(value.data, "line 3"), "where: %s", value.data);
	forget(inode);

	save("s/l.jsonl", "1\n2\n");
	inode = inode_at("s/l.jsonl");
	cr_expect_eq(tree_get_xattr(world_tree, inode, BYTES("user.sessfs.invalid"), &value),
		     -ENODATA);
	forget(inode);
}

/* ---- truncation ---- */

EveryStore(save, by_truncation_without_a_handle_is_seen_at_once)
{
	const struct stat four = { .st_size = 4 }, none = { .st_size = 0 };

	save("s/l.jsonl", "1\n2\n3\n");
	cr_assert_eq(set_attr("s/l.jsonl", &four, TREE_SET_SIZE), 0);
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2");
	cr_assert_eq(set_attr("s/l.jsonl", &none, TREE_SET_SIZE), 0);
	cr_expect_str_eq(rows_of("s", "l"), "");
	cr_expect_str_eq(content_of("s/l.jsonl"), "");
}

EveryStore(save, that_grows_a_list_by_truncation_adds_zeros)
{
	const struct stat six = { .st_size = 6 };

	save("s/l.jsonl", "1\n2\n");
	cr_assert_eq(set_attr("s/l.jsonl", &six, TREE_SET_SIZE), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n\\0\\0");
}

EveryStore(save, that_truncates_to_nothing_first_is_published_whole)
{
	const struct stat none = { .st_size = 0 };
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");
	handle = open_at("s/l.jsonl", O_RDWR);
	cr_assert_eq(set_attr_by(handle, &none, TREE_SET_SIZE), 0);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	write_at(handle, 0, BYTES("3\n"));
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "3\n");
}

/* ---- attributes ---- */

EveryStore(save, keeps_times_that_were_set_before_its_close)
{
	const struct stat times = { .st_atim = { 1000, 1 }, .st_mtim = { 2000, 123456789 } };
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/o.txt", "s/h.hash" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle = open_at(paths[i], O_WRONLY | O_CREAT | O_TRUNC);

		write_at(handle, 0, BYTES("1"));
		cr_assert_eq(set_attr_by(handle, &times, TREE_SET_ATIME | TREE_SET_MTIME), 0);
		close_handle(handle);
		cr_expect_eq(nanoseconds(stat_of(paths[i]).st_mtim), 2000123456789, "%s", paths[i]);
	}
	world_reopen();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		cr_expect_eq(nanoseconds(stat_of(paths[i]).st_mtim), 2000123456789, "%s", paths[i]);
		cr_expect_eq(nanoseconds(stat_of(paths[i]).st_atim), 1000000000001, "%s", paths[i]);
	}
}

EveryStore(save, moves_the_time_of_change_and_keeps_mode_and_number)
{
	const struct stat set = { .st_mode = 0600, .st_mtim = { 1000, 0 } };
	struct stat before, after;

	save("s/l.jsonl", "1\n");
	cr_assert_eq(set_attr("s/l.jsonl", &set, TREE_SET_MODE | TREE_SET_MTIME), 0);
	before = stat_of("s/l.jsonl");
	cr_assert_eq(nanoseconds(before.st_mtim), 1000000000000);
	save("s/l.jsonl", "2\n");
	after = stat_of("s/l.jsonl");

	cr_expect_gt(nanoseconds(after.st_mtim), nanoseconds(before.st_mtim));
	cr_expect_gt(nanoseconds(after.st_ctim), nanoseconds(before.st_ctim));
	cr_expect_eq(after.st_mode, S_IFREG | 0600);
	cr_expect_eq(after.st_ino, before.st_ino);
	world_reopen();
	cr_expect_eq(stat_of("s/l.jsonl").st_mode, S_IFREG | 0600);
	cr_expect_eq(stat_of("s/l.jsonl").st_ino, before.st_ino);
	cr_expect_eq(nanoseconds(stat_of("s/l.jsonl").st_mtim), nanoseconds(after.st_mtim));
}

EveryStore(save, that_appends_moves_the_time_of_change_also_over_a_new_start)
{
	const struct stat set = { .st_mtim = { 1000, 0 } };
	struct stat after;

	append("s/l.jsonl", "1\n");
	cr_assert_eq(set_attr("s/l.jsonl", &set, TREE_SET_MTIME), 0);
	append("s/l.jsonl", "2\n");
	after = stat_of("s/l.jsonl");
	cr_expect_gt(nanoseconds(after.st_mtim), 1000000000000);
	world_reopen();
	cr_expect_eq(nanoseconds(stat_of("s/l.jsonl").st_mtim), nanoseconds(after.st_mtim));
}

EveryStore(save, keeps_extended_attributes)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct inode *inode;

	save("s/l.jsonl", "1\n");
	inode = inode_at("s/l.jsonl");
	cr_assert_eq(tree_set_xattr(world_tree, inode, BYTES("user.a"), BYTES("x\0y"), 0), 0);
	forget(inode);
	save("s/l.jsonl", "2\n");
	world_reopen();

	inode = inode_at("s/l.jsonl");
	cr_assert_eq(tree_get_xattr(world_tree, inode, BYTES("user.a"), &value), 0);
	cr_expect(bytes_equal(buf_bytes(&value), BYTES("x\0y")));
	forget(inode);
}

/* ---- large ---- */

enum { MANY = 40, WIDE = 256 << 10 };

/* Many lines of equal width, as one text. */
static char *many_lines(void)
{
	char *text = malloc((size_t)MANY * WIDE + 1);

	cr_assert_not_null(text);
	memset(text, 'x', (size_t)MANY * WIDE);
	for (char *line = text; line < text + (size_t)MANY * WIDE; line += WIDE) {
		line[0] = line[WIDE - 2] = '"';
		line[WIDE - 1] = '\n';
	}
	text[(size_t)MANY * WIDE] = '\0';
	return text;
}

EveryStore(save, changes_a_row_that_many_equal_ones_stand_before)
{
	_cleanup_(freep) char *text = many_lines();

	save("s/l.jsonl", text);

	text[(size_t)(MANY - 5) * WIDE + 50] = '!';
	save("s/l.jsonl", text);
	cr_expect(bytes_equal(bytes_of("s/l.jsonl"), bytes_str(text)));
}

/* ---- refused ---- */

/* Of a list "1\n2\n": a line as long as may be behind it, and then no newline before that. */
static void grow_beyond(struct handle *handle)
{
	struct stat st = { .st_size = (off_t)world_store->max_item + 4 };

	cr_assert_eq(set_attr_by(handle, &st, TREE_SET_SIZE), 0);
	write_at(handle, 3, BYTES("x"));
}

EveryStore(save, with_a_line_that_is_too_long_keeps_the_previous_content)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n2\n");

	handle = open_at("s/l.jsonl", O_RDWR);
	grow_beyond(handle);
	cr_expect_eq(handle_flush(world_tree, handle, 0), -EFBIG);
	handle_free(world_tree, handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2");
}

EveryStore(save, of_which_a_write_was_refused_is_not_published)
{
	uint64_t behind = world_store->max_item;
	struct handle *handle;

	save("s/k.json", "[1]");

	handle = open_at("s/k.json", O_RDWR | O_TRUNC);
	write_at(handle, 0, BYTES("[2]"));
	cr_expect_eq(handle_write(world_tree, handle, getpid(), behind, BYTES("x")), -EFBIG);
	cr_expect_eq(handle_flush(world_tree, handle, 0), -EFBIG);
	handle_free(world_tree, handle);
	cr_expect_str_eq(content_of("s/k.json"), "[1]");
	cr_expect_str_eq(rows_of("s", "k"), "0=[1]");
}

EveryStore(save, is_published_when_the_writer_has_cut_what_was_refused)
{
	uint64_t behind = world_store->max_item;
	const struct stat st = { .st_size = 3 };
	struct handle *handle;

	save("s/k.json", "[1]");

	handle = open_at("s/k.json", O_RDWR | O_TRUNC);
	write_at(handle, 0, BYTES("[2]"));
	cr_expect_eq(handle_write(world_tree, handle, getpid(), behind, BYTES("x")), -EFBIG);
	cr_expect_eq(set_attr_by(handle, &st, TREE_SET_SIZE), 0);
	close_handle(handle);
	cr_expect_str_eq(content_of("s/k.json"), "[2]");
}

EveryStore(save, of_a_list_does_not_begin_with_the_document_that_was_there)
{
	struct handle *handle;

	save("s/k.json", "{\"a\":1}");
	cr_assert_eq(unlinked("s/k.json"), 0);
	handle = open_at("s/k.jsonl", O_WRONLY | O_CREAT | O_TRUNC);

	cr_expect_str_eq(content_of("s/k.jsonl"), "");
	cr_expect_str_eq(rows_of("s", "k"), "");
	write_at(handle, 0, BYTES("1\n"));
	cr_expect_str_eq(rows_of("s", "k"), "0=1");
	close_handle(handle);
}

EveryStore(save, by_opening_for_reading_with_truncation_is_one_at_once)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	save("s/k.json", "[1]");
	handle = open_at("s/l.jsonl", O_RDONLY | O_TRUNC);
	handle_free(world_tree, handle);
	handle = open_at("s/k.json", O_RDONLY | O_TRUNC);
	handle_free(world_tree, handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "");
	cr_expect_str_eq(rows_of("s", "l"), "");
	cr_expect_str_eq(content_of("s/k.json"), "");
	cr_expect_str_eq(rows_of("s", "k"), "0=[1]");
}

EveryStore(save, of_a_file_without_a_name_is_not_judged)
{
	struct handle *handle;

	world_options.strict = true;
	world_reopen();
	save("s/l.jsonl", "1\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("x\n"));
	cr_assert_eq(handle_flush(world_tree, handle, getpid()), -EINVAL);
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	world_settle();
	write_at(handle, 0, BYTES("2\n"));
	close_handle(handle);
	world_options.strict = false;
}

/* Lock, read, change, write back. */
EveryStore(save, by_who_has_read_what_others_appended_keeps_that)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	handle = open_at("s/l.jsonl", O_RDWR);
	write_at(handle, 0, BYTES("2\n"));
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	append("s/l.jsonl", "3\n");
	cr_assert_str_eq(read_by(handle), "2\n3\n");
	write_at(handle, 0, BYTES("4\n"));
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "4\n3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=4 1=3");
}

/* ---- what can never be rows ---- */

SqliteStore(save, refuses_at_once_what_could_never_be_rows)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/k.hash" };
	const struct stat huge = { .st_size = INT64_C(20) << 30 };

	make_file("f", S_IFREG | 0600);
	cr_assert_eq(set_attr("f", &huge, TREE_SET_SIZE), 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle;

		save(paths[i], "1\n");
		cr_expect_eq(set_attr(paths[i], &huge, TREE_SET_SIZE), -EFBIG, "%s", paths[i]);
		cr_expect_eq(renamed("f", paths[i], 0), -EFBIG, "%s", paths[i]);
		handle = open_at(paths[i], O_RDWR);
		cr_expect_eq(set_attr_by(handle, &huge, TREE_SET_SIZE), -EFBIG, "%s", paths[i]);
		cr_expect_eq(handle_allocate(world_tree, handle, 0, 0, huge.st_size), -EFBIG, "%s",
			     paths[i]);
		close_handle(handle);
		cr_expect_str_eq(content_of(paths[i]), "1\n");

		handle = open_at(paths[i], O_RDWR);
		write_at(handle, 0, BYTES("3"));
		cr_expect_eq(handle_write(world_tree, handle, 1, huge.st_size, BYTES("2\n")),
			     -EFBIG, "%s", paths[i]);
		cr_expect_eq(handle_flush(world_tree, handle, 1), -EFBIG, "a gap is published");
		handle_free(world_tree, handle);
		cr_expect_str_eq(content_of(paths[i]), "1\n");
	}
}
/* It goes on as it has begun: what it was to replace does not come back. */
EveryStore(save, that_has_met_what_others_published_is_entire_all_the_same)
{
	static const char *const paths[] = { "s/k.json", "s/l.jsonl" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle, *other;

		save(paths[i], "[1111]\n[2222]\n");
		handle = open_at(paths[i], O_WRONLY | O_TRUNC);
		other = open_at(paths[i], O_WRONLY | O_APPEND);
		append_to(other, "[3333]\n");
		close_handle(other);
		cr_assert_eq(handle_sync(world_tree, handle), 0);
		cr_expect_str_eq(content_of(paths[i]), "[3333]\n");
		write_at(handle, 0, BYTES("[4]\n"));
		close_handle(handle);
		cr_expect_str_eq(content_of(paths[i]), "[4]\n");
	}
}

/* ---- saves that only set the size, beside an append ---- */

static void cut_by_descriptor(struct handle *handle, off_t size)
{
	cr_assert_eq(set_attr_by(handle, &(struct stat){ .st_size = size }, TREE_SET_SIZE), 0);
}

static void cut_twice(struct handle *handle, off_t size)
{
	cut_by_descriptor(handle, size / 2);
	cut_by_descriptor(handle, size);
}

static void cut_and_read(struct handle *handle, off_t size)
{
	cut_by_descriptor(handle, size);
	read_by(handle);
}

static void allocate(struct handle *handle, off_t size)
{
	cr_assert_eq(handle_allocate(world_tree, handle, 0, 0, (uint64_t)size), 0);
}

static void allocate_nothing(struct handle *handle, off_t size)
{
	cr_assert_eq(handle_allocate(world_tree, handle, FALLOC_FL_KEEP_SIZE, 0, (uint64_t)size),
		     0);
	cr_assert_eq(handle_allocate(world_tree, handle, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     (uint64_t)size, 1000),
		     0);
}

static void cut_by_opening(struct handle *handle, off_t size)
{
	(void)handle;
	(void)size;
}

static const struct cut {
	const char *what;
	void (*cut)(struct handle *handle, off_t size);
	off_t size;
	const char *before, *after;
	const char *after_list; /* if that is other: a torn line is closed off */
} cuts[] = {
	{ "to a line's end", cut_by_descriptor, 4, "[1]\n[22]\n", "[1]\n[9]\n", NULL },
	{ "of a torn line", cut_by_descriptor, 4, "[1]\n{\"a\":", "[1]\n[9]\n", NULL },
	{ "of a line without its end", cut_by_descriptor, 4, "[1]\n[22]", "[1]\n[9]\n", NULL },
	{ "of a torn line alone", cut_by_descriptor, 0, "{\"a\":", "[9]\n", NULL },
	{ "into a line", cut_by_descriptor, 6, "[1]\n[22]\n", "[1]\n[2[9]\n", "[1]\n[2\n[9]\n" },
	{ "to nothing", cut_by_descriptor, 0, "[1]\n[22]\n", "[9]\n", NULL },
	{ "to nothing, by opening", cut_by_opening, 0, "[1]\n[22]\n", "[9]\n", NULL },
	{ "to its own size", cut_by_descriptor, 9, "[1]\n[22]\n", "[1]\n[22]\n[9]\n", NULL },
	{ "to its own size, torn", cut_by_descriptor, 6, "[1]\n[2", "[1]\n[2[9]\n",
	  "[1]\n[2\n[9]\n" },
	{ "to its own size, allocated", allocate, 9, "[1]\n[22]\n", "[1]\n[22]\n[9]\n", NULL },
	{ "of nothing at its end", allocate_nothing, 9, "[1]\n[22]\n", "[1]\n[22]\n[9]\n", NULL },
	{ "to more", cut_by_descriptor, 6, "[1]\n", "[1]\n\\0\\0[9]\n", "[1]\n\\0\\0\n[9]\n" },
	{ "to more, allocated", allocate, 6, "[1]\n", "[1]\n\\0\\0[9]\n", "[1]\n\\0\\0\n[9]\n" },
	{ "to less and then more", cut_twice, 8, "[1]\n[22]\n", "[1]\n\\0\\0\\0\\0[9]\n",
	  "[1]\n\\0\\0\\0\\0\n[9]\n" },
	{ "and read", cut_and_read, 4, "[1]\n[22]\n", "[1]\n[9]\n", NULL },
	{ "to nothing, and read", cut_and_read, 0, "[1]\n[22]\n", "[9]\n", NULL },
};

enum { APPENDS_AND_CLOSES, APPENDS_AND_SYNCS, APPENDS_BY_NAME, SYNCS_THEN, APPEND_WAYS };

/* As one process that repairs the end of a file, beside another that appends. */
static const char *cut_beside(const struct cut *cut, const char *path, int way, const char *line)
{
	struct handle *cutter, *other;

	save(path, cut->before);
	other = open_at(path, O_WRONLY | O_APPEND);
	cutter = open_at(path, O_RDWR | (cut->cut == cut_by_opening ? O_TRUNC : 0));
	cut->cut(cutter, cut->size);
	if (way == APPENDS_BY_NAME)
		append(path, line);
	else
		append_to(other, line);
	if (way == APPENDS_AND_SYNCS || way == SYNCS_THEN)
		cr_assert_eq(handle_sync(world_tree, other), 0);
	if (way != APPENDS_AND_SYNCS)
		close_handle(other);
	if (way == SYNCS_THEN)
		cr_assert_eq(handle_sync(world_tree, cutter), 0);
	close_handle(cutter);
	if (way == APPENDS_AND_SYNCS)
		close_handle(other);
	return content_of(path);
}

EveryStore(save, that_only_sets_the_size_keeps_what_was_appended_since)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/h.hash", "s/o.txt" };

	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++)
		for (size_t j = 0; j < ARRAY_SIZE(paths); j++)
			for (int way = 0; way < APPEND_WAYS; way++) {
				const char *after = j == 0 && cuts[i].after_list ?
							    cuts[i].after_list :
							    cuts[i].after;

				cr_expect_str_eq(cut_beside(&cuts[i], paths[j], way, "[9]\n"),
						 after, "%s, cut %s, %d", paths[j], cuts[i].what,
						 way);
			}
}

EveryStore(save, that_sets_a_larger_size_doubles_nothing_that_others_have_added)
{
	struct handle *grower, *cutter;

	save("s/l.jsonl", "[1]\n[22]\n");
	grower = open_at("s/l.jsonl", O_RDWR);
	cut_by_descriptor(grower, 16);
	append("s/l.jsonl", "[3]\n[4]\n");
	cutter = open_at("s/l.jsonl", O_RDWR);
	cut_by_descriptor(cutter, 13);
	close_handle(grower);
	close_handle(cutter);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n[22]\n\\0\\0\\0\\0\\0\\0\\0\n[3]\n[4]\n");
}

EveryStore(save, that_cuts_and_adds_keeps_what_was_appended_since)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/h.hash" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle;

		save(paths[i], "[1]\n[22]\n[3");
		handle = open_at(paths[i], O_RDWR | O_APPEND);
		cut_by_descriptor(handle, 9);
		append_to(handle, "[4]\n");
		append(paths[i], "[5]\n");
		append_to(handle, "[6]\n");
		close_handle(handle);
		cr_expect_str_eq(content_of(paths[i]), "[1]\n[22]\n[5]\n[4]\n[6]\n", "%s",
				 paths[i]);
		append(paths[i], "[7]\n");
		cr_expect_str_eq(content_of(paths[i]), "[1]\n[22]\n[5]\n[4]\n[6]\n[7]\n", "%s",
				 paths[i]);
	}
}

/* It is in the middle then. */
static void read_once(struct handle *handle, const char *wanted)
{
	_cleanup_(buf_done) struct buf out = { 0 };

	cr_assert_eq(handle_read(world_tree, handle, 0, 100, &out), 0);
	cr_assert(bytes_equal(buf_bytes(&out), bytes_make(wanted, strlen(wanted))));
}

/* As a write does, of one that is in the middle of reading what others have replaced. */
EveryStore(save, that_makes_zeros_makes_them_of_what_there_is)
{
	static const char *const paths[] = { "s/k.json", "s/l.jsonl" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle;

		save(paths[i], "[1]\n[22]\n");
		handle = open_at(paths[i], O_RDWR);
		read_once(handle, "[1]\n[22]\n");
		save(paths[i], "[333]\n[4]\n");
		cr_assert_eq(handle_allocate(world_tree, handle,
					     FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 1, 2),
			     0);
		close_handle(handle);
		cr_expect_str_eq(content_of(paths[i]), "[\\0\\03]\n[4]\n", "%s", paths[i]);
	}
}

EveryStore(save, of_an_unfinished_line_is_added_to_a_list_that_has_lost_its_name)
{
	struct handle *saver, *adder, *reader;

	save("s/l.jsonl", "[1]\n");
	saver = open_at("s/l.jsonl", O_RDWR);
	adder = open_at("s/l.jsonl", O_RDWR | O_APPEND);
	reader = open_at("s/l.jsonl", O_RDONLY);
	write_at(saver, 0, BYTES("[2]\n[3]\n"));
	append_to(adder, "[4]");
	read_once(adder, "[1]\n[4]");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	make_file("s/l.jsonl", S_IFREG | 0600);
	close_handle(saver);
	close_handle(adder);
	read_by(reader);
	cr_expect_str_eq(read_by(reader), "[2]\n[3]\n[4]");
	close_handle(reader);
}

EveryStore(save, that_only_sets_the_size_leaves_what_others_have_saved_since)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/h.hash" };
	static const off_t sizes[] = { 0, 4, 9, 12 };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
			struct handle *handle;

			save(paths[i], "[1]\n[22]\n");
			handle = open_at(paths[i], O_RDWR);
			cut_by_descriptor(handle, sizes[j]);
			save(paths[i], "[\"another\"]\n");
			append(paths[i], "[9]\n");
			close_handle(handle);
			cr_expect_str_eq(content_of(paths[i]), "[\"another\"]\n[9]\n", "%s %d",
					 paths[i], (int)sizes[j]);
		}
}

/* What its writer goes on with is what there is by then. */
EveryStore(save, that_sets_the_size_again_begins_with_what_there_is)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/h.hash" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle;

		save(paths[i], "[1]\n[22]\n");
		handle = open_at(paths[i], O_RDWR);
		cut_by_descriptor(handle, 4);
		cr_assert_eq(handle_sync(world_tree, handle), 0);
		append(paths[i], "[3]\n[4");
		cut_by_descriptor(handle, 8);
		close_handle(handle);
		cr_expect_str_eq(content_of(paths[i]), "[1]\n[3]\n", "%s", paths[i]);
	}
}

SqliteStore(save, that_sets_the_size_that_there_is_changes_nothing)
{
	static const char *const paths[] = { "s/l.jsonl", "s/k.json", "s/h.hash" };
	const struct stat eight = { .st_size = 8 };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *handle, *reader;

		save(paths[i], "[1]\n[2]\n");
		backdate();
		cr_assert_eq(set_attr(paths[i], &eight, TREE_SET_SIZE), 0);
		reader = open_at(paths[i], O_RDONLY);
		cr_expect_str_eq(read_by(reader), "[1]\n[2]\n");
		handle = open_at(paths[i], O_RDWR);
		cut_by_descriptor(handle, 8);
		append(paths[i], "[3]\n");
		cut_by_descriptor(handle, 12);
		close_handle(handle);
		cr_expect_str_eq(content_of(paths[i]), "[1]\n[2]\n[3]\n", "%s", paths[i]);
		close_handle(reader);
	}
	cr_expect_str_eq(rows_of("s", "l"), "0=[1] 1=[2] 2=[3]");
	cr_expect_str_eq(sql_asks(
				 "SELECT created_at FROM agentscope_sessions WHERE state_key = 'l' "
				 "AND item_index = 1"),
			 "2001-02-03 04:05:06");
}

/* Who appends goes on so behind a truncation that was published. */
EveryStore(save, that_only_adds_keeps_the_lines_that_others_have_added)
{
	struct handle *handle;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	cr_assert_eq(set_attr_by(handle, &(struct stat){ .st_size = 4 }, TREE_SET_SIZE), 0);
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	append_to(handle, "4\n");
	append("s/l.jsonl", "5\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=5");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n5\n4\n");
}

EveryStore(save, that_only_adds_closes_off_a_line_that_others_have_torn)
{
	struct handle *handle, *other;

	append("s/l.jsonl", "1\n2\n3\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	cr_assert_eq(set_attr_by(handle, &(struct stat){ .st_size = 4 }, TREE_SET_SIZE), 0);
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	append_to(handle, "[4]\n");
	other = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	append_to(other, "torn");
	close_handle(other);
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\ntorn\n[4]\n");
}
