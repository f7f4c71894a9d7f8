/* SPDX-License-Identifier: MIT */
/* Batches are whole or absent; snapshots see one state. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

EveryStore(batches, apply_their_operations_in_order)
{
	int r = COMMIT(backend, row_insert(S, K, 0, BYTES("a")), row_delete(S, K, 0, 0),
		       row_insert(S, K, 0, BYTES("b")), row_put(S, K, 0, BYTES("c")));

	cr_assert_eq(r, 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=c");
}

EveryStore(batches, without_operations_succeed)
{
	cr_assert_eq(backend_commit(backend, NULL, 0, 0), 0);
}

EveryStore(batches, that_fail_in_the_middle_leave_nothing)
{
	struct backend_node node = state_node(5, S, K), taken = state_node(6, S, K);
	const struct backend_op mark_delete = { .type = BACKEND_MARK_DELETE, .ino = 5 };
	const struct backend_op move = { .type = BACKEND_KEY_MOVE,
					 .session = S,
					 .key = K,
					 .session_to = BYTES("t"),
					 .key_to = BYTES("k") };
	struct backend_snapshot *snapshot;
	struct backend_mark mark;

	COMMIT(backend, node_put(&node), row_insert(S, K, 0, BYTES("a")), mark_put(5, 0, 0),
	       entry_put(1, 2, BYTES("f"), 5), xattr_put(5, BYTES("user.a"), BYTES("1")),
	       piece_put(5, 0, 0, BYTES("p")), chunk_put(5, 0, BYTES("c")));

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 1, BYTES("b")), move, mark_delete,
			    row_put(S, BYTES("new"), 0, BYTES("x")), chunk_put(5, 1, BYTES("d")),
			    piece_put(5, 0, 0, BYTES("q")), node_delete(5),
			    entry_put(1, 3, BYTES("g"), 5), node_put(&taken),
			    entry_put(1, 2, BYTES("h"), 5), row_insert(S, K, 9, BYTES("z"))),
		     -EEXIST);

	cr_assert_str_eq(keys_of(backend), "sess/messages[0-0]");
	cr_assert_str_eq(rows_of(backend, S, K), "0=a");
	cr_assert_str_eq(nodes_of(backend, 0, false), "1 5");
	cr_assert_str_eq(entries_of(backend, 1, 0), "2:f=5");
	cr_assert_str_eq(xattrs_of(backend, 5), "user.a");
	cr_assert_str_eq(pieces_of(backend, 5, 0), "0.0=p");
	cr_assert_str_eq(chunks_of(backend, 5, 0, 9), "0=c");
	snapshot = look(backend);
	cr_assert_eq(backend->ops->mark_find(backend, snapshot, 5, 0, &mark), 0);
	unlook(backend, snapshot);
}

EveryStore(batches, with_an_unknown_operation_are_refused)
{
	const struct backend_op unknown = { .type = BACKEND_OP_TYPES };

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("a")), unknown), -EINVAL);
	cr_assert_str_eq(rows_of(backend, S, K), "");
}

EveryStore(batches, of_thousands_of_operations_are_one)
{
	enum { COUNT = 5000 };
	struct backend_op *ops = calloc(COUNT + 1, sizeof(*ops));
	struct backend_snapshot *snapshot;
	struct backend_key_stat stat;

	cr_assert_not_null(ops);
	for (int i = 0; i < COUNT; i++)
		ops[i] = row_insert(S, K, i, BYTES("{}"));
	ops[COUNT] = row_insert(S, K, COUNT / 2, BYTES("{}"));

	cr_assert_eq(backend_commit(backend, ops, COUNT + 1, 0), -EEXIST);
	cr_assert_str_eq(keys_of(backend), "");
	cr_assert_eq(backend_commit(backend, ops, COUNT, 0), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->key_stat(backend, snapshot, S, K, &stat), 0);
	cr_assert_eq(stat.last, COUNT - 1);
	unlook(backend, snapshot);
	free(ops);
}

/* A store may write many rows of one list at once: they are those that were meant. */
EveryStore(batches, of_many_rows_put_each_in_its_place)
{
	enum { COUNT = 120 };
	static const int64_t gaps[] = { 20, 37, 53, 90 };
	struct backend_op ops[COUNT];
	char data[COUNT][8], here[4096] = "", there[4096] = "";
	int64_t at = -10;

	for (size_t i = 0, gap = 0; i < COUNT; i++) {
		bool other = i >= 60 && i < 85;
		char *expected = other ? there : here;
		size_t used = strlen(expected);

		snprintf(data[i], sizeof(data[i]), "d%zu", i);
		if (gap < ARRAY_SIZE(gaps) && gaps[gap] == (int64_t)i) {
			gap++;
			at += 2;
		}
		ops[i] = row_insert(S, other ? BYTES("other") : K, at, bytes_str(data[i]));
		snprintf(expected + used, sizeof(here) - used, "%s%d=%s", used ? " " : "", (int)at,
			 data[i]);
		at++;
	}
	COMMIT(backend, row_insert(S, K, 25, BYTES("{}")));
	cr_assert_eq(backend_commit(backend, ops, COUNT, 0), -EEXIST);
	cr_assert_str_eq(rows_of(backend, S, K), "25={}");
	cr_assert_str_eq(rows_of(backend, S, BYTES("other")), "");
	COMMIT(backend, row_delete(S, K, 25, 25));
	cr_assert_eq(backend_commit(backend, ops, COUNT, 0), 0);
	cr_assert_str_eq(rows_of(backend, S, K), here);
	cr_assert_str_eq(rows_of(backend, S, BYTES("other")), there);
}

