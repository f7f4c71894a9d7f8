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
#include "src/cmd/cmd.h"
#include "src/exchange/walk.h"

struct arguments {
	struct options options;
	bool force;
	bool json;
};

static const struct cmd_option export_options[] = {
	CMD_YES(struct arguments, force, "force", 'f',
		"also to a folder that is not empty: replace files of the same name"),
	CMD_JSON(struct arguments),
	CMD_TABLE,
};

static int open_stream(struct export *export)
{
	int r;

	if (isatty(STDOUT_FILENO)) {
		log_error("a tar stream cannot be written to a terminal; redirect the standard "
			  "output");
		return -EINVAL;
	}
	r = export_aim(export, STDOUT_FILENO);
	if (r == 0)
		r = export_to_tar(export, STDOUT_FILENO);
	if (r == -EOPNOTSUPP)
		log_error(
			"this sessfs was built without libarchive, so it cannot write tar streams; "
			"export to a folder");
	return r;
}

static bool is_own(const char *store)
{
	struct stat st;

	return stat(store, &st) == 0 && st.st_uid == geteuid();
}

static void tell(const struct export *export, bool json)
{
	char bytes[UNITS_TEXT];

	if (json) {
		say_json(json_pack("{sI sI sI sI}", "exported", export->files - export->unchanged,
				   "unchanged", export->unchanged, "failed", export->failed,
				   "bytes", export->bytes));
		return;
	}
	printf("%" PRIu64 " exported, %" PRIu64 " unchanged", export->files - export->unchanged,
	       export->unchanged);
	if (export->failed)
		printf(", %" PRIu64 " not exported", export->failed);
	printf("; %s written\n", units_show_size(export->bytes, bytes));
}

struct census {
	struct walk_names dirs; /* paths; those that are done are NULL */
	uint64_t files;
	uint64_t bytes;
	const char *path; /* of the one that is being listed */
};

static int count_entry(void *arg, const char *name, const struct stat *st)
{
	struct census *census = arg;
	const char *path = census->path;
	_cleanup_(freep) char *below = str_printf("%s%s%s", path, *path ? "/" : "", name);

	if (stop_wanted())
		return -EINTR;
	if (!S_ISDIR(st->st_mode)) {
		census->files++;
		census->bytes += S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
		return 0;
	}
	return below ? walk_names_add(&census->dirs, below) : -ENOMEM;
}

/* Only somebody who sees it needs to know. */
static void count_all(struct export *export, char **names)
{
	static char *whole[] = { "", NULL };
	struct census census = { 0 };
	int r = 0;

	if (export->progress.fd < 0)
		return;
	for (char **name = *names ? names : whole; r == 0 && *name; name++)
		r = walk_names_add(&census.dirs, *name);
	for (size_t i = 0; r == 0 && i < census.dirs.count; i++) {
		_cleanup_(freep) char *path = steal_ptr(census.dirs.names[i]);

		census.path = path;
		r = access_list(export->access, path, true, count_entry, &census);
		r = r == -ENOENT ? 0 : r;
	}
	walk_names_done(&census.dirs);
	if (r == 0)
		progress_set_total(&export->progress, census.files, census.bytes);
}

static int run_export(void *values, char **operands)
{
	const struct arguments *arguments = values;
	_cleanup_(access_closep) struct access *access = NULL;
	const bool stream = strcmp(operands[1], "-") == 0;
	struct export export = {
		.store = operands[0],
		.keep_owner = geteuid() == 0,
		.keep_setid = is_own(operands[0]),
		.began = time_now(),
	};
	int r;

	if (stream && (arguments->force || arguments->json))
		return cmd_misused(&cmd_export,
				   "--force and --json are for a folder, not for a tar stream");
	if (store_open(operands[0], 0, &arguments->options, &access) < 0)
		return CMD_FAILED;
	export.access = access;
	r = stream ? open_stream(&export) :
		     export_to_folder(&export, operands[1], arguments->force);
	if (r < 0)
		return CMD_FAILED;
	progress_begin(&export.progress, "export", "file");
	count_all(&export, operands + 2);
	r = export_all(&export, &arguments->options, operands + 2);
	progress_end(&export.progress);
	if (r == 0)
		r = export_fileless(&export, &arguments->options, operands + 2);
	if (r < 0 && !stop_wanted() && !export.stopped)
		log_error("the export is not complete: %s", strerror(-r));
	if (!stream)
		tell(&export, arguments->json);
	return r < 0 || export.failed ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_export = {
	.name = "export",
	.arguments = "[-f] [--json] [-o table=NAME] STORE DIR|- [SESSION...]",
	.summary = "copy files to a folder or a tar stream",
	.help = "Copies the files of a store to DIR, or with - to the standard output as a tar "
		"stream (pax).  Each file is exported completely, as it was when it was read.  "
		"Modes, times, attributes and links are preserved; if you are root, owners as "
		"well.  In DIR, a file gets its name when it is complete, one that exists with "
		"the same size and time is left alone, and nothing is deleted.",
	.failed = "something was not exported (the rest is)",
	CMD_OPTIONS(export_options),
	.least = 2,
	.operands = "takes a store, a folder or -, and sessions",
	.store = 1,
	.size = sizeof(struct arguments),
	.run = run_export,
};
