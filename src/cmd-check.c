/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "fs/model/repair.h"
#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/cmd.h"
#include "src/options.h"
#include "src/progress.h"
#include "src/say.h"
#include "src/verb.h"

enum { CHECK_CLEAN = 0, CHECK_VIOLATED = 1, CHECK_NOT_RUN = 2 };

static void print_finding(void *arg, const char *sentence)
{
	WITH_PROGRESS_HELD;

	(void)arg;
	printf("%s\n", sentence);
}

static void print_summary(const char *store, const struct check_result *result)
{
	fprintf(stderr, "sessfs: %s: %" PRIu64 " sessions, %" PRIu64 " files, %" PRIu64 " rows; ",
		store, result->sessions, result->files, result->rows);
	if (result->violations)
		fprintf(stderr, "%" PRIu64 " violations", result->violations);
	else
		fprintf(stderr, "clean");
	if (result->notes)
		fprintf(stderr, ", %" PRIu64 " notes", result->notes);
	fprintf(stderr, "\n");
}

static int check(const char *store, const struct options *options)
{
	struct backend_options wanted = { .read_only = true, .table = options->table };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(freep) char *why = NULL;
	struct check_result result;
	int r = backend_open(store, &wanted, &backend, &why);

	if (r < 0) {
		log_error("%s", why ? why : strerror(-r));
		return CHECK_NOT_RUN;
	}
	r = verb_check(store, backend, print_finding, NULL, &result);
	if (r < 0) {
		log_error("the check of %s could not be finished: %s", store, strerror(-r));
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
		r = verb_check(store, backend, print_nothing, NULL, &result);
	if (r == 0 && !result.violations)
		return 0;
	log_error("%s was made, but 'sessfs check' finds fault with it: %s", store,
		  why	? why :
		  r < 0 ? strerror(-r) :
			  "please report this, with the damaged store if you can");
	return -EIO;
}

static int repair(const char *store, const char *new_store, const struct options *options)
{
	_cleanup_(freep) char *beside = NULL;
	_cleanup_(freep) char *why = NULL;
	struct backend_repaired repaired;
	struct progress progress;
	int r;

	if (!new_store && asprintf(&beside, "%s.repaired", store) < 0) {
		beside = NULL;
		log_error("%s", strerror(ENOMEM));
		return CHECK_NOT_RUN;
	}
	new_store = new_store ? new_store : beside;
	progress_begin(&progress, "repair", "records");
	progress_follow(&progress, PROGRESS_TICKS | PROGRESS_READS);
	r = repair_store(store, new_store, options->table, print_finding, NULL, &repaired, &why);
	progress_end(&progress);
	if (r < 0) {
		log_error("%s", why ? why : strerror(-r));
		return CHECK_NOT_RUN;
	}
	if (say_finish() < 0 || check_repaired(new_store) < 0)
		return CHECK_NOT_RUN;
	fprintf(stderr,
		"sessfs: %s: %" PRIu64 " records rescued, %" PRIu64 " of them rows, into %s; ",
		store, repaired.records, repaired.rows, new_store);
	if (repaired.found || repaired.old)
		fprintf(stderr,
			"%" PRIu64 " of them were cut off, %" PRIu64 " are of an older state; ",
			repaired.found, repaired.old);
	if (repaired.lost)
		fprintf(stderr, "%" PRIu64 " findings\n", repaired.lost);
	else
		fprintf(stderr, "nothing is lost\n");
	return repaired.lost ? CHECK_VIOLATED : CHECK_CLEAN;
}

static int run_check(int argc, char **argv)
{
	static const struct option known[] = { { "repair", no_argument, NULL, 'r' },
					       { NULL, 0, NULL, 0 } };
	_cleanup_(options_done) struct options options = { 0 };
	_cleanup_(freep) char *why = NULL;
	bool repairs = false;
	int option;

	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":o:", known, NULL)) != -1) {
		if (option == 'r') {
			repairs = true;
			continue;
		}
		if (option != 'o')
			return cmd_misused(&cmd_check, "the option '%s' is not understood",
					   argv[optind - 1]);
		if (options_parse(&options, optarg, &why) < 0) {
			log_error("%s", why ? why : strerror(ENOMEM));
			return CHECK_NOT_RUN;
		}
	}
	if (repairs && (argc - optind == 1 || argc - optind == 2))
		return repair(argv[optind], argv[optind + 1], &options);
	if (argc - optind != 1)
		return cmd_misused(&cmd_check, repairs ? "check --repair takes a store, and the "
							 "name of a new one" :
							 "check takes one store");
	return check(argv[optind], &options);
}

static void help(void)
{
	printf("Tells on stdout, a line each, which invariants of the store are broken and which "
	       "bytes are\n"
	       "kept that are not JSON, and a summary on stderr.  The store may be mounted; "
	       "nothing in it\n"
	       "is changed.\n"
	       "\n"
	       "  --repair       rescue what is whole of a damaged store into NEWSTORE\n"
	       "                 (STORE.repaired), which must not exist; tell what is lost.  "
	       "STORE\n"
	       "                 should not be mounted; it is only read, and stays as it is\n"
	       "  -o table=NAME  the table of the rows, instead of agentscope_sessions\n"
	       "\n"
	       "The exit status is 0 when nothing is broken, 1 when something is, and 2 when the "
	       "check\n"
	       "could not run.  With --repair: 0 when all was whole, 1 when damage was found and "
	       "what is\n"
	       "left of the store is in NEWSTORE, 2 when there is no NEWSTORE.\n");
}

const struct command cmd_check = {
	.name = "check",
	.arguments = "[-o OPTIONS] STORE | --repair [-o OPTIONS] STORE [NEWSTORE]",
	.summary = "tell whether a store is sound",
	.help = help,
	.run = run_check,
};
