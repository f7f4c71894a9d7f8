/* SPDX-License-Identifier: MIT */
/* Rows that go to other indexes, and pieces and marks with them. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <stdio.h>

/* With the pieces and marks of node 5. */
static struct backend_op shift(int64_t first, int64_t by, int64_t bytes)
{
	return (struct backend_op){ .type = BACKEND_ROWS_SHIFT,
				    .session = S,
				    .key = K,
				    .ino = 5,
				    .at = first,
				    .to = by,
				    .seq = bytes };
}

/* Made and changed so many seconds after 1970. */
static struct backend_op dated(int64_t at, struct bytes data, int64_t created, int64_t updated)
{
	struct backend_op op = row_insert(S, K, at, data);

	op.created = created * 1000000000;
	op.updated = updated * 1000000000;
	return op;
}

static const char *times_of(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	const char *text = rows_timed(backend, snapshot, S, K, INT64_MIN, false, UINT64_MAX);

	unlook(backend, snapshot);
	return text;
}

static int64_t last_update(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_key_stat stat;

	cr_assert_eq(backend->ops->key_stat(backend, snapshot, S, K, &stat), 0);
	unlook(backend, snapshot);
	return stat.updated / 1000000000;
}

/* All marks of node 5, as "offset:index", from the last one on. */
static const char *marks_of(struct backend *backend)
{
	static char texts[4][256];
	static unsigned turn;
	char *text = texts[turn++ % ARRAY_SIZE(texts)];
	struct backend_snapshot *snapshot = look(backend);
	uint64_t offset = INT64_MAX;
	struct backend_mark mark, by_index;
	size_t used = 0;

	*text = '\0';
	while (backend->ops->mark_find(backend, snapshot, 5, offset, &mark) == 0) {
		used += (size_t)snprintf(text + used, sizeof(texts[0]) - used, "%s%llu:%lld",
					 used ? " " : "", (unsigned long long)mark.offset,
					 (long long)mark.index);
		cr_expect_eq(backend->ops->mark_find_index(backend, snapshot, 5, mark.index,
							   &by_index),
			     0);
		cr_expect_eq(by_index.offset, mark.offset);
		if (!mark.offset)
			break;
		offset = mark.offset - 1;
	}
	unlook(backend, snapshot);
	return text;
}

EveryStore(shifts, up_make_room_for_others)
{
	for (int64_t by = 1; by < 6; by++) {
		char expected[64];

		COMMIT(backend, row_delete(S, K, INT64_MIN, INT64_MAX));
		COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")),
		       row_insert(S, K, 2, BYTES("c")), row_insert(S, K, 3, BYTES("d")),
		       row_insert(S, BYTES("other"), 7, BYTES("o")),
		       row_insert(BYTES("sess2"), K, 7, BYTES("o")));

		cr_assert_eq(COMMIT(backend, shift(1, by, 0)), 0);
		snprintf(expected, sizeof(expected), "0=a %d=b %d=c %d=d", (int)by + 1, (int)by + 2,
			 (int)by + 3);
		cr_assert_str_eq(rows_of(backend, S, K), expected);
		cr_assert_str_eq(rows_of(backend, S, BYTES("other")), "7=o");
		cr_assert_str_eq(rows_of(backend, BYTES("sess2"), K), "7=o");
		COMMIT(backend, row_delete(S, BYTES("other"), 7, 7),
		       row_delete(BYTES("sess2"), K, 7, 7));
	}
}

EveryStore(shifts, down_close_the_place_of_those_that_are_gone)
{
	for (int64_t by = 1; by < 6; by++) {
		char expected[64];

		COMMIT(backend, row_delete(S, K, INT64_MIN, INT64_MAX));
		COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 6, BYTES("b")),
		       row_insert(S, K, 7, BYTES("c")), row_insert(S, K, 8, BYTES("d")));

		cr_assert_eq(COMMIT(backend, shift(6, -by, 0)), 0);
		snprintf(expected, sizeof(expected), "0=a %d=b %d=c %d=d", (int)(6 - by),
			 (int)(7 - by), (int)(8 - by));
		cr_assert_str_eq(rows_of(backend, S, K), expected);
	}
}

