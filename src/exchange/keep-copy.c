/* SPDX-License-Identifier: MIT */
#include "src/exchange/keep-copy.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "src/exchange/walk.h"
#include "src/user/stop.h"

enum { PIECE = 1 << 18 };

struct copying {
	const char *from, *to;
	int fd; /* of to */
	unsigned long *files;
	struct keep *keep;
};

static int say(const struct copying *copying, const char *path, int error)
{
	log_error("%s/%s: %s", copying->from, path, strerror(-error));
	return error;
}

static int open_in(int dir, const char *path, int flags, mode_t mode)
{
	int fd = descriptor_above(openat(dir, path, flags | O_NOFOLLOW | O_CLOEXEC, mode));

	return fd < 0 ? -errno : fd;
}

/* As many bytes as there are, up to size. */
static ssize_t read_full(int fd, char *data, size_t size, off_t at)
{
	size_t got = 0;
	ssize_t n = 1;

	while (got < size && n > 0) {
		n = pread(fd, data + got, size - got, at + (off_t)got);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return -errno;
		else
			got += (size_t)n;
	}
	return (ssize_t)got;
}

static int write_full(int fd, const char *data, size_t size, off_t at)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(fd, data + done, size - done, at + (off_t)done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += (size_t)MAX(n, 0);
	}
	return 0;
}

struct pieces {
	char one[PIECE], other[PIECE];
};

enum common {
	COMMON_ALL,	/* both are the same */
	COMMON_LONGER,	/* the first one goes on behind the end of the other */
	COMMON_SHORTER, /* the other way round */
	COMMON_NOT,	/* they differ before the end of either */
};

/* How two files begin; *ret_size: so many bytes both have.  enum common, or -errno. */
static int compare(int one, int other, off_t *ret_size)
{
	_cleanup_(freep) struct pieces *pieces = malloc(sizeof(*pieces));
	ssize_t a, b;

	if (!pieces)
		return -ENOMEM;
	*ret_size = 0;
	do {
		a = stop_wanted() ? -EINTR : read_full(one, pieces->one, PIECE, *ret_size);
		b = read_full(other, pieces->other, PIECE, *ret_size);
		if (a < 0 || b < 0)
			return (int)MIN(a, b);
		if (memcmp(pieces->one, pieces->other, (size_t)MIN(a, b)) != 0)
			return COMMON_NOT;
		*ret_size += MIN(a, b);
	} while (a == b && b == PIECE);
	return a > b ? COMMON_LONGER : a < b ? COMMON_SHORTER : COMMON_ALL;
}

static int copy_bytes(int from, int to, off_t at)
{
	_cleanup_(freep) char *piece = malloc(PIECE);
	ssize_t got = 1;
	int r = piece ? 0 : -ENOMEM;

	while (r == 0 && got > 0) {
		got = stop_wanted() ? -EINTR : read_full(from, piece, PIECE, at);
		r = got < 0 ? (int)got : write_full(to, piece, (size_t)got, at);
		at += MAX(got, 0);
	}
	return r;
}

/* What a store does not take, it need not have. */
static int copy_xattrs(int from, int to)
{
	char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
	ssize_t size = flistxattr(from, names, sizeof(names));

	if (size < 0 && errno != EOPNOTSUPP)
		return -errno;
	for (const char *name = names; name < names + MAX(size, 0); name += strlen(name) + 1) {
		ssize_t got = fgetxattr(from, name, value, sizeof(value));

		if (got >= 0 && fsetxattr(to, name, value, (size_t)got, 0) < 0 &&
		    errno != EOPNOTSUPP && errno != EPERM)
			return -errno;
	}
	return 0;
}

static int copy_attrs(int from, int to)
{
	struct stat st;
	int r;

	if (fstat(from, &st) < 0)
		return -errno;
	r = copy_xattrs(from, to);
	if (r < 0)
		return r;
	if (geteuid() == 0 && fchown(to, st.st_uid, st.st_gid) < 0)
		return -errno;
	if (fchmod(to, st.st_mode & 07777) < 0 ||
	    futimens(to, (struct timespec[]){ st.st_atim, st.st_mtim }) < 0)
		return -errno;
	return 0;
}

