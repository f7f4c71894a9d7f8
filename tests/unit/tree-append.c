/* SPDX-License-Identifier: MIT */

/* Appending to lists: lines are rows, whole ones, whoever writes beside them. */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/until.h"
#include "tests/unit/world.h"

static struct handle *appender(const char *path)
{
	return open_at(path, O_WRONLY | O_CREAT | O_APPEND);
}

EveryStore(append, makes_each_whole_line_a_row_at_once)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "1\n{\"a\": 2}\n");

	cr_expect_str_eq(rows_of("s", "l"), "0=1 1={\"a\": 2}");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"a\": 2}\n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 11);
	close_handle(handle);
}

EveryStore(append, keeps_an_unfinished_line_with_its_writer)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "1\n{\"a\"");
	append_to(handle, ":2");
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n");
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 2);

	append_to(handle, "}\n3");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1={\"a\":2}");

	close_handle(handle);
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1={\"a\":2} 2=3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"a\":2}\n3");
}

EveryStore(append, of_two_writers_never_mixes_pieces_of_lines)
{
	struct handle *a = appender("s/l.jsonl"), *b = appender("s/l.jsonl");

	append_to(a, "{\"a\":");
	append_to(b, "[\"b\"");
	append_to(a, "1}\n{\"a\":");
	append_to(b, ",1]\n[\"b\",");
	append_to(b, "2]\n");
	append_to(a, "2}\n");
	close_handle(a);
	close_handle(b);

	cr_expect_str_eq(content_of("s/l.jsonl"), "{\"a\":1}\n[\"b\",1]\n[\"b\",2]\n{\"a\":2}\n");
	cr_expect_str_eq(rows_of("s", "l"), "0={\"a\":1} 1=[\"b\",1] 2=[\"b\",2] 3={\"a\":2}");
}

EveryStore(append, puts_an_unfinished_line_into_the_file_by_fsync)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "1\n{\"a\":");
	cr_assert_eq(handle_sync(world_tree, handle), 0);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"a\":");
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	close_handle(handle);
}

EveryStore(append, goes_on_behind_a_line_that_its_own_fsync_has_cut)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "[1, ");
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	/* Valid on its own: only who has written the piece glues it. */
	append_to(handle, "2\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1, 2\n");

	append_to(handle, "12");
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_expect_str_eq(rows_of("s", "l"), "0=12");
	append_to(handle, "34\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "[1, 2\n1234\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1234");
	close_handle(handle);
}

EveryStore(append, by_a_duplicate_after_a_close_goes_on_in_the_line)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "{\"a\":");
	cr_assert_eq(handle_flush(world_tree, handle, getpid()), 0);
	append_to(handle, "1}\n");

	cr_expect_str_eq(rows_of("s", "l"), "0={\"a\":1}");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "{\"a\":1}\n");
}

/* What a dead writer has left, what the next one writes, and what the file is then. */
struct tail_case {
	const char *name;
	const char *left;
	const char *next;
	const char *content;
	const char *rows;
	const char *exact_content; /* with -o exact; NULL: the same */
	const char *exact_rows;
};

