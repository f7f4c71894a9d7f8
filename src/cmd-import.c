/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/import.h"
#include "src/stop.h"
#include "src/units.h"
#include "src/verb.h"

static const struct import_layout *const layouts[] = {
	&import_tree,
	&import_documents,
	&import_rows,
};

struct arguments {
	const struct import_layout *layout;
	const char *to;
	const char *from_table;
	bool dry;
	bool checksum;
	bool json;
	struct options options;
};

static int take_layout(void *field, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		if (strcmp(layouts[i]->name, value) != 0)
			continue;
		*(const struct import_layout **)field = layouts[i];
		return 0;
	}
	return -EINVAL;
}

static const struct verb_option import_options[] = {
	{ "layout", 0, "LAYOUT", take_layout, offsetof(struct arguments, layout),
	  "what is taken in: tree (if none is given), or one of those below" },
	{ "to", 0, "PATH", verb_take_text, offsetof(struct arguments, to),
	  "with the layout tree: a directory of the store instead of its root" },
	{ "from-table", 0, "NAME", verb_take_text, offsetof(struct arguments, from_table),
	  "with the layout agentscope-rows: the table, instead of agentscope_sessions" },
	{ "dry-run", 'n', NULL, verb_take_yes, offsetof(struct arguments, dry),
	  "change nothing, and print what would be done" },
	{ "checksum", 'c', NULL, verb_take_yes, offsetof(struct arguments, checksum),
	  "compare the bytes also of files that have the same size and time" },
	VERB_JSON(struct arguments),
	{ NULL, 'o', "OPTIONS", verb_take_options, offsetof(struct arguments, options),
	  "table=NAME, strict, exact: as for a mount, where no mount has its own" },
};

static const struct verb import_verb = {
	&cmd_import,
	import_options,
	ARRAY_SIZE(import_options),
	2,
	0,
	"takes a store, and folders or files",
};

static int count_all(const struct arguments *arguments, struct import *import, char **operands)
{
	int r = 0;

	/* Only somebody who sees it needs to know. */
	if (import->progress.fd < 0 || !arguments->layout->count)
		return 0;
	for (char **operand = operands; r == 0 && *operand; operand++)
		r = arguments->layout->count(import, *operand);
	return r;
}

static int take_all(const struct arguments *arguments, struct import *import, char **operands)
{
	const char *to = arguments->to ? arguments->to : "";
	int r;

	progress_begin(&import->progress, arguments->dry ? "compare" : "import", "files");
	r = count_all(arguments, import, operands);
	for (char **operand = operands; r == 0 && *operand; operand++)
		r = arguments->layout->take(import, *operand, to);
	progress_end(&import->progress);
	return r;
}

static void print_json(const struct import *import)
{
	static const char *const names[] = { "unchanged", "created", "replaced", "appended",
					     "attributes" };
	json_t *value = json_object();

	for (size_t i = 0; i < IMPORT_DIDS; i++)
		json_object_set_new(value, names[i], json_integer((json_int_t)import->did[i]));
	json_object_set_new(value, "failed", json_integer((json_int_t)import->failed));
	json_object_set_new(value, "left_out", json_integer((json_int_t)import->left));
	json_object_set_new(value, "bytes", json_integer((json_int_t)import->bytes));
	say_json(value);
}

static void print_count(uint64_t count, const char *what)
{
	if (count)
		printf(", %" PRIu64 " %s", count, what);
}

static void print_summary(const struct import *import)
{
	const uint64_t *did = import->did;
	char bytes[UNITS_TEXT];

	printf("%s%" PRIu64 " created, %" PRIu64 " replaced, %" PRIu64 " appended to, %" PRIu64
	       " unchanged",
	       import->dry ? "it would be: " : "", did[IMPORT_CREATED], did[IMPORT_REPLACED],
	       did[IMPORT_APPENDED], did[IMPORT_UNCHANGED]);
	print_count(did[IMPORT_DRESSED], "with other attributes");
	print_count(import->left, "left out");
	print_count(import->failed, "not taken in");
	if (import->bytes)
		printf("; %s written", units_show_size(import->bytes, bytes));
	printf("\n");
}

static void tell(const struct arguments *arguments, struct import *import, int error)
{
	if (arguments->dry && arguments->json)
		say_list_end(&import->list);
	else if (arguments->json)
		print_json(import);
	else
		print_summary(import);
	if (error == -EINTR && stop_wanted() && !arguments->dry)
		log_error("interrupted; what has been taken in is whole, and the same command goes "
			  "on with the rest");
}

static int sync_all(struct import *import)
{
	int r = import->access && !import->dry ? access_sync(import->access) : 0;

	return r < 0 ? verb_fail(import->store, "", r), r : 0;
}

static int run_with(const struct arguments *arguments, struct access *access, char **operands)
{
	struct import import = {
		.store = operands[0],
		.access = access,
		.dry = arguments->dry,
		.checksum = arguments->checksum,
		.keep_owner = geteuid() == 0,
		.from_table = arguments->from_table,
		.list = { .json = arguments->json },
	};
	int r = take_all(arguments, &import, operands + 1);
	int error = sync_all(&import);

	tell(arguments, &import, r);
	return r < 0 || error < 0 || import.failed ? CMD_FAILED : CMD_DONE;
}

/* Without a store, a dry run makes none: all would be new. */
static bool has_store(const char *store)
{
	struct stat st;

	return stat(store, &st) == 0 || errno != ENOENT;
}

static int run_import(int argc, char **argv)
{
	struct arguments arguments = {
		.layout = &import_tree,
		.from_table = "agentscope_sessions",
	};
	int first = verb_parse(&import_verb, &arguments, argc, argv);
	struct access *access = NULL;
	int status = CMD_FAILED, r = 0;

	if (first < 0)
		return CMD_USAGE;
	if (arguments.to && !arguments.layout->has_to)
		return cmd_misused(&cmd_import, "--to goes with --layout=tree only");
	if (!arguments.dry)
		r = verb_open(argv[first], ACCESS_WRITE | ACCESS_CREATE, &arguments.options,
			      &access);
	else if (has_store(argv[first]))
		r = verb_open(argv[first], 0, &arguments.options, &access);
	else
		stop_watch();
	if (r == 0)
		status = run_with(&arguments, access, argv + first);
	access_close(access);
	options_done(&arguments.options);
	return say_finish() < 0 ? CMD_FAILED : status;
}

static void help(void)
{
	printf("Takes the files of folders into a store: what is in DIR comes to the root of the "
	       "store, so\n"
	       "that each folder in it is a session.  Names, modes, times, attributes and links "
	       "are "
	       "kept; root\n"
	       "keeps owners, too.  What the store has and DIR has not stays.  A file that the "
	       "store "
	       "has\n"
	       "already is left alone if size and time are the same; if not, only rows that differ "
	       "are\n"
	       "written.  Each file is taken in whole or not at all; after an interruption, the "
	       "same "
	       "command\n"
	       "goes on.\n"
	       "\n");
	verb_print_options(import_options, ARRAY_SIZE(import_options));
	printf("\nLayouts:\n");
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		printf("  %-18s  %s\n", layouts[i]->name, layouts[i]->help);
	cmd_print_status("something was not taken in; the rest is");
}

const struct command cmd_import = {
	.name = "import",
	.arguments = "[--layout=LAYOUT] [--dry-run] [OPTIONS] STORE DIR|FILE...",
	.summary = "take in files that are there already",
	.help = help,
	.run = run_import,
};
