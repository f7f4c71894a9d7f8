/* SPDX-License-Identifier: MIT */
#include "tests/contract/contract.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/cleanup.h"

EveryStore(rows, are_read_in_the_order_of_their_index)
{
	int r = COMMIT(backend, row_insert(S, K, 10, BYTES("c")), row_insert(S, K, 2, BYTES("b")),
		       row_insert(S, K, 0, BYTES("a")));

	cr_assert_eq(r, 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 2=b 10=c");
}

EveryStore(rows, with_negative_indexes_are_handed_out_as_they_are)
{
	COMMIT(backend, row_insert(S, K, 1, BYTES("b")), row_insert(S, K, -7, BYTES("a")));

	cr_assert_str_eq(rows_of(backend, S, K), "-7=a 1=b");
}

EveryStore(rows, are_read_from_an_index_on)
{
	struct backend_snapshot *snapshot;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")),
	       row_insert(S, K, 5, BYTES("c")));
	snapshot = look(backend);

	cr_assert_str_eq(rows_seen(backend, snapshot, S, K, 1), "1=b 5=c");
	cr_assert_str_eq(rows_seen(backend, snapshot, S, K, 6), "");
	unlook(backend, snapshot);
}

static int stop_with(void *arg, int64_t index, struct bytes data)
{
	(void)index;
	(void)data;
	return *(int *)arg;
}

EveryStore(rows, end_when_the_callback_says_so)
{
	struct backend_snapshot *snapshot;
	int stop = 1, fail = -ELOOP;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	snapshot = look(backend);

	cr_assert_eq(backend->ops->row_read(backend, snapshot, S, K, 0, stop_with, &stop), 0);
	cr_assert_eq(backend->ops->row_read(backend, snapshot, S, K, 0, stop_with, &fail), -ELOOP);
	cr_assert_str_eq(rows_seen(backend, snapshot, S, K, 0), "0=a");
	unlook(backend, snapshot);
}

EveryStore(rows, are_read_backwards_from_an_index_on)
{
	struct backend_snapshot *snapshot;

	COMMIT(backend, row_insert(S, K, -7, BYTES("n")), row_insert(S, K, 0, BYTES("a")),
	       row_insert(S, K, 1, BYTES("b")), row_insert(S, K, 300, BYTES("c")),
	       row_insert(S, BYTES("messages0"), 2, BYTES("x")),
	       row_insert(S, BYTES("message"), 2, BYTES("x")));
	snapshot = look(backend);
	COMMIT(backend, row_insert(S, K, 301, BYTES("d")));

	cr_expect_str_eq(rows_back(backend, snapshot, S, K, INT64_MAX, UINT64_MAX),
			 "300=c 1=b 0=a -7=n");
	cr_expect_str_eq(rows_back(backend, snapshot, S, K, 299, 2), "1=b 0=a");
	cr_expect_str_eq(rows_back(backend, snapshot, S, K, 0, 5), "0=a -7=n");
	cr_expect_str_eq(rows_back(backend, snapshot, S, K, -8, 5), "");
	cr_expect_str_eq(rows_back(backend, snapshot, S, K, INT64_MIN, 5), "");
	cr_expect_str_eq(rows_back(backend, snapshot, S, K, INT64_MAX, 0), "");
	unlook(backend, snapshot);
}

EveryStore(rows, end_backwards_when_the_callback_says_so)
{
	struct backend_snapshot *snapshot;
	int stop = 1, fail = -ELOOP;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	snapshot = look(backend);

	cr_assert_eq(backend->ops->row_read_back(backend, snapshot, S, K, 0, 9, stop_with, &stop),
		     0);
	cr_assert_eq(backend->ops->row_read_back(backend, snapshot, S, K, 0, 9, stop_with, &fail),
		     -ELOOP);
	unlook(backend, snapshot);
}

struct nested {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	int64_t next;
};

/* Row n holds n + 1 bytes; the same rows are read while they are being read. */
static int read_again(void *arg, int64_t index, struct bytes data)
{
	struct nested *nested = arg;

	cr_assert_eq(index, nested->next++);
	cr_assert_str_eq(rows_seen(nested->backend, nested->snapshot, S, K, 0), "0=a 1=bb 2=ccc");
	cr_assert_eq(data.size, (size_t)index + 1);
	cr_assert_eq(data.data[index], 'a' + (char)index, "bytes live until the callback returns");
	return 0;
}

