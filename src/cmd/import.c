/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log-limit.h"
#include "backend/base/log.h"
#include "backend/base/plural.h"
#include "src/exchange/import.h"
#include "src/user/stop.h"
#include "src/user/units.h"
#include "src/cmd/bucket.h"

static const struct import_layout *const layouts[] = {
	&import_tree,
	&import_documents,
	&import_rows,
};

struct arguments {
	struct options options;
	const struct import_layout *layout;
	bool dry, checksum;
	struct sync bucket;
	struct import import;
};

static int take_layout(void *field, const char *value, char **ret_why)
{
	struct arguments *arguments = field;
	struct buf why = { 0 };
	int r;

	arguments->bucket.layout = layout_named(value);
	if (arguments->bucket.layout)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		if (strcmp(layouts[i]->name, value) != 0)
			continue;
		arguments->layout = layouts[i];
		return 0;
	}
	r = buf_printf(&why, "there is no layout '%s'; there are", value);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(layouts); i++)
		r = buf_printf(&why, "%s %s", i ? "," : "", layouts[i]->name);
	for (size_t i = 0; r == 0 && i < BUCKET_LAYOUTS; i++)
		r = buf_printf(&why, ", %s", bucket_layouts[i].name);
	if (r == 0)
		*ret_why = why.data;
	else
		buf_done(&why);
	return -EINVAL;
}

static const struct cmd_option import_options[] = {
	{ "layout", 0, "LAYOUT", take_layout, 0,
	  "the format of the source: tree (the default), or one of those below" },
	{ "to", 0, "PATH", cmd_take_text, offsetof(struct arguments, import.to),
	  "with the layout tree: a directory of the store instead of its root" },
	{ "from-table", 0, "NAME", cmd_take_text, offsetof(struct arguments, import.from_table),
	  "with the layout agentscope-rows: the table, instead of agentscope_sessions" },
	CMD_YES(struct arguments, dry, "dry-run", 'n',
		"change nothing, and print what would be done"),
	CMD_YES(struct arguments, checksum, "checksum", 'c',
		"compare the bytes even if size and time are the same"),
	CMD_SYNC(struct arguments, bucket),
	CMD_JSON(struct arguments, import.copier.list.json),
	CMD_WRITER,
};

static int count_all(struct arguments *arguments, char **operands)
{
	const struct copier *copier = &arguments->import.copier;
	int r = 0;

	/* The totals are for the line of progress only. */
	if (copier->progress.fd < 0 || !arguments->layout->count)
		return 0;
	for (char **operand = operands; r == 0 && *operand; operand++)
		r = arguments->layout->count(&arguments->import, *operand);
	return r;
}

static void tell_invalid(const struct copier *copier)
{
	char more[64] = "";

	if (copier->invalid > COPIER_NAMED)
		snprintf(more, sizeof(more), " and %" PRIu64 " more",
			 copier->invalid - COPIER_NAMED);
	if (copier->invalid)
		log_warning("%" PRIu64 " file%s not valid JSON, or %s lines that are not: %s%s; "
			    "the bytes are kept, and 'sessfs check %s' lists them",
			    copier->invalid, copier->invalid == 1 ? " is" : "s are",
			    copier->invalid == 1 ? "has" : "have", copier->invalid_names.data, more,
			    copier->store);
}

static int take_all(struct arguments *arguments, char **operands)
{
	struct copier *copier = &arguments->import.copier;
	enum { WARNINGS = 5 };
	uint64_t left_out;
	int r;

	progress_begin(&copier->progress, (copier->flags & COPIER_DRY) ? "compare" : "import",
		       "file");
	r = count_all(arguments, operands);
	log_limit_begin(WARNINGS);
	/* A thousand transcripts may each have a torn line: say it once for all. */
	log_set_level(LOG_WARNING);
	for (char **operand = operands; r == 0 && *operand; operand++)
		r = arguments->layout->take(&arguments->import, *operand);
	progress_end(&copier->progress);
	left_out = log_limit_end();
	if (left_out)
		log_warning("%" PRIu64 " more warning%s of this kind", left_out,
			    plural_s(left_out));
	tell_invalid(copier);
	return r;
}

static void print_count(uint64_t count, const char *what)
{
	if (count)
		printf(", %" PRIu64 " %s", count, what);
}

static void print_summary(const struct copier *copier, const char *failed)
{
	const uint64_t *did = copier->did;
	char bytes[UNITS_TEXT];

	printf("%s%" PRIu64 " created, %" PRIu64 " replaced, %" PRIu64 " appended to, %" PRIu64
	       " unchanged",
	       (copier->flags & COPIER_DRY) ? "it would be: " : "", did[COPIER_CREATED],
	       did[COPIER_REPLACED], did[COPIER_APPENDED], did[COPIER_UNCHANGED]);
	print_count(did[COPIER_DRESSED], "with other attributes");
	print_count(did[COPIER_DELETED], "deleted");
	print_count(did[COPIER_CONFLICTS], "changed on both sides");
	print_count(copier->left, "left out");
	print_count(copier->failed, failed);
	if (copier->bytes)
		printf("; %s written", units_show_size(copier->bytes, bytes));
	printf("\n");
}

