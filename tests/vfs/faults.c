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
#include "tests/unit/rounds.h"
#include "tests/unit/script.h"
#include "tests/vfs/place.h"

enum {
	FEW = 1, /* samples of the calls of one kind, in a soak; in `make check` one */
	SOME = 2,
	MORE = 5,
	ENOUGH = 100000,     /* calls, in which something must get through */
	APART_SECONDS = 600, /* in which a key that was set apart is taken in, if ever */
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

/* What fdatasync() lost is lost, and no later one may say otherwise (keeper.c).  Only the script
 * has steps that sync. */
static bool stays(const struct shim_fault *fault, size_t step)
{
	return fault->call == SHIM_SYNC && script_syncs(step);
}

/* A key whose change could not be taken in is set apart (apart.c): until it is tried again, after a
 * second, a new one has no file yet, and another one's cannot be read. */
static bool is_apart(int r, int wanted, unsigned seconds)
{
	return seconds && (r == wanted || r == -ENOENT || r == -EIO);
}

/* Make a step that has failed once more. */
static int run_again(int wanted, int make(size_t), size_t step, unsigned seconds)
{
	int r;

	for (unsigned i = 0; is_apart(r = make(step), wanted, seconds) && i < 100 * seconds; i++)
		usleep(10000);
	return r;
}

/* The log has said something since the store was opened. */
static bool told;

/* Wait until a call of another thread has failed; it says so later. */
static void wait_for_fault(const char *sentence)
{
	while (!shim_failures())
		usleep(1000);
	cr_assert(place_hears(sentence), "not in the log: %s", sentence);
}

static void hush(void)
{
	told |= place_errors() > 0;
	place_hush();
}

/* Make a step, and again if it has failed. */
static void run_step(const struct shim_fault *fault, int make(size_t), size_t step,
		     unsigned seconds)
{
	int wanted = shim_errno(fault->error), r;

	hush();
	r = make(step);
	if (r == 0)
		return;
	cr_assert(r == wanted || is_apart(r, wanted, seconds),
		  "%s: step %zu: %s instead of %s (%s)", trying, step, strerror(-r),
		  strerror(-wanted), place_error());
	cr_assert_gt(shim_failures(), 0, "%s: step %zu failed before", trying, step);
	/* That a key is set apart is said once, by whoever finds it. */
	cr_assert(r == -ENOMEM || place_errors() || stays(fault, step) || (seconds && told),
		  "%s: step %zu: nothing in the log", trying, step);
	if (fault->lasting)
		shim_heal();
	hush();
	r = run_again(wanted, make, step, seconds);
	cr_assert(r == 0 || (r == wanted && stays(fault, step)), "%s: step %zu, again: %s (%s)",
		  trying, step, strerror(-r), place_error());
}

static void check_store_and_inodes(void)
{
	size_t known;

	world_check();
	known = world_inodes();
	cr_assert_eq(known, 1, "%s: %zu inodes are known beside the root", trying, known - 1);
}

static void check_script(void)
{
	script_check_end();
	check_store_and_inodes();
}

/* The same after an unmount and a mount; and close it. */
static void check_twice(const char *place, void check(void))
{
	check();
	place_close();
	place_must_open(place_path(place));
	check();
	place_close();
	*trying = '\0';
}

/* Run the script with a fault; how many calls there were. */
static uint64_t run_script(const struct shim_fault *fault)
{
	uint64_t calls;

	describe(fault, "the script");
	place_must_open(place_fresh("store"));
	shim_fail(fault);
	for (size_t i = 0; i < script_steps(); i++)
		run_step(fault, script_run, i, 0);
	calls = shim_calls();
	shim_heal();
	check_twice("store", check_script);
	return calls;
}

/* ---- all of them ---- */

/* SESSFS_FAULTS: "all", or the only N to try. */
static const char *asked(void)
{
	return getenv("SESSFS_FAULTS");
}

/* Some of 1 to count, or as many as were asked for. */
static void try_calls(struct shim_fault fault, uint64_t count, unsigned samples,
		      uint64_t run(const struct shim_fault *))
{
	uint64_t some = rounds("SESSFS_FAULT_SAMPLES", 1, samples);
	uint64_t step = asked() ? 1 : MAX(count / some, 1);
	uint64_t only = asked() ? strtoull(asked(), NULL, 10) : 0;

	for (uint64_t first = 1; first <= count; first += step) {
		fault.nth = first + random_below(&chance, step);
		if (fault.nth <= count && (!only || only == fault.nth))
			run(&fault);
	}
}

/* Each way in which a call of a kind can fail. */
static void try_kind(enum shim_call call, enum shim_threads threads, bool lasting, unsigned samples,
		     uint64_t run(const struct shim_fault *))
{
	struct shim_fault fault = { .call = call, .threads = threads, .lasting = lasting };
	uint64_t count = run(&fault);

	fprintf(stderr, "faults: %" PRIu64 " calls of %s\n", count, shim_call_name(call));
	for (fault.error = 0; fault.error < SHIM_ERRORS; fault.error++)
		if (shim_can_fail(call, fault.error))
			try_calls(fault, count, samples, run);
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
	try_kind((enum shim_call) * call, SHIM_THIS_THREAD, false, SOME, run_script);
}

ParameterizedTestParameters(faults, that_last_are_told_and_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, that_last_are_told_and_harm_nothing, .init = begin,
		  .fini = end)
{
	try_kind((enum shim_call) * call, SHIM_ALL_THREADS, true, SOME, run_script);
}

/* ---- changes of other programs ---- */

static const char changes[] =
	"BEGIN;"
	"UPDATE agentscope_sessions SET state_data = '{\"b\":2}' WHERE state_key = 'k';"
	"UPDATE agentscope_sessions SET state_data = '5' WHERE state_key = 'd';"
	"DELETE FROM agentscope_sessions WHERE state_key = 'gone';"
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "
	"('s', 'l', 3, '4'), ('s', 'one', 1, '2'), ('n', 'a/b', 0, '7'), ('n', 'a/b', 1, '8');"
	"COMMIT";

static const struct {
	const char *path;
	bool is_dir;
	const char *text; /* or the names */
} changed[] = {
	{ "s/k.json", false, "{\"b\":2}" },
	{ "s/l.jsonl", false, "1\n2\n3\n{\"torn\n4\n" },
	{ "s/d.json", false, "5" },
	{ "s/one.jsonl", false, "1\n2\n" },
	{ "n/a/b.jsonl", false, "7\n8\n" },
	{ "n/a", true, "b.jsonl" },
	{ "s", true, "k.json l.jsonl d.json one.jsonl" },
	{ "", true, "s n" },
};

static int look_at_change(size_t i)
{
	return changed[i].is_dir ? script_list(changed[i].path, changed[i].text) :
				   script_read(changed[i].path, changed[i].text);
}

static void check_changes(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(changed); i++)
		cr_assert_eq(look_at_change(i), 0, "%s", changed[i].path);
	check_store_and_inodes();
}

