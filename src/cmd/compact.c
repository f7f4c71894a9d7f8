/* SPDX-License-Identifier: MIT */
/*
 * compact: puts lines in the place of items of a list, if the list still has the version that it
 * had when the items were read.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/cmd/cmd.h"
#include "src/cmd/input.h"
#include "src/user/units.h"

struct compact_values {
	struct options options; /* must be first */
	const char *first;
	const char *items;
	const char *version;
};

static const struct cmd_option compact_options[] = {
	CMD_VALUE(struct compact_values, first, "first", "N", cmd_take_text,
		  "replace the first N items"),
	CMD_VALUE(struct compact_values, items, "items", "A-B", cmd_take_text,
		  "or the items with these indexes, from 0"),
	CMD_VALUE(struct compact_values, version, "if", "VERSION", cmd_take_text,
		  "only if the list still has this version"),
	CMD_WRITER,
};

/* True when a value has only these characters, so that it cannot add a clause or lead to another
 * path. */
static bool is_made_of(const char *value, const char *characters)
{
	return *value && !value[strspn(value, characters)];
}

static bool is_range(const char *value)
{
	uint64_t first, last;
	char *end;

	return units_number(value, 10, INT64_MAX, &first, &end) == 0 && *end == '-' &&
	       units_number(end + 1, 10, INT64_MAX, &last, &end) == 0 && !*end && first <= last;
}

static bool is_understood(const struct compact_values *values)
{
	static const char digits[] = "0123456789", word[] = "0123456789abcdefghijklmnopqrstuvwxyz";

	return (!values->first || is_made_of(values->first, digits)) &&
	       (!values->items || is_range(values->items)) &&
	       (!values->version || is_made_of(values->version, word));
}

static int version_print(const struct buf *version)
{
	printf("%.*s\n", (int)version->size, version->data);
	return CMD_DONE;
}

static int fail(char **operands, int error)
{
	if (error == -ESTALE)
		log_error("%s: %s no longer has the given version, and nothing was changed; "
			  "read it again",
			  operands[0], operands[1]);
	else if (error == -EINVAL)
		log_error("%s: %s: only complete lines of JSON can replace items, and "
			  "nothing was changed",
			  operands[0], operands[1]);
	else
		return cmd_fail(operands[0], operands[1], error);
	return CMD_FAILED;
}

static int take_in(struct access *access, int fd, const struct compact_values *values,
		   char **operands)
{
	const char *slash = strrchr(operands[1], '/');
	const char *name = slash ? slash + 1 : operands[1];
	/* The list, seen through the question. */
	_cleanup_(freep) char *path =
		str_printf("%.*s@%s=%s,if=%s/%s", (int)(name - operands[1]), operands[1],
			   values->first ? "first" : "items",
			   values->first ? values->first : values->items, values->version, name);
	_cleanup_(buf_done) struct buf data = { 0 }, version = { 0 };
	struct access_file *file = NULL;
	int more = 1;
	int r = path ? access_file_open(access, path, ACCESS_FILE_COMPACT, &file) : -ENOMEM;

	while (r == 0 && (more = input_block(fd, &data)) > 0) {
		r = access_file_write(file, buf_bytes(&data));
		buf_clear(&data);
	}
	if (r == 0 && more == 0)
		r = access_file_compact(file, &version);
	else
		access_file_drop(file);
	if (more < 0)
		return input_fail(operands[2], more);
	return r < 0 ? fail(operands, r) : version_print(&version);
}

static int tell_version(struct access *access, char **operands)
{
	_cleanup_(buf_done) struct buf version = { 0 };
	int r = access_get_xattr(access, operands[1], "user.sessfs.version", &version);

	if (r == -ENODATA)
		log_error("%s: %s is not a list", operands[0], operands[1]);
	return r == 0	     ? version_print(&version) :
	       r == -ENODATA ? CMD_FAILED :
			       cmd_fail(operands[0], operands[1], r);
}

static int run_compact(void *given, char **operands)
{
	struct compact_values *values = given;
	_cleanup_(access_closep) struct access *access = NULL;
	_cleanup_(closep) int fd = -1;
	bool tells = !values->first && !values->items;

	if ((values->first && values->items) || tells != !values->version ||
	    !is_understood(values) || (tells && operands[2]))
		return cmd_misused(
			&cmd_compact,
			"takes --first=N or --items=A-B, A not above B, and --if=VERSION "
			"with it");
	if (!tells)
		fd = input_open(operands[2]);
	if (!tells && fd < 0)
		return input_fail(operands[2], fd);
	if (store_open(operands[0], tells ? 0 : ACCESS_WRITE, &values->options, &access) < 0)
		return CMD_FAILED;
	return tells ? tell_version(access, operands) : take_in(access, fd, values, operands);
}

const struct command cmd_compact = {
	.name = "compact",
	.arguments = "[--first=N | --items=A-B] [--if=VERSION] [-o OPTIONS] STORE PATH [FILE]",
	.summary = "replace items of a list, if nobody has changed them",
	.help = "Replaces the first N items of a list, or items A to B, with the lines of FILE or "
		"of the standard input, in one transaction, and prints the new version of the "
		"list.  Lines that others append meanwhile stay behind the new ones.",
	.more = "Without items, it prints the version of the list, and changes nothing.",
	.failed = "nothing was changed",
	CMD_OPTIONS(compact_options),
	.least = 2,
	.most = 3,
	.operands = "takes a store, a path in it, and a file to read from",
	.size = sizeof(struct compact_values),
	.run = run_compact,
};
