/* SPDX-License-Identifier: MIT */
#include "src/mounts/holders.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

enum { TOLD = 4 }; /* by name; the others are counted */

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The next process; NULL at the end. */
static const char *next_process(DIR *proc)
{
	const struct dirent *process;

	while (proc && (process = readdir(proc)))
		if (isdigit((unsigned char)*process->d_name))
			return process->d_name;
	return NULL;
}

/* The descriptors of a process. */
static DIR *open_fds(const char *pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	return opendir(path);
}

/* The next one, and where it leads; NULL at the end. */
static const char *next_fd(DIR *fds, char target[PATH_MAX])
{
	const struct dirent *fd = fds ? readdir(fds) : NULL;
	ssize_t size = fd ? readlinkat(dirfd(fds), fd->d_name, target, PATH_MAX - 1) : 0;

	target[MAX(size, 0)] = '\0';
	return fd ? fd->d_name : NULL;
}

/* As holders_number(), from a file of the process, or of a thread: PID/task/TID. */
static long long number_in(const char *pid, const char *file, const char *format, long long wanted)
{
	_cleanup_(fclosep) FILE *lines = NULL;
	char path[96], line[PATH_MAX + 128];
	long long number;

	snprintf(path, sizeof(path), "/proc/%.48s/%.30s", pid, file);
	lines = fopen(path, "re");
	while (lines && fgets(line, sizeof(line), lines))
		if (sscanf(line, format, &number) == 1 && (wanted < 0 || number == wanted))
			return number;
	return -1;
}

long long holders_number(const char *pid, const char *fd, const char *format, long long wanted)
{
	char file[32];

	snprintf(file, sizeof(file), "fdinfo/%.20s", fd);
	return number_in(pid, file, format, wanted);
}

/* The connection that a descriptor of /dev/fuse serves; -1 when the kernel does not say. */
static long connection_of(const char *pid, const char *fd)
{
	return (long)holders_number(pid, fd, "fuse_connection: %lld", -1);
}

/* Among the words that a process was started with. */
static char *url_in(long pid, const char *name)
{
	_cleanup_(fclosep) FILE *words = NULL;
	_cleanup_(freep) char *word = NULL;
	size_t room = 0;
	char path[64], *found = NULL;

	snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
	words = fopen(path, "re");
	while (!found && words && getdelim(&word, &room, '\0', words) > 0) {
		_cleanup_(freep) char *called = NULL;

		if (!backend_has_path(word) && backend_name(word, &called, NULL) == 0 &&
		    strcmp(called, name) == 0)
			found = strdup(word);
	}
	return found;
}

/* As the link of a descriptor shows it; it may have been deleted since. */
static bool is_file(const char *target, const char *path)
{
	const size_t size = strlen(path);

	return strncmp(target, path, size) == 0 &&
	       (!target[size] || strcmp(target + size, " (deleted)") == 0);
}

/* 2: the process has the device open for this connection, and the store; 1: without the store.  The
 * kernel gives the number of a connection to the next mount before the daemon that had it has
 * ended.  Older kernels do not say the number. */
static int serves(const char *pid, const struct mount_entry *entry)
{
	_cleanup_(freep) char *url =
		backend_has_path(entry->source) ? NULL : url_in(atol(pid), entry->source);
	_cleanup_(closedirp) DIR *fds = open_fds(pid);
	bool device = false, number = false, store = url;
	char target[PATH_MAX];
	const char *fd;

	while ((fd = next_fd(fds, target))) {
		long connection;

		store |= is_file(target, entry->source);
		if (strcmp(target, "/dev/fuse") != 0)
			continue;
		connection = connection_of(pid, fd);
		device |= connection < 0;
		number |= connection == (long)entry->device;
	}
	return store && (device || number) ? 2 : number;
}

long holders_daemon(const struct mount_entry *entry)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	const char *pid;
	long daemon = 0;
	int surest = 0;

	while (surest < 2 && (pid = next_process(proc))) {
		int sure = serves(pid, entry);

		if (sure <= surest)
			continue;
		surest = sure;
		daemon = atol(pid);
	}
	return daemon;
}

char *holders_url(const struct mount_entry *entry)
{
	long pid = holders_daemon(entry);

	return pid ? url_in(pid, entry->source) : NULL;
}

