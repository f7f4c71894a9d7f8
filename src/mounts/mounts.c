/* SPDX-License-Identifier: MIT */
#include "src/mounts/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/base/array.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "src/mounts/holders.h"

int mounts_absolute_unasked(const char *path, char **ret_path)
{
	_cleanup_(freep) char *copy = bytes_dup(bytes_str(path));
	_cleanup_(freep) char *parent = NULL;
	char *slash, *last;

	if (!copy)
		return -ENOMEM;
	for (size_t size = strlen(copy); size > 1 && copy[size - 1] == '/'; size--)
		copy[size - 1] = '\0';
	slash = strrchr(copy, '/');
	last = slash ? slash + 1 : copy;
	if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		return -EINVAL;
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
	if (!parent)
		return -errno;
	*ret_path = str_printf("%s/%s", strcmp(parent, "/") == 0 ? "" : parent, last);
	return *ret_path ? 0 : -ENOMEM;
}

int mounts_absolute(const char *path, char **ret_path)
{
	char *real = realpath(path, NULL);
	int error = errno;
	int r;

	if (real) {
		*ret_path = real;
		return 0;
	}
	r = mounts_absolute_unasked(path, ret_path);
	return r == -EINVAL ? -error : r;
}

int mounts_store(const char *store, char **ret_name, char **ret_why)
{
	int r;

	if (!backend_has_path(store))
		return backend_name(store, ret_name, ret_why);
	r = mounts_absolute(store, ret_name);
	if (r == -ENOENT)
		return str_explain(ret_why, r,
				   "the directory of the store %s does not exist; make it first",
				   store);
	return r < 0 ? str_explain(ret_why, r, "cannot reach the store %s: %s", store,
				   strerror(-r)) :
		       r;
}

/* The table has blanks and the like as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* A line is: id parent major:minor root POINT FLAGS [more...] - TYPE SOURCE options */
static bool line_parse(char *line, struct mount_entry *entry)
{
	enum { ID, PARENT, DEVICE, ROOT, POINT, FLAGS, FIELDS };
	char *behind = strstr(line, " - ");
	char *fields[FIELDS], *place = NULL;
	const char *minor, *flags, *user;

	if (!behind)
		return false;
	*behind = '\0';
	for (int i = 0; i < FIELDS; i++) {
		fields[i] = strtok_r(i ? NULL : line, " ", &place);
		if (!fields[i])
			return false;
	}
	minor = strchr(fields[DEVICE], ':');
	flags = fields[FLAGS];
	*entry = (struct mount_entry){
		.type = strtok_r(behind + 3, " ", &place),
		.source = strtok_r(NULL, " ", &place),
		.root = fields[ROOT],
		.point = fields[POINT],
		.read_only = strncmp(flags, "ro", 2) == 0 && (flags[2] == ',' || !flags[2]),
		.id = atoi(fields[ID]),
		.device = minor ? (unsigned)strtoul(minor + 1, NULL, 10) : 0,
	};
	if (!entry->type || !entry->source)
		return false;
	/* Behind a word of the options at the end of the line. */
	user = strtok_r(NULL, "\n", &place);
	user = user ? strstr(user, "user_id=") : NULL;
	entry->user = user ? (uid_t)strtoul(user + strlen("user_id="), NULL, 10) : (uid_t)-1;
	unescape(entry->source);
	unescape(entry->root);
	unescape(entry->point);
	return true;
}

static int each_in(const char *path, mounts_fn *fn, void *arg)
{
	_cleanup_(fclosep) FILE *table = fopen(path, "re");
	_cleanup_(freep) char *line = NULL;
	struct mount_entry entry;
	size_t room = 0;
	int r = 0;

	if (!table)
		return -errno;
	while (r == 0 && getline(&line, &room, table) > 0) {
		if (line_parse(line, &entry))
			r = fn(arg, &entry);
	}
	return r == 0 && ferror(table) ? -EIO : r;
}

int mounts_each(mounts_fn *fn, void *arg)
{
	return each_in("/proc/self/mountinfo", fn, arg);
}

int mounts_each_of(long pid, mounts_fn *fn, void *arg)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/mountinfo", pid);
	return each_in(path, fn, arg);
}

static int entry_copy(const struct mount_entry *entry, struct mount_entry *ret_entry)
{
	struct mount_entry copy = *entry;

	copy.type = bytes_dup(bytes_str(entry->type));
	copy.source = bytes_dup(bytes_str(entry->source));
	copy.root = bytes_dup(bytes_str(entry->root));
	copy.point = bytes_dup(bytes_str(entry->point));
	if (!copy.type || !copy.source || !copy.root || !copy.point) {
		mount_entry_done(&copy);
		return -ENOMEM;
	}
	*ret_entry = copy;
	return 0;
}

