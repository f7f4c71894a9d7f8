/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/backend.h"
#include "fs/api/repair.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/plural.h"
#include "src/exchange/copy.h"
#include "src/mounts/mounts.h"
#include "src/user/options.h"
#include "src/user/progress.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/cmd/cmd.h"

enum { CHECK_CLEAN = 0, CHECK_VIOLATED = 1, CHECK_NOT_RUN = 2 };

static void print_finding(void *arg, const char *sentence)
{
	WITH_PROGRESS_HELD;

	(void)arg;
	printf("%s\n", sentence);
}

/* "3 rows" behind what is there already, to stderr. */
static void print_count(const char *before, uint64_t count, const char *noun)
{
	fprintf(stderr, "%s%" PRIu64 " %s%s", before, count, noun, plural_s(count));
}

static void print_summary(const char *store, const struct check_result *result)
{
	fprintf(stderr, "sessfs: %s: ", store);
	print_count("", result->sessions, "session");
	print_count(", ", result->files, "file");
	print_count(", ", result->rows, "row");
	if (result->violations)
		print_count("; ", result->violations, "violation");
	else
		fprintf(stderr, "; clean");
	if (result->notes)
		print_count(", ", result->notes, "note");
	fprintf(stderr, "\n");
}

static int check(const char *store, const struct options *options)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct check_result result;
	int r = store_open_backend(store, options, NULL, &backend);

	/* A file that cannot be read is damaged; a server may only be away. */
	if (r < 0)
		return r == -EIO && backend_has_path(store) ? CHECK_VIOLATED : CHECK_NOT_RUN;
	r = store_check(store, backend, print_finding, NULL, &result);
	if (r < 0)
		return log_fail(
			CHECK_NOT_RUN, "cannot finish the check of %s: %s", store,
			r == -EBUSY ? "it is written to all the time, and its server shows no past "
				      "state" :
				      strerror(-r));
	if (say_finish() < 0)
		return CHECK_NOT_RUN;
	print_summary(store, &result);
	if (result.damage && backend_has_path(store))
		log_error("%s is damaged; 'sessfs check --repair' copies what is intact into a "
			  "new store",
			  store);
	return result.violations ? CHECK_VIOLATED : CHECK_CLEAN;
}

/* Check the copy as any store.  Notes are about what users wrote. */
static void print_nothing(void *arg, const char *sentence)
{
	(void)arg, (void)sentence;
}

static int check_repaired(const char *temporary, const char *store)
{
	struct backend_options wanted = { .read_only = true };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(freep) char *why = NULL;
	struct check_result result = { 0 };
	int r = backend_open(temporary, &wanted, &backend, &why);

	if (r == 0)
		r = store_check(temporary, backend, print_nothing, NULL, &result);
	if (r == 0 && !result.violations)
		return 0;
	return log_fail(-EIO, "%s was made, but 'sessfs check' finds problems in it: %s", store,
			why   ? why :
			r < 0 ? strerror(-r) :
				"please report this, with the damaged store if you can");
}

/* Nothing of that name may be there, nor what would be taken for a part of the new store. */
static int judge_new(const char *store)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal", "-reserve" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_(freep) char *name = str_printf("%s%s", store, ends[i]);
		struct stat st;

		if (!name)
			return say_why(NULL, -ENOMEM);
		if (lstat(name, &st) == 0)
			return log_fail(-EEXIST, "%s exists already; name another new store", name);
	}
	return 0;
}

static int run_repair(const char *store, const char *temporary, const struct options *options,
		      struct backend_repaired *ret_repaired)
{
	const struct backend_repair how = { .table = options->table,
					    .stop = stop_wanted,
					    .report = print_finding };
	_cleanup_(freep) char *why = NULL;
	struct progress progress;
	int r;

	progress_begin(&progress, "repair", "record");
	progress_follow(&progress, PROGRESS_TICKS | PROGRESS_READS);
	r = repair_store(store, temporary, &how, ret_repaired, &why);
	progress_end(&progress);
	if (stop_wanted())
		return -EINTR;
	return r < 0 ? say_why(why, r) : 0;
}

