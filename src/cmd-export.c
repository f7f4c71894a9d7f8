/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/export.h"
#include "src/say.h"
#include "src/stop.h"
#include "src/units.h"
#include "src/verb.h"

struct arguments {
	bool force;
	bool json;
	struct options options;
};

static const struct verb_option export_options[] = {
	{ "force", 'f', NULL, verb_take_yes, offsetof(struct arguments, force),
	  "a folder that is not empty, too: over files of the same name" },
	VERB_JSON(struct arguments),
	VERB_TABLE(struct arguments),
};

static const struct verb export_verb = {
	&cmd_export,
	export_options,
	ARRAY_SIZE(export_options),
	2,
	0,
	"takes a store, a folder or -, and sessions",
};

static int open_stream(struct export *export)
{
	int r;

	if (isatty(STDOUT_FILENO)) {
		log_error("a tar stream is nothing for a terminal; redirect the standard output");
		return -EINVAL;
	}
	r = export_to_tar(export, STDOUT_FILENO);
	if (r == -EOPNOTSUPP)
		log_error("this sessfs was built without libarchive, so it makes no tar stream; "
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
	json_t *value;

	if (!json) {
		printf("%" PRIu64 " exported, %" PRIu64 " unchanged",
		       export->files - export->unchanged, export->unchanged);
		if (export->failed)
			printf(", %" PRIu64 " not exported", export->failed);
		printf("; %s written\n", units_show_size(export->bytes, bytes));
		return;
	}
	value = json_object();
	json_object_set_new(value, "exported",
			    json_integer((json_int_t)(export->files - export->unchanged)));
	json_object_set_new(value, "unchanged", json_integer((json_int_t) export->unchanged));
	json_object_set_new(value, "failed", json_integer((json_int_t) export->failed));
	json_object_set_new(value, "bytes", json_integer((json_int_t) export->bytes));
	say_json(value);
}

struct census {
	struct access *access;
	uint64_t files;
	uint64_t bytes;
	const char *path;
};

static int count_entry(void *arg, const char *name, const struct stat *st)
{
	struct census *census = arg;
	const char *path = census->path;
	_cleanup_(freep) char *below = NULL;
	int r;

	if (stop_wanted())
		return -EINTR;
	if (!S_ISDIR(st->st_mode)) {
		census->files++;
		census->bytes += S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
		return 0;
	}
	if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", name) < 0) {
		below = NULL;
		return -ENOMEM;
	}
	census->path = below;
	r = access_list(census->access, below, true, count_entry, census);
	census->path = path;
	return r == -ENOENT ? 0 : r;
}

/* Only somebody who sees it needs to know. */
static void count_all(struct export *export, char **names)
{
	static char *whole[] = { "", NULL };
	struct census census = { .access = export->access };
	int r = 0;

	if (export->progress.fd < 0)
		return;
	for (char **name = *names ? names : whole; r == 0 && *name; name++) {
		census.path = *name;
		r = access_list(export->access, *name, true, count_entry, &census);
	}
	if (r == 0)
		progress_set_total(&export->progress, census.files, census.bytes);
}

static int export_now(void *values, struct access *access, char **operands)
{
	const struct arguments *arguments = values;
	const bool stream = strcmp(operands[1], "-") == 0;
	struct export export = {
		.store = operands[0],
		.access = access,
		.keep_owner = geteuid() == 0,
		.keep_setid = is_own(operands[0]),
	};
	int r = stream ? open_stream(&export) :
			 export_to_folder(&export, operands[1], arguments->force);

	if (r < 0)
		return CMD_FAILED;
	progress_begin(&export.progress, "export", "files");
	count_all(&export, operands + 2);
	r = export_all(&export, operands + 2);
	progress_end(&export.progress);
	if (!stream)
		tell(&export, arguments->json);
	return r < 0 || export.failed ? CMD_FAILED : CMD_DONE;
}

static int run_export(int argc, char **argv)
{
	struct arguments arguments = { 0 };

	return verb_run(&export_verb, &arguments, &arguments.options, 0, export_now, argc, argv);
}

static void help(void)
{
	printf("Hands the files of a store out: to DIR, or with - as a tar stream (pax) to the "
	       "standard\n"
	       "output.  Each file is whole, as it was when it was read; modes, times, attributes "
	       "and links\n"
	       "are kept, and by root owners.  In DIR a file gets its name when it is whole; one "
	       "that is\n"
	       "there already with the same size and time is left alone, and nothing is deleted.\n"
	       "\n");
	verb_print_options(export_options, ARRAY_SIZE(export_options));
	cmd_print_status("something was not exported; the rest is");
}

const struct command cmd_export = {
	.name = "export",
	.arguments = "[-f] [--json] [-o table=NAME] STORE DIR|- [SESSION...]",
	.summary = "hand files out, to a folder or as a tar stream",
	.help = help,
	.run = run_export,
};