/* A copy gets its times last of all, so that one of the same time has all the rest. */
static bool looks_same(int from, int to)
{
	struct stat one, other;

	return fstat(from, &one) == 0 && fstat(to, &other) == 0 && one.st_size == other.st_size &&
	       one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
	       one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

/* With the copy, which is published when it is closed; COMMON_NOT if there is none. */
static int compare_copy(const struct copying *copying, const char *path, int from)
{
	_cleanup_(closep) int to = open_in(copying->fd, path, O_RDONLY, 0);
	off_t size;

	if (to < 0)
		return to == -ENOENT ? COMMON_NOT : to;
	return compare(from, to, &size);
}

static bool is_copied(const struct copying *copying, const char *path, int from)
{
	_cleanup_(closep) int to = open_in(copying->fd, path, O_RDONLY, 0);

	return to >= 0 && looks_same(from, to);
}

static int write_file(const struct copying *copying, const char *path, int from)
{
	int to = open_in(copying->fd, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	int r = to < 0 ? to : copy_bytes(from, to, 0);

	/* Times move when it is published. */
	if (r == 0 && fsync(to) < 0)
		r = -errno;
	if (to >= 0 && close(to) < 0 && r == 0)
		r = -errno;
	return r;
}

static int settle_attrs(const struct copying *copying, const char *path, int from)
{
	_cleanup_(closep) int to = open_in(copying->fd, path, O_RDONLY, 0);

	return to < 0 ? to : copy_attrs(from, to);
}

static int copy_file(struct copying *copying, const struct walk_entry *entry)
{
	_cleanup_(closep) int from = open_in(entry->dir, entry->name, O_RDONLY, 0);
	int r;

	if (from >= 0 && is_copied(copying, entry->path, from)) {
		++*copying->files;
		return 0;
	}
	r = from < 0 ? from : compare_copy(copying, entry->path, from);
	if (r > COMMON_ALL) {
		r = write_file(copying, entry->path, from);
		if (r == 0)
			r = compare_copy(copying, entry->path, from);
		/* What is longer now is brought over in the end. */
		if (r > COMMON_LONGER) {
			log_error("%s/%s differs from the file in %s; is a client running?",
				  copying->to, entry->path, copying->from);
			return -EBUSY;
		}
	}
	if (r >= 0)
		r = settle_attrs(copying, entry->path, from);
	if (r == 0)
		++*copying->files;
	return r < 0 ? say(copying, entry->path, r) : 0;
}

static int copy_link_attrs(const struct copying *copying, const struct walk_entry *entry)
{
	const struct stat *st = &entry->st;
	const struct timespec times[] = { st->st_atim, st->st_mtim };

	if (geteuid() == 0 &&
	    fchownat(copying->fd, entry->path, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return utimensat(copying->fd, entry->path, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_link(struct copying *copying, const struct walk_entry *entry)
{
	char target[4096];
	ssize_t size = readlinkat(entry->dir, entry->name, target, sizeof(target) - 1);
	int r = size < 0 ? -errno : 0;

	target[MAX(size, 0)] = '\0';
	if (r == 0 && symlinkat(target, copying->fd, entry->path) < 0)
		r = errno == EEXIST ? 0 : -errno;
	else if (r == 0)
		r = copy_link_attrs(copying, entry);
	return r < 0 ? say(copying, entry->path, r) : 0;
}

static int enter_dir(void *arg, const struct walk_entry *dir)
{
	struct copying *copying = arg;

	if (stop_wanted())
		return -EINTR;
	if (mkdirat(copying->fd, dir->path, 0700) < 0 && errno != EEXIST)
		return say(copying, dir->path, -errno);
	return 0;
}

static int leave_dir(void *arg, const struct walk_entry *dir)
{
	struct copying *copying = arg;
	_cleanup_(closep) int from = open_in(dir->dir, dir->name, O_RDONLY | O_DIRECTORY, 0);
	int r = from < 0 ? from : settle_attrs(copying, dir->path, from);

	return r < 0 ? say(copying, dir->path, r) : 0;
}

static int copy_leaf(void *arg, const struct walk_entry *entry)
{
	struct copying *copying = arg;

	if (S_ISREG(entry->st.st_mode))
		return copy_file(copying, entry);
	if (S_ISLNK(entry->st.st_mode))
		return copy_link(copying, entry);
	log_error("%s/%s is neither a file nor a folder", copying->from, entry->path);
	return -EINVAL;
}

static int failed(void *arg, const char *path, int error)
{
	return say(arg, path, error);
}

int keep_copy(const char *from, const char *to, unsigned long *files)
{
	struct copying copying = { .from = from, .to = to, .files = files };
	const struct walk walk = { enter_dir, leave_dir, copy_leaf, failed, &copying };
	_cleanup_(closep) int top = descriptor_open(from, O_RDONLY | O_DIRECTORY, 0);
	_cleanup_(closep) int fd = -1;
	int r;

	if (mkdir(to, 0700) < 0 && errno != EEXIST) {
		log_error("%s: %s", to, strerror(errno));
		return -errno;
	}
	fd = copying.fd = descriptor_open(to, O_RDONLY | O_DIRECTORY, 0);
	if (top < 0 || fd < 0) {
		log_error("%s: %s", top < 0 ? from : to, strerror(errno));
		return -errno;
	}
	r = walk_operand(from, &walk);
	return r < 0 ? r : copy_attrs(top, fd);
}

/* ---- What is there no more ---- */

struct pruning {
	struct copying copying; /* of which fd is from's */
	struct buf gone;	/* the directory of the copy, all of which goes; empty: none */
};

static bool same_link(int one, const char *name, int other, const char *other_name)
{
	char target[PATH_MAX], other_target[PATH_MAX];
	ssize_t size = readlinkat(one, name, target, sizeof(target));

	return size >= 0 &&
	       readlinkat(other, other_name, other_target, sizeof(other_target)) == size &&
	       memcmp(target, other_target, (size_t)size) == 0;
}

/* Whether the folder has the same, as far as no copying would make it so: 1, 0, -errno. */
static int is_there(const struct pruning *pruning, const struct walk_entry *entry)
{
	struct stat st;

	if (pruning->gone.size)
		return 0;
	if (fstatat(pruning->copying.fd, entry->path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if ((st.st_mode & S_IFMT) != (entry->st.st_mode & S_IFMT))
		return 0;
	return !S_ISLNK(st.st_mode) ||
	       same_link(pruning->copying.fd, entry->path, entry->dir, entry->name);
}

static int prune_dir(void *arg, const struct walk_entry *dir)
{
	struct pruning *pruning = arg;
	int r = is_there(pruning, dir);

	if (r == 0 && !pruning->gone.size)
		r = buf_printf(&pruning->gone, "%s", dir->path);
	return r < 0 ? say(&pruning->copying, dir->path, r) : 0;
}

static int prune_left(void *arg, const struct walk_entry *dir)
{
	struct pruning *pruning = arg;

	if (!pruning->gone.size)
		return 0;
	if (unlinkat(dir->dir, dir->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return say(&pruning->copying, dir->path, -errno);
	if (strcmp(pruning->gone.data, dir->path) == 0)
		buf_clear(&pruning->gone);
	return 0;
}

static int prune_leaf(void *arg, const struct walk_entry *entry)
{
	struct pruning *pruning = arg;
	int r = is_there(pruning, entry);

	if (r == 0) {
		r = unlinkat(entry->dir, entry->name, 0) < 0 && errno != ENOENT ? -errno : 0;
		++*pruning->copying.files;
	}
	return r < 0 ? say(&pruning->copying, entry->path, r) : 0;
}

static int prune_failed(void *arg, const char *path, int error)
{
	struct pruning *pruning = arg;

	return say(&pruning->copying, path, error);
}

int keep_prune(const char *from, const char *to, unsigned long *files)
{
	_cleanup_(closep) int fd = descriptor_open(from, O_RDONLY | O_DIRECTORY, 0);
	struct pruning pruning = { .copying = { .from = to, .fd = fd, .files = files } };
	const struct walk walk = { prune_dir, prune_left, prune_leaf, prune_failed, &pruning };
	int r;

	if (fd < 0) {
		log_error("%s: %s", from, strerror(errno));
		return -errno;
	}
	if (access(to, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = walk_operand(to, &walk);
	buf_done(&pruning.gone);
	return r;
}

/* ---- What came late ---- */

static bool is_late(const struct copying *copying, const struct stat *st)
{
	const struct timespec *since = &copying->keep->since, *changed = &st->st_ctim;

	return changed->tv_sec == since->tv_sec ? changed->tv_nsec >= since->tv_nsec :
						  changed->tv_sec > since->tv_sec;
}

/* The directories above it are there, unless the copy has lost them since. */
static int make_above(const struct copying *copying, const char *path)
{
	_cleanup_(freep) char *name = strdup(path);

	if (!name)
		return -ENOMEM;
	for (char *slash = name; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdirat(copying->fd, name, 0700) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int add_conflict(struct copying *copying, const char *path)
{
	struct buf *conflicts = &copying->keep->conflicts;

	return buf_printf(conflicts, "%s%s/%s", conflicts->size ? ", " : "", copying->to, path);
}

/* Behind what somebody may have appended to the copy by now. */
static int append_rest(const struct copying *copying, const char *path, int from, off_t at)
{
	int to = open_in(copying->fd, path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	int r = to < 0 ? to : copy_bytes(from, to, at);

	if (to >= 0 && close(to) < 0 && r == 0)
		r = -errno;
	return r;
}

static int bring_rest(struct copying *copying, const char *path, int from, off_t at)
{
	int r = append_rest(copying, path, from, at);

	copying->keep->late++;
	if (r == 0)
		r = compare_copy(copying, path, from);
	return r == COMMON_NOT ? add_conflict(copying, path) : MIN(r, 0);
}

static int bring_file(struct copying *copying, const struct walk_entry *entry)
{
	_cleanup_(closep) int from = open_in(entry->dir, entry->name, O_RDONLY, 0);
	_cleanup_(closep) int to = open_in(copying->fd, entry->path, O_RDONLY, 0);
	off_t size;
	int r;

	if (from < 0)
		return from;
	if (to == -ENOENT) {
		r = bring_rest(copying, entry->path, from, 0);
		return r < 0 ? r : settle_attrs(copying, entry->path, from);
	}
	r = to < 0 ? to : looks_same(from, to) ? COMMON_ALL : compare(from, to, &size);
	if (r == COMMON_LONGER)
		return bring_rest(copying, entry->path, from, size);
	return r == COMMON_NOT ? add_conflict(copying, entry->path) : MIN(r, 0);
}

static int bring_leaf(void *arg, const struct walk_entry *entry)
{
	struct copying *copying = arg;
	int r = is_late(copying, &entry->st) ? make_above(copying, entry->path) : 1;

	if (r == 0 && S_ISLNK(entry->st.st_mode))
		return copy_link(copying, entry);
	if (r == 0 && S_ISREG(entry->st.st_mode))
		r = bring_file(copying, entry);
	return r < 0 ? say(copying, entry->path, r) : 0;
}

static int bring_dir(void *arg, const struct walk_entry *dir)
{
	struct copying *copying = arg;
	int r = is_late(copying, &dir->st) ? make_above(copying, dir->path) : 1;

	return r < 0 ? say(copying, dir->path, r) : r == 0 ? enter_dir(arg, dir) : 0;
}

int keep_bring_over(const char *from, const char *to, struct keep *keep)
{
	unsigned long files = 0;
	struct copying copying = { .from = from, .to = to, .files = &files, .keep = keep };
	const struct walk walk = { bring_dir, NULL, bring_leaf, failed, &copying };
	_cleanup_(closep) int fd = descriptor_open(to, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0) {
		log_error("%s: %s", to, strerror(errno));
		return -errno;
	}
	copying.fd = fd;
	return walk_operand(from, &walk);
}
