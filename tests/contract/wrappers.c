/* SPDX-License-Identifier: MIT */
#include "tests/contract/contract.h"

#include <errno.h>
#include <string.h>

#include "backend/fault/fault.h"
#include "backend/memory/memory.h"
#include "src/base/log.h"

static const struct backend_options options = { .create = true };

static struct backend *inner_store(void)
{
	struct backend *inner = NULL;

	cr_assert_eq(memory_backend_open(&options, &inner), 0);
	return inner;
}

static struct backend *fault_store(void)
{
	struct backend *backend = NULL;

	cr_assert_eq(fault_backend_open(inner_store(), &backend), 0);
	return backend;
}

Test(faults, strike_the_nth_call_once)
{
	struct backend *backend = fault_store();

	fault_backend_set(backend, 2, -EIO, false);

	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("a"))), 0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 1, BYTES("b"))), -EIO);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 2, BYTES("c"))), 0);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a 2=c");
	backend_close(backend);
}

Test(faults, that_last_strike_every_call_from_there_on)
{
	struct backend *backend = fault_store();
	struct backend_space space;

	fault_backend_set(backend, 1, -ENOSPC, true);
	cr_assert_eq(backend->ops->sync(backend), -ENOSPC);
	cr_assert_eq(snapshot_error(backend), -ENOSPC);
	cr_assert_eq(backend->ops->space(backend, &space), -ENOSPC);

	fault_backend_set(backend, 0, 0, false);
	cr_assert_eq(snapshot_error(backend), 0);
	backend_close(backend);
}

Test(faults, count_the_calls_that_can_fail)
{
	struct backend *backend = fault_store();
	struct backend_snapshot *snapshot;
	struct backend_node node = { 0 };

	fault_backend_set(backend, 0, 0, false);
	snapshot = look(backend);
	backend->ops->node_get(backend, snapshot, 1, &node);
	backend_node_done(&node);
	unlook(backend, snapshot);
	backend->ops->wake(backend);
	COMMIT(backend, row_insert(S, K, 0, BYTES("a")));
	backend->ops->sync(backend);

	cr_assert_eq(fault_backend_calls(backend), 4, "begin, get, commit, sync");
	backend_close(backend);
}

Test(copies, of_nodes_own_their_bytes)
{
	char name[] = "sess";
	struct backend_node node = { .ino = 5, .session = bytes_make(name, 4), .key = BYTES("") };
	struct backend_node copy = { 0 };

	cr_assert_eq(backend_node_copy(&node, &copy), 0);
	name[0] = 'X';

	cr_assert(bytes_equal(copy.session, S));
	cr_assert(copy.key.data && copy.key.size == 0);
	cr_assert_null(copy.target.data);
	backend_node_done(&copy);
	cr_assert_null(copy.session.data);
}
