/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/base/plural.h"
#include "src/user/say.h"
#include "src/user/stop.h"
#include "src/user/units.h"
#include "src/cmd/cmd.h"

struct ls {
	struct options options;
	bool with_stat; /* -l */
	bool human;	/* -h */
	struct say_list list;
	uint64_t directories; /* that were shown, and all else, with the bytes of files */
	uint64_t files;
	uint64_t bytes;
};

static const struct cmd_option ls_options[] = {
	CMD_YES(struct ls, with_stat, NULL, 'l',
		"show mode, size in bytes, and the time of the last change"),
	CMD_YES(struct ls, human, "human-readable", 'h',
		"with -l: show sizes such as 1.5K and 20M"),
	CMD_JSON(struct ls, list.json),
	CMD_TABLE,
};

static const struct {
	mode_t type;
	char letter; /* as ls(1) has it */
	const char *word;
} types[] = {
	{ S_IFREG, '-', "file" },   { S_IFDIR, 'd', "directory" }, { S_IFLNK, 'l', "symlink" },
	{ S_IFIFO, 'p', "fifo" },   { S_IFSOCK, 's', "socket" },   { S_IFCHR, 'c', "device" },
	{ S_IFBLK, 'b', "device" },
};

static size_t type_of(mode_t mode)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((mode & S_IFMT) == types[i].type)
			return i;
	return 0;
}

static void show_mode(mode_t mode, char shown[11])
{
	static const char letters[] = "rwxrwxrwx";

	shown[0] = types[type_of(mode)].letter;
	for (int i = 0; i < 9; i++)
		shown[1 + i] = mode & (0400 >> i) ? letters[i] : '-';
	for (int i = 0; i < 3; i++) {
		if (mode & (04000 >> i))
			shown[3 * i + 3] = (mode & (0100 >> 3 * i) ? "sst" : "SST")[i];
	}
	shown[10] = '\0';
}

static json_t *entry_json(const char *name, const struct stat *st, bool with_stat)
{
	json_t *value = json_pack("{so ss}", "name", say_json_name(name, strlen(name)), "type",
				  types[type_of(st->st_mode)].word);
	double changed = (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec / 1e9;
	char mode[8];

	if (!with_stat)
		return value;
	snprintf(mode, sizeof(mode), "%04o", st->st_mode & 07777);
	json_object_set_new(value, "mode", json_string(mode));
	json_object_set_new(value, "size", json_integer(st->st_size));
	json_object_set_new(value, "changed", json_real(changed));
	return value;
}

static const char *show_size(const struct ls *ls, uint64_t size, char text[UNITS_TEXT])
{
	if (ls->human)
		return units_show_size(size, text);
	snprintf(text, UNITS_TEXT, "%" PRIu64, size);
	return text;
}

static void print_stat(struct ls *ls, const struct stat *st)
{
	char mode[11], size[UNITS_TEXT], changed[UNITS_TEXT];

	show_mode(st->st_mode, mode);
	say_heading(&ls->list, "MODE               SIZE  CHANGED           NAME");
	printf("%s %12s  %s  ", mode, show_size(ls, (uint64_t)st->st_size, size),
	       units_show_time(time_join(st->st_mtim), changed));
	ls->directories += S_ISDIR(st->st_mode);
	ls->files += !S_ISDIR(st->st_mode);
	ls->bytes += S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
}

static void print_sum(const struct ls *ls)
{
	char size[UNITS_TEXT];

	if (!say_has_heading(&ls->list))
		return;
	printf("%23s  %-16s  total: %" PRIu64 " file%s", show_size(ls, ls->bytes, size), "",
	       ls->files, plural_s(ls->files));
	if (ls->directories)
		printf(", %" PRIu64 " director%s", ls->directories,
		       ls->directories == 1 ? "y" : "ies");
	printf("\n");
}

static int print_entry(void *arg, const char *name, const struct stat *st)
{
	struct ls *ls = arg;

	if (stop_wanted() || ferror(stdout))
		return 1;
	if (ls->list.json) {
		say_item(&ls->list, entry_json(name, st, ls->with_stat));
		return 0;
	}
	if (ls->with_stat)
		print_stat(ls, st);
	say_name(name, S_ISDIR(st->st_mode) ? "/\n" : "\n");
	return 0;
}

/* What the path names: the entries of a directory, or the file itself. */
static int list_path(struct ls *ls, struct access *access, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	int r = access_stat(access, path, &st);

	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return access_list(access, path, ls->with_stat, print_entry, ls);
	return print_entry(ls, slash ? slash + 1 : path, &st);
}

static int run_ls(void *values, char **operands)
{
	struct ls *ls = values;
	_cleanup_(access_closep) struct access *access = NULL;
	const char *path = operands[1] ? operands[1] : "";
	int r;

	if (store_open(operands[0], 0, &ls->options, &access) < 0)
		return CMD_FAILED;
	r = list_path(ls, access, path);
	if (r < 0)
		return cmd_fail(operands[0], path, r);
	print_sum(ls);
	say_list_end(&ls->list);
	return CMD_DONE;
}

const struct command cmd_ls = {
	.name = "ls",
	.arguments = "[-lh] [--json] [-o table=NAME] STORE [PATH]",
	.summary = "list sessions, or the files of one",
	.help = "Lists a directory of the store, or a file, in the order in which the names were "
		"created.  Without PATH, it lists the sessions, and ordinary files beside them.  "
		"Names of directories end in a slash.",
	.failed = "STORE or PATH cannot be read",
	CMD_OPTIONS(ls_options),
	.least = 1,
	.most = 2,
	.operands = "takes a store, and a path in it",
	.size = sizeof(struct ls),
	.run = run_ls,
};