void cmd_report_copied(struct copier *copier, const char *failed)
{
	const uint64_t *did = copier->did;

	if ((copier->flags & COPIER_DRY) && copier->list.json)
		say_list_end(&copier->list);
	else if (copier->list.json)
		say_json(json_pack("{sI sI sI sI sI sI sI sI sI sI sI}", "unchanged",
				   did[COPIER_UNCHANGED], "created", did[COPIER_CREATED],
				   "replaced", did[COPIER_REPLACED], "appended",
				   did[COPIER_APPENDED], "attributes", did[COPIER_DRESSED],
				   "deleted", did[COPIER_DELETED], "conflicts",
				   did[COPIER_CONFLICTS], "failed", copier->failed, "left_out",
				   copier->left, "invalid", copier->invalid, "bytes",
				   copier->bytes));
	else
		print_summary(copier, failed);
}

static int run_with(struct arguments *arguments, char **operands)
{
	struct copier *copier = &arguments->import.copier;
	int r = 0, error;

	copier->store = operands[0];
	copier->flags = COPIER_ROWS | COPIER_SETID | (geteuid() == 0 ? COPIER_OWNER : 0) |
			(arguments->dry ? COPIER_DRY : 0) |
			(arguments->checksum ? COPIER_CHECKSUM : 0);
	r = take_all(arguments, operands + 1);
	error = copier->to && !(copier->flags & COPIER_DRY) ? access_sync(copier->to) : 0;
	if (error < 0)
		cmd_fail(copier->store, "", error);
	cmd_report_copied(copier, "not imported");
	if (r == -EINTR && stop_wanted() && !arguments->dry)
		log_error("interrupted; the files imported so far are complete, and the same "
			  "command imports the rest");
	return r < 0 || error < 0 || copier->failed ? CMD_FAILED : CMD_DONE;
}

/* Where sessions go that come without a path. */
int cmd_read_layouts(const char *store, const struct options *options, uint64_t *ret_layouts)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct settings settings = { 0 };
	int r = store_open_backend(store, options, &settings, &backend);

	*ret_layouts = settings.value[SETTING_LAYOUT];
	return r;
}

static int run_import(void *values, char **operands)
{
	struct arguments *arguments = values;
	struct copier *copier = &arguments->import.copier;
	const unsigned flags = arguments->dry ? 0 : ACCESS_WRITE | ACCESS_CREATE;
	struct stat st;
	int status = cmd_judge_bucket(&cmd_import, operands[1], &arguments->bucket,
				      sizeof(arguments->bucket));

	if (status < 0)
		return CMD_USAGE;
	if (arguments->import.to && arguments->layout != &import_tree)
		return cmd_misused(&cmd_import, "--to goes with --layout=tree only");
	if (arguments->import.from_table && arguments->layout != &import_rows)
		return cmd_misused(&cmd_import, "--from-table goes with --layout=%s only",
				   import_rows.name);
	if (status && (operands[2] || arguments->import.to || arguments->checksum))
		return cmd_misused(&cmd_import, "a bucket stands alone, without --to and "
						"--checksum");
	arguments->bucket.dry = arguments->dry;
	if (status)
		return cmd_sync_run(&arguments->bucket, &arguments->options, operands,
				    copier->list.json);
	stop_watch();
	/* Without a store, a dry run makes none: all would be new. */
	if ((!arguments->dry || !backend_has_path(operands[0]) || stat(operands[0], &st) == 0 ||
	     errno != ENOENT) &&
	    store_open(operands[0], flags, &arguments->options, &copier->to) < 0)
		return CMD_FAILED;
	if (copier->to && arguments->layout != &import_tree &&
	    cmd_read_layouts(operands[0], &arguments->options, &arguments->import.layout) < 0) {
		access_close(copier->to);
		return CMD_FAILED;
	}
	status = run_with(arguments, operands);
	copier_done(copier);
	access_close(copier->to);
	return status;
}

static void print_layouts(void)
{
	printf("\nLayouts:\n");
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		printf("  %-18s  %s\n", layouts[i]->name, layouts[i]->help);
	printf("\nLayouts of a bucket, found out by its keys unless one is named:\n");
	for (size_t i = 0; i < BUCKET_LAYOUTS; i++)
		printf("  %-18s  %s\n", bucket_layouts[i].name, bucket_layouts[i].help);
}

const struct command cmd_import = {
	.name = "import",
	.arguments =
		"[--layout=LAYOUT] [--dry-run] [OPTIONS] STORE DIR|FILE...|s3://BUCKET[/PREFIX]",
	.summary = "copy existing files, or a bucket, into a store",
	.help = "Copies files into a store: the content of DIR goes to the root of the store, so "
		"that each folder in it becomes a session.  Names, modes, times, attributes and "
		"links are preserved; if you are root, owners as well.  Nothing in the store is "
		"deleted.  A file with the same size and time in the store is left alone; of "
		"others, only rows that differ are written.  Each file is imported completely or "
		"not at all; after an interruption, run the same command again.  From a bucket, "
		"only what has changed since the last run is fetched; what has changed in the "
		"store as well is named and left alone.",
	.list = print_layouts,
	.failed = "something was not imported (the rest is)",
	CMD_OPTIONS(import_options),
	.least = 2,
	.operands = "takes a store, and folders or files or a bucket",
	.size = sizeof(struct arguments),
	.defaults = &(const struct arguments){ .layout = &import_tree },
	.run = run_import,
};