EveryStore(rows, are_read_again_by_a_callback_with_the_same_snapshot)
{
	struct nested nested = { .backend = backend };

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("bb")),
	       row_insert(S, K, 2, BYTES("ccc")));
	nested.snapshot = look(backend);
	COMMIT(backend, row_insert(S, K, 3, BYTES("dddd")));

	cr_assert_eq(backend->ops->row_read(backend, nested.snapshot, S, K, 0, read_again, &nested),
		     0);
	cr_assert_eq(nested.next, 3);
	unlook(backend, nested.snapshot);
}

EveryStore(rows, of_one_key_never_show_in_another)
{
	COMMIT(backend, row_insert(BYTES("a"), BYTES("bc"), 0, BYTES("1")),
	       row_insert(BYTES("ab"), BYTES("c"), 0, BYTES("2")),
	       row_insert(BYTES("a"), BYTES("b"), 0, BYTES("3")));

	cr_assert_str_eq(rows_of(backend, BYTES("a"), BYTES("bc")), "0=1");
	cr_assert_str_eq(rows_of(backend, BYTES("ab"), BYTES("c")), "0=2");
	cr_assert_str_eq(rows_of(backend, BYTES("a"), BYTES("B")), "");
}

EveryStore(rows, that_exist_are_not_inserted_again)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("b"))), -EEXIST);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a");
}

static struct backend_op at_times(struct backend_op op, int64_t created, int64_t updated)
{
	op.created = created * 1000000000;
	op.updated = updated * 1000000000;
	return op;
}

static void stat_times(struct backend *backend, int64_t *ret_created, int64_t *ret_updated)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_key_stat stat;

	cr_assert_eq(backend->ops->key_stat(backend, snapshot, S, K, &stat), 0);
	unlook(backend, snapshot);
	*ret_created = stat.created / 1000000000;
	*ret_updated = stat.updated / 1000000000;
}

EveryStore(rows, have_the_times_that_the_operation_says)
{
	int64_t created, updated;

	COMMIT(backend, at_times(row_insert(S, K, 0, BYTES("a")), 1500000000, 1500000001));
	stat_times(backend, &created, &updated);
	cr_assert_eq(created, 1500000000);
	cr_assert_eq(updated, 1500000001);

	COMMIT(backend, at_times(row_put(S, K, 0, BYTES("b")), 1500000002, 1500000003));
	stat_times(backend, &created, &updated);
	cr_assert_eq(created, 1500000000);
	cr_assert_eq(updated, 1500000003);

	COMMIT(backend, at_times(row_put(S, K, 0, BYTES("b")), 1500000004, 1500000005));
	stat_times(backend, &created, &updated);
	cr_assert_eq(updated, 1500000003, "a row that is equal is not touched");
}

EveryStore(rows, have_each_its_own_time_among_many)
{
	struct backend_op ops[40];
	int64_t created, updated;

	for (int i = 0; i < (int)ARRAY_SIZE(ops); i++)
		ops[i] = at_times(row_insert(S, K, i, BYTES("a")), i % 2 ? 1500000000 + i : 0, 0);
	cr_assert_eq(backend_commit(backend, ops, ARRAY_SIZE(ops), 0), 0);

	stat_times(backend, &created, &updated);
	cr_assert_eq(created, 1500000000 + 39);
	cr_assert_gt(updated, 1600000000, "now");
	COMMIT(backend, row_delete(S, K, 39, 39));
	stat_times(backend, &created, &updated);
	cr_assert_gt(created, 1600000000, "now");
}

static int keep_updated(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	int64_t *updated = arg;

	(void)index, (void)data;
	*updated = times.updated;
	return 0;
}

