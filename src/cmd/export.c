/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/exchange/export.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/user/units.h"
#include "src/cmd/bucket.h"

struct arguments {
	struct options options;
	bool force, json;
	struct sync bucket;
};

static int take_layout(void *field, const char *value, char **ret_why)
{
	(void)ret_why;
	*(const struct bucket_layout **)field = layout_named(value);
	return layout_named(value) ? 0 : -EINVAL;
}

static const struct cmd_option export_options[] = {
	CMD_YES(struct arguments, force, "force", 'f',
		"also to a folder that is not empty: replace files of the same name"),
	CMD_VALUE(struct arguments, bucket.layout, "layout", "LAYOUT", take_layout,
		  "of a bucket: strands, strands-snapshots, claude-parts or agentscope"),
	CMD_YES(struct arguments, bucket.dry, "dry-run", 'n',
		"with a bucket: change nothing, and print what would be done"),
	CMD_SYNC(struct arguments, bucket),
	CMD_JSON(struct arguments, json),
	CMD_TABLE,
};

static int open_stream(struct export *export)
{
	int r;

	if (isatty(STDOUT_FILENO))
		return log_fail(
			-EINVAL,
			"a tar stream cannot be written to a terminal; redirect the standard "
			"output");
	r = export_to_tar(export, STDOUT_FILENO);
	if (r == -EOPNOTSUPP)
		log_error(
			"this sessfs was built without libarchive, so it cannot write tar streams; "
			"export to a folder");
	return r;
}

static void export_report(const struct copier *copier, bool json)
{
	const uint64_t *did = copier->did;
	const uint64_t unchanged = did[COPIER_UNCHANGED] + did[COPIER_DRESSED];
	const uint64_t exported = did[COPIER_CREATED] + did[COPIER_REPLACED] + did[COPIER_APPENDED];
	char bytes[UNITS_TEXT];

	if (json) {
		say_json(json_pack("{sI sI sI sI}", "exported", exported, "unchanged", unchanged,
				   "failed", copier->failed, "bytes", copier->bytes));
		return;
	}
	printf("%" PRIu64 " exported, %" PRIu64 " unchanged", exported, unchanged);
	if (copier->failed)
		printf(", %" PRIu64 " not exported", copier->failed);
	printf("; %s written\n", units_show_size(copier->bytes, bytes));
}

/* The totals are for the line of progress only. */
static void count_all(struct copier *copier, char **names)
{
	if (copier->progress.fd < 0)
		return;
	if (!*names)
		copier_count(copier);
	for (; *names; names++) {
		copier->only = *names;
		copier_count(copier);
	}
	copier->only = NULL;
}

static int run_export(void *values, char **operands)
{
	struct arguments *arguments = values;
	_cleanup_(access_closep) struct access *access = NULL;
	const bool stream = strcmp(operands[1], "-") == 0;
	const int64_t began = time_now();
	struct stat st;
	const bool is_own = stat(operands[0], &st) == 0 && st.st_uid == geteuid();
	struct export export = { .copier = {
					 .store = operands[0],
					 .flags = (geteuid() == 0 ? COPIER_OWNER : 0) |
						  (is_own ? COPIER_SETID : 0),
				 } };
	struct copier *copier = &export.copier;
	int r;

	r = cmd_judge_bucket(&cmd_export, operands[1], &arguments->bucket,
			     sizeof(arguments->bucket));
	if (r < 0)
		return CMD_USAGE;
	if (r && (arguments->force || operands[2] || !arguments->bucket.layout))
		return cmd_misused(&cmd_export,
				   "a bucket needs --layout=strands, strands-snapshots, "
				   "claude-parts or agentscope, and takes --session, but no names "
				   "and no --force");
	arguments->bucket.up = true;
	if (r)
		return cmd_sync_run(&arguments->bucket, &arguments->options, operands,
				    arguments->json);
	if (stream && (arguments->force || arguments->json))
		return cmd_misused(&cmd_export,
				   "--force and --json are for a folder, not for a tar stream");
	if (store_open(operands[0], 0, &arguments->options, &access) < 0)
		return CMD_FAILED;
	copier->from = access;
	r = stream ? open_stream(&export) :
		     export_to_folder(&export, operands[1], arguments->force);
	if (r < 0) {
		export_end(&export, r);
		return CMD_FAILED;
	}
	progress_begin(&copier->progress, "export", "file");
	count_all(copier, operands + 2);
	r = export_all(&export, &arguments->options, operands + 2);
	progress_end(&copier->progress);
	if (r == 0)
		r = export_fileless(copier, &arguments->options, operands + 2, began);
	if (r < 0 && !stop_wanted() && !copier->stopped)
		log_error("the export is not complete: %s", strerror(-r));
	if (!stream)
		export_report(copier, arguments->json);
	copier_done(copier);
	return r < 0 || copier->failed ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_export = {
	.name = "export",
	.arguments = "[-f] [--json] [OPTIONS] STORE DIR|-|s3://BUCKET[/PREFIX] [SESSION...]",
	.summary = "copy files to a folder, a tar stream or a bucket",
	.help = "Copies the files of a store to DIR, or with - to the standard output as a tar "
		"stream (pax).  Each file is exported completely, as it was when it was read.  "
		"Modes, times, attributes and links are preserved; if you are root, owners as "
		"well.  In DIR, a file gets its name when it is complete, one that exists with "
		"the same size and time is left alone, and nothing is deleted.  To a bucket, only "
		"what has changed since the last run is sent, each message or document as one "
		"object; what has changed there as well is named and left alone.",
	.failed = "something was not exported (the rest is)",
	CMD_OPTIONS(export_options),
	.least = 2,
	.operands = "takes a store, a folder, - or a bucket, and sessions",
	.size = sizeof(struct arguments),
	.run = run_export,
};