static const struct tail_case tail_cases[] = {
	{ "a torn line is closed off before a valid one", "1\n{\"a\":", "{\"b\":2}\n",
	  "1\n{\"a\":\n{\"b\":2}\n", "0=1 1={\"b\":2}", "1\n{\"a\":{\"b\":2}\n", "0=1" },
	{ "a line that is valid glued is glued", "1\n{\"a\":", "2}\n", "1\n{\"a\":2}\n",
	  "0=1 1={\"a\":2}", NULL, NULL },
	{ "valid alone and valid glued is glued", "[1,", "2]\n", "[1,2]\n", "0=[1,2]", NULL, NULL },
	{ "a number goes on", "12", "34\n", "1234\n", "0=1234", NULL, NULL },
	{ "valid neither way is glued", "{\"a\":", "{\"b\":\n", "{\"a\":{\"b\":\n", "", NULL,
	  NULL },
	{ "a valid row without newline is closed off", "{\"a\":1}", "{\"b\":2}\n",
	  "{\"a\":1}\n{\"b\":2}\n", "0={\"a\":1} 1={\"b\":2}", "{\"a\":1}{\"b\":2}\n", "" },
	{ "a valid row gets its newline", "{\"a\":1}", "\n", "{\"a\":1}\n", "0={\"a\":1}", NULL,
	  NULL },
	{ "a valid row gets its newline and a next line", "{\"a\":1}", "\n2\n", "{\"a\":1}\n2\n",
	  "0={\"a\":1} 1=2", NULL, NULL },
	{ "a torn line gets its newline", "{\"a\":", "\n2\n", "{\"a\":\n2\n", "0=2", NULL, NULL },
	{ "garbage behind a valid row spoils it", "1\n{\"a\":1}", "x\n", "1\n{\"a\":1}x\n", "0=1",
	  NULL, NULL },
	{ "garbage behind a valid row spoils it, not the lines before", "x\n# y\n{}", "z\n",
	  "x\n# y\n{}z\n", "", NULL, NULL },
	{ "a number behind other lines goes on", "x\n\n12", "34\n", "x\n\n1234\n", "0=1234", NULL,
	  NULL },
	{ "white space behind a valid row is part of it", "1", " \n", "1 \n", "0=1 ", NULL, NULL },
	{ "a blank tail is part of the next line", "1\n  ", "2\n", "1\n  2\n", "0=1 1=  2", NULL,
	  NULL },
	{ "the rest of a string is glued", "\"ab", "cd\"\n", "\"abcd\"\n", "0=\"abcd\"", NULL,
	  NULL },
	{ "a character that was cut is glued", "\"\xe6\x97", "\xa5\"\n", "\"\xe6\x97\xa5\"\n",
	  "0=\"\xe6\x97\xa5\"", NULL, NULL },
	{ "NULs are closed off", "1\n\x01\x01", "2\n", "1\n\x01\x01\n2\n", "0=1 1=2",
	  "1\n\x01\x01"
	  "2\n",
	  "0=1" },
	{ "only the first line matters", "{\"a\":", "1}\n2\nx\n3\n", "{\"a\":1}\n2\nx\n3\n",
	  "0={\"a\":1} 1=2 2=3", NULL, NULL },
	{ "an unfinished next line is glued at its close", "1\n{\"a\":", "{\"b\"",
	  "1\n{\"a\":{\"b\"", "0=1", NULL, NULL },
	{ "a next line that is valid without newline is closed off", "{\"a\":", "{\"b\":1}",
	  "{\"a\":\n{\"b\":1}", "0={\"b\":1}", "{\"a\":{\"b\":1}", "" },
};

static void try_tail(const struct tail_case *tail, const char *path, const char *key, bool exact)
{
	const char *content = exact && tail->exact_content ? tail->exact_content : tail->content;
	const char *rows = exact && tail->exact_rows ? tail->exact_rows : tail->rows;

	append(path, tail->left);
	append(path, tail->next);

	cr_expect_str_eq(content_of(path), content, "%s: %s", tail->name, content_of(path));
	cr_expect_str_eq(rows_of("s", key), rows, "%s: %s", tail->name, rows_of("s", key));
	cr_expect_eq(stat_of(path).st_size, (off_t)strlen(content), "%s", tail->name);
}

static void try_tails(bool exact)
{
	for (size_t i = 0; i < ARRAY_SIZE(tail_cases); i++) {
		char path[32], key[16];

		snprintf(key, sizeof(key), "l%zu", i);
		snprintf(path, sizeof(path), "s/%s.jsonl", key);
		try_tail(&tail_cases[i], path, key, exact);
	}
}

EveryStore(append, glues_or_closes_off_what_a_dead_writer_has_left)
{
	try_tails(false);
}

EveryStore(append, glues_everything_when_bytes_shall_be_exact)
{
	world_options.exact = true;
	world_reopen();
	try_tails(true);
}

EveryStore(append, glues_or_closes_off_after_a_new_start_as_well)
{
	for (size_t i = 0; i < ARRAY_SIZE(tail_cases); i++) {
		const struct tail_case *tail = &tail_cases[i];
		char path[32], key[16];

		snprintf(key, sizeof(key), "l%zu", i);
		snprintf(path, sizeof(path), "s/%s.jsonl", key);
		append(path, tail->left);
		world_reopen();
		append(path, tail->next);

		cr_expect_str_eq(content_of(path), tail->content, "%s", tail->name);
		cr_expect_str_eq(rows_of("s", key), tail->rows, "%s", tail->name);
	}
}

/* What a save has left, a list with rows that ends in a torn line, is a draft. */
EveryStore(append, ends_a_draft_when_it_completes_the_line)
{
	save("s/l.jsonl", "1\n2\n");
	save("s/l.jsonl", "1\n3\n{\"a\":");
	cr_assert_str_eq(rows_of("s", "l"), "0=1 1=2");
	cr_assert_str_eq(content_of("s/l.jsonl"), "1\n3\n{\"a\":");

	append("s/l.jsonl", "4}\n5\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n3\n{\"a\":4}\n5\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=3 2={\"a\":4} 3=5");
}

EveryStore(append, closes_off_the_torn_line_of_a_draft)
{
	save("s/l.jsonl", "1\n2\n");
	save("s/l.jsonl", "1\n3\n{\"a\":");

	append("s/l.jsonl", "{\"b\":1}\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n3\n{\"a\":\n{\"b\":1}\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=3 2={\"b\":1}");
}

