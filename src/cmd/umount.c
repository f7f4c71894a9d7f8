/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/mounts/elsewhere.h"
#include "src/mounts/holders.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/cmd/cmd.h"

/* Milliseconds to wait for the end of the daemon. */
enum {
	WAIT_LIMIT = 60000,
	WAIT_SYNC = 30000,  /* of these, for what was written to be in the store */
	WAIT_READER = 1000, /* of a mount that is read-only: other mounts may own the store */
	WAIT_OTHERS = 1000, /* before another mount namespace is said to hold it */
};

struct umount {
	struct options options; /* none */
	bool lazy;
	bool force;
};

static const struct cmd_option umount_options[] = {
	CMD_YES(struct umount, lazy, "lazy", 'l',
		"even if it is in use: detach it, and let processes that use it finish"),
	CMD_YES(struct umount, force, "force", 'f',
		"even if it is in use, here or in another mount namespace: stop the daemon"),
};

/* What serves a mount. */
struct daemon_process {
	long pid; /* 0: it has ended, or cannot be seen */
	int fd;	  /* of the process; -1: none */
};

static void daemon_process_done(struct daemon_process *daemon)
{
	closep(&daemon->fd);
}

static struct daemon_process daemon_process(long pid)
{
	struct daemon_process daemon = { .pid = pid, .fd = -1 };

#ifdef SYS_pidfd_open
	if (pid > 0)
		daemon.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
#endif
	return daemon;
}

/* The daemon must be done before the store is mounted or copied again: its process has ended, or,
 * if that cannot be seen, the store has no owner. */
static bool has_ended(const struct mount_entry *entry, const struct daemon_process *daemon,
		      int limit)
{
	struct pollfd ended = { .fd = daemon->fd, .events = POLLIN };

	if (daemon->fd >= 0)
		return poll(&ended, 1, limit) > 0;
	return mounts_wait_unowned(entry->source, limit) || entry->read_only;
}

/* In brackets; nothing when it cannot be seen. */
enum { PROCESS_NAME = 32 };
static const char *process_name(const struct daemon_process *daemon, char name[PROCESS_NAME])
{
	*name = '\0';
	if (daemon->pid)
		snprintf(name, PROCESS_NAME, " (process %ld)", daemon->pid);
	return name;
}

static void say_goes_on(const struct mount_entry *entry, const struct daemon_process *daemon,
			const char *others)
{
	char process[PROCESS_NAME];

	process_name(daemon, process);
	if (others)
		log_error("%s is not mounted here any more, but its daemon%s keeps running: the "
			  "mount is still in %s; stop what runs there, or stop the daemon with "
			  "'sessfs umount --force %s'",
			  entry->source, process, others, entry->source);
	else
		log_error("%s is not mounted here any more, but its daemon%s has not ended: it "
			  "still writes, or serves files that are open or a mount that cannot be "
			  "seen from here; wait, or stop it with 'sessfs umount --force %s'",
			  entry->source, process, entry->source);
}

/* The kernel has let go of the mount here; the daemon still writes what is pending and syncs.  When
 * another namespace has the mount, too, it does not end at all. */
static int wait_for_end(const struct mount_entry *entry, const struct daemon_process *daemon,
			int limit)
{
	_cleanup_(buf_done) struct buf others = { 0 };

	if (has_ended(entry, daemon, WAIT_OTHERS))
		return CMD_DONE;
	if (entry->read_only && daemon->fd < 0)
		limit = WAIT_READER;
	if (elsewhere_tell(entry, &others) == 0 && !others.size &&
	    has_ended(entry, daemon, limit - WAIT_OTHERS))
		return CMD_DONE;
	say_goes_on(entry, daemon, others.size ? others.data : NULL);
	return CMD_FAILED;
}

/* What is mounted in it keeps it, too. */
static bool is_inside(const void *path, const struct mount_entry *entry)
{
	size_t size = strlen(path);

	return strncmp(entry->point, path, size) == 0 && entry->point[size] == '/';
}

static void say_busy(const struct mount_entry *entry)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	_cleanup_(mount_entry_done) struct mount_entry inside = { 0 };

	if (holders_tell(entry, &words) < 0)
		buf_clear(&words);
	if (mounts_last(is_inside, entry->point, &inside) == 0)
		log_error("%s is busy: something is mounted on %s, in it", entry->point,
			  inside.point);
	else if (words.size)
		log_error("%s is busy: %s", entry->point, words.data);
	else
		log_error("%s is busy: a program that cannot be seen from here has files open in "
			  "it or works there ('fuser -vm %s', as root, tells which)",
			  entry->point, entry->point);
}

