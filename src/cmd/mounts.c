/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/mounts/elsewhere.h"
#include "src/mounts/holders.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/cmd/cmd.h"

struct seen {
	unsigned device;
	long process;
};

struct mounts {
	struct options options; /* none */
	struct say_list list;
	struct seen *seen; /* what was printed */
	size_t n_seen;
	size_t room;
};

static const struct cmd_option mounts_options[] = { CMD_JSON(struct mounts, list.json) };

static json_t *name_json(const char *name)
{
	return name ? say_json_name(name, strlen(name)) : json_null();
}

/* Either may be 0, for not known.  A daemon may have a number still that another mount has now. */
static bool is_seen(const struct mounts *mounts, unsigned device, long process)
{
	for (size_t i = 0; i < mounts->n_seen; i++) {
		const struct seen *seen = &mounts->seen[i];

		if (process && seen->process ? seen->process == process :
					       device && seen->device == device)
			return true;
	}
	return false;
}

/* where: NULL for a mount that this namespace shows, or for one that none shows any more, which
 * has no directory then. */
static int print_mount(struct mounts *mounts, const struct mount_entry *entry, long process,
		       const struct elsewhere *where)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	char shown[24] = "-";
	int r = where ? elsewhere_name(where, &words) : 0;

	if (r == 0)
		r = ARRAY_ROOM(mounts->seen, mounts->n_seen, mounts->room);
	if (r < 0)
		return r;
	mounts->seen[mounts->n_seen++] = (struct seen){ entry->device, process };
	if (mounts->list.json) {
		say_item(&mounts->list,
			 json_pack("{so so sb so so}", "store", name_json(entry->source),
				   "directory", name_json(entry->point), "read_only",
				   entry->read_only, "process",
				   process ? json_integer(process) : json_null(), "namespace",
				   where ? json_integer((json_int_t)where->space) : json_null()));
		return 0;
	}
	if (process)
		snprintf(shown, sizeof(shown), "%ld", process);
	say_heading(&mounts->list, "PROCESS      STORE  DIRECTORY");
	printf("%7s  %s  ", shown, entry->read_only ? "ro" : "rw");
	say_name(entry->source, "  ");
	say_name(entry->point ? entry->point : "-", where ? "  (in " : "\n");
	if (where)
		say_name(words.data, ")\n");
	return 0;
}

static int on_mount(void *arg, const struct mount_entry *entry)
{
	if (strcmp(entry->type, MOUNTS_TYPE) != 0)
		return 0;
	return print_mount(arg, entry, holders_daemon(entry), NULL);
}

static int on_elsewhere(void *arg, const struct mount_entry *entry, const struct elsewhere *where)
{
	struct mounts *mounts = arg;

	return is_seen(mounts, entry->device, 0) ?
		       0 :
		       print_mount(mounts, entry, holders_daemon(entry), where);
}

/* A daemon whose mount was unmounted lazily, so that no namespace shows it. */
static int on_owner(void *arg, const struct holders_owner *owner)
{
	struct mount_entry entry = { .source = (char *)owner->store, .device = owner->device };
	struct mounts *mounts = arg;

	return is_seen(mounts, owner->device, owner->pid) ?
		       0 :
		       print_mount(mounts, &entry, owner->pid, NULL);
}

static int run_mounts(void *values, char **operands)
{
	struct mounts *mounts = values;
	int r;

	(void)operands;
	r = mounts_each(on_mount, mounts);
	if (r == 0)
		r = elsewhere_each(on_elsewhere, mounts);
	if (r == 0)
		r = holders_each(on_owner, mounts);
	if (r < 0)
		log_error("the mount table cannot be read: %s", strerror(-r));
	say_list_end(&mounts->list);
	free(mounts->seen);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_mounts = {
	.name = "mounts",
	.arguments = "[--json]",
	.summary = "list mounted stores",
	.help = "Lists the mounts, one a line: the process that serves it, rw or ro, the store, "
		"and the directory.  The process is '-' if it has exited, or if you may not see "
		"it.  If only another mount namespace has the mount, such as that of a container, "
		"the line names it and a process in it.  The directory is '-' if there is no "
		"mount any more, but the process still serves open files.  'sessfs umount --force "
		"STORE' ends both.",
	.failed = "the mounts cannot be listed",
	CMD_OPTIONS(mounts_options),
	.least = 0,
	.most = -1,
	.operands = "takes no store",
	.store = -1,
	.size = sizeof(struct mounts),
	.run = run_mounts,
};
