/* SPDX-License-Identifier: MIT */
#include "backend/base/buf.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/base/cleanup.h"
#include "tests/unit/failing-alloc.h"

/* ---- bytes ---- */

Test(buf, bytes_are_equal_when_size_and_content_are)
{
	cr_expect(bytes_equal(BYTES("ab"), BYTES("ab")));
	cr_expect(bytes_equal(BYTES("a\0b"), BYTES("a\0b")));
	cr_expect(bytes_equal(bytes_make(NULL, 0), BYTES("")));
	cr_expect_not(bytes_equal(BYTES("a\0b"), BYTES("a\0c")));
	cr_expect_not(bytes_equal(BYTES("ab"), BYTES("abc")));
}

Test(buf, bytes_are_ordered_as_unsigned_then_by_size)
{
	/* given: each smaller than the next */
	static const struct bytes rising[] = {
		{ NULL, 0 },   BYTES("\0"),   BYTES("\0\0"),   BYTES("a"),
		BYTES("a\0"),  BYTES("aa"),   BYTES("b"),      BYTES("\x7f"),
		BYTES("\x80"), BYTES("\xff"), BYTES("\xff\0"),
	};

	for (size_t a = 0; a < ARRAY_SIZE(rising); a++) {
		for (size_t b = 0; b < ARRAY_SIZE(rising); b++) {
			int order = bytes_compare(rising[a], rising[b]);

			cr_expect_eq((order > 0) - (order < 0), (a > b) - (a < b), "%zu, %zu", a,
				     b);
		}
	}
}

Test(buf, an_end_is_recognised)
{
	cr_expect(bytes_ends_with(BYTES("k.json"), BYTES(".json")));
	cr_expect(bytes_ends_with(BYTES(".json"), BYTES(".json")));
	cr_expect(bytes_ends_with(BYTES("k"), BYTES("")));
	cr_expect_not(bytes_ends_with(BYTES("json"), BYTES(".json")));
	cr_expect_not(bytes_ends_with(BYTES("k.json"), BYTES(".jso")));
	cr_expect_not(bytes_ends_with(bytes_make(NULL, 0), BYTES("x")));
}

Test(buf, a_copy_has_a_nul_behind_it)
{
	_cleanup_(freep) char *copy = bytes_dup(BYTES("a\0b"));
	_cleanup_(freep) char *nothing = bytes_dup(bytes_make(NULL, 0));

	cr_assert_not_null(copy);
	cr_assert_not_null(nothing);
	cr_expect_arr_eq(copy, "a\0b\0", 4);
	cr_expect_str_eq(nothing, "");
}

/* ---- buf ---- */

Test(buf, what_is_appended_stands_in_order)
{
	_cleanup_(buf_done) struct buf buf = { 0 };

	cr_assert_eq(buf_append(&buf, "a\0", 2), 0);
	cr_assert_eq(buf_append_bytes(&buf, BYTES("bc")), 0);
	cr_assert_eq(buf_append_str(&buf, "de"), 0);
	cr_assert_eq(buf_append_byte(&buf, '\n'), 0);
	cr_assert_eq(buf_printf(&buf, "%d-%s", 42, "x"), 0);
	cr_assert_eq(buf_append_zeros(&buf, 3), 0);

	cr_expect(bytes_equal(buf_bytes(&buf), BYTES("a\0bcde\n42-x\0\0\0")));
}

Test(buf, nothing_can_be_appended_to_nothing)
{
	_cleanup_(buf_done) struct buf buf = { 0 };

	cr_expect_eq(buf_append(&buf, NULL, 0), 0);
	cr_expect_eq(buf_append_bytes(&buf, bytes_make(NULL, 0)), 0);
	cr_expect_eq(buf_append_str(&buf, ""), 0);
	cr_expect_eq(buf_append_zeros(&buf, 0), 0);
	cr_expect_eq(buf_printf(&buf, "%s", ""), 0);
	buf_consume(&buf, 0);

	cr_expect_eq(buf.size, 0);
}

