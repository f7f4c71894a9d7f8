/* SPDX-License-Identifier: MIT */
/* Any allocation of ours may fail, and then nothing has happened. */
#include "tests/contract/contract.h"

#include <errno.h>

#include "tests/unit/failing-alloc.h"

static int commit_much(struct backend *backend)
{
	struct backend_node node = state_node(5, S, BYTES("new"));
	const struct backend_op move = { .type = BACKEND_KEY_MOVE,
					 .session = S,
					 .key = K,
					 .session_to = S,
					 .key_to = BYTES("new") };

	const struct backend_op shift = { .type = BACKEND_ROWS_SHIFT,
					  .session = S,
					  .key = BYTES("new"),
					  .ino = 5,
					  .at = 1,
					  .to = 2,
					  .seq = 1 };

	return COMMIT(backend, row_insert(S, K, 1, BYTES("b")), move, node_put(&node),
		      entry_put(1, 2, BYTES("f"), 5), xattr_put(5, BYTES("user.a"), BYTES("1")),
		      chunk_put(5, 0, BYTES("c")), piece_put(5, 0, 0, BYTES("p")),
		      mark_put(5, 10, 1), mark_put(5, 10, 2), row_delete(S, BYTES("gone"), 0, 9),
		      piece_put(5, 2, 0, BYTES("q")), shift);
}

EveryStore(memory, that_runs_out_in_a_commit_leaves_the_store_as_it_was)
{
	unsigned nth = 1, failures;
	int r;

	COMMIT(backend, row_insert(S, K, 0, BYTES("a")),
	       row_insert(S, BYTES("gone"), 0, BYTES("x")));
	for (;; nth++) {
		failing_alloc_at(nth);
		r = commit_much(backend);
		failures = failing_alloc_failures();
		failing_alloc_at(0);
		if (r == 0)
			break;
		cr_assert_eq(r, -ENOMEM, "allocation %u: %d", nth, r);
		cr_assert_gt(failures, 0);
		cr_assert_str_eq(keys_of(backend), "sess/gone[0-0] sess/messages[0-0]");
		cr_assert_str_eq(nodes_of(backend, 0, false), "1");
		cr_assert_str_eq(entries_of(backend, 1, 0), "");
		cr_assert_str_eq(xattrs_of(backend, 5), "");
	}

	cr_assert_eq(failures, 0, "it succeeded without the memory that it asked for");
	cr_assert_str_eq(keys_of(backend), "sess/new[0-3]");
}

static int ignore_key(void *arg, struct bytes session, struct bytes key,
		      const struct backend_key_stat *stat)
{
	(void)session;
	(void)key;
	(void)stat;
	++*(int *)arg;
	return 0;
}

/* Reads a bit of everything; the first error. */
static int read_much(struct backend *backend, int *keys)
{
	const struct bytes none = { 0 };
	struct backend_snapshot *snapshot;
	struct backend_node node = { 0 };
	struct buf name = { 0 };
	uint64_t id;
	int r = backend->ops->snapshot_begin(backend, 0, &snapshot);

	if (r < 0)
		return r;
	r = backend->ops->entry_find(backend, snapshot, 1, BYTES("f"), &id, &node);
	if (r == 0)
		backend_node_done(&node);
	if (r == 0)
		r = backend->ops->entry_name(backend, snapshot, 1, id, &name);
	if (r == 0)
		r = backend->ops->key_list(backend, snapshot, none, none, ignore_key, keys);
	backend->ops->snapshot_end(backend, snapshot);
	buf_done(&name);
	return r;
}

EveryStore(memory, that_runs_out_in_a_read_is_told)
{
	struct backend_node node = state_node(5, S, K);
	int r, keys = 0;

	COMMIT(backend, node_put(&node), entry_put(1, 2, BYTES("f"), 5),
	       row_insert(S, K, 0, BYTES("a")));
	for (unsigned nth = 1;; nth++) {
		keys = 0;
		failing_alloc_at(nth);
		r = read_much(backend, &keys);
		failing_alloc_at(0);
		if (r == 0)
			break;
		cr_assert_eq(r, -ENOMEM, "allocation %u: %d", nth, r);
	}

	cr_assert_eq(keys, 1);
}