static void change(const char *sql)
{
	sqlite3 *other;

	cr_assert_eq(sqlite3_open(place_store(place_path("store")), &other), SQLITE_OK);
	cr_assert_eq(sqlite3_exec(other, sql, NULL, NULL, NULL), SQLITE_OK, "%s",
		     sqlite3_errmsg(other));
	cr_assert_eq(sqlite3_close(other), SQLITE_OK);
}

static void make_changes(void)
{
	make_dir("s");
	save("s/k.json", "{\"a\":1}");
	save("s/l.jsonl", "1\n2\n3\n");
	append("s/l.jsonl", "{\"torn");
	save("s/d.json", "1");
	save("s/d.json", "{\"a\":");
	save("s/gone.jsonl", "1\n2\n");
	save("s/one.json", "1");
	change(changes);
}

/* Whoever comes first takes the changes in: the thread of the tree, or who reads. */
static uint64_t run_changes(const struct shim_fault *fault)
{
	uint64_t calls;

	describe(fault, "changes");
	told = false;
	place_must_open(place_fresh("store"));
	make_changes();
	shim_fail(fault);
	for (size_t i = 0; i < ARRAY_SIZE(changed); i++)
		run_step(fault, look_at_change, i, APART_SECONDS);
	calls = shim_calls();
	shim_heal();
	check_twice("store", check_changes);
	return calls;
}

ParameterizedTestParameters(faults, while_changes_are_taken_in_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, while_changes_are_taken_in_harm_nothing, .init = begin,
		  .fini = end)
{
	try_kind((enum shim_call) * call, SHIM_ALL_THREADS, false, MORE, run_changes);
	try_kind((enum shim_call) * call, SHIM_ALL_THREADS, true, MORE, run_changes);
}

static void check_adopted(void)
{
	cr_assert_str_eq(names_in(""), "s m n");
	cr_assert_str_eq(names_in("n"), "a b.json");
	cr_assert_eq(stat_of("").st_nlink, 5);
	cr_assert_eq(stat_of("n").st_nlink, 3);
	cr_assert_str_eq(content_of("n/a/k.json"), "2");
	check_store_and_inodes();
}