/* The daemon publishes and syncs what was written, and closes the device.  By that, the kernel ends
 * the connection for all programs that still use it. */
static int end_by_force(const struct mount_entry *entry, const struct daemon_process *daemon)
{
	if (daemon->pid && kill((pid_t)daemon->pid, SIGTERM) < 0 && errno != ESRCH)
		return log_fail(CMD_FAILED, "the daemon of %s (process %ld) cannot be stopped: %s",
				entry->source, daemon->pid, strerror(errno));
	if (has_ended(entry, daemon, WAIT_LIMIT))
		return CMD_DONE;
	return log_fail(
		CMD_FAILED,
		"the daemon of %s%s has not ended within a minute; it may still write what is "
		"pending",
		entry->source, daemon->pid ? "" : " cannot be seen from here, and");
}

static bool may_end(const struct mount_entry *entry, const struct daemon_process *daemon)
{
	if (!daemon->pid || kill((pid_t)daemon->pid, 0) == 0 || errno != EPERM)
		return true;
	log_error("the daemon of %s (process %ld) belongs to another user; only that user and root "
		  "can stop it",
		  entry->source, daemon->pid);
	return false;
}

/* Why what was written before the mount ended cannot be relied on. */
static void say_unsynced(const struct mount_entry *entry, int error)
{
	bool gone =
		error == -EIO && backend_has_path(entry->source) && access(entry->source, F_OK) < 0;

	log_error("%s is unmounted, but the last changes may not be in the store %s: %s",
		  entry->point, entry->source,
		  gone		      ? "it was removed or moved while it was mounted" :
		  error == -ETIMEDOUT ? "its daemon has not confirmed that it has synced them" :
					strerror(-error));
}

/* A bind mount shows the same daemon, which goes on to serve the other mount.  If only a bind mount
 * of a directory was unmounted, the daemon was not meant.  more: others of the store are still to
 * be unmounted. */
static int wait_unless_bound(const struct mount_entry *entry, const struct daemon_process *daemon,
			     bool more, int limit)
{
	_cleanup_(mount_entry_done) struct mount_entry other = { 0 };

	if (mounts_last(mounts_same, entry, &other) < 0)
		return wait_for_end(entry, daemon, limit);
	if (more || strcmp(entry->root, "/") != 0)
		return CMD_DONE;
	return log_fail(
		CMD_FAILED,
		"%s is unmounted, but %s is also mounted on %s, so its daemon keeps running",
		entry->point, entry->source, other.point);
}

static int end_mount(const struct umount *umount, const struct mount_entry *entry, bool more)
{
	_cleanup_(daemon_process_done) struct daemon_process daemon =
		daemon_process(holders_daemon(entry));
	bool lazily = umount->lazy || umount->force;
	_cleanup_(freep) char *why = NULL;
	char process[PROCESS_NAME];
	int r, synced, status;

	if (umount->force && !may_end(entry, &daemon))
		return CMD_FAILED;
	/* The daemon cannot report to us whether it could write what is pending, so sync first. */
	synced = lazily || entry->read_only ? 0 : mounts_sync(entry, WAIT_SYNC);
	r = mounts_end(entry->point, lazily, &why);
	if (r == -EBUSY && synced == -ETIMEDOUT)
		log_error("%s is not unmounted: its daemon%s does not answer; wait, or end it with "
			  "'sessfs umount --force %s'",
			  entry->point, process_name(&daemon, process), entry->point);
	else if (r == -EBUSY)
		say_busy(entry);
	else if (r < 0)
		say_why(why, r);
	if (r < 0)
		return CMD_FAILED;
	if (umount->force)
		return end_by_force(entry, &daemon);
	if (umount->lazy)
		return CMD_DONE;
	status = wait_unless_bound(entry, &daemon, more,
				   synced == -ETIMEDOUT ? WAIT_LIMIT - WAIT_SYNC : WAIT_LIMIT);
	/* If the daemon is still running, that has been reported already. */
	if (synced >= 0 || (synced == -ETIMEDOUT && status != CMD_DONE))
		return status;
	say_unsynced(entry, synced);
	return CMD_FAILED;
}

/* The path without asking the mount first, since it may not answer; through a link if need be. */
static int umount_find(const char *dir, struct mount_entry *ret_entry)
{
	_cleanup_(freep) char *unasked = NULL;
	_cleanup_(freep) char *asked = NULL;
	int r = mounts_absolute_unasked(dir, &unasked);

	if (r == 0 && mounts_find(unasked, ret_entry) == 0)
		return 0;
	r = mounts_absolute(dir, &asked);
	return r < 0 ? r : mounts_find(asked, ret_entry);
}

