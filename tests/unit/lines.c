/* SPDX-License-Identifier: MIT */
#include "fs/base/lines.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "tests/unit/failing-alloc.h"
#include "tests/unit/random.h"

/* Lines as "text|text/", where '|' ends one with a newline and '/' one without. */
static void cut(struct bytes bytes, struct buf *shown)
{
	struct line line;

	while (lines_next(&bytes, &line)) {
		cr_assert_eq(line.size, line.text.size + line.newline);
		cr_assert_eq(buf_append_bytes(shown, line.text), 0);
		cr_assert_eq(buf_append_byte(shown, line.newline ? '|' : '/'), 0);
	}
}

struct cut_case {
	struct bytes bytes;
	struct bytes lines;
};

static const struct cut_case cut_cases[] = {
	{ { "", 0 }, { "", 0 } },
	{ { "\n", 1 }, { "|", 1 } },
	{ { "\n\n", 2 }, { "||", 2 } },
	{ { "a", 1 }, { "a/", 2 } },
	{ { "a\n", 2 }, { "a|", 2 } },
	{ { "a\nb", 3 }, { "a|b/", 4 } },
	{ { "a\r\nb\r", 5 }, { "a\r|b\r/", 6 } },
	{ { "a\fb\vc\xe2\x80\xa8"
	    "d\xc2\x85"
	    "e",
	    12 },
	  { "a\fb\vc\xe2\x80\xa8"
	    "d\xc2\x85"
	    "e/",
	    13 } },
	{ { "\0\n\0", 3 }, { "\0|\0/", 4 } },
};

Test(lines, are_cut_at_newlines_and_nowhere_else)
{
	for (size_t i = 0; i < ARRAY_SIZE(cut_cases); i++) {
		_cleanup_(buf_done) struct buf shown = { 0 };

		cut(cut_cases[i].bytes, &shown);

		cr_expect(bytes_equal(buf_bytes(&shown), cut_cases[i].lines), "case %zu", i);
	}
}

Test(lines, that_are_joined_are_the_bytes_again)
{
	static const char letters[] = { '\n', '\n', '\r', 'a', ' ', '\0', '\xff' };
	uint64_t state = random_seed("lines joined");

	for (unsigned round = 0; round < 2000; round++) {
		_cleanup_(buf_done) struct buf joined = { 0 };
		char data[40];
		size_t size = random_below(&state, sizeof(data));
		struct bytes rest = bytes_make(data, size);
		struct line line;

		for (size_t i = 0; i < size; i++)
			data[i] = letters[random_below(&state, sizeof(letters))];

		while (lines_next(&rest, &line)) {
			cr_assert_eq(memchr(line.text.data, '\n', line.text.size), NULL);
			cr_assert_eq(buf_append(&joined, line.text.data, line.size), 0);
		}

		cr_assert(bytes_equal(buf_bytes(&joined), bytes_make(data, size)), "round %u",
			  round);
		cr_assert_eq(rest.size, 0);
	}
}

Test(lines, without_an_end_leave_the_rest_empty_and_the_output_alone)
{
	struct bytes rest = { 0 };
	struct line line = { .size = 77 };

	cr_expect_not(lines_next(&rest, &line));
	cr_expect_eq(line.size, 77);
}

Test(lines, are_rows_when_they_are_json)
{
	static const char *const rows[] = { "{}", " [1, 2]\t", "null\r", "\"a\\nb\"", "0" };
	static const char *const others[] = { "", " ", "{", "{} {}", "nul", "'a'", "\xff" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect(lines_is_row(bytes_str(rows[i]), NULL), "%s", rows[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_not(lines_is_row(bytes_str(others[i]), NULL), "%s", others[i]);
}

Test(lines, that_are_no_rows_come_with_a_reason)
{
	struct json_error error = { 0 };

	cr_expect_not(lines_is_row(BYTES("{\"a\":tru}"), &error));

	cr_expect_gt(error.offset, 0);
	cr_expect_not_null(error.reason);
}

Test(lines, of_white_space_are_blank)
{
	cr_expect(lines_is_blank(BYTES("")));
	cr_expect(lines_is_blank(BYTES(" \t\r ")));
	cr_expect_not(lines_is_blank(BYTES("\f")));
	cr_expect_not(lines_is_blank(BYTES("\0")));
	cr_expect_not(lines_is_blank(BYTES(" 1 ")));
	cr_expect_not(lines_is_blank(BYTES("\xc2\xa0")));
}

Test(lines, show_a_pretty_printed_row_on_one_line_of_the_same_size)
{
	_cleanup_(buf_done) struct buf shown = { 0 };
	struct bytes row = BYTES("{\n  \"a\": [1,\n2]\n}\n");

	cr_assert_eq(lines_show_row(row, &shown), 0);

	cr_expect(bytes_equal(buf_bytes(&shown), BYTES("{   \"a\": [1, 2] } ")));
	cr_expect(lines_is_row(buf_bytes(&shown), NULL));
	cr_expect(lines_row_equals(row, buf_bytes(&shown)));
}

Test(lines, show_rows_behind_what_the_buffer_holds)
{
	_cleanup_(buf_done) struct buf shown = { 0 };

	cr_assert_eq(buf_append_str(&shown, "a\nb"), 0);
	cr_assert_eq(lines_show_row(BYTES("1\n"), &shown), 0);

	cr_expect(bytes_equal(buf_bytes(&shown), BYTES("a\nb1 ")));
}

Test(lines, leave_the_buffer_when_memory_is_short)
{
	_cleanup_(buf_done) struct buf shown = { 0 };
	int r;

	failing_alloc_at(1);
	r = lines_show_row(BYTES("[1,\n2]"), &shown);
	failing_alloc_at(0);

	cr_expect_eq(r, -ENOMEM);
	cr_expect_eq(shown.size, 0);
}

Test(lines, equal_a_row_only_as_it_is_shown)
{
	cr_expect(lines_row_equals(BYTES("[1, 2]"), BYTES("[1, 2]")));
	cr_expect(lines_row_equals(BYTES("[1,\n2]"), BYTES("[1, 2]")));
	cr_expect_not(lines_row_equals(BYTES("[1, 2]"), BYTES("[1,\n2]")));
	cr_expect_not(lines_row_equals(BYTES("[1,2]"), BYTES("[1, 2]")));
	cr_expect_not(lines_row_equals(BYTES("[1,\t2]"), BYTES("[1, 2]")));
	cr_expect_not(lines_row_equals(BYTES("[1,\n2]"), BYTES("[1, 3]")));
}
