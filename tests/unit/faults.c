/* SPDX-License-Identifier: MIT */

/*
 * A store that fails now and then: the Nth of its calls fails, for N = 1, 2, 3 ... until the script
 * gets through without one.  The operation that it happens in says so; when it is made again all is
 * as if nothing had happened.
 */

#include <string.h>

#include "backend/fault/fault.h"
#include "src/base/log.h"
#include "tests/unit/script.h"
#include "tests/unit/world.h"

static void stay_silent(int level, const char *sentence)
{
	(void)level;
	(void)sentence;
}

static const int errors[] = { -EIO, -ENOSPC, -EBUSY, -ENOMEM };

/* Whether the count-th call came before the end.  lasting: all calls fail from there on until one
 * of the script has told. */
static bool run_script(uint64_t count, int error, bool lasting)
{
	bool struck = false;

	fault_backend_set(world_store, count, error, lasting);
	for (size_t i = 0; i < script_steps(); i++) {
		int r = script_run(i);

		if (r == 0)
			continue;
		struck = true;
		cr_assert_eq(r, error, "call %llu, step %zu: %s instead of %s",
			     (unsigned long long)count, i, strerror(-r), strerror(-error));
		if (lasting)
			fault_backend_set(world_store, 0, 0, false);
		r = script_run(i);
		cr_assert_eq(r, 0, "call %llu, step %zu, again: %s", (unsigned long long)count, i,
			     strerror(-r));
	}
	struck |= fault_backend_calls(world_store) >= count;
	fault_backend_set(world_store, 0, 0, false);
	return struck;
}

static void try_script(int kind, int error, bool lasting, uint64_t step)
{
	enum { ENOUGH = 5000 };
	bool struck = true;

	log_set_sink(stay_silent);
	world_wrap(fault_backend_open);
	for (uint64_t count = 1; struck; count += step) {
		cr_assert_lt(count, ENOUGH, "the script never gets through");
		world_open(kind);
		struck = run_script(count, error, lasting);
		world_settle();
		script_check_end();
		world_check();
		world_reopen();
		script_check_end();
		world_close();
	}
}

static int error_numbers[] = { 0, 1, 2, 3 };

ParameterizedTestParameters(faults, of_one_call_are_told_and_harm_nothing)
{
	return cr_make_param_array(int, error_numbers, ARRAY_SIZE(error_numbers), NULL);
}

ParameterizedTest(const int *number, faults, of_one_call_are_told_and_harm_nothing)
{
	try_script(WORLD_MEMORY, errors[*number], false, 1);
}

Test(faults, that_last_are_told_and_harm_nothing)
{
	try_script(WORLD_MEMORY, -ENOSPC, true, 1);
}

Test(faults, of_sqlite_are_told_and_harm_nothing)
{
	try_script(WORLD_SQLITE, -EIO, false, 7);
}

/* ---- opening ---- */

/* The call of the tree's opening that fails, and how. */
static uint64_t opening_at;

static int fault_at_once(struct backend *inner, struct backend **ret_backend)
{
	int r = fault_backend_open(inner, ret_backend);

	if (r == 0)
		fault_backend_set(*ret_backend, opening_at, -EIO, true);
	return r;
}

Test(faults, of_opening_come_with_a_sentence_and_harm_nothing)
{
	int r = -EIO;

	log_set_sink(stay_silent);
	world_open(WORLD_MEMORY);
	for (size_t i = 0; i < script_steps(); i++)
		cr_assert_eq(script_run(i), 0, "step %zu", i);
	for (opening_at = 1; r < 0; opening_at++) {
		_cleanup_(freep) char *why = NULL;

		cr_assert_lt(opening_at, 100, "it never gets through");
		tree_close(world_tree);
		world_tree = NULL;
		world_wrap(fault_at_once);
		r = world_try(&why);
		cr_assert(r == 0 || r == -EIO, "call %llu: %s", (unsigned long long)opening_at,
			  strerror(-r));
		cr_assert(r == 0 || (why && *why), "call %llu: no sentence",
			  (unsigned long long)opening_at);
		if (r == 0)
			fault_backend_set(world_store, 0, 0, false);
	}
	cr_assert_gt(opening_at, 3);
	script_check_end();
	world_close();
}

static int full_once(struct backend *inner, struct backend **ret_backend)
{
	int r = fault_backend_open(inner, ret_backend);

	if (r == 0)
		fault_backend_set(*ret_backend, opening_at, -ENOSPC, false);
	return r;
}

static void unlink_both(void)
{
	cr_assert_eq(unlinked("s/theirs.json"), 0);
	cr_assert_eq(unlinked("s/ours.json"), 0);
}

/* What a killed mount has unlinked goes with the next one, but not the rows that another program
 * has changed since; also when the disk is too full to do all of it at once. */
Test(faults, of_a_full_disk_at_an_opening_leave_others_their_rows)
{
	log_set_sink(stay_silent);
	world_open(WORLD_SQLITE);
	make_dir("s");
	for (opening_at = 1; opening_at <= 8; opening_at++) {
		_cleanup_(freep) char *why = NULL;
		int r;

		save("s/theirs.json", "1");
		save("s/ours.json", "1");
		world_kill_after(unlink_both);
		sql_runs("UPDATE agentscope_sessions SET state_data = '2' "
			 "WHERE state_key = 'theirs'");
		world_wrap(full_once);
		r = world_try(&why);
		world_wrap(NULL);
		if (r < 0)
			cr_assert_eq(world_try(NULL), 0);
		cr_assert_str_eq(rows_of("s", "theirs"), "0=2", "call %llu",
				 (unsigned long long)opening_at);
		world_reopen();
		cr_assert_str_eq(content_of("s/theirs.json"), "2", "call %llu",
				 (unsigned long long)opening_at);
		cr_assert_eq(looked_up("s/ours.json"), -ENOENT, "call %llu",
			     (unsigned long long)opening_at);
		cr_assert_str_eq(rows_of("s", "ours"), "");
	}
	world_close();
}