/* A source of rows 1, 2 ... count - 1, and then an end or an error. */
struct source {
	const struct backend_op *start;
	int64_t first;
	int64_t next;
	int64_t count;
	int end;
	struct backend_op op;
};

static int more_rows(struct backend_batch *batch)
{
	struct source *source = batch->arg;

	if (source->next == source->count)
		return source->end;
	source->op = row_insert(S, K, source->next++, BYTES("more"));
	batch->ops = &source->op;
	batch->count = 1;
	return 1;
}

static void rows_again(struct backend_batch *batch)
{
	struct source *source = batch->arg;

	source->next = source->first;
	batch->ops = source->start;
	batch->count = 1;
}

static int commit_source(struct backend *backend, struct source *source)
{
	struct backend_batch batch = { .more = more_rows, .rewind = rows_again, .arg = source };

	rows_again(&batch);
	return backend->ops->commit(backend, &batch, 0);
}

EveryStore(batches, take_more_operations_until_there_are_none)
{
	const struct backend_op first = row_insert(S, K, 0, BYTES("first"));
	struct source source = { .start = &first, .first = 1, .count = 4 };

	cr_assert_eq(commit_source(backend, &source), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=first 1=more 2=more 3=more");
}

EveryStore(batches, whose_source_gives_up_leave_nothing)
{
	const struct backend_op first = row_insert(S, K, 0, BYTES("first"));
	struct source source = { .start = &first, .first = 1, .count = 3, .end = -ECANCELED };

	cr_assert_eq(commit_source(backend, &source), -ECANCELED);
	cr_assert_str_eq(rows_of(backend, S, K), "");
}

EveryStore(batches, whose_source_gives_a_bad_operation_leave_nothing)
{
	const struct backend_op first = row_insert(S, K, 1, BYTES("first"));
	struct source source = { .start = &first, .first = 0, .count = 3 };

	cr_assert_eq(commit_source(backend, &source), -EEXIST);
	cr_assert_eq(source.next, 2);
	cr_assert_str_eq(rows_of(backend, S, K), "");
}

EveryStore(snapshots, see_the_state_of_their_beginning)
{
	struct backend_snapshot *before, *after;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	before = look(backend);
	COMMIT(backend, row_put(S, K, 0, BYTES("b")), row_insert(S, K, 1, BYTES("c")));
	after = look(backend);
	COMMIT(backend, row_delete(S, K, 0, 9));

	cr_assert_str_eq(rows_seen(backend, before, S, K, 0), "0=a");
	cr_assert_str_eq(rows_seen(backend, after, S, K, 0), "0=b 1=c");
	cr_assert_str_eq(rows_of(backend, S, K), "");
	unlook(backend, before);
	unlook(backend, after);
}

EveryStore(snapshots, see_what_was_committed_just_before)
{
	for (int i = 0; i < 200; i++) {
		char expected[32];

		cr_assert_eq(COMMIT(backend, row_put(S, K, 0, bytes_make(&i, 1))), 0);
		snprintf(expected, sizeof(expected), i ? "0=%c" : "0=\\0", i);
		cr_assert_str_eq(rows_of(backend, S, K), expected);
	}
}

EveryStore(snapshots, of_one_thread_may_be_several_and_end_in_any_order)
{
	struct backend_snapshot *snapshots[10];

	for (size_t i = 0; i < ARRAY_SIZE(snapshots); i++)
		snapshots[i] = look(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	for (size_t i = 0; i < ARRAY_SIZE(snapshots); i += 2)
		unlook(backend, snapshots[i]);
	for (size_t i = 1; i < ARRAY_SIZE(snapshots); i += 2) {
		cr_assert_str_eq(rows_seen(backend, snapshots[i], S, K, 0), "");
		unlook(backend, snapshots[i]);
	}
}

EveryStore(changes, of_ours_are_not_others)
{
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	COMMIT(backend, row_put(S, K, 0, BYTES("b")), row_delete(S, K, 0, 0));

	cr_assert_str_eq(changes_of(backend), "");
	cr_assert_eq(snapshot_error(backend), 0);
}

EveryStore(waiting, ends_when_the_time_has_passed)
{
	cr_assert_eq(backend_change_wait(backend, 60), 0);
}

EveryStore(waiting, ends_at_once_after_a_wake)
{
	backend_wake(backend);

	cr_assert_eq(backend_change_wait(backend, 20000), 1);
	cr_assert_eq(backend_change_wait(backend, 60), 0, "one wake is one wake");
}