EveryStore(rows, are_read_with_when_each_was_made)
{
	struct backend_snapshot *snapshot;

	NEEDS(backend, scans, row_read_times);
	COMMIT(backend, at_times(row_insert(S, K, -7, BYTES("n")), 1500000000, 1500000001),
	       at_times(row_insert(S, K, 0, BYTES("a")), 1500000002, 1500000003),
	       at_times(row_insert(S, K, 1, BYTES("b")), 1400000000, 1500000005),
	       at_times(row_insert(S, K, 300, BYTES("c")), 1500000006, 1500000007),
	       row_insert(S, BYTES("messages0"), 2, BYTES("x")),
	       row_insert(S, BYTES("message"), 2, BYTES("x")));
	COMMIT(backend, at_times(row_put(S, K, 0, BYTES("A")), 1600000000, 1600000001));
	snapshot = look(backend);
	COMMIT(backend, row_insert(S, K, 301, BYTES("d")));

	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, INT64_MIN, false, UINT64_MAX),
			 "-7@1500000000=n 0@1500000002=A 1@1400000000=b 300@1500000006=c");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, 0, false, 2),
			 "0@1500000002=A 1@1400000000=b");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, 2, false, 5), "300@1500000006=c");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, 301, false, 5), "");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, 0, false, 0), "");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, INT64_MAX, true, UINT64_MAX),
			 "300@1500000006=c 1@1400000000=b 0@1500000002=A -7@1500000000=n");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, 299, true, 2),
			 "1@1400000000=b 0@1500000002=A");
	for (int back = 0; back < 2; back++) {
		int64_t updated = 0;

		cr_expect_eq(backend_row_read_times(backend, snapshot, S, K, 1, back, 1,
						    keep_updated, &updated),
			     0);
		cr_expect_eq(updated / 1000000000, 1500000005);
	}
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, -8, true, 5), "");
	cr_expect_str_eq(rows_timed(backend, snapshot, S, K, INT64_MAX, true, 0), "");
	unlook(backend, snapshot);
}

static int stop_timed(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	(void)times;
	return stop_with(arg, index, data);
}

EveryStore(rows, with_their_times_end_when_the_callback_says_so)
{
	int stop = 1, fail = -ELOOP;
	struct backend_snapshot *snapshot;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	snapshot = look(backend);

	for (int back = 0; back < 2; back++) {
		cr_expect_eq(backend_row_read_times(backend, snapshot, S, K, 0, back, 9, stop_timed,
						    &stop),
			     0);
		cr_expect_eq(backend_row_read_times(backend, snapshot, S, K, 0, back, 9, stop_timed,
						    &fail),
			     -ELOOP);
	}
	unlook(backend, snapshot);
}

EveryStore(rows, are_put_whether_they_exist_or_not)
{
	COMMIT(backend, row_put(S, K, 0, BYTES("a")), row_put(S, K, 1, BYTES("b")));

	cr_assert_eq(COMMIT(backend, row_put(S, K, 1, BYTES("c"))), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 1=c");
}

EveryStore(rows, are_deleted_by_an_inclusive_range)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")),
	       row_insert(S, K, 2, BYTES("c")), row_insert(S, K, 3, BYTES("d")),
	       row_insert(S, BYTES("other"), 1, BYTES("x")));

	cr_assert_eq(COMMIT(backend, row_delete(S, K, 1, 2)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 3=d");
	cr_assert_str_eq(rows_of(backend, S, BYTES("other")), "1=x");
}

EveryStore(rows, that_are_not_there_may_be_deleted)
{
	cr_assert_eq(COMMIT(backend, row_delete(S, K, INT64_MIN, INT64_MAX)), 0);
	cr_assert_eq(COMMIT(backend, row_delete(S, K, 5, 4)), 0);
}

EveryStore(rows, may_be_empty)
{
	COMMIT(backend, row_insert(S, K, 0, bytes_make(NULL, 0)));

	cr_assert_str_eq(rows_of(backend, S, K), "0=");
}

EveryStore(rows, keep_ids_that_contain_nul_bytes_apart)
{
	const struct bytes one = BYTES("a\0b"), two = BYTES("a\0c"), three = BYTES("a");

	COMMIT(backend, row_insert(one, one, 0, BYTES("1")), row_insert(two, one, 0, BYTES("2")),
	       row_insert(three, one, 0, BYTES("3")), row_insert(three, three, 0, BYTES("4")));

	cr_assert_str_eq(rows_of(backend, one, one), "0=1");
	cr_assert_str_eq(rows_of(backend, two, one), "0=2");
	cr_assert_str_eq(keys_of(backend),
			 "a/a[0-0] a/a\\0b[0-0] a\\0b/a\\0b[0-0] a\\0c/a\\0b[0-0]");
}

EveryStore(rows, may_have_empty_ids)
{
	const struct bytes empty = BYTES("");

	COMMIT(backend, row_insert(empty, empty, 0, BYTES("1")),
	       row_insert(empty, K, 0, BYTES("2")), row_insert(S, empty, 0, BYTES("3")));

	cr_assert_str_eq(rows_of(backend, empty, empty), "0=1");
	cr_assert_str_eq(keys_of(backend), "/[0-0] /messages[0-0] sess/[0-0]");
}

EveryStore(rows, have_ids_of_4000_bytes)
{
	char long_id[4000], longer_id[4001];
	struct bytes id = bytes_make(long_id, sizeof(long_id));

	memset(long_id, 'x', sizeof(long_id));
	memset(longer_id, 'x', sizeof(longer_id));

	cr_assert_eq(COMMIT(backend, row_insert(id, id, 0, BYTES("1")),
			    row_insert(bytes_make(longer_id, sizeof(longer_id)), id, 0,
				       BYTES("2"))),
		     0);
	cr_assert_str_eq(rows_of(backend, id, id), "0=1");
}

static int check_big(void *arg, int64_t index, struct bytes data)
{
	const struct bytes *expected = arg;

	cr_assert_eq(index, 3);
	cr_assert(bytes_equal(data, *expected), "%zu bytes came back", data.size);
	return 0;
}

EveryStore(rows, of_many_megabytes_come_back_as_they_were)
{
	struct bytes data = { NULL, 20 << 20 };
	struct backend_snapshot *snapshot;
	char *bytes = malloc(data.size);

	cr_assert_not_null(bytes);
	for (size_t i = 0; i < data.size; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	data.data = bytes;

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 3, data)), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->row_read(backend, snapshot, S, K, 0, check_big, &data), 0);
	unlook(backend, snapshot);
	free(bytes);
}