/* Directories are changed in memory before the commit. */
Test(faults, of_the_commit_of_what_is_adopted_leave_directories_as_they_were, .init = begin,
     .fini = end)
{
	const struct shim_fault fault = {
		.call = SHIM_WRITE,
		.error = SHIM_IO,
		.threads = SHIM_OTHER_THREADS,
		.nth = 1,
	};

	place_must_open(place_fresh("store"));
	make_dir("s");
	shim_fail(&fault);
	change("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
	       "VALUES ('m', 'k', 0, '1'), ('n', 'a/k', 0, '2'), ('n', 'b', 0, '3')");
	wait_for_fault("");
	shim_heal();
	check_twice("store", check_adopted);
}

/* ---- in the background ---- */

enum {
	BIG = 5 << 20,	     /* a checkpoint is due */
	BACKGROUND = 700000, /* microseconds, until it, times, ghosts and a sync have come */
};

static void make_big(const char *path)
{
	_cleanup_(buf_done) struct buf big = { 0 };
	struct handle *handle = open_at(path, O_WRONLY | O_CREAT);

	cr_assert_eq(buf_append_zeros(&big, BIG), 0);
	memset(big.data, 'x', BIG);
	write_at(handle, 0, buf_bytes(&big));
	close_handle(handle);
}

static void check_background(void)
{
	cr_assert_str_eq(names_in(""), "s big.bin t");
	cr_assert_str_eq(names_in("s"), "a.jsonl");
	cr_assert_str_eq(content_of("s/a.jsonl"), "1\n");
	cr_assert_eq(stat_of("big.bin").st_size, BIG);
	cr_assert_str_eq(keys(), "s/a[0-0]");
	check_store_and_inodes();
}

/* Leave work to the threads of the store and of the tree, and let them fail; how many calls they
 * made. */
static uint64_t run_background(const struct shim_fault *fault)
{
	uint64_t calls;
	int r;

	describe(fault, "the background");
	place_must_open(place_fresh("store"));
	place_hush();
	make_dir("s");
	make_big("big.bin");
	append("s/b.jsonl", "1\n2\n");
	append("s/a.jsonl", "1\n");
	cr_assert_eq(unlinked("s/b.jsonl"), 0);
	shim_fail(fault);
	usleep(BACKGROUND);
	calls = shim_calls();
	/* Of others SQLite makes nothing. */
	cr_assert(!shim_failures() || fault->error != SHIM_IO ||
			  (fault->call != SHIM_READ && fault->call != SHIM_WRITE &&
			   fault->call != SHIM_SYNC) ||
			  place_hears(""),
		  "%s: nothing in the log", trying);
	shim_heal();
	r = make_file("t", S_IFDIR | 0755);
	cr_assert_eq(r, 0, "%s: %s", trying, strerror(-r));
	r = handle_sync(world_tree, NULL);
	/* SQLite does not say why the sync of a checkpoint has failed. */
	cr_assert(r == 0 || (fault->call == SHIM_SYNC &&
			     (r == shim_errno(fault->error) || r == -EIO)),
		  "%s: %s", trying, strerror(-r));
	world_settle();
	check_twice("store", check_background);
	return calls;
}

ParameterizedTestParameters(faults, in_the_background_harm_nothing)
{
	return every_call();
}