struct search {
	mounts_fits *fits;
	const void *arg;
	struct mount_list *found;
};

static int keep_fitting(void *arg, const struct mount_entry *entry)
{
	const struct search *search = arg;
	struct mount_list *found = search->found;
	int r;

	if (!search->fits(search->arg, entry))
		return 0;
	r = ARRAY_ROOM(found->entries, found->count, found->room);
	if (r == 0)
		r = entry_copy(entry, &found->entries[found->count]);
	found->count += r == 0;
	return r;
}

int mounts_list(mounts_fits *fits, const void *arg, struct mount_list *list)
{
	struct search search = { fits, arg, list };

	return mounts_each(keep_fitting, &search);
}

void mount_list_done(struct mount_list *list)
{
	while (list->count)
		mount_entry_done(&list->entries[--list->count]);
	free(list->entries);
}

int mounts_last(mounts_fits *fits, const void *arg, struct mount_entry *ret_entry)
{
	_cleanup_(mount_list_done) struct mount_list list = { 0 };
	int r = mounts_list(fits, arg, &list);

	if (r < 0 || !list.count)
		return r < 0 ? r : -ENOENT;
	*ret_entry = list.entries[--list.count];
	return 0;
}

bool mounts_is_of(const void *store, const struct mount_entry *entry)
{
	return strcmp(entry->type, MOUNTS_TYPE) == 0 && strcmp(entry->source, store) == 0;
}

static bool is_on(const void *path, const struct mount_entry *entry)
{
	return strcmp(entry->point, path) == 0;
}

int mounts_find(const char *path, struct mount_entry *ret_entry)
{
	return mounts_last(is_on, path, ret_entry);
}

void mount_entry_done(struct mount_entry *entry)
{
	free(entry->type);
	free(entry->source);
	free(entry->root);
	free(entry->point);
	*entry = (struct mount_entry){ 0 };
}

/* Run fusermount3 and keep what it says. */
static int run_helper(const char *path, const char *flags, struct buf *said)
{
	char chunk[256];
	int ends[2];
	int status;
	ssize_t size;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		close(ends[0]);
		close(ends[1]);
		return -errno;
	}
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		execlp("fusermount3", "fusermount3", flags, "--", path, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	while ((size = read(ends[0], chunk, sizeof(chunk))) > 0)
		buf_append(said, chunk, (size_t)size);
	close(ends[0]);
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

static int refuse_busy(const char *path, char **ret_why)
{
	return str_explain(ret_why, -EBUSY,
			   "%s is busy: a program has files open in it or works there"
			   " ('fuser -vm %s' tells which)",
			   path, path);
}

static int end_by_helper(const char *path, bool lazily, char **ret_why)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	int status = run_helper(path, lazily ? "-uz" : "-u", &said);
	int r;

	if (status == 0)
		return 0;
	if (status < 0)
		return str_explain(ret_why, status, "cannot unmount %s: %s", path,
				   strerror(-status));
	if (status == 127)
		return str_explain(ret_why, -ENOENT,
				   "cannot unmount %s: fusermount3 is missing, install fuse3",
				   path);
	r = buf_append_byte(&said, '\0');
	if (r < 0)
		return r;
	if (strstr(said.data, "busy"))
		return refuse_busy(path, ret_why);
	said.data[strcspn(said.data, "\n")] = '\0';
	return str_explain(ret_why, -EPERM, "cannot unmount %s: %s", path, said.data);
}

int mounts_end(const char *path, bool lazily, char **ret_why)
{
	if (umount2(path, UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EPERM)
		return end_by_helper(path, lazily, ret_why);
	if (errno == EBUSY)
		return refuse_busy(path, ret_why);
	return str_explain(ret_why, -errno, "cannot unmount %s: %s", path, strerror(errno));
}

/* The number that the kernel gives to the mount that a descriptor is on. */
static int mount_id(int fd)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	return (int)holders_number("self", number, "mnt_id: %lld", -1);
}

/* Whether the mount that the descriptor was opened on is what the path leads to. */
static bool is_on_top(int fd, const char *path)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };

	return mounts_find(path, &entry) == 0 && mount_id(fd) == entry.id;
}