EveryStore(rows, above_the_limit_are_refused)
{
	/* Nobody looks at the bytes, so they need not exist. */
	struct bytes data = { "x", backend->max_item + 1 };

	cr_assert_gt(backend->max_item, 100000000);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, data)), -EFBIG);
	cr_assert_str_eq(rows_of(backend, S, K), "");
}

static struct backend_key_stat stat_of(struct backend *backend, struct bytes key)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_key_stat stat = { 0 };
	int r = backend->ops->key_stat(backend, snapshot, S, key, &stat);

	cr_assert_eq(r, 0, "key_stat: %d", r);
	unlook(backend, snapshot);
	return stat;
}

EveryStore(keys, know_their_first_and_last_index)
{
	struct backend_key_stat stat;

	COMMIT(backend, row_insert(S, K, 7, BYTES("a")), row_insert(S, K, 3, BYTES("b")),
	       row_insert(S, BYTES("messagesx"), 99, BYTES("c")));
	stat = stat_of(backend, K);

	cr_assert_eq(stat.first, 3);
	cr_assert_eq(stat.last, 7);
}

EveryStore(keys, without_rows_do_not_exist)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_key_stat stat;

	cr_assert_eq(backend->ops->key_stat(backend, snapshot, S, K, &stat), -ENOENT);
	unlook(backend, snapshot);
	cr_assert_str_eq(keys_of(backend), "");
}

EveryStore(keys, know_when_the_last_row_was_made_and_changed)
{
	int64_t now = (int64_t)time(NULL) * 1000000000, second = 1000000000;
	struct backend_key_stat before, same, after;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	before = stat_of(backend, K);
	usleep(5000);
	COMMIT(backend, row_put(S, K, 0, BYTES("a")));
	same = stat_of(backend, K);
	COMMIT(backend, row_put(S, K, 0, BYTES("b")));
	after = stat_of(backend, K);

	cr_assert_lt(llabs(before.created - now), 5 * second);
	cr_assert_eq(same.updated, before.updated, "an equal row was touched");
	cr_assert_gt(after.updated, before.updated);
	cr_assert_eq(after.created, before.created);
}