ParameterizedTest(const int *call, faults, in_the_background_harm_nothing, .init = begin,
		  .fini = end)
{
	try_kind((enum shim_call) * call, SHIM_OTHER_THREADS, true, FEW, run_background);
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

Test(faults, of_fdatasync_are_told_until_the_next_mount, .init = begin, .fini = end)
{
	/* The first is that of the directory. */
	const struct shim_fault fault = { .call = SHIM_SYNC, .error = SHIM_FULL, .nth = 2 };
	struct handle *handle;
	int r;

	place_must_open(place_fresh("store"));
	handle = open_at("f", O_WRONLY | O_CREAT);
	for (uint64_t at = 0; at < 10; at++)
		write_at(handle, at, BYTES("x"));

	shim_fail(&fault);
	r = handle_sync_data(world_tree, handle);
	cr_assert_eq(r, -ENOSPC, "nothing was synced, but: %s", strerror(-r));

	shim_heal();
	r = handle_sync_data(world_tree, handle);
	cr_assert_eq(r, -ENOSPC, "the kernel has forgotten what it lost, and so: %s", strerror(-r));
	close_handle(handle);
	place_close();

	place_must_open(place_path("store"));
	cr_assert_str_eq(content_of("f"), "xxxxxxxxxx");
	r = handle_sync(world_tree, NULL);
	cr_assert_eq(r, 0, "after the mount: %s", strerror(-r));
	place_close();
}

/* The first sync is also that of the directory, of which another sentence is said. */
static void sync_once(void)
{
	struct handle *handle = open_at("first", O_WRONLY | O_CREAT);

	write_at(handle, 0, BYTES("x"));
	close_handle(handle);
	cr_assert_eq(handle_sync(world_tree, NULL), 0);
}

/* It has been told to the checkpoint: who opens the file to sync it later would not hear of it. */
Test(faults, of_the_sync_of_a_checkpoint_are_told_to_who_syncs, .init = begin, .fini = end)
{
	const struct shim_fault fault = {
		.call = SHIM_SYNC,
		.error = SHIM_IO,
		.nth = 1,
		.threads = SHIM_OTHER_THREADS,
	};
	struct handle *handle;

	place_must_open(place_fresh("store"));
	sync_once();
	shim_fail(&fault);
	make_big("a");
	wait_for_fault("no sync succeeds until");
	shim_heal();
	usleep(BACKGROUND);
	handle = open_at("a", O_WRONLY);
	cr_assert_eq(handle_sync(world_tree, handle), -EIO, "it may be lost");
	close_handle(handle);
	place_close();
}

static struct backend *open_mount(void)
{
	const struct backend_options options = { .create = true,
						 .owner = "a test",
						 .shared = true };
	struct backend *backend;

	cr_assert_eq(backend_open(place_store(place_path("store")), &options, &backend, NULL), 0);
	return backend;
}

static void commit_something(struct backend *backend, const char *key)
{
	const struct backend_op op = {
		.type = BACKEND_ROW_PUT,
		.session = BYTES("s"),
		.key = bytes_str(key),
		.data = BYTES("1"),
	};

	cr_assert_eq(backend_commit(backend, &op, 1, BACKEND_ANYWAY), 0);
}

/* What one could not sync another has not synced either. */
Test(faults, of_fdatasync_are_told_on_every_mount_until_the_last_has_gone, .init = begin,
     .fini = end)
{
	const struct shim_fault fault = { .call = SHIM_SYNC, .error = SHIM_IO, .nth = 1 };
	struct backend *one, *two, *three;

	place_fresh("store");
	one = open_mount();
	two = open_mount();
	commit_something(one, "first");
	cr_assert_eq(one->ops->sync(one), 0);
	commit_something(one, "one");
	shim_fail(&fault);
	cr_assert_eq(one->ops->sync(one), -EIO);
	shim_heal();
	commit_something(two, "two");
	cr_assert_eq(two->ops->sync(two), -EIO, "it may be lost");
	backend_close(one);
	commit_something(two, "more");
	cr_assert_eq(two->ops->sync(two), -EIO, "it may be lost still");
	three = open_mount();
	backend_close(two);
	commit_something(three, "three");
	cr_assert_eq(three->ops->sync(three), -EIO, "it came while one was there");
	backend_close(three);
	one = open_mount();
	commit_something(one, "after");
	cr_assert_eq(one->ops->sync(one), 0);
	backend_close(one);
}

static off_t size_of_database(const char *place)
{
	struct stat st;

	cr_assert_eq(stat(place_store(place_path(place)), &st), 0);
	return st.st_size;
}

/* What the kernel has not written may be read as it was before. */
Test(faults, of_the_sync_of_a_checkpoint_keep_the_log_out_of_the_database, .init = begin,
     .fini = end)
{
	const struct shim_fault fault = {
		.call = SHIM_SYNC,
		.error = SHIM_IO,
		.nth = 1,
		.lasting = true,
		.threads = SHIM_OTHER_THREADS,
	};

	place_must_open(place_fresh("store"));
	sync_once();
	shim_fail(&fault);
	make_big("a");
	wait_for_fault("no sync succeeds until");
	shim_heal();
	place_hush();
	make_big("b");
	usleep(BACKGROUND);
	cr_assert_lt(size_of_database("store"), BIG, "the log was copied");
	cr_assert_eq(place_errors(), 0, "said again: %s", place_error());
	place_close();

	place_must_open(place_path("store"));
	cr_assert_eq(stat_of("a").st_size, BIG);
	cr_assert_eq(stat_of("b").st_size, BIG);
	world_check();
	make_big("c");
	while (size_of_database("store") <= BIG)
		usleep(1000);
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
	check_twice("left", check_script);
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
	try_kind((enum shim_call) * call, SHIM_THIS_THREAD, false, SOME, run_opening);
	try_kind((enum shim_call) * call, SHIM_ALL_THREADS, true, SOME, run_opening);
	shim_log_free(killed);
}