static void print_repaired(const char *store, const char *new_store,
			   const struct backend_repaired *repaired)
{
	fprintf(stderr, "sessfs: %s: ", store);
	print_count("", repaired->records, "record");
	print_count(" rescued, of them ", repaired->rows, "row");
	fprintf(stderr, ", into %s; ", new_store);
	if (repaired->found || repaired->old)
		fprintf(stderr,
			"%" PRIu64 " of them are cut off, %" PRIu64 " are of an older state; ",
			repaired->found, repaired->old);
	if (repaired->lost)
		print_count("", repaired->lost, "finding");
	else
		fprintf(stderr, "nothing is lost");
	fprintf(stderr, "\n");
}

/* Made under a temporary name: half a store must not look like the whole one. */
static int repair(const char *store, const char *new_store, const struct options *options)
{
	_cleanup_(freep) char *beside = new_store ? NULL : str_printf("%s.repaired", store);
	_cleanup_(freep) char *temporary = NULL;
	_cleanup_(freep) char *path = NULL;
	_cleanup_(freep) char *why = NULL;
	_cleanup_(closep) int lock = -1;
	struct backend_repaired repaired = { 0 };
	int r, checked;

	new_store = new_store ? new_store : beside;
	if (!new_store)
		return say_why(NULL, -ENOMEM), CHECK_NOT_RUN;
	if (!backend_has_path(store))
		return log_fail(
			CHECK_NOT_RUN,
			"%s is not a file: to repair a database on a server, use the tools of "
			"the server, or a backup",
			store);
	if (judge_new(new_store) < 0)
		return CHECK_NOT_RUN;
	r = mounts_absolute(new_store, &path);
	if (r < 0)
		return log_fail(CHECK_NOT_RUN, "cannot reach %s: %s", new_store, strerror(-r));
	stop_watch();
	lock = copy_make_temporary(store, path, &temporary);
	if (lock < 0)
		return CHECK_NOT_RUN;
	r = run_repair(store, temporary, options, &repaired);
	checked = r < 0 ? r : check_repaired(temporary, new_store);
	if (r == 0 && stop_wanted())
		r = -EINTR;
	if (r == 0) {
		r = backend_install(temporary, path, false, &why);
		if (r < 0)
			say_why(why, r);
	}
	if (r < 0) {
		backend_discard(temporary);
		return CHECK_NOT_RUN;
	}
	if (say_finish() < 0 || checked < 0)
		return CHECK_NOT_RUN;
	print_repaired(store, new_store, &repaired);
	return repaired.lost ? CHECK_VIOLATED : CHECK_CLEAN;
}

struct check_values {
	struct options options;
	bool repairs;
};

static const struct cmd_option check_options[] = {
	CMD_YES(struct check_values, repairs, "repair", 0,
		"copy what is intact of a damaged store into NEWSTORE"),
	CMD_TABLE,
};

static int run_check(void *values, char **operands)
{
	const struct check_values *check_values = values;

	if (check_values->repairs)
		return repair(operands[0], operands[1], &check_values->options);
	if (operands[1])
		return cmd_misused(&cmd_check, "check %s", cmd_check.operands);
	return check(operands[0], &check_values->options);
}

const struct command cmd_check = {
	.name = "check",
	.arguments = "[-o OPTIONS] STORE | --repair [-o OPTIONS] STORE [NEWSTORE]",
	.summary = "check whether a store is intact",
	.help = "Prints on stdout, one a line, which invariants of the store are violated and "
		"where files have bytes that are not JSON, and on stderr a summary.  The store "
		"may be mounted; nothing in it is changed.",
	.more = "With --repair, everything that is intact is copied into NEWSTORE (or "
		"STORE.repaired), which must not exist, and losses are printed.  STORE should not "
		"be mounted; it is only read.\n\nThe exit status is 0 if nothing is damaged, 1 if "
		"something is, and 2 if the check could not run.  With --repair it is 0 if "
		"nothing was damaged, 1 if something was and NEWSTORE has the rest, and 2 if "
		"there is no NEWSTORE.",
	CMD_OPTIONS(check_options),
	.least = 1,
	.most = 2,
	.operands = "takes one store, and with --repair the name of a new one",
	.size = sizeof(struct check_values),
	.run = run_check,
};