EveryStore(keys, are_listed_in_order_and_from_any_point_on)
{
	COMMIT(backend, row_insert(BYTES("b"), BYTES("y"), 0, BYTES("1")),
	       row_insert(BYTES("a"), BYTES("z"), 0, BYTES("1")),
	       row_insert(BYTES("a"), BYTES("z"), 1, BYTES("1")),
	       row_insert(BYTES("a"), BYTES("k"), 4, BYTES("1")),
	       row_insert(BYTES("B"), BYTES("k"), 0, BYTES("1")));

	cr_assert_str_eq(keys_of(backend), "B/k[0-0] a/k[4-4] a/z[0-1] b/y[0-0]");
	cr_assert_str_eq(keys_after(backend, BYTES("a"), BYTES("k")), "a/z[0-1] b/y[0-0]");
	cr_assert_str_eq(keys_after(backend, BYTES("a"), BYTES("l")), "a/z[0-1] b/y[0-0]");
	cr_assert_str_eq(keys_after(backend, BYTES("aa"), BYTES("")), "b/y[0-0]");
	cr_assert_str_eq(keys_after(backend, BYTES("b"), BYTES("y")), "");
}

static int stop_after_two(void *arg, struct bytes session, struct bytes key,
			  const struct backend_key_stat *stat)
{
	(void)session;
	(void)key;
	(void)stat;
	return ++*(int *)arg == 2;
}

EveryStore(keys, are_listed_until_the_callback_has_enough)
{
	struct backend_snapshot *snapshot;
	struct bytes none = { 0 };
	int count = 0;

	COMMIT(backend, row_insert(S, BYTES("a"), 0, BYTES("1")),
	       row_insert(S, BYTES("b"), 0, BYTES("1")), row_insert(S, BYTES("c"), 0, BYTES("1")));
	snapshot = look(backend);

	cr_assert_eq(backend->ops->key_list(backend, snapshot, none, none, stop_after_two, &count),
		     0);
	cr_assert_eq(count, 2);
	unlook(backend, snapshot);
}

static int show_session(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	struct buf *shown = arg;

	cr_assert_not_null(session.data);
	cr_assert_eq(stat->updated != 0, true, "nobody knows when %.*s changed", (int)session.size,
		     session.data);
	return buf_printf(shown, "%.*s:%d,%d,%d ", (int)session.size, session.data, (int)stat->keys,
			  (int)stat->items, (int)stat->bytes);
}

static int stop_after_a_session(void *arg, struct bytes session,
				const struct backend_session_stat *stat)
{
	int r = show_session(arg, session, stat);

	return r < 0 ? r : 1;
}

static void sessions_are(struct backend *backend, backend_session_fn *fn, const char *expected)
{
	_cleanup_(buf_done) struct buf shown = { 0 };
	struct backend_snapshot *snapshot = look(backend);

	cr_assert_eq(buf_reserve(&shown, 1), 0);
	shown.data[0] = '\0';
	cr_assert_eq(backend_session_list(backend, snapshot, fn, &shown), 0);
	unlook(backend, snapshot);
	cr_assert_str_eq(shown.data, expected);
}

static struct backend_node session_node(uint64_t ino, struct bytes session, uint32_t nlink)
{
	struct backend_node node = plain_node(ino);

	node.kind = BACKEND_SESSION;
	node.session = session;
	node.nlink = nlink;
	node.mtime = 7;
	return node;
}

EveryStore(sessions, are_added_up_in_the_order_of_their_ids)
{
	const struct backend_node nodes[] = {
		session_node(2, BYTES("b"), 2),	   session_node(3, BYTES("a"), 2),
		session_node(4, BYTES("zz"), 2),   session_node(5, BYTES(""), 2),
		session_node(6, BYTES("gone"), 0),
	};

	NEEDS(backend, scans, row_read_times);
	sessions_are(backend, show_session, "");
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		COMMIT(backend, node_put(&nodes[i]));
	COMMIT(backend, row_insert(BYTES("b"), BYTES("y"), 0, BYTES("\"six bytes\"")),
	       row_insert(BYTES("b"), BYTES("y"), 3, BYTES("22")),
	       row_insert(BYTES("b"), BYTES("x"), 0, BYTES("333")),
	       row_insert(BYTES("bb"), BYTES(""), 0, BYTES("1")));

	sessions_are(backend, show_session, ":0,0,0 a:0,0,0 b:2,3,16 bb:1,1,1 zz:0,0,0 ");
	sessions_are(backend, stop_after_a_session, ":0,0,0 ");
}

