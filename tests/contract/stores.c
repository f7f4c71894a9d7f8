/* SPDX-License-Identifier: MIT */
/* The stores that every case runs against. */
#include "tests/stores/fault.h"
#include "backend/memory/memory.h"
#include "tests/stores/trace.h"
#include "tests/contract/contract.h"

static const struct backend_options fresh = { .create = true, .owner = "the test" };

/* Within the wrappers: a call that one does not forward fails a case. */
static struct backend *open_memory(void)
{
	return wrap(wrap(open_at("memory:", &fresh), fault_backend_open), trace_backend_open);
}

static struct backend *open_sqlite(void)
{
	return open_at(scratch_path("store.db"), &fresh);
}

static struct backend *(*const kinds[])(void) = { open_memory, open_sqlite };
static int kind_numbers[] = { 0, 1 };

struct criterion_test_params every_kind(void)
{
	return cr_make_param_array(int, kind_numbers, ARRAY_SIZE(kind_numbers), NULL);
}

struct backend *fresh_store(int kind)
{
	return kinds[kind]();
}

static const struct backend_options shared = { .create = true,
					       .owner = "the test",
					       .shared = true };

struct criterion_test_params every_shared_kind(void)
{
	return every_kind();
}

struct backend *shared_store(int kind, struct backend *first)
{
	struct backend *joined;

	if (kinds[kind] == open_sqlite)
		return open_at(scratch_path("store.db"), &shared);
	if (!first)
		return open_at("memory:", &shared);
	cr_assert_eq(memory_backend_join(first, &joined), 0);
	return remember(joined);
}
