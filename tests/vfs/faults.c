/* SPDX-License-Identifier: MIT */

/*
 * A medium that fails now and then: the Nth call of each kind that SQLite makes of the system, and
 * its Nth allocation, fails in each way in which it can (shim.h), once or from then on, under the
 * script of script.h.  The operation in which that happens succeeds nevertheless, or says the right
 * error and has changed nothing; of each error there is a sentence in the log; and when the fault
 * is gone, the same operation succeeds on the same tree.  In the end all is as if nothing had
 * happened, in memory and in the store.
 *
 * Some N are tried of each; with SESSFS_FAULTS=all in the environment all of them, with
 * SESSFS_FAULTS=N this one.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/random.h"
#include "tests/unit/script.h"
#include "tests/vfs/place.h"

enum {
	SAMPLES = 2,	 /* of the calls of one kind, in `make check` */
	ENOUGH = 100000, /* calls, in which something must get through */
};

static uint64_t chance;

/* What is tried now, for a failure, which may be one of script.c. */
static char trying[128];

static void describe(const struct shim_fault *fault, const char *where)
{
	static const char *const threads[] = { "this thread", "other threads", "all threads" };

	snprintf(trying, sizeof(trying), "%s: %s %" PRIu64 " of %s %s with %s", where,
		 shim_call_name(fault->call), fault->nth, threads[fault->threads],
		 fault->lasting ? "and later fail" : "fails", strerror(-shim_errno(fault->error)));
}

static void begin(void)
{
	place_begin();
	chance = random_seed("faults");
}

static void end(void)
{
	if (*trying)
		fprintf(stderr, "faults: while trying %s; the log: %s\n", trying, place_error());
	place_end();
}

/* ---- one fault ---- */

/* What fdatasync() lost is lost, and no later one may say otherwise (keeper.c). */
static bool stays(const struct shim_fault *fault, size_t step)
{
	return fault->call == SHIM_SYNC && fault->error == SHIM_IO && script_syncs(step);
}

static void run_step(const struct shim_fault *fault, size_t step)
{
	int wanted = shim_errno(fault->error), r;

	place_hush();
	r = script_run(step);
	if (r == 0)
		return;
	cr_assert_eq(r, wanted, "%s: step %zu: %s instead of %s (%s)", trying, step, strerror(-r),
		     strerror(-wanted), place_error());
	cr_assert_gt(shim_failures(), 0, "%s: step %zu failed before", trying, step);
	cr_assert(r == -ENOMEM || place_errors() || stays(fault, step),
		  "%s: step %zu: nothing in the log", trying, step);
	if (fault->lasting)
		shim_heal();
	place_hush();
	r = script_run(step);
	cr_assert(r == 0 || (r == wanted && stays(fault, step)), "%s: step %zu, again: %s (%s)",
		  trying, step, strerror(-r), place_error());
}

static void check_tree(void)
{
	size_t known;

	script_check_end();
	world_check();
	known = world_inodes();
	cr_assert_eq(known, 1, "%s: %zu inodes are known beside the root", trying, known - 1);
}

/* Run the script with a fault; how many calls there were. */
static uint64_t run_script(const struct shim_fault *fault)
{
	uint64_t calls;

	describe(fault, "the script");
	place_must_open(place_fresh("store"));
	shim_fail(fault);
	for (size_t i = 0; i < script_steps(); i++)
		run_step(fault, i);
	calls = shim_calls();
	shim_heal();
	check_tree();
	place_close();
	place_must_open(place_path("store"));
	check_tree();
	place_close();
	*trying = '\0';
	return calls;
}

/* ---- all of them ---- */

/* SESSFS_FAULTS: "all", or the only N to try. */
static const char *asked(void)
{
	return getenv("SESSFS_FAULTS");
}

/* Some of 1 to count, or as many as were asked for. */
static void try_calls(struct shim_fault fault, uint64_t count,
		      uint64_t run(const struct shim_fault *))
{
	uint64_t step = asked() ? 1 : MAX(count / SAMPLES, 1);
	uint64_t only = asked() ? strtoull(asked(), NULL, 10) : 0;

	for (uint64_t first = 1; first <= count; first += step) {
		fault.nth = first + random_below(&chance, step);
		if (fault.nth <= count && (!only || only == fault.nth))
			run(&fault);
	}
}

