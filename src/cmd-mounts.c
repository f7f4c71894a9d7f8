/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/holders.h"
#include "src/mounts.h"
#include "src/say.h"
#include "src/verb.h"

struct mounts {
	bool json;
	struct say_list list;
};

static const struct verb_option mounts_options[] = { VERB_JSON(struct mounts) };

static const struct verb mounts_verb = {
	&cmd_mounts, mounts_options, ARRAY_SIZE(mounts_options), 0, -1, "takes no store",
};

static json_t *mount_json(const struct mount_entry *entry, long process)
{
	json_t *value = json_object();

	json_object_set_new(value, "store", say_json_name(entry->source, strlen(entry->source)));
	json_object_set_new(value, "directory", say_json_name(entry->point, strlen(entry->point)));
	json_object_set_new(value, "read_only", json_boolean(entry->read_only));
	json_object_set_new(value, "process", process ? json_integer(process) : json_null());
	return value;
}

static int print_mount(void *arg, const struct mount_entry *entry)
{
	struct mounts *mounts = arg;
	char shown[24] = "-";
	long process;

	if (strcmp(entry->type, MOUNTS_TYPE) != 0)
		return 0;
	process = holders_daemon(entry);
	if (mounts->json) {
		say_item(&mounts->list, mount_json(entry, process));
		return 0;
	}
	if (process)
		snprintf(shown, sizeof(shown), "%ld", process);
	printf("%7s  %s  ", shown, entry->read_only ? "ro" : "rw");
	say_name(entry->source, "  ");
	say_name(entry->point, "\n");
	return 0;
}

static int run_mounts(int argc, char **argv)
{
	struct mounts mounts = { 0 };
	int r;

	if (verb_parse(&mounts_verb, &mounts, argc, argv) < 0)
		return CMD_USAGE;
	mounts.list.json = mounts.json;
	r = mounts_each(print_mount, &mounts);
	if (r < 0)
		log_error("the table of mounts cannot be read: %s", strerror(-r));
	say_list_end(&mounts.list);
	return say_finish() < 0 || r < 0 ? CMD_FAILED : CMD_DONE;
}

static void help(void)
{
	printf("Prints a line a mount: the process that serves it, rw or ro, the store, and the\n"
	       "directory.  The process is '-' when it has ended, or when you may not see it.\n"
	       "\n");
	verb_print_options(mounts_options, ARRAY_SIZE(mounts_options));
	cmd_print_status("the mounts cannot be listed");
}

const struct command cmd_mounts = {
	.name = "mounts",
	.arguments = "[--json]",
	.summary = "tell which stores are mounted, where, and by whom",
	.help = help,
	.run = run_mounts,
};