EveryStore(append, behind_another_writers_unfinished_line_is_not_mixed_with_it)
{
	struct handle *dead = appender("s/l.jsonl");

	append_to(dead, "1\n{\"torn\":");
	append("s/l.jsonl", "2\n");
	close_handle(dead);
	append("s/l.jsonl", "3\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n{\"torn\":\n3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3");
}

EveryStore(append, that_is_abandoned_keeps_its_unfinished_line)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "1\n{\"a\":");
	handle_abandon(world_tree, handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"a\":");
}

EveryStore(append, goes_to_the_end_whatever_offset_it_is_told)
{
	struct handle *handle = appender("s/l.jsonl");

	write_at(handle, 0, BYTES("1\n"));
	write_at(handle, 0, BYTES("2\n"));
	write_at(handle, 4711, BYTES("3\n"));
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
}

EveryStore(append, in_sequence_to_a_list_that_was_empty_is_a_stream)
{
	struct handle *handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_TRUNC);

	write_at(handle, 0, BYTES("1\n2"));
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	write_at(handle, 3, BYTES("3\n4\n"));
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=23 2=4");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n23\n4\n");
	close_handle(handle);
}

EveryStore(append, that_streams_tears_no_line_of_others)
{
	struct handle *first = open_at("s/l.jsonl", O_WRONLY | O_CREAT);
	struct handle *second = open_at("s/l.jsonl", O_WRONLY);

	append("s/l.jsonl", "\"of another\"\n");
	write_at(first, 0, BYTES("1\n2"));
	write_at(second, 0, BYTES("3\n"));
	write_at(first, 3, BYTES("2\n4\n"));
	close_handle(second);
	close_handle(first);
	cr_expect_str_eq(content_of("s/l.jsonl"), "\"of another\"\n1\n3\n22\n4\n");
}

EveryStore(append, that_came_after_the_list_was_emptied_goes_whole_with_the_save)
{
	struct handle *handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_TRUNC);

	append("s/l.jsonl", "\"of another\"\n");
	write_at(handle, 0, BYTES("1\n"));
	cr_expect_str_eq(content_of("s/l.jsonl"), "\"of another\"\n");
	write_at(handle, 2, BYTES("2\n"));
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
}

EveryStore(append, that_streams_may_go_back_and_is_a_save_then)
{
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT);

	write_at(handle, 0, BYTES("1\n2\n3"));
	write_at(handle, 2, BYTES("9"));

	cr_expect_str_eq(read_by(handle), "1\n9\n3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n");
	close_handle(handle);
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n9\n3");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=9 2=3");
}

EveryStore(append, survives_a_new_start_without_a_close)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "1\n2\n");
	handle_free(world_tree, handle);
	world_reopen();
	append("s/l.jsonl", "3\n");

	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3");
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n3\n");
}

EveryStore(append, keeps_blank_and_broken_lines_at_their_place)
{
	append("s/l.jsonl", "\n\n1\n# no\n");
	append("s/l.jsonl", "2\n\n");
	append("s/l.jsonl", "x\n");
	append("s/l.jsonl", "3\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "\n\n1\n# no\n2\n\nx\n3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3");
	world_reopen();
	cr_expect_str_eq(content_of("s/l.jsonl"), "\n\n1\n# no\n2\n\nx\n3\n");
}

/* ---- what the writer itself sees ---- */

struct own_case {
	const char *name;
	int flags;
	const char *before;
};

/* Ways to open a list that is appended to and read by the same handle. */
static const struct own_case own_cases[] = {
	{ "w+", O_RDWR | O_CREAT | O_TRUNC, "" },
	{ "a+", O_RDWR | O_CREAT | O_APPEND, "1\n" },
	{ "a+ behind a torn line", O_RDWR | O_CREAT | O_APPEND, "1\n{\"torn" },
	{ "r+ of an empty list", O_RDWR, "" },
};

static uint64_t sought(struct handle *handle, uint64_t offset, int whence)
{
	uint64_t found = UINT64_MAX;
	int r = handle_seek(world_tree, handle, offset, whence, &found);

	cr_assert_eq(r, 0, "handle_seek: %s", strerror(-r));
	return found;
}

static void expect_own_view(struct handle *handle, const char *name, const char *text)
{
	uint64_t size = strlen(text), none;
	struct stat st;
	bool own;

	cr_expect_str_eq(read_by(handle), text, "%s: %s", name, read_by(handle));
	cr_assert_eq(tree_stat_face(world_tree, handle_inode(handle),
				    nodeid_face(handle_nodeid(handle)), 0, &st, &own),
		     0);
	cr_expect_eq(st.st_size, (off_t)size, "%s: its size is %lld", name, (long long)st.st_size);
	cr_expect_eq(sought(handle, 0, SEEK_HOLE), size, "%s", name);
	cr_expect_eq(sought(handle, size - 1, SEEK_DATA), size - 1, "%s", name);
	cr_expect_eq(sought(handle, size - 1, SEEK_HOLE), size, "%s", name);
	cr_expect_eq(handle_seek(world_tree, handle, size, SEEK_DATA, &none), -ENXIO, "%s", name);
}

static void try_own_view(const struct own_case *own, const char *path, const char *key)
{
	char text[64], rows[64];
	struct handle *handle;

	append(path, own->before);
	strcpy(rows, rows_of("s", key));
	handle = open_at(path, own->flags);
	write_at(handle, 0, BYTES("{\"a\":"));
	snprintf(text, sizeof(text), "%s{\"a\":", own->before);

	expect_own_view(handle, own->name, text);
	cr_expect_str_eq(content_of(path), own->before, "%s: to others", own->name);
	cr_expect_str_eq(rows_of("s", key), rows, "%s: to SQL", own->name);
	close_handle(handle);
	cr_expect_str_eq(content_of(path), text, "%s: closed", own->name);
}

EveryStore(append, shows_an_unfinished_line_to_its_writer)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_cases); i++) {
		char path[32], key[16];

		snprintf(key, sizeof(key), "l%zu", i);
		snprintf(path, sizeof(path), "s/%s.jsonl", key);
		try_own_view(&own_cases[i], path, key);
	}
}

