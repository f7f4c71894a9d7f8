/* SPDX-License-Identifier: MIT */
#include "src/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/cleanup.h"

enum { TOLD = 4 }; /* by name; the others are counted */

static void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

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

long holders_daemon(const struct mount_entry *entry)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	const struct dirent *process;

	while (proc && (process = readdir(proc)))
		if (isdigit((unsigned char)*process->d_name) && serves(process->d_name, entry))
			return atol(process->d_name);
	return 0;
}

/* Whether a link of /proc leads to the mount or below it.  Only the text is read: following it
 * would ask the mount. */
static bool leads_into(const char *pid, const char *what, const struct mount_entry *entry)
{
	char path[64], target[PATH_MAX];
	size_t size = strlen(entry->point);
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, what);
	got = readlink(path, target, sizeof(target) - 1);
	if (got < (ssize_t)size)
		return false;
	target[got] = '\0';
	return memcmp(target, entry->point, size) == 0 &&
	       (target[size] == '/' || !target[size] || strcmp(entry->point, "/") == 0);
}

static bool works_there(const char *pid, const struct mount_entry *entry)
{
	return leads_into(pid, "cwd", entry) || leads_into(pid, "root", entry);
}

/* Which mount a descriptor is on. */
static bool is_on(const char *pid, const char *fd, const struct mount_entry *entry)
{
	_cleanup_(fclosep) FILE *info = NULL;
	char path[64], line[256];
	int id;

	snprintf(path, sizeof(path), "/proc/%.20s/fdinfo/%.20s", pid, fd);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "mnt_id: %d", &id) == 1)
			return id == entry->id;
	return false;
}

static bool has_open(const char *pid, const struct mount_entry *entry)
{
	_cleanup_(closedirp) DIR *fds = NULL;
	const struct dirent *fd;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	fds = opendir(path);
	while (fds && (fd = readdir(fds)))
		if (isdigit((unsigned char)*fd->d_name) && is_on(pid, fd->d_name, entry))
			return true;
	return false;
}

/* A line is: range flags offset major:minor inode path */
static bool has_mapped(const char *pid, const struct mount_entry *entry)
{
	_cleanup_(fclosep) FILE *maps = NULL;
	char path[64], line[PATH_MAX + 128];
	unsigned major, minor;

	snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%*s %*s %*s %x:%x", &major, &minor) == 2 && !major && minor &&
		    minor == entry->device)
			return true;
	return false;
}

static const char *what_it_does(const char *pid, const struct mount_entry *entry)
{
	if (works_there(pid, entry))
		return "works in it";
	if (has_open(pid, entry))
		return "has a file of it open";
	return has_mapped(pid, entry) ? "has a file of it mapped" : NULL;
}

static int add_holder(const char *pid, const char *what, struct buf *words)
{
	_cleanup_(fclosep) FILE *comm = NULL;
	char path[64], name[32] = "a process";

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	comm = fopen(path, "re");
	if (comm && fgets(name, sizeof(name), comm))
		name[strcspn(name, "\n")] = '\0';
	return buf_printf(words, "%s%s (%s) %s", words->size ? ", " : "", name, pid, what);
}

int holders_tell(const struct mount_entry *entry, struct buf *words)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	const struct dirent *process;
	unsigned count = 0;
	int r = 0;

	while (r == 0 && proc && (process = readdir(proc))) {
		long pid = atol(process->d_name);
		const char *what =
			pid > 0 && pid != getpid() ? what_it_does(process->d_name, entry) : NULL;

		if (what && count++ < TOLD)
			r = add_holder(process->d_name, what, words);
	}
	if (r == 0 && count > TOLD)
		r = buf_printf(words, " and %u more", count - TOLD);
	return r;
}