static int keep_stat(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	(void)session;
	*(struct backend_session_stat *)arg = *stat;
	return 0;
}

EveryStore(sessions, tell_the_oldest_row_and_the_last_change)
{
	struct backend_session_stat stat = { 0 };
	struct backend_snapshot *snapshot;
	int64_t before = (int64_t)time(NULL) * 1000000000;

	NEEDS(backend, scans, row_read_times);
	COMMIT(backend, row_insert(S, K, 0, BYTES("1")));
	usleep(5000);
	COMMIT(backend, row_insert(S, BYTES("a"), 0, BYTES("1")));
	snapshot = look(backend);
	cr_assert_eq(backend_session_list(backend, snapshot, keep_stat, &stat), 0);
	unlook(backend, snapshot);

	cr_assert_geq(stat.created, before);
	cr_assert_geq(stat.updated, stat.created + 4000000);
	cr_assert_lt(stat.updated, before + 60000000000);
}

static int keep_day(void *arg, const struct backend_day *day)
{
	*(struct backend_day *)arg = *day;
	return 0;
}

EveryStore(days, add_up_the_rows_that_were_made_on_them)
{
	struct backend_day day = { 0 };
	struct backend_snapshot *snapshot;
	int64_t today = (int64_t)time(NULL) / 86400;

	NEEDS(backend, scans, row_read_times);
	COMMIT(backend, row_insert(S, K, 0, BYTES("1")), row_insert(S, K, 1, BYTES("22")));
	snapshot = look(backend);
	cr_assert_eq(backend_day_list(backend, snapshot, keep_day, &day), 0);
	unlook(backend, snapshot);

	cr_assert_leq(llabs(day.day - today), 1);
	cr_assert_eq(day.items, 2);
	cr_assert_eq(day.bytes, 3);
}

static struct backend_op key_move(struct bytes session_to, struct bytes key_to)
{
	return (struct backend_op){ .type = BACKEND_KEY_MOVE,
				    .session = S,
				    .key = K,
				    .session_to = session_to,
				    .key_to = key_to };
}

EveryStore(keys, move_with_all_rows_and_their_times)
{
	struct backend_key_stat before, after;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	before = stat_of(backend, K);
	usleep(5000);

	cr_assert_eq(COMMIT(backend, key_move(S, BYTES("to"))), 0);
	after = stat_of(backend, BYTES("to"));
	cr_assert_str_eq(keys_of(backend), "sess/to[0-1]");
	cr_assert_str_eq(rows_of(backend, S, BYTES("to")), "0=a 1=b");
	cr_assert_eq(after.created, before.created);
	cr_assert_eq(after.updated, before.updated);
}

EveryStore(keys, that_move_replace_all_rows_that_were_there)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")),
	       row_insert(BYTES("t"), BYTES("k"), 0, BYTES("old")),
	       row_insert(BYTES("t"), BYTES("k"), 9, BYTES("old")));

	cr_assert_eq(COMMIT(backend, key_move(BYTES("t"), BYTES("k"))), 0);
	cr_assert_str_eq(keys_of(backend), "t/k[0-0]");
	cr_assert_str_eq(rows_of(backend, BYTES("t"), BYTES("k")), "0=a");
}

EveryStore(keys, that_move_to_themselves_stay)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));

	cr_assert_eq(COMMIT(backend, key_move(S, K)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a");
}

/* Rows that are kept apart. */

static struct backend_op hide(enum backend_op_type type, struct bytes key, uint64_t ino)
{
	return (struct backend_op){ .type = type, .session = S, .key = key, .ino = ino };
}

static struct backend_op hidden_delete(uint64_t ino, int64_t at, int64_t to)
{
	return (struct backend_op){ .type = BACKEND_HIDDEN_DELETE, .ino = ino, .at = at, .to = to };
}

EveryStore(hidden, rows_are_seen_by_nobody)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 7, BYTES("b")),
	       row_insert(S, BYTES("other"), 0, BYTES("c")));

	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_HIDE, K, 5)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "");
	cr_assert_str_eq(keys_of(backend), "sess/other[0-0]");
}

