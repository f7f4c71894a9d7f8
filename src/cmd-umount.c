/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/cmd.h"
#include "src/mounts.h"

/* Milliseconds to wait for the end of the daemon. */
enum {
	WAIT_LIMIT = 30000,
	WAIT_READER = 1000, /* of a mount that only read: others may well own the store */
};

/* The kernel has let go of the mount; the daemon still writes what is pending and syncs.  Whoever
 * mounts or copies the store next wants that to be over. */
static void wait_for_end(const struct mount_entry *entry)
{
	if (mounts_wait_unowned(entry->source, entry->read_only ? WAIT_READER : WAIT_LIMIT) ||
	    entry->read_only)
		return;
	log_warning("unmounted, but the daemon still holds the store %s", entry->source);
}

/* The path without asking the mount first, since it may not answer; through a link if need be. */
static int umount_find(const char *dir, char **ret_path, struct mount_entry *ret_entry)
{
	_cleanup_(freep) char *path = NULL;
	int r = mounts_absolute_unasked(dir, &path);

	if (r == 0)
		r = mounts_find(path, ret_entry);
	if (r < 0) {
		freep(&path);
		path = NULL;
		r = mounts_absolute(dir, &path);
		if (r == 0)
			r = mounts_find(path, ret_entry);
	}
	if (r < 0)
		return r;
	*ret_path = steal_ptr(path);
	return 0;
}

static int umount(const char *dir)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(freep) char *path = NULL;
	_cleanup_(freep) char *why = NULL;
	int r = umount_find(dir, &path, &entry);

	if (r < 0) {
		log_error("nothing is mounted on %s%s%s", dir, r == -ENOENT ? "" : ": ",
			  r == -ENOENT ? "" : strerror(-r));
		return CMD_FAILED;
	}
	if (strcmp(entry.type, MOUNTS_TYPE) != 0) {
		log_error("%s is a mount of type %s, not one of ours; use umount(8)", path,
			  entry.type);
		return CMD_FAILED;
	}
	r = mounts_end(path, false, &why);
	if (r < 0) {
		log_error("%s", why ? why : strerror(-r));
		return CMD_FAILED;
	}
	wait_for_end(&entry);
	return CMD_DONE;
}

static int run_umount(int argc, char **argv)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };

	opterr = 0;
	optind = 1;
	if (getopt_long(argc, argv, "", none, NULL) != -1)
		return cmd_misused(&cmd_umount, "the option '%s' is unknown", argv[optind - 1]);
	if (argc - optind != 1)
		return cmd_misused(&cmd_umount, "umount takes one directory");
	return umount(argv[optind]);
}

static void help(void)
{
	printf("Returns when the daemon has written everything and let go of the store (or after "
	       "30\n"
	       "seconds).  A mount that is in use is refused.\n"
	       "The exit status is 0, 1 when DIR cannot be unmounted, 2 for a wrong command "
	       "line.\n");
}

const struct command cmd_umount = {
	.name = "umount",
	.arguments = "DIR",
	.summary = "end a mount",
	.help = help,
	.run = run_umount,
};