/* All mounts of a store; they are collected first, since the table changes with each end.  The last
 * one first, which may lie on another.  -ENOENT: it is not mounted. */
static int umount_store(const struct umount *umount, const char *store)
{
	_cleanup_(mount_list_done) struct mount_list of = { 0 };
	_cleanup_(freep) char *name = NULL, *why = NULL;
	int r = mounts_store(store, &name, &why), status = CMD_DONE;

	if (r == 0)
		r = mounts_list(mounts_is_of, name, &of);
	if (r < 0 || !of.count)
		return r < 0 ? r : -ENOENT;
	for (size_t more = of.count; more--;)
		if (end_mount(umount, &of.entries[more], more) != CMD_DONE)
			status = CMD_FAILED;
	return status;
}

/* A daemon that serves a store which is not mounted here. */
struct serving {
	struct stat store;
	long pid;
	unsigned device;
};

static int keep_serving(void *arg, const struct holders_owner *owner)
{
	struct serving *serving = arg;

	if (owner->dev != serving->store.st_dev || owner->ino != serving->store.st_ino)
		return 0;
	serving->pid = owner->pid;
	serving->device = owner->device;
	return 1;
}

/* -ENOENT: there is none. */
static int umount_elsewhere(const struct umount *umount, const char *store)
{
	struct serving serving = { 0 };
	_cleanup_(daemon_process_done) struct daemon_process daemon = { .fd = -1 };
	_cleanup_(freep) char *path = NULL;
	struct mount_entry entry = { 0 };
	int r = stat(store, &serving.store) < 0 ? -ENOENT : mounts_absolute(store, &path);

	if (r == 0)
		r = holders_each(keep_serving, &serving);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	entry.source = path;
	entry.device = serving.device;
	daemon = daemon_process(serving.pid);
	if (umount->force)
		return may_end(&entry, &daemon) ? end_by_force(&entry, &daemon) : CMD_FAILED;
	return wait_for_end(&entry, &daemon, WAIT_LIMIT);
}

static void say_not_mounted(const char *operand, int error)
{
	struct stat st;

	if (error != -ENOENT)
		log_error("cannot determine whether %s is mounted: %s", operand, strerror(-error));
	else if (!backend_has_path(operand) || (lstat(operand, &st) == 0 && S_ISREG(st.st_mode)))
		log_error("the store %s is not mounted; 'sessfs mounts' lists the mounted ones",
			  operand);
	else
		log_error("nothing is mounted on %s; 'sessfs mounts' lists the mounts", operand);
}

static int umount_one(const struct umount *umount, const char *operand)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	int r = umount_find(operand, &entry), of_store;

	if (r == 0 && strcmp(entry.type, MOUNTS_TYPE) != 0)
		return log_fail(CMD_FAILED,
				"%s is a mount of type %s, not of sessfs; use umount(8)",
				entry.point, entry.type);
	if (r == 0)
		return end_mount(umount, &entry, false);
	of_store = umount_store(umount, operand);
	if (of_store < 0)
		of_store = umount_elsewhere(umount, operand);
	if (of_store >= 0)
		return of_store;
	say_not_mounted(operand, r);
	return CMD_FAILED;
}

static int run_umount(void *values, char **operands)
{
	const struct umount *umount = values;
	int status = CMD_DONE;

	if (umount->lazy && umount->force)
		return cmd_misused(&cmd_umount,
				   "--lazy keeps the daemon for the processes that use the mount, "
				   "and --force ends it; give one of them");
	for (; *operands; operands++)
		if (umount_one(umount, *operands) != CMD_DONE)
			status = CMD_FAILED;
	return status;
}

const struct command cmd_umount = {
	.name = "umount",
	.arguments = "[-l|-f] DIR|STORE...",
	.summary = "unmount directories or stores",
	.help = "Unmounts directories, or all mounts of a store.  The command returns when the "
		"daemon has written everything and has exited, so that the store can be copied.  "
		"If a mount is in use, it stays, and the processes that use it are printed.  If "
		"another mount namespace (a container, a service) has a copy of the mount, it is "
		"unmounted here, and the message names that namespace; --force ends the daemon.",
	.failed = "something cannot be unmounted, its daemon keeps running, or the last changes "
		  "may be lost",
	CMD_OPTIONS(umount_options),
	.least = 1,
	.operands = "takes directories or stores",
	.store = -1,
	.size = sizeof(struct umount),
	.run = run_umount,
};