/* The mount that the descriptor was opened on, even if the path leads to another one now. */
static int detach(int fd, const char *path, char **ret_why)
{
	char name[64];
	int r;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (umount2(name, MNT_DETACH) == 0 || errno == EINVAL) /* another process was faster */
		return 0;
	if (errno == EPERM) {
		/* fusermount3 goes by the path. */
		r = is_on_top(fd, path) ? end_by_helper(path, true, ret_why) : 0;
		if (r == 0 || is_on_top(fd, path))
			return r;
		free(*ret_why);
		*ret_why = NULL;
		return 0;
	}
	return str_explain(ret_why, -errno, "cannot unmount %s: %s", path, strerror(errno));
}

int mounts_end_dead(const char *path, char **ret_why)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(closep) int fd = open(path, O_PATH | O_CLOEXEC);
	struct statfs space;
	int r;

	/* The kernel may still know what stat() asks for, but never what statfs() does. */
	if (fd < 0 || fstatfs(fd, &space) == 0 || errno != ENOTCONN)
		return 0;
	r = mounts_find(path, &entry);
	if (r == 0 && strcmp(entry.type, MOUNTS_TYPE) != 0)
		return str_explain(ret_why, -EBUSY,
				   "%s is a dead mount of type %s; unmount it first", path,
				   entry.type);
	r = detach(fd, path, ret_why);
	return r < 0 ? r : 1;
}

int mounts_end_ours(const char *path, char **ret_why)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(closep) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int r = mounts_find(path, &entry);

	if (fd < 0 || r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (strcmp(entry.type, MOUNTS_TYPE) != 0 || mount_id(fd) != entry.id)
		return str_explain(ret_why, -EBUSY,
				   "%s does not lead to the mount any more, so it is not unmounted",
				   path);
	return detach(fd, path, ret_why);
}

bool mounts_same(const void *known, const struct mount_entry *entry)
{
	const struct mount_entry *other = known;
	struct stat st, other_st;

	if (strcmp(entry->type, MOUNTS_TYPE) != 0 ||
	    (other->device && other->device != entry->device))
		return false;
	return strcmp(other->source, entry->source) == 0 ||
	       (stat(other->source, &other_st) == 0 && stat(entry->source, &st) == 0 &&
		other_st.st_dev == st.st_dev && other_st.st_ino == st.st_ino);
}

bool mounts_shows(dev_t device, const char *store)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(freep) char *name = NULL;
	struct mount_entry known = { .device = minor(device), .source = (char *)(uintptr_t)store };
	struct stat st;

	if (backend_has_path(store) ? stat(store, &st) < 0 : backend_name(store, &name, NULL) < 0)
		return false;
	if (name)
		known.source = name;
	/* A filesystem without a device has 0 as the major number. */
	return major(device) == 0 && known.device && mounts_last(mounts_same, &known, &entry) == 0;
}

bool mounts_is_believed(const struct mount_entry *entry)
{
	struct stat st;

	return entry->user == 0 || entry->user == geteuid() ||
	       (backend_has_path(entry->source) && stat(entry->source, &st) == 0 &&
		st.st_uid == entry->user);
}

static bool has_device(const void *device, const struct mount_entry *entry)
{
	return entry->device == *(const unsigned *)device && strcmp(entry->type, MOUNTS_TYPE) == 0;
}

/* MNT_FORCE aborts the connection first; then our descriptor keeps the mount (EBUSY). */
static int abort_by_force(unsigned device)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(closep) int fd = -1;
	char name[64];
	int r = mounts_last(has_device, &device, &entry);

	if (r < 0)
		return r;
	fd = open(entry.point, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || mount_id(fd) != entry.id)
		return -ENOENT;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return umount2(name, MNT_FORCE) == 0 || errno == EBUSY ? 0 : -errno;
}

int mounts_abort(unsigned device)
{
	/* The file of the control filesystem.  It belongs to the user that has mounted (fuse.ko,
	 * control.c). */
	_cleanup_(closep) int fd = -1;
	char name[64];

	snprintf(name, sizeof(name), "/sys/fs/fuse/connections/%u/abort", device);
	fd = open(name, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "1", 1) != 1 ? abort_by_force(device) : 0;
}

int mounts_open(const struct mount_entry *entry)
{
	_cleanup_(closep) int path = open(entry->point, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	/* The kernel answers mount_id() itself, without the daemon. */
	if (path < 0 || mount_id(path) != entry->id)
		return -ENOTCONN;
	fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool mounts_wait_unowned(const char *store, int limit)
{
	enum { STEP = 20 };

	for (int waited = 0; backend_is_owned(store); waited += STEP) {
		if (waited >= limit)
			return false;
		usleep(STEP * 1000);
	}
	return true;
}
