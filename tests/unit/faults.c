/* SPDX-License-Identifier: MIT */

/*
 * A store that fails now and then: the Nth of its calls fails, for N = 1, 2, 3 ... until the script
 * gets through without one.  The operation that it happens in says so; when it is made again all is
 * as if nothing had happened.
 */

#include <string.h>

#include "tests/stores/fault.h"
#include "tests/stores/trace.h"
#include "backend/base/log.h"
#include "tests/unit/rounds.h"
#include "tests/unit/script.h"
#include "tests/unit/until.h"
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

/* Each call fails in a soak; otherwise one of some, from the first one on that is given. */
static void try_script(int kind, int error, bool lasting, uint64_t first, uint64_t step)
{
	enum { ENOUGH = 5000 };
	bool struck = true;

	log_set_sink(stay_silent);
	world_wrap(fault_backend_open);
	for (uint64_t count = first; struck; count += step) {
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
	uint64_t step = rounds("SESSFS_FAULT_STEP", 6, 1);

	try_script(WORLD_MEMORY, errors[*number], false, 1 + (uint64_t)*number % step, step);
}

Test(faults, that_last_are_told_and_harm_nothing)
{
	try_script(WORLD_MEMORY, -ENOSPC, true, 1, rounds("SESSFS_FAULT_STEP", 5, 1));
}

Test(faults, of_sqlite_are_told_and_harm_nothing)
{
	try_script(WORLD_SQLITE, -EIO, false, 1, 7 * rounds("SESSFS_FAULT_STEP", 5, 1));
}

/* ---- changes of others, of which the first read of a snapshot tells ---- */

static struct {
	struct backend_ops ops;
	const struct backend_ops *real;
	atomic_uint begun;
	unsigned at; /* the snapshot that is refused once; 0: none */
} stale;

static int stale_begin(struct backend *backend, unsigned flags,
		       struct backend_snapshot **ret_snapshot)
{
	if (!(flags & (BACKEND_ANYWAY | BACKEND_AT_ONCE)) && ++stale.begun == stale.at)
		return -ESTALE;
	return stale.real->snapshot_begin(backend, flags, ret_snapshot);
}

static int stale_open(struct backend *inner, struct backend **ret_backend)
{
	stale.real = inner->ops;
	stale.ops = *inner->ops;
	stale.ops.snapshot_begin = stale_begin;
	inner->ops = &stale.ops;
	return trace_backend_open(inner, ret_backend);
}

static void refuse_snapshot(unsigned number)
{
	stale.at = number;
	stale.begun = 0;
}

Test(faults, that_are_changes_of_others_are_nobody_s)
{
	log_set_sink(stay_silent);
	world_wrap(stale_open);
	for (unsigned number = 1; stale.begun >= stale.at; number++) {
		world_open(WORLD_MEMORY);
		refuse_snapshot(number);
		for (size_t i = 0; i < script_steps(); i++) {
			int r = script_run(i);

			cr_assert_eq(r, 0, "snapshot %u, step %zu: %s", number, i, strerror(-r));
		}
		world_settle();
		script_check_end();
		world_check();
		world_close();
	}
	cr_expect_gt(stale.at, script_steps(), "it was never refused");
}

Test(faults, that_are_changes_of_others_take_no_version_from_its_readers)
{
	struct handle *reader, *writer;

	world_wrap(stale_open);
	world_open(WORLD_MEMORY);
	make_dir("s");
	save("s/k.json", "1");
	reader = open_at("s/k.json", O_RDONLY);
	cr_expect_eq(stat_of("s/k.json").st_size, 1);
	writer = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(writer, 0, BYTES("[2]"));
	refuse_snapshot(1);
	close_handle(writer);
	cr_expect_gt(stale.begun, 1);
	cr_expect_str_eq(read_by(reader), "1");
	cr_expect_str_eq(content_of("s/k.json"), "[2]");
	close_handle(reader);
	world_close();
}

Test(faults, that_are_changes_of_others_do_not_make_many_questions_of_one)
{
	const pid_t reading = 1;
	struct handle *reader;
	struct inode *inode;
	struct stat st;
	bool own;

	world_wrap(stale_open);
	world_open(WORLD_MEMORY);
	make_dir("s");
	save("s/k.json", "[1, 2]");
	inode = inode_at("s/k.json");
	cr_assert_eq(tree_open_file(world_tree, inode, 0, O_RDONLY, reading, &reader), 0);
	cr_expect_str_eq(read_by(reader), "[1, 2]");
	/* So often a reader may ask before it maps what it has read. */
	for (int i = 0; i < 4; i++) {
		save("s/k.json", "[3]");
		refuse_snapshot(1);
		cr_assert_eq(tree_stat_face(world_tree, inode, 0, reading, &st, &own), 0);
		cr_expect_gt(stale.begun, 1);
		cr_expect_eq(st.st_size, 6);
	}
	UNTIL(!tree_is_notifying(world_tree));
	cr_assert_eq(tree_stat_face(world_tree, inode, 0, 0, &st, &own), 0);
	cr_expect_eq(st.st_size, 6);
	close_handle(reader);
	forget(inode);
	world_close();
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