EveryStore(append, shows_the_middle_of_an_unfinished_line_to_its_writer)
{
	_cleanup_(buf_done) struct buf out = { 0 };
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_APPEND);

	append_to(handle, "1\n[2, 3");
	cr_assert_eq(handle_read(world_tree, handle, 4, 2, &out), 0);
	cr_expect(bytes_equal(buf_bytes(&out), BYTES(", ")));
	buf_clear(&out);
	cr_assert_eq(handle_read(world_tree, handle, 1, 3, &out), 0);
	cr_expect(bytes_equal(buf_bytes(&out), BYTES("\n[2")));
	buf_clear(&out);
	cr_assert_eq(handle_read(world_tree, handle, 7, 100, &out), 0);
	cr_expect_eq(out.size, 0);
	append("s/l.jsonl", "4\n");
	cr_expect_str_eq(read_by(handle), "1\n4\n[2, 3");
	close_handle(handle);
}

/* ---- a piece that its writer has flushed ---- */

EveryStore(append, that_goes_on_behind_its_own_piece_of_a_draft_glues)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	save("s/l.jsonl", "1\n2\n{\"a\":");
	handle = appender("s/l.jsonl");
	append_to(handle, "[3, ");
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_assert_str_eq(content_of("s/l.jsonl"), "1\n2\n{\"a\":[3, ");

	/* Valid alone: another writer's would be closed off. */
	append_to(handle, "4\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n{\"a\":[3, 4\n");
	close_handle(handle);
}

EveryStore(append, that_has_completed_a_draft_goes_on_in_its_line)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	save("s/l.jsonl", "1\n{\"a\":");
	handle = appender("s/l.jsonl");
	append_to(handle, "2}");
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_assert_str_eq(rows_of("s", "l"), "0=1 1={\"a\":2}");

	append_to(handle, "3\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"a\":2}3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	close_handle(handle);
}