/* The number of the connection that a process serves; 0 when the kernel does not say; -1: none. */
static long served_by(const char *pid)
{
	_cleanup_(closedirp) DIR *fds = open_fds(pid);
	char target[PATH_MAX];
	const char *fd;

	while ((fd = next_fd(fds, target)))
		if (strcmp(target, "/dev/fuse") == 0)
			return MAX(connection_of(pid, fd), 0);
	return -1;
}

static int visit_owned(const char *pid, long device, holders_fn *fn, void *arg)
{
	struct holders_owner owner = { .pid = atol(pid), .device = (unsigned)device };
	_cleanup_(closedirp) DIR *fds = open_fds(pid);
	char target[PATH_MAX];
	struct stat st;
	const char *fd;

	while ((fd = next_fd(fds, target))) {
		/* The lock that makes its process the owner of a store. */
		if (holders_number(pid, fd, "lock: %*s OFDLCK %*s %*s %*s %*s %lld",
				   BACKEND_OWNER_BYTE) < 0 ||
		    fstatat(dirfd(fds), fd, &st, 0) < 0)
			continue;
		owner.store = target;
		owner.dev = st.st_dev;
		owner.ino = st.st_ino;
		return fn(arg, &owner);
	}
	return 0;
}

int holders_each(holders_fn *fn, void *arg)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	const char *pid;
	int r = 0;

	while (r == 0 && (pid = next_process(proc))) {
		long device = served_by(pid);

		if (device >= 0)
			r = visit_owned(pid, device, fn, arg);
	}
	return r;
}

const char *holders_name(long pid, char name[HOLDERS_NAME])
{
	_cleanup_(fclosep) FILE *comm = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	comm = fopen(path, "re");
	if (!comm || !fgets(name, HOLDERS_NAME, comm))
		return strcpy(name, "a process");
	name[strcspn(name, "\n")] = '\0';
	return name;
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

static bool has_open(const char *pid, const struct mount_entry *entry)
{
	_cleanup_(closedirp) DIR *fds = open_fds(pid);
	char target[PATH_MAX];
	const char *fd;

	while ((fd = next_fd(fds, target)))
		if (holders_number(pid, fd, "mnt_id: %lld", entry->id) >= 0)
			return true;
	return false;
}

static const char *what_it_does(const char *pid, const struct mount_entry *entry)
{
	if (leads_into(pid, "cwd", entry) || leads_into(pid, "root", entry))
		return "works in it";
	if (has_open(pid, entry))
		return "has a file of it open";
	/* A line is: range flags offset major:minor inode path */
	if (entry->device && number_in(pid, "maps", "%*s %*s %*s 00:%llx", entry->device) >= 0)
		return "has a file of it mapped";
	return NULL;
}

int holders_tell(const struct mount_entry *entry, struct buf *words)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	char name[HOLDERS_NAME];
	const char *pid;
	unsigned count = 0;
	int r = 0;

	while (r == 0 && (pid = next_process(proc))) {
		const char *what = atol(pid) != getpid() ? what_it_does(pid, entry) : NULL;

		if (what && count++ < TOLD)
			r = buf_printf(words, "%s%s (%s) %s", words->size ? ", " : "",
				       holders_name(atol(pid), name), pid, what);
	}
	if (r == 0 && count > TOLD)
		r = buf_printf(words, " and %u more", count - TOLD);
	return r;
}

/* The first file below a path that a process has open; false: none. */
static bool has_below(const char *pid, const char *path, char target[PATH_MAX])
{
	_cleanup_(closedirp) DIR *fds = open_fds(pid);
	size_t size = strlen(path);

	while (next_fd(fds, target))
		if (strncmp(target, path, size) == 0 && target[size] == '/')
			return true;
	return false;
}

int holders_tell_below(const char *path, struct buf *words)
{
	_cleanup_(closedirp) DIR *proc = opendir("/proc");
	char target[PATH_MAX], name[HOLDERS_NAME];
	const char *pid;
	int r = 0;

	while (r == 0 && !words->size && (pid = next_process(proc)))
		if (atol(pid) != getpid() && has_below(pid, path, target))
			r = buf_printf(words, "%s (process %s) has %s open",
				       holders_name(atol(pid), name), pid, target);
	return r;
}
