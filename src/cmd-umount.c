/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/cmd.h"
#include "src/holders.h"
#include "src/mounts.h"
#include "src/verb.h"

/* Milliseconds to wait for the end of the daemon. */
enum {
	WAIT_LIMIT = 30000,
	WAIT_READER = 1000, /* of a mount that only read: others may well own the store */
};

struct umount {
	bool lazy;
};

static const struct verb_option umount_options[] = {
	{ "lazy", 'l', NULL, verb_take_yes, offsetof(struct umount, lazy),
	  "also when it is in use: whoever is in it goes on until he leaves" },
};

static const struct verb umount_verb = {
	&cmd_umount,
	umount_options,
	ARRAY_SIZE(umount_options),
	1,
	0,
	"takes directories or stores",
};

/* The kernel has let go of the mount; the daemon still writes what is pending and syncs.  Whoever
 * mounts or copies the store next wants that to be over: it is when the process has ended, or, if
 * that could not be seen, when nobody owns the store. */
static void wait_for_end(const struct mount_entry *entry, int process)
{
	struct pollfd ended = { .fd = process, .events = POLLIN };

	if (process >= 0 && poll(&ended, 1, WAIT_LIMIT) > 0)
		return;
	if (process < 0 &&
	    (mounts_wait_unowned(entry->source, entry->read_only ? WAIT_READER : WAIT_LIMIT) ||
	     entry->read_only))
		return;
	log_warning("unmounted, but the daemon still holds the store %s", entry->source);
}

/* Its daemon, as long as there is a mount that it serves; -1. */
static int open_daemon(const struct mount_entry *entry)
{
	long pid = holders_daemon(entry);

#ifdef SYS_pidfd_open
	return pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
#else
	(void)pid;
	return -1;
#endif
}

/* What is mounted in it keeps it, too. */
struct inside {
	const char *path;
	char *found;
};

static int find_inside(void *arg, const struct mount_entry *entry)
{
	struct inside *inside = arg;
	size_t size = strlen(inside->path);

	if (strncmp(entry->point, inside->path, size) != 0 || entry->point[size] != '/')
		return 0;
	inside->found = bytes_dup(bytes_str(entry->point));
	return 1;
}

static void say_busy(const struct mount_entry *entry)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	struct inside inside = { .path = entry->point };

	mounts_each(find_inside, &inside);
	if (holders_tell(entry, &words) < 0)
		buf_clear(&words);
	if (inside.found)
		log_error("%s is busy: something is mounted on %s, in it", entry->point,
			  inside.found);
	else if (words.size)
		log_error("%s is busy: %s", entry->point, words.data);
	else
		log_error("%s is busy: a program that cannot be seen from here has files open in "
			  "it or works there ('fuser -vm %s', as root, tells which)",
			  entry->point, entry->point);
	free(inside.found);
}

static int end_mount(const struct umount *umount, const struct mount_entry *entry)
{
	_cleanup_(closep) int process = umount->lazy ? -1 : open_daemon(entry);
	_cleanup_(freep) char *why = NULL;
	int r = mounts_end(entry->point, umount->lazy, &why);

	if (r == -EBUSY)
		say_busy(entry);
	else if (r < 0)
		log_error("%s", why ? why : strerror(-r));
	else if (!umount->lazy)
		wait_for_end(entry, process);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

/* The path without asking the mount first, since it may not answer; through a link if need be. */
static int umount_find(const char *dir, struct mount_entry *ret_entry)
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
	return r;
}

/* All mounts of a store; they are collected first, since the table changes with each end. */
struct of_store {
	const char *store;
	struct mount_entry *entries;
	size_t count;
};

static int keep_of_store(void *arg, const struct mount_entry *entry)
{
	struct of_store *of = arg;
	struct mount_entry *grown;
	int r;

	if (strcmp(entry->type, MOUNTS_TYPE) != 0 || strcmp(entry->source, of->store) != 0)
		return 0;
	grown = reallocarray(of->entries, of->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	of->entries = grown;
	r = mount_entry_copy(entry, &of->entries[of->count]);
	if (r == 0)
		of->count++;
	return r;
}

/* The last one first, which may lie on another.  -ENOENT: it is not mounted. */
static int umount_store(const struct umount *umount, const char *store)
{
	_cleanup_(freep) char *path = NULL;
	struct of_store of = { 0 };
	int r = mounts_absolute(store, &path), status = CMD_DONE;

	of.store = path;
	if (r == 0)
		r = mounts_each(keep_of_store, &of);
	while (of.count) {
		struct mount_entry *entry = &of.entries[--of.count];

		if (r == 0 && end_mount(umount, entry) != CMD_DONE)
			status = CMD_FAILED;
		mount_entry_done(entry);
		if (r == 0 && !of.count)
			r = 1;
	}
	free(of.entries);
	return r == 0 ? -ENOENT : r < 0 ? r : status;
}

static int umount_one(const struct umount *umount, const char *operand)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	int r = umount_find(operand, &entry), of_store;

	if (r == 0 && strcmp(entry.type, MOUNTS_TYPE) != 0) {
		log_error("%s is a mount of type %s, not one of ours; use umount(8)", entry.point,
			  entry.type);
		return CMD_FAILED;
	}
	if (r == 0)
		return end_mount(umount, &entry);
	of_store = umount_store(umount, operand);
	if (of_store >= 0)
		return of_store;
	log_error("nothing is mounted on %s%s%s", operand, r == -ENOENT ? "" : ": ",
		  r == -ENOENT ? "" : strerror(-r));
	return CMD_FAILED;
}

static int run_umount(int argc, char **argv)
{
	struct umount values = { 0 };
	int first = verb_parse(&umount_verb, &values, argc, argv);
	int status = CMD_DONE;

	if (first < 0)
		return CMD_USAGE;
	for (int i = first; i < argc; i++)
		if (umount_one(&values, argv[i]) != CMD_DONE)
			status = CMD_FAILED;
	return status;
}

static void help(void)
{
	printf("Ends the mounts on directories, or all mounts of a store.  Returns when the daemon "
	       "has\n"
	       "written everything and ended (or after 30 seconds), so that the store can be "
	       "copied.  A\n"
	       "mount that is in use is refused, and told by whom.\n"
	       "\n");
	verb_print_options(umount_options, ARRAY_SIZE(umount_options));
	cmd_print_status("something cannot be unmounted");
}

const struct command cmd_umount = {
	.name = "umount",
	.arguments = "[-l] DIR|STORE...",
	.summary = "end mounts",
	.help = help,
	.run = run_umount,
};
