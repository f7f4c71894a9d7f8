/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "fs/api/repair.h"
#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/base/plural.h"
#include "src/cmd/cmd.h"
#include "src/user/options.h"
#include "src/user/progress.h"
#include "src/user/say.h"
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
	int r = store_open_backend(store, options, &backend);

	if (r < 0)
		return CHECK_NOT_RUN;
	r = store_check(store, backend, print_finding, NULL, &result);
	if (r < 0) {
		log_error("cannot finish the check of %s: %s", store, strerror(-r));
		return CHECK_NOT_RUN;
	}
	if (say_finish() < 0)
		return CHECK_NOT_RUN;
	print_summary(store, &result);
	return result.violations ? CHECK_VIOLATED : CHECK_CLEAN;
}

/* Trust is good: what was made is looked at as any store is.  Notes are about what users wrote. */
static void print_nothing(void *arg, const char *sentence)
{
	(void)arg, (void)sentence;
}

static int check_repaired(const char *store)
{
	struct backend_options wanted = { .read_only = true };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(freep) char *why = NULL;
	struct check_result result = { 0 };
	int r = backend_open(store, &wanted, &backend, &why);

	if (r == 0)
		r = store_check(store, backend, print_nothing, NULL, &result);
	if (r == 0 && !result.violations)
		return 0;
	log_error("%s was made, but 'sessfs check' finds problems in it: %s", store,
		  why	? why :
		  r < 0 ? strerror(-r) :
			  "please report this, with the damaged store if you can");
	return -EIO;
}

static int repair(const char *store, const char *new_store, const struct options *options)
{
	_cleanup_(freep) char *beside = str_printf("%s.repaired", store);
	_cleanup_(freep) char *why = NULL;
	struct backend_repaired repaired;
	struct progress progress;
	int r;

	if (!beside) {
		say_why(NULL, -ENOMEM);
		return CHECK_NOT_RUN;
	}
	if (!backend_has_path(store)) {
		log_error("%s is not a file: to repair a database on a server, use the tools of "
			  "the server, or a backup",
			  store);
		return CHECK_NOT_RUN;
	}
	new_store = new_store ? new_store : beside;
	progress_begin(&progress, "repair", "record");
	progress_follow(&progress, PROGRESS_TICKS | PROGRESS_READS);
	r = repair_store(store, new_store, options->table, print_finding, NULL, &repaired, &why);
	progress_end(&progress);
	if (r < 0) {
		say_why(why, r);
		return CHECK_NOT_RUN;
	}
	if (say_finish() < 0 || check_repaired(new_store) < 0)
		return CHECK_NOT_RUN;
	fprintf(stderr, "sessfs: %s: ", store);
	print_count("", repaired.records, "record");
	print_count(" rescued, of them ", repaired.rows, "row");
	fprintf(stderr, ", into %s; ", new_store);
	if (repaired.found || repaired.old)
		fprintf(stderr,
			"%" PRIu64 " of them are cut off, %" PRIu64 " are of an older state; ",
			repaired.found, repaired.old);
	if (repaired.lost)
		print_count("", repaired.lost, "finding");
	else
		fprintf(stderr, "nothing is lost");
	fprintf(stderr, "\n");
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
	.store = 1,
	.size = sizeof(struct check_values),
	.run = run_check,
};