SqliteStore(append, that_goes_on_after_sql_has_changed_a_row_glues_its_own_piece)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "1\n[2, ");
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	sql_runs("UPDATE agentscope_sessions SET state_data = '9' WHERE item_index = 0");
	cr_assert_str_eq(content_of("s/l.jsonl"), "9\n[2, ");

	append_to(handle, "3\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "9\n[2, 3\n");
	close_handle(handle);
}

/* ---- strict ---- */

static void be_strict(void)
{
	world_options.strict = true;
	world_reopen();
}

EveryStore(append, that_is_strict_takes_the_lines_before_a_bad_one)
{
	struct handle *handle;

	be_strict();
	handle = appender("s/l.jsonl");

	cr_expect_eq(handle_write(world_tree, handle, getpid(), 0, BYTES("1\n\n2\nx\n3\n")), 5);
	cr_expect_eq(handle_write(world_tree, handle, getpid(), 0, BYTES("x\n3\n")), -EINVAL);
	append_to(handle, "3\n");
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n\n2\n3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3");
}

EveryStore(append, that_is_strict_takes_a_good_line_in_pieces)
{
	struct handle *handle;

	be_strict();
	handle = appender("s/l.jsonl");
	append_to(handle, "{\"a\"");
	append_to(handle, ":1}\n");
	close_handle(handle);

	cr_expect_str_eq(rows_of("s", "l"), "0={\"a\":1}");
}

EveryStore(append, that_is_strict_refuses_the_write_that_completes_a_bad_line)
{
	struct handle *handle;

	be_strict();
	handle = appender("s/l.jsonl");
	append_to(handle, "1\n{\"a\"");

	cr_expect_eq(handle_write(world_tree, handle, getpid(), 0, BYTES(" 1}\n")), -EINVAL);

	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	handle_free(world_tree, handle);
}

/* What is in the list, left by a writer that is gone unless own is set; what is written next, and
 * what comes of it. */
struct strict_case {
	const char *name;
	bool exact;
	bool own;
	const char *left;
	const char *next;
	ssize_t taken; /* or the error */
	const char *content;
	const char *rows;
};

static const struct strict_case strict_cases[] = {
	{ "a line that is valid alone closes a torn one off", false, false, "1\n{\"a\":", "2\nx\n",
	  2, "1\n{\"a\":\n2\n", "0=1 1=2" },
	{ "a line that completes a torn one", false, false, "{\"a\":", "2}\n", 3, "{\"a\":2}\n",
	  "0={\"a\":2}" },
	{ "neither", false, false, "1\n{\"a\":", "x\n", -EINVAL, "1\n{\"a\":", "0=1" },
	{ "a newline only closes off what a dead writer has left", false, false, "{\"a\":", "\n1\n",
	  3, "{\"a\":\n1\n", "0=1" },
	{ "exact: valid alone is not enough", true, false, "{\"a\":", "{\"b\":2}\n", -EINVAL,
	  "{\"a\":", "" },
	{ "exact: a newline would complete a torn line", true, false, "{\"a\":", "\n", -EINVAL,
	  "{\"a\":", "" },
	{ "exact: the glued line is valid", true, false, "{\"a\":", "2}\n3\n", 5, "{\"a\":2}\n3\n",
	  "0={\"a\":2} 1=3" },
	{ "its own: valid alone is not enough", false, true, "1\n{\"a\":", "{\"b\":2}\n", -EINVAL,
	  "1\n{\"a\":", "0=1" },
	{ "its own: a newline would complete a torn line", false, true, "[1,", "\n2\n", -EINVAL,
	  "[1,", "" },
	{ "its own: the glued line is valid", false, true, "1\n{\"a\":", "3}\n", 3,
	  "1\n{\"a\":3}\n", "0=1 1={\"a\":3}" },
	{ "a row without a newline gets it", false, true, "{\"a\":1}", "\n2\n", 3, "{\"a\":1}\n2\n",
	  "0={\"a\":1} 1=2" },
	{ "what would spoil a row without a newline", false, true, "{\"a\":1}", "x\n", -EINVAL,
	  "{\"a\":1}", "0={\"a\":1}" },
};

static void try_strict(const struct strict_case *strict, const char *path, const char *key)
{
	struct handle *handle = appender(path);
	ssize_t taken;

	append_to(handle, strict->left);
	cr_assert_eq(handle_flush(world_tree, handle, getpid()), 0);
	if (!strict->own) {
		handle_free(world_tree, handle);
		handle = appender(path);
	}

	taken = handle_write(world_tree, handle, getpid(), 0, bytes_str(strict->next));

	cr_expect_eq(taken, strict->taken, "%s: %zd", strict->name, taken);
	close_handle(handle);
	cr_expect_str_eq(content_of(path), strict->content, "%s: %s", strict->name,
			 content_of(path));
	cr_expect_str_eq(rows_of("s", key), strict->rows, "%s: %s", strict->name,
			 rows_of("s", key));
}

static void try_all_strict(bool exact)
{
	world_options.exact = exact;
	be_strict();
	for (size_t i = 0; i < ARRAY_SIZE(strict_cases); i++) {
		char path[32], key[16];

		if (strict_cases[i].exact != exact)
			continue;
		snprintf(key, sizeof(key), "l%zu", i);
		snprintf(path, sizeof(path), "s/%s.jsonl", key);
		try_strict(&strict_cases[i], path, key);
	}
}

EveryStore(append, that_is_strict_judges_a_line_as_it_will_stand_in_the_file)
{
	try_all_strict(false);
}

EveryStore(append, that_is_strict_and_exact_judges_the_glued_line)
{
	try_all_strict(true);
}

EveryStore(append, that_is_strict_goes_on_after_a_refused_line)
{
	struct handle *handle;

	be_strict();
	handle = appender("s/l.jsonl");
	append_to(handle, "1\n{\"a\":");
	cr_assert_eq(handle_sync(world_tree, handle), 0);

	cr_expect_eq(handle_write(world_tree, handle, getpid(), 0, BYTES("{\"b\":2}\n")), -EINVAL);
	append_to(handle, "3}\n");
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n{\"a\":3}\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1={\"a\":3}");
}

EveryStore(append, that_is_strict_refuses_the_newline_of_its_own_torn_line)
{
	struct handle *handle;

	be_strict();
	handle = appender("s/l.jsonl");
	append_to(handle, "{\"a\":");

	cr_expect_eq(handle_write(world_tree, handle, getpid(), 0, BYTES("\n")), -EINVAL);
	append_to(handle, "1}\n");
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "{\"a\":1}\n");
}