Test(buf, it_grows_over_many_appends)
{
	_cleanup_(buf_done) struct buf buf = { 0 };

	for (size_t i = 0; i < 100000; i++)
		cr_assert_eq(buf_append_byte(&buf, (char)(i % 251)), 0);

	cr_assert_eq(buf.size, 100000);
	for (size_t i = 0; i < buf.size; i++)
		cr_assert_eq(buf.data[i], (char)(i % 251));
}

Test(buf, reserved_room_is_there_without_being_content)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	char *data;

	cr_assert_eq(buf_append_str(&buf, "x"), 0);
	cr_assert_eq(buf_reserve(&buf, 5000), 0);
	data = buf.data;
	memset(buf.data + 1, 'y', 5000);

	cr_expect_eq(buf.size, 1);
	cr_expect_geq(buf.room, 5001);
	cr_assert_eq(buf_append_zeros(&buf, 5000), 0);
	cr_expect_eq(buf.data, data, "no further allocation");
	cr_expect_eq(buf.data[5000], 0);
}

Test(buf, consuming_drops_the_front)
{
	_cleanup_(buf_done) struct buf buf = { 0 };

	cr_assert_eq(buf_append_str(&buf, "headtail"), 0);
	buf_consume(&buf, 4);
	cr_expect(bytes_equal(buf_bytes(&buf), BYTES("tail")));
	buf_consume(&buf, 4);
	cr_expect_eq(buf.size, 0);
}

Test(buf, cleared_it_keeps_its_room_and_done_it_is_empty)
{
	struct buf buf = { 0 };

	cr_assert_eq(buf_append_str(&buf, "x"), 0);
	buf_clear(&buf);
	cr_expect_eq(buf.size, 0);
	cr_expect_gt(buf.room, 0);

	buf_done(&buf);
	cr_expect(buf.data == NULL && buf.size == 0 && buf.room == 0);
	buf_done(&buf);
	buf_done(NULL);
}

Test(buf, a_size_beyond_memory_is_refused_without_asking_for_it)
{
	_cleanup_(buf_done) struct buf buf = { 0 };

	cr_assert_eq(buf_append_str(&buf, "x"), 0);

	cr_expect_eq(buf_reserve(&buf, SIZE_MAX), -ENOMEM);
	cr_expect_eq(buf_reserve(&buf, SIZE_MAX - 1), -ENOMEM);
	cr_expect_eq(buf_append_zeros(&buf, SIZE_MAX / 2 + 1), -ENOMEM);
	cr_expect(bytes_equal(buf_bytes(&buf), BYTES("x")));
}

Test(buf, without_memory_it_is_left_as_it_was)
{
	/* given: a full buffer */
	_cleanup_(buf_done) struct buf buf = { 0 };
	char *data;
	size_t size;

	cr_assert_eq(buf_append_str(&buf, "kept"), 0);
	cr_assert_eq(buf_append_zeros(&buf, buf.room - buf.size), 0);
	data = buf.data;
	size = buf.size;

	/* when */
	failing_alloc_at(1);
	cr_expect_eq(buf_append(&buf, "x", 1), -ENOMEM);
	cr_expect_eq(buf_append_bytes(&buf, BYTES("x")), -ENOMEM);
	cr_expect_eq(buf_append_str(&buf, "x"), -ENOMEM);
	cr_expect_eq(buf_append_byte(&buf, 'x'), -ENOMEM);
	cr_expect_eq(buf_append_zeros(&buf, 1), -ENOMEM);
	cr_expect_eq(buf_printf(&buf, "%d", 1), -ENOMEM);
	cr_expect_null(bytes_dup(BYTES("x")));
	cr_expect_eq(failing_alloc_failures(), 7);
	failing_alloc_at(0);

	/* then */
	cr_expect(buf.data == data && buf.size == size);
	cr_expect_arr_eq(buf.data, "kept", 4);
	cr_expect_eq(buf_append_byte(&buf, 'x'), 0);
}
