/* SPDX-License-Identifier: MIT */
/* Changes of many rows at once, which need no more memory than those of few. */
#include "tests/contract/contract.h"

#include <errno.h>

static const struct backend_options owner = { .create = true, .owner = "the test" };

enum {
	ROWS = 10000,
	EACH = 1000, /* of a batch */
	ROW_BYTES = 4000,
	ROOM = 12 << 20, /* of the 40 MB: what the store keeps of it anyway, and some more */
};

TestSuite(large, .fini = close_stores);

/* 40 MB of it. */
static struct backend *store_with_list(void)
{
	static char text[ROW_BYTES];
	static struct backend_op ops[EACH];
	struct backend *store = open_at(scratch_path("store.db"), &owner);

	memset(text, 'x', sizeof(text));
	for (int at = 0; at < ROWS; at += EACH) {
		for (int i = 0; i < EACH; i++)
			ops[i] = row_insert(S, K, at + i, bytes_make(text, sizeof(text)));
		cr_assert_eq(backend_commit(store, ops, EACH, 0), 0);
	}
	return store;
}

static void expect_little(struct backend *store, const char *what, const struct backend_op *op)
{
	sqlite3_int64 before = sqlite3_memory_used(), most;

	sqlite3_memory_highwater(1);
	cr_assert_eq(backend_commit(store, op, 1, 0), 0, "%s", what);
	most = sqlite3_memory_highwater(0);
	cr_assert_lt(most, before + ROOM, "%s: %lld bytes", what, (long long)(most - before));
}

Test(large, lists_are_moved_hidden_and_shown_in_little_memory)
{
	struct backend *store = store_with_list();
	struct backend_op op = { .session = S, .key = K, .ino = 5 };

	op.type = BACKEND_ROWS_SHIFT;
	op.to = ROWS;
	expect_little(store, "to other indexes", &op);
	op.type = BACKEND_KEY_HIDE;
	expect_little(store, "into the trash", &op);
	cr_assert_str_eq(keys_of(store), "");
	op.type = BACKEND_KEY_SHOW;
	expect_little(store, "out of the trash", &op);
	op.type = BACKEND_KEY_MOVE;
	op.session_to = BYTES("t");
	op.key_to = K;
	expect_little(store, "to another session", &op);
	cr_assert_str_eq(keys_of(store), "t/messages[10000-19999]");
	op = row_delete(BYTES("t"), K, 0, INT64_MAX);
	expect_little(store, "away", &op);
	cr_assert_str_eq(keys_of(store), "");
}

/* SQLite leaves what such a statement has done before it fails: the transaction does not. */
Test(large, what_fails_in_the_middle_of_many_rows_has_changed_none)
{
	struct backend *store = open_at(scratch_path("store.db"), &owner);
	struct backend_op op = { .session = S, .key = BYTES("other"), .ino = 5 };

	cr_assert_eq(COMMIT(store, row_insert(S, op.key, 2, BYTES("[]")),
			    row_insert(S, K, 0, BYTES("0")), row_insert(S, K, 1, BYTES("1")),
			    row_insert(S, K, 2, BYTES("2"))),
		     0);
	op.type = BACKEND_KEY_HIDE;
	cr_assert_eq(backend_commit(store, &op, 1, 0), 0);
	op.key = K;
	cr_expect_eq(backend_commit(store, &op, 1, 0), -EEXIST);
	cr_expect_str_eq(rows_of(store, S, K), "0=0 1=1 2=2");
	op.key = BYTES("other");
	op.type = BACKEND_KEY_SHOW;
	cr_assert_eq(COMMIT(store, row_insert(S, op.key, 2, BYTES("3"))), 0);
	cr_expect_eq(backend_commit(store, &op, 1, 0), -EEXIST);
	cr_expect_str_eq(rows_of(store, S, op.key), "2=3");
	cr_assert_eq(COMMIT(store, row_delete(S, op.key, 2, 2)), 0);
	cr_assert_eq(backend_commit(store, &op, 1, 0), 0);
	cr_expect_str_eq(rows_of(store, S, op.key), "2=[]");
}