EveryStore(append, that_is_strict_completes_a_draft)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	save("s/l.jsonl", "1\n2\n{\"a\":");
	be_strict();
	handle = appender("s/l.jsonl");

	cr_expect_eq(handle_write(world_tree, handle, getpid(), 0, BYTES("x\n")), -EINVAL);
	append_to(handle, "3}\n4\n");
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n{\"a\":3}\n4\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2={\"a\":3} 3=4");
}

EveryStore(append, that_is_strict_works_on_lists_that_have_bad_lines_already)
{
	append("s/l.jsonl", "1\nbad\n\n2\n{\"torn");
	be_strict();

	append("s/l.jsonl", "3\n");
	append("s/l.jsonl", "4\n");

	cr_expect_str_eq(content_of("s/l.jsonl"), "1\nbad\n\n2\n{\"torn\n3\n4\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=1 1=2 2=3 3=4");
}

/* ---- long lists ---- */

EveryStore(append, to_a_long_list_keeps_every_byte_at_its_offset)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	struct handle *handle = appender("s/l.jsonl");

	for (unsigned i = 0; i < 3000; i++) {
		size_t before = expected.size;

		cr_assert_eq(buf_printf(&expected, i % 97 ? "{\"n\":%u}\n" : "bad %u\n", i), 0);
		write_at(handle, 0, bytes_make(expected.data + before, expected.size - before));
	}
	close_handle(handle);
	world_check();
	world_reopen();

	cr_expect(bytes_equal(bytes_of("s/l.jsonl"), buf_bytes(&expected)));
	handle = open_at("s/l.jsonl", O_RDONLY);
	for (size_t at = 0; at < expected.size; at += 1013) {
		_cleanup_(buf_done) struct buf out = { 0 };

		cr_assert_eq(handle_read(world_tree, handle, expected.size - at, 50, &out), 0);
		cr_assert(bytes_equal(buf_bytes(&out),
				      bytes_make(expected.data + expected.size - at, MIN(at, 50))));
	}
	handle_free(world_tree, handle);
}

EveryStore(append, of_one_long_line_is_one_row)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	struct handle *handle = appender("s/l.jsonl");

	cr_assert_eq(buf_append_byte(&line, '"'), 0);
	for (unsigned i = 0; i < 400000; i++)
		cr_assert_eq(buf_append_str(&line, "0123456789abcde"), 0);
	cr_assert_eq(buf_append_str(&line, "\"\n"), 0);
	for (size_t at = 0; at < line.size; at += 131072)
		write_at(handle, 0, bytes_make(line.data + at, MIN(131072, line.size - at)));
	append_to(handle, "2\n");
	close_handle(handle);

	cr_expect_eq(stat_of("s/l.jsonl").st_size, (off_t)line.size + 2);
	cr_expect_str_eq(keys(), "s/l[0-1]");
	cr_assert_eq(buf_append_str(&line, "2\n"), 0);
	cr_expect(bytes_equal(bytes_of("s/l.jsonl"), buf_bytes(&line)));
}

/* What the store is asked for, counted. */
static struct backend_ops counting_ops;
static int (*counted_piece_read)(struct backend *backend, struct backend_snapshot *snapshot,
				 uint64_t ino, int64_t first, int64_t first_seq,
				 backend_piece_fn *fn, void *arg);
static unsigned pieces_read;

struct counted {
	backend_piece_fn *fn;
	void *arg;
};

static int count_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	const struct counted *counted = arg;

	pieces_read++;
	return counted->fn(counted->arg, index, seq, data);
}

static int counting_piece_read(struct backend *backend, struct backend_snapshot *snapshot,
			       uint64_t ino, int64_t first, int64_t first_seq, backend_piece_fn *fn,
			       void *arg)
{
	struct counted counted = { fn, arg };

	return counted_piece_read(backend, snapshot, ino, first, first_seq, count_piece, &counted);
}

static int count_pieces(struct backend *inner, struct backend **ret_backend)
{
	/* The store in memory is the same one again. */
	if (inner->ops != &counting_ops) {
		counted_piece_read = inner->ops->piece_read;
		counting_ops = *inner->ops;
		counting_ops.piece_read = counting_piece_read;
		inner->ops = &counting_ops;
	}
	*ret_backend = inner;
	return 0;
}

