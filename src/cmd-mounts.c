/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
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

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Which connection a descriptor of /dev/fuse serves; -1 when the kernel does not tell. */
static long connection_of(const char *pid, const char *fd)
{
	char path[PATH_MAX], line[256];
	long connection = -1;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/%s/fdinfo/%s", pid, fd);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "fuse_connection: %ld", &connection) == 1)
			break;
	if (info)
		fclose(info);
	return connection;
}

/* The daemon has the device open, for this connection; on kernels that do not say for which, it is
 * the one that has the store open, too. */
static bool serves(const char *pid, const struct mount_entry *entry)
{
	_cleanup_(closedirp) DIR *fds = NULL;
	bool device = false, store = false;
	const struct dirent *fd;
	char path[PATH_MAX], target[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	fds = opendir(path);
	while (fds && (fd = readdir(fds))) {
		ssize_t size = readlinkat(dirfd(fds), fd->d_name, target, sizeof(target) - 1);
		long connection;

		target[MAX(size, 0)] = '\0';
		store |= strcmp(target, entry->source) == 0;
		if (strcmp(target, "/dev/fuse") != 0)
			continue;
		connection = connection_of(pid, fd->d_name);
		if (connection >= 0)
			return connection == (long)entry->device;
		device = true;
	}
	return device && store;
}

/* 0 when it cannot be seen. */
static long process_of(const struct mount_entry *entry)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	const struct dirent *process;

	while (proc && (process = readdir(proc)))
		if (isdigit((unsigned char)*process->d_name) && serves(process->d_name, entry))
			return atol(process->d_name);
	return 0;
}

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
	process = process_of(entry);
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