EveryStore(shifts, leave_the_times_of_the_rows)
{
	NEEDS(backend, scans, row_read_times);
	COMMIT(backend, dated(0, BYTES("a"), 100, 200), dated(1, BYTES("b"), 101, 201));

	cr_assert_eq(COMMIT(backend, shift(0, 3, 0)), 0);
	cr_assert_str_eq(times_of(backend), "3@100=a 4@101=b");
	cr_assert_eq(last_update(backend), 201);
	cr_assert_eq(COMMIT(backend, shift(4, -1, 0), row_delete(S, K, 9, 9)), -EEXIST);
	cr_assert_eq(COMMIT(backend, row_delete(S, K, 3, 3), shift(4, -4, 0)), 0);
	cr_assert_str_eq(times_of(backend), "0@101=b");
	cr_assert_eq(last_update(backend), 201);
}

EveryStore(shifts, of_no_rows_change_nothing)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), mark_put(5, 7, 0));

	cr_assert_eq(COMMIT(backend, shift(1, 3, 9), shift(1, -3, 9), shift(0, 0, 0)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a");
	cr_assert_str_eq(marks_of(backend), "7:0");
}

EveryStore(shifts, take_pieces_and_marks_with_them)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")),
	       row_insert(S, K, 2, BYTES("c")), piece_put(5, 0, 0, BYTES("p")),
	       piece_put(5, 1, 0, BYTES("q")), piece_put(5, 1, 1, BYTES("r")),
	       piece_put(5, 2, 4, BYTES("s")), piece_put(6, 1, 0, BYTES("other")),
	       mark_put(5, 10, 0), mark_put(5, 20, 1), mark_put(5, 30, 2), mark_put(6, 20, 1));

	cr_assert_eq(COMMIT(backend, shift(1, 1, 10)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 2=b 3=c");
	cr_assert_str_eq(pieces_of(backend, 5, 0), "0.0=p 2.0=q 2.1=r 3.4=s");
	cr_assert_str_eq(marks_of(backend), "40:3 30:2 10:0");
	cr_assert_str_eq(pieces_of(backend, 6, 0), "1.0=other");
	cr_assert_eq(COMMIT(backend, shift(2, -1, -15)), 0);
	cr_assert_str_eq(pieces_of(backend, 5, 0), "0.0=p 1.0=q 1.1=r 2.4=s");
	cr_assert_str_eq(marks_of(backend), "25:2 15:1 10:0");
}

EveryStore(shifts, take_marks_elsewhere_though_the_rows_stay)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")),
	       mark_put(5, 10, 0), mark_put(5, 20, 1), mark_put(5, 30, 2));

	cr_assert_eq(COMMIT(backend, shift(1, 0, 10)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 1=b");
	cr_assert_str_eq(marks_of(backend), "40:2 30:1 10:0");
}

EveryStore(shifts, do_not_put_rows_in_the_place_of_others)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	cr_assert_eq(COMMIT(backend, shift(1, -1, 0)), -EEXIST);
	COMMIT(backend, piece_put(5, 2, 0, BYTES("p")), piece_put(5, 3, 0, BYTES("q")));
	cr_assert_eq(COMMIT(backend, shift(3, -1, 0)), -EEXIST);
	COMMIT(backend, mark_put(5, 10, 0), mark_put(5, 20, 5));
	cr_assert_eq(COMMIT(backend, shift(5, -1, -10)), -EEXIST);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 1=b");
	cr_assert_str_eq(pieces_of(backend, 5, 0), "2.0=p 3.0=q");
	cr_assert_str_eq(marks_of(backend), "20:5 10:0");
}