static void read_in_steps(const char *path, size_t size, size_t step)
{
	struct handle *handle = open_at(path, O_RDONLY);

	for (size_t at = 0; at < size; at += step) {
		_cleanup_(buf_done) struct buf out = { 0 };

		cr_assert_eq(handle_read(world_tree, handle, at, step, &out), 0);
		cr_assert_eq(out.size, MIN(step, size - at));
	}
	handle_free(world_tree, handle);
}

/* Lines that are no rows, each with a write of its own, so that each is a piece. */
static void reads_each_piece_about_once(int kind)
{
	enum { LINES = 3000, STEP = 32, MOST = 4 * LINES };
	struct handle *handle;

	world_wrap(count_pieces);
	world_open(kind);
	make_dir("s");
	handle = appender("s/l.jsonl");
	for (unsigned i = 0; i < LINES; i++)
		append_to(handle, "x\n");
	close_handle(handle);

	world_reopen();
	pieces_read = 0;
	cr_expect_eq(stat_of("s/l.jsonl").st_size, 2 * LINES);
	cr_expect_lt(pieces_read, 2 * LINES, "%u pieces read for the size", pieces_read);

	pieces_read = 0;
	read_in_steps("s/l.jsonl", (size_t)2 * LINES, STEP);
	/* Some are fetched ahead at each step. */
	cr_expect_lt(pieces_read, MOST + 2 * LINES / STEP * 65, "%u pieces read", pieces_read);
	world_wrap(NULL);
	world_close();
}

Test(append, of_bad_lines_costs_readers_no_more_for_each_the_more_there_are)
{
	reads_each_piece_about_once(WORLD_MEMORY);
	reads_each_piece_about_once(WORLD_SQLITE);
}

EveryStore(append, keeps_bad_lines_of_one_write_together_and_a_torn_one_apart)
{
	struct handle *handle = appender("s/l.jsonl");

	append_to(handle, "x\n\ny\n{}\nz\n\nw");
	close_handle(handle);
	cr_expect_str_eq(pieces_of("s/l.jsonl"), "0.0=x\n\ny\n 1.0=z\n\n 1.1=w");

	append("s/l.jsonl", "v\n");
	cr_expect_str_eq(pieces_of("s/l.jsonl"), "0.0=x\n\ny\n 1.0=z\n\n 1.1=w 1.2=v\n");
	cr_expect_str_eq(content_of("s/l.jsonl"), "x\n\ny\n{}\nz\n\nwv\n");

	save("s/l.jsonl", "1\n\n\n2\na\nb\n\"\"");
	cr_expect_str_eq(pieces_of("s/l.jsonl"), "1.0=\n\n 2.0=a\nb\n");
	save("s/l.jsonl", "a\nb\n");
	save("s/m.jsonl", "");
	save("s/m.jsonl", "a\nb\nc");
	cr_expect_str_eq(pieces_of("s/l.jsonl"), "0.0=a\nb\n");
	cr_expect_str_eq(pieces_of("s/m.jsonl"), "0.0=a\nb\n 0.1=c");
	append("s/m.jsonl", "d\n");
	cr_expect_str_eq(content_of("s/m.jsonl"), "a\nb\ncd\n");
}

EveryStore(append, of_a_torn_line_leaves_the_torn_ones_before_it_alone)
{
	append("s/l.jsonl", "{\"t\":\"x");
	append("s/l.jsonl", "{\"t\":\"y");
	append("s/l.jsonl", "{\"t\":\"z");
	cr_expect_str_eq(pieces_of("s/l.jsonl"), "0.0={\"t\":\"x 0.1={\"t\":\"y 0.2={\"t\":\"z");

	world_reopen();
	append("s/l.jsonl", "}");
	append("s/l.jsonl", "}\n");
	cr_expect_str_eq(pieces_of("s/l.jsonl"),
			 "0.0={\"t\":\"x 0.1={\"t\":\"y 0.2={\"t\":\"z 0.3=} 0.4=}\n");

	append("s/l.jsonl", "[1,");
	append("s/l.jsonl", "\"]\",");
	append("s/l.jsonl", "\"]");
	append("s/l.jsonl", "\"  ");
	append("s/l.jsonl", " ] \n[2,");
	append("s/l.jsonl", "3\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=[1,\"]\",\"]\"   ]  1=3");
	cr_expect_str_eq(content_of("s/l.jsonl"),
			 "{\"t\":\"x{\"t\":\"y{\"t\":\"z}}\n[1,\"]\",\"]\"   ] \n[2,\n3\n");
}