/* Each way in which a call of a kind can fail. */
static void try_kind(enum shim_call call, enum shim_threads threads, bool lasting,
		     uint64_t run(const struct shim_fault *))
{
	struct shim_fault fault = { .call = call, .threads = threads, .lasting = lasting };
	uint64_t count = run(&fault);

	fprintf(stderr, "faults: %" PRIu64 " calls of %s\n", count, shim_call_name(call));
	for (fault.error = 0; fault.error < SHIM_ERRORS; fault.error++)
		if (shim_can_fail(call, fault.error))
			try_calls(fault, count, run);
}

static int kinds[SHIM_CALLS];

static struct criterion_test_params every_call(void)
{
	for (int i = 0; i < SHIM_CALLS; i++)
		kinds[i] = i;
	return cr_make_param_array(int, kinds, SHIM_CALLS, NULL);
}

ParameterizedTestParameters(faults, of_one_call_are_told_and_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, of_one_call_are_told_and_harm_nothing, .init = begin,
		  .fini = end)
{
	try_kind((enum shim_call) * call, SHIM_THIS_THREAD, false, run_script);
}

ParameterizedTestParameters(faults, that_last_are_told_and_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, that_last_are_told_and_harm_nothing, .init = begin,
		  .fini = end)
{
	try_kind((enum shim_call) * call, SHIM_ALL_THREADS, true, run_script);
}

ParameterizedTestParameters(faults, in_the_background_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, in_the_background_harm_nothing, .init = begin,
		  .fini = end)
{
	try_kind((enum shim_call) * call, SHIM_OTHER_THREADS, true, run_script);
}

/* ---- the first sync ---- */

Test(faults, of_the_directory_are_told_and_it_is_synced_again, .init = begin, .fini = end)
{
	const struct shim_fault fault = { .call = SHIM_SYNC, .error = SHIM_FULL, .nth = 1 };
	int r;

	place_must_open(place_fresh("store"));
	cr_assert_eq(make_file("t", S_IFDIR | 0755), 0);

	shim_fail(&fault);
	r = handle_sync(world_tree, NULL);
	cr_assert_eq(r, -ENOSPC, "the name of the WAL may be lost, but: %s", strerror(-r));
	cr_assert_gt(place_errors(), 0, "nothing in the log");

	r = handle_sync(world_tree, NULL);
	cr_assert_eq(r, 0, "again: %s", strerror(-r));
	cr_assert_geq(shim_calls(), 3, "the directory was not synced again");
	shim_heal();
	place_close();
}

/* ---- opening ---- */

static struct shim_log *killed; /* a store as its process left it that was killed */

static void leave_store(void)
{
	shim_record(place_fresh("store"));
	place_must_open(place_path("store"));
	for (size_t i = 0; i < script_steps(); i++)
		cr_assert_eq(script_run(i), 0, "step %zu", i);
	killed = shim_recorded();
	place_close();
}

/* Open what was left, with a fault; how many calls there were. */
static uint64_t run_opening(const struct shim_fault *fault)
{
	const struct shim_cut cut = { .at = shim_log_size(killed), .pattern = SHIM_KEEP_ALL };
	_cleanup_(freep) char *why = NULL;
	int wanted = shim_errno(fault->error), r;
	uint64_t calls;

	describe(fault, "opening");
	shim_cut(killed, &cut, place_fresh("left"));
	place_hush();
	shim_fail(fault);
	r = place_open(place_path("left"), &why);
	calls = shim_calls();
	shim_heal();
	cr_assert(r == 0 || r == wanted, "%s: %s: %s (%s)", trying, strerror(-r), why,
		  place_error());
	cr_assert(r == 0 || (why && *why), "%s: no sentence", trying);
	if (r < 0)
		place_must_open(place_path("left"));
	check_tree();
	place_close();
	*trying = '\0';
	return calls;
}

ParameterizedTestParameters(faults, of_opening_come_with_a_sentence_and_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, of_opening_come_with_a_sentence_and_harm_nothing,
		  .init = begin, .fini = end)
{
	leave_store();
	try_kind((enum shim_call) * call, SHIM_THIS_THREAD, false, run_opening);
	try_kind((enum shim_call) * call, SHIM_ALL_THREADS, true, run_opening);
	shim_log_free(killed);
}