EveryStore(hidden, rows_come_back_with_their_times)
{
	struct backend_key_stat before, after;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, K, 1, BYTES("b")));
	before = stat_of(backend, K);
	COMMIT(backend, hide(BACKEND_KEY_HIDE, K, 5));
	usleep(5000);

	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_SHOW, BYTES("to"), 5)), 0);
	after = stat_of(backend, BYTES("to"));
	cr_assert_str_eq(keys_of(backend), "sess/to[0-1]");
	cr_assert_str_eq(rows_of(backend, S, BYTES("to")), "0=a 1=b");
	cr_assert_eq(after.created, before.created);
	cr_assert_eq(after.updated, before.updated);
	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_SHOW, BYTES("again"), 5)), 0);
	cr_assert_str_eq(keys_of(backend), "sess/to[0-1]");
}

EveryStore(hidden, rows_replace_none_that_are_there)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	COMMIT(backend, hide(BACKEND_KEY_HIDE, K, 5), row_insert(S, K, 0, BYTES("new")));

	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_SHOW, K, 5)), -EEXIST);
	cr_assert_str_eq(rows_of(backend, S, K), "0=new");
	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_SHOW, BYTES("to"), 5)), 0);
	cr_assert_str_eq(rows_of(backend, S, BYTES("to")), "0=a");
}

EveryStore(hidden, rows_of_one_node_are_not_anothers)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, BYTES("l"), 0, BYTES("b")));
	COMMIT(backend, hide(BACKEND_KEY_HIDE, K, 5), hide(BACKEND_KEY_HIDE, BYTES("l"), 6));

	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_SHOW, K, 6)), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=b");
}

EveryStore(hidden, rows_are_deleted_by_their_indexes_and_not_with_the_node)
{
	struct backend_node node = plain_node(5);

	COMMIT(backend, node_put(&node), row_insert(S, K, 0, BYTES("a")),
	       row_insert(S, K, 1, BYTES("b")), row_insert(S, K, 2, BYTES("c")));
	COMMIT(backend, hide(BACKEND_KEY_HIDE, K, 5), node_delete(5));

	cr_assert_eq(COMMIT(backend, hidden_delete(5, 1, 1), hidden_delete(5, 9, 3),
			    hidden_delete(6, INT64_MIN, INT64_MAX)),
		     0);
	COMMIT(backend, hide(BACKEND_KEY_SHOW, K, 5));
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 2=c");
}

EveryStore(hidden, rows_stay_where_they_were_when_the_batch_fails)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_insert(S, BYTES("l"), 0, BYTES("b")));

	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_HIDE, K, 5),
			    row_insert(S, BYTES("l"), 0, BYTES("c"))),
		     -EEXIST);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a");
	cr_assert_eq(COMMIT(backend, hide(BACKEND_KEY_SHOW, BYTES("to"), 5)), 0);
	cr_assert_str_eq(rows_of(backend, S, BYTES("to")), "");
}

EveryStore(sessions, are_asked_for_one_at_a_time)
{
	const struct backend_node node = session_node(2, BYTES("empty"), 2);
	struct backend_session_stat stat, listed;
	struct backend_snapshot *snapshot;

	COMMIT(backend, node_put(&node), row_insert(S, K, 0, BYTES("1")),
	       row_insert(S, BYTES("a"), 3, BYTES("22")),
	       row_insert(BYTES("sess2"), K, 0, BYTES("333")));
	snapshot = look(backend);

	cr_assert_eq(backend_session_stat(backend, snapshot, S, &stat), 0);
	cr_assert_eq(stat.keys, 2);
	cr_assert_eq(stat.items, 2);
	cr_assert_eq(stat.bytes, 3);
	cr_assert_eq(backend_session_stat(backend, snapshot, BYTES("sess2"), &stat), 0);
	cr_assert_eq(backend_session_list(backend, snapshot, keep_stat, &listed), 0);
	cr_assert_eq(stat.updated, listed.updated);
	cr_assert_eq(stat.bytes, listed.bytes);
	cr_assert_eq(backend_session_stat(backend, snapshot, BYTES("empty"), &stat), -ENOENT);
	cr_assert_eq(backend_session_stat(backend, snapshot, BYTES("none"), &stat), -ENOENT);
	unlook(backend, snapshot);
}