EveryStore(append, goes_on_with_its_own_torn_line_after_each_sync)
{
	static const char *const parts[] = { "{\"a\"", ":", "[0", "1", "2", "3]", "}", "\n4\n" };
	struct handle *handle = appender("s/l.jsonl");

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		append_to(handle, parts[i]);
		cr_assert_eq(handle_sync(world_tree, handle), 0);
	}
	close_handle(handle);

	cr_expect_str_eq(content_of("s/l.jsonl"), "{\"a\":[0123]}\n4\n");
	cr_expect_str_eq(rows_of("s", "l"), "0=4");
	cr_expect_str_eq(pieces_of("s/l.jsonl"),
			 "0.0={\"a\" 0.1=: 0.2=[0 0.3=1 0.4=2 0.5=3] 0.6=} 0.7=\n");
}

EveryStore(append, keeps_what_its_own_cut_has_left)
{
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_TRUNC | O_APPEND);
	const struct stat st = { .st_size = 3 };

	cr_assert_eq(set_attr_by(handle, &st, TREE_SET_SIZE), 0);
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	append_to(handle, "[]\n");
	close_handle(handle);

	cr_expect_str_eq(pieces_of("s/l.jsonl"), "0.0=\\0\\0\\0[]\n");
}

EveryStore(append, to_a_list_without_a_name_keeps_the_order)
{
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_APPEND);

	append_to(handle, "1\n{\"a\":");
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	world_settle();
	append_to(handle, "2}\n");
	cr_expect_str_eq(read_by(handle), "1\n{\"a\":2}\n");
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_expect_str_eq(read_by(handle), "1\n{\"a\":2}\n");
	cr_expect_str_eq(keys(), "");
	close_handle(handle);
}

EveryStore(append, to_a_draft_is_one_to_who_has_it_open)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	save("s/l.jsonl", "1\n{\"torn");
	handle = open_at("s/l.jsonl", O_RDONLY);
	append("s/l.jsonl", "\":2}\n");

	cr_expect_eq(stat_of_inode(handle_inode(handle)).st_size, 13);
	cr_expect_str_eq(read_by(handle), "1\n{\"torn\":2}\n");
	handle_free(world_tree, handle);
}

static int64_t stored_mtime(void)
{
	return strtoll(sql_asks("SELECT mtime FROM sessfs_node WHERE state_key = 'l'"), NULL, 10);
}

/* One transaction for each append and its sync, that is. */
SqliteStore(append, behind_a_sync_brings_its_times_with_it)
{
	struct handle *handle = open_at("s/l.jsonl", O_WRONLY | O_CREAT | O_APPEND);

	for (int i = 0; i < 3; i++) {
		append_to(handle, "1\n");
		if (i > 0)
			cr_assert_eq(stored_mtime(), nanoseconds(stat_of("s/l.jsonl").st_mtim));
		cr_assert_eq(handle_sync(world_tree, handle), 0);
		cr_assert_eq(stored_mtime(), nanoseconds(stat_of("s/l.jsonl").st_mtim));
	}
	close_handle(handle);
}

static int64_t size_of_log(void)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s-wal", world_path());
	return stat(path, &st) == 0 ? st.st_size : 0;
}

/* The log begins anew only when nobody writes while it is copied. */
SqliteStore(append, without_a_pause_does_not_let_the_log_grow_for_ever)
{
	enum { LINE = 64 << 10, LINES = 3200 };
	struct handle *handle = appender("s/l.jsonl");
	static char line[LINE + 1];
	int64_t most = 0;

	memset(line, '1', LINE - 1);
	line[LINE - 1] = '\n';
	for (int i = 0; i < LINES; i++) {
		append_to(handle, line);
		most = MAX(most, size_of_log());
	}
	cr_assert_lt(most, (int64_t)LINE * LINES / 2);
	close_handle(handle);
}

/* Of SQLite, in the whole process: in a moment, it is below that. */
static bool memory_falls_below(int64_t limit)
{
	return UNTIL(sqlite3_memory_used() < limit);
}

/* Its pages fill the caches of who writes and who reads. */
SqliteStore(append, and_reading_give_memory_back_when_nobody_comes)
{
	/* What a few connections need by themselves, of which there may be one more at any time. */
	enum { LINE = 64 << 10, LINES = 64, LITTLE = 1920 << 10 };
	struct handle *handle = appender("s/l.jsonl");
	static char line[LINE + 1];
	_cleanup_(buf_done) struct buf content = { 0 };

	memset(line, '1', LINE - 1);
	line[LINE - 1] = '\n';
	for (int i = 0; i < LINES; i++)
		append_to(handle, line);
	close_handle(handle);
	cr_assert_gt(sqlite3_memory_used(), LITTLE);
	cr_expect(memory_falls_below(LITTLE));

	handle = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_eq(handle_read(world_tree, handle, 0, LINE * LINES, &content), 0);
	cr_assert_gt(sqlite3_memory_used(), LITTLE);
	cr_expect(memory_falls_below(LITTLE));
	handle_free(world_tree, handle);
}