EveryStore(shifts, in_a_batch_that_fails_leave_all_where_it_was)
{
	NEEDS(backend, scans, row_read_times);
	COMMIT(backend, dated(0, BYTES("a"), 100, 200), dated(1, BYTES("b"), 101, 201),
	       piece_put(5, 1, 0, BYTES("p")), mark_put(5, 10, 1));

	cr_assert_eq(COMMIT(backend, shift(0, 2, 5), row_put(S, K, 0, BYTES("n")),
			    row_insert(S, K, 2, BYTES("in the way"))),
		     -EEXIST);
	cr_assert_str_eq(times_of(backend), "0@100=a 1@101=b");
	cr_assert_str_eq(pieces_of(backend, 5, 0), "1.0=p");
	cr_assert_str_eq(marks_of(backend), "10:1");
}

EveryStore(shifts, beyond_the_last_number_are_refused)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, INT64_MAX, BYTES("b")));
	cr_assert_eq(COMMIT(backend, shift(0, 1, 0)), -EFBIG);
	cr_assert_eq(COMMIT(backend, shift(1, INT64_MAX, 0)), -EFBIG);
	cr_assert_eq(COMMIT(backend, shift(1, INT64_MIN, 0)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "-1=b 0=a");
	cr_assert_eq(COMMIT(backend, shift(-1, INT64_MIN, 0)), -EFBIG);
	COMMIT(backend, mark_put(5, 10, 0), mark_put(5, INT64_MAX, 1));
	cr_assert_eq(COMMIT(backend, shift(0, 0, -11)), -EFBIG);
	cr_assert_eq(COMMIT(backend, shift(1, 1, 1)), -EFBIG);
	cr_assert_str_eq(rows_of(backend, S, K), "-1=b 0=a");
}

EveryStore(shifts, of_a_key_without_a_file_are_of_its_rows_alone)
{
	struct backend_op op = shift(0, 1, 1);

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), piece_put(5, 0, 0, BYTES("p")),
	       mark_put(5, 10, 0));
	op.ino = 0;
	cr_assert_eq(COMMIT(backend, op), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "1=a");
	cr_assert_str_eq(pieces_of(backend, 5, 0), "0.0=p");
	cr_assert_str_eq(marks_of(backend), "10:0");
}

EveryStore(shifts, of_thousands_of_rows_keep_their_order)
{
	enum { COUNT = 3000, BY = 7 };
	struct backend_op ops[COUNT];
	char data[COUNT][16];
	struct backend_snapshot *snapshot;
	struct backend_key_stat stat;

	for (int i = 0; i < COUNT; i++) {
		snprintf(data[i], sizeof(data[i]), "%d", i);
		ops[i] = row_insert(S, K, i, bytes_str(data[i]));
	}
	cr_assert_eq(backend_commit(backend, ops, COUNT, 0), 0);
	cr_assert_eq(COMMIT(backend, shift(100, BY, 0)), 0);
	cr_assert_eq(COMMIT(backend, shift(100 + BY, -BY + 1, 0)), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->key_stat(backend, snapshot, S, K, &stat), 0);
	cr_assert_eq(stat.last, COUNT);
	cr_assert_str_eq(rows_back(backend, snapshot, S, K, 103, 4),
			 "103=102 102=101 101=100 99=99");
	cr_assert_str_eq(rows_back(backend, snapshot, S, K, COUNT, 2), "3000=2999 2999=2998");
	unlook(backend, snapshot);
}

EveryStore(marks, are_deleted_between_two_offsets)
{
	struct backend_op op = { .type = BACKEND_MARK_DELETE, .ino = 5, .offset = 20, .to = 40 };

	COMMIT(backend, mark_put(5, 10, 1), mark_put(5, 20, 2), mark_put(5, 30, 3),
	       mark_put(5, 40, 4), mark_put(6, 30, 3));
	cr_assert_eq(COMMIT(backend, op), 0);
	cr_assert_str_eq(marks_of(backend), "40:4 10:1");
	op.to = 0;
	cr_assert_eq(COMMIT(backend, op), 0);
	cr_assert_str_eq(marks_of(backend), "10:1");
}
