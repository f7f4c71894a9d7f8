/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "fs/model/check.h"
#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/cmd.h"
#include "src/options.h"
#include "src/say.h"

enum { CHECK_CLEAN = 0, CHECK_VIOLATED = 1, CHECK_NOT_RUN = 2 };

static void print_finding(void *arg, const char *sentence)
{
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
	r = check_store(backend, print_finding, NULL, &result);
	if (r < 0) {
		log_error("the check of %s could not be finished: %s", store, strerror(-r));
		return CHECK_NOT_RUN;
	}
	if (say_finish() < 0)
		return CHECK_NOT_RUN;
	print_summary(store, &result);
	return result.violations ? CHECK_VIOLATED : CHECK_CLEAN;
}

static int run_check(int argc, char **argv)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	_cleanup_(options_done) struct options options = { 0 };
	_cleanup_(freep) char *why = NULL;
	int option;

	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, ":o:", none, NULL)) != -1) {
		if (option != 'o')
			return cmd_misused(&cmd_check, "the option '%s' is not understood",
					   argv[optind - 1]);
		if (options_parse(&options, optarg, &why) < 0) {
			log_error("%s", why ? why : strerror(ENOMEM));
			return CHECK_NOT_RUN;
		}
	}
	if (argc - optind != 1)
		return cmd_misused(&cmd_check, "check takes one store");
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
	       "  -o table=NAME  the table of the rows, instead of agentscope_sessions\n"
	       "\n"
	       "The exit status is 0 when nothing is broken, 1 when something is, and 2 when the "
	       "check\n"
	       "could not run.\n");
}

const struct command cmd_check = {
	.name = "check",
	.arguments = "[-o OPTIONS] STORE",
	.summary = "tell whether a store is sound",
	.help = help,
	.run = run_check,
};
