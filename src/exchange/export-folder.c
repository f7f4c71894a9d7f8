/* SPDX-License-Identifier: MIT */
/*
 * To a folder.  A file is written under a name of its own and renamed when it is whole, with all
 * its attributes, so that what is there under its name is never a half, and a second run can tell
 * by size and time what is there already.  The folder may be another user's and change meanwhile:
 * each directory is held open, and no symbolic link is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/dirs.h"
#include "src/exchange/export.h"
#include "src/exchange/walk.h"
#include "src/mounts/mounts.h"

enum { TEMPORARIES = 100, TEMPORARY = 64, HOLE_SIZE = 64 << 10 };

static int failed(void)
{
	return errno ? -errno : -EIO;
}

static int here(const struct export *export)
{
	return dirs_here(export->to);
}

static int set_xattrs(struct export *export, const struct export_entry *entry, int fd)
{
	int r = 0;

	for (const char *name = entry->xattrs; r == 0 && name && *name; name += strlen(name) + 1) {
		_cleanup_(buf_done) struct buf value = { 0 };

		r = access_get_xattr(export->access, entry->path, name, &value);
		if (r == 0 && fsetxattr(fd, name, value.data, value.size, 0) < 0)
			r = failed();
	}
	return r;
}

/* Changing the owner takes set-id bits away, and all of it moves no time of the content. */
static int dress(struct export *export, const struct export_entry *entry, int fd)
{
	const struct timespec times[] = { entry->st.st_atim, entry->st.st_mtim };
	int r = set_xattrs(export, entry, fd);

	if (r == 0 && export->keep_owner && fchown(fd, entry->st.st_uid, entry->st.st_gid) < 0)
		r = failed();
	if (r == 0 && fchmod(fd, export_mode(export, entry)) < 0)
		r = failed();
	if (r == 0 && futimens(fd, times) < 0)
		r = failed();
	return r;
}

/* A mount of the store in the folder would be written to. */
static bool leads_back(const struct export *export, int fd)
{
	const struct dirs *dirs = export->to;
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev != dirs->levels[dirs->depth - 1].dev &&
	       mounts_shows(st.st_dev, export->store);
}

static int folder_enter(struct export *export, const struct export_entry *entry)
{
	int fd;

	if (mkdirat(here(export), entry->name, 0700) < 0 && errno != EEXIST)
		return failed();
	fd = openat(here(export), entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed();
	if (!leads_back(export, fd))
		return dirs_push(export->to, fd);
	close(fd);
	log_error("%s: %s: it would replace the directory on which the store is mounted, so it is "
		  "skipped",
		  export->store, entry->path);
	return 1;
}

static int folder_leave(struct export *export, const struct export_entry *entry)
{
	int r = dress(export, entry, here(export));
	int error = dirs_pop(export->to);

	return r < 0 ? r : error;
}

static bool is_there(const struct export *export, const struct export_entry *entry)
{
	const struct timespec *ours = &entry->st.st_mtim;
	struct stat st;

	return fstatat(here(export), entry->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size == entry->st.st_size &&
	       st.st_mtim.tv_sec == ours->tv_sec && st.st_mtim.tv_nsec == ours->tv_nsec;
}

static bool is_zero(struct bytes bytes)
{
	return bytes.size && !bytes.data[0] &&
	       memcmp(bytes.data, bytes.data + 1, bytes.size - 1) == 0;
}

/* The bytes of a block at an offset; pages of zeros become holes. */
static int write_block(int fd, struct bytes block, off_t at)
{
	int r = 0;

	for (size_t size; r == 0 && block.size; at += (off_t)size) {
		size = MIN(block.size, HOLE_SIZE - (size_t)(at % HOLE_SIZE));
		if (!is_zero(bytes_make(block.data, size)))
			r = export_write(fd, bytes_make(block.data, size), at);
		block = bytes_make(block.data + size, block.size - size);
	}
	return r;
}

static int copy(struct export *export, struct access_file *file, int fd)
{
	_cleanup_(buf_done) struct buf block = { 0 };
	off_t at = 0;
	int r;

	do {
		buf_clear(&block);
		r = export_read(export, file, &block);
		if (r == 0)
			r = write_block(fd, buf_bytes(&block), at);
		at += (off_t)block.size;
	} while (r == 0 && block.size);
	return r == 0 && ftruncate(fd, at) < 0 ? failed() : r;
}

static void name_temporary(char name[TEMPORARY], int attempt)
{
	snprintf(name, TEMPORARY, ".sessfs-export-%d", attempt);
}

/* Takes away what an export that was killed has left: a living one has the lock.  The file is made
 * anew, as somebody else may have opened this one. */
static void remove_left(int dir, const char *name)
{
	_cleanup_(closep) int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 ? errno == ELOOP : flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(dir, name, 0);
}

/* The store may have a file that is called as what was left. */
static bool is_exported(struct export *export, const struct export_entry *entry, const char *name)
{
	_cleanup_(freep) char *path =
		str_printf("%.*s%s", (int)(entry->name - entry->path), entry->path, name);
	struct stat st;

	return !path || access_stat(export->access, path, &st) != -ENOENT;
}

static int create_temporary(struct export *export, const struct export_entry *entry,
			    const char *name)
{
	const int dir = here(export);
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags, 0600);

	if (fd < 0 && errno == EEXIST) {
		if (!is_exported(export, entry, name))
			remove_left(dir, name);
		fd = openat(dir, name, flags, 0600);
	}
	return fd;
}

/* Where a filesystem has no locks, what another export makes at the same time may fail. */
static int open_temporary(struct export *export, const struct export_entry *entry,
			  char name[TEMPORARY])
{
	const int dir = here(export);
	struct stat st, there;

	errno = EEXIST;
	for (int i = 0; i < TEMPORARIES && errno == EEXIST; i++) {
		int fd;

		name_temporary(name, i);
		fd = create_temporary(export, entry, name);
		if (fd < 0)
			continue;
		flock(fd, LOCK_EX | LOCK_NB);
		if (fstat(fd, &st) == 0 && fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ino == there.st_ino)
			return fd;
		close(fd);
		errno = EEXIST; /* it was taken for one that is left */
	}
	return failed();
}

/* What was made under another name gets its own, or goes. */
static int settle(int dir, const char *temporary, const char *name, int r)
{
	if (r == 0 && renameat(dir, temporary, dir, name) < 0)
		r = failed();
	if (r < 0)
		unlinkat(dir, temporary, 0);
	return r;
}

static int folder_file(struct export *export, const struct export_entry *entry,
		       struct access_file *file)
{
	char temporary[TEMPORARY];
	int fd, r;

	if (is_there(export, entry)) {
		export->unchanged++;
		progress_add(&export->progress, 0, (uint64_t)entry->st.st_size);
		return 0;
	}
	fd = open_temporary(export, entry, temporary);
	if (fd < 0)
		return fd;
	r = copy(export, file, fd);
	if (r == 0)
		r = dress(export, entry, fd);
	if (close(fd) < 0 && r == 0)
		r = failed();
	return settle(here(export), temporary, entry->name, r);
}

/* By way of /proc: to give a file that is open another name takes rights that not everybody has. */
static int link_first(const struct dirs *folder, const char *first, int dir, const char *name)
{
	const struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	_cleanup_(closep) int fd =
		(int)syscall(SYS_openat2, folder->levels[0].fd, first, &how, sizeof(how));
	char path[64];

	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW);
}

static int make(struct export *export, const struct export_entry *entry, const char *name)
{
	const struct dirs *folder = export->to;
	int dir = here(export), r;

	if (entry->target)
		r = symlinkat(entry->target, dir, name);
	else if (entry->first)
		r = link_first(folder, entry->first, dir, name);
	else
		r = mknodat(dir, name, (entry->st.st_mode & S_IFMT) | 0600, 0);
	return r < 0 ? failed() : 0;
}

static int dress_other(const struct export *export, const struct export_entry *entry,
		       const char *name)
{
	const struct timespec times[] = { entry->st.st_atim, entry->st.st_mtim };
	const struct stat *st = &entry->st;
	int dir = here(export);

	if (entry->first)
		return 0;
	if (export->keep_owner &&
	    fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return failed();
	if (!entry->target &&
	    fchmodat(dir, name, export_mode(export, entry), AT_SYMLINK_NOFOLLOW) < 0)
		return failed();
	return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? failed() : 0;
}

static int folder_other(struct export *export, const struct export_entry *entry)
{
	char temporary[TEMPORARY];
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < TEMPORARIES; i++) {
		name_temporary(temporary, i);
		if (strcmp(temporary, entry->name) != 0)
			r = make(export, entry, temporary);
	}
	if (r < 0)
		return r;
	r = settle(here(export), temporary, entry->name, dress_other(export, entry, temporary));
	/* Two names of one file: the rename has done nothing. */
	if (entry->first)
		unlinkat(here(export), temporary, 0);
	return r;
}

static int folder_end(struct export *export, int error)
{
	struct dirs *folder = export->to;
	int r = 0;

	if (error == 0 && syncfs(folder->levels[0].fd) < 0)
		r = failed();
	dirs_done(folder);
	free(folder);
	return r;
}

static const struct export_sink sink = {
	.enter = folder_enter,
	.leave = folder_leave,
	.file = folder_file,
	.other = folder_other,
	.end = folder_end,
};

static bool is_empty(int fd)
{
	_cleanup_(walk_names_done) struct walk_names names = { 0 };

	return walk_names_read(fd, &names) == 0 && !names.count;
}

/* The folder as a descriptor, made if need be. */
static int open_folder(struct export *export, const char *path, bool force)
{
	int fd, r;

	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		return failed();
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return failed();
	r = !force && !is_empty(fd) ? -ENOTEMPTY : export_aim(export, fd);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int export_to_folder(struct export *export, const char *path, bool force)
{
	struct dirs *folder = calloc(1, sizeof(*folder));
	int r = folder ? open_folder(export, path, force) : -ENOMEM;

	if (r == -ENOTEMPTY)
		log_error("%s is not empty; with --force, files are added to it, and replace those "
			  "of the same name",
			  path);
	else if (r == -EXDEV)
		log_error("%s is where %s is mounted; name another folder", path, export->store);
	else if (r < 0)
		log_error("cannot write to %s: %s", path, strerror(-r));
	if (r >= 0)
		r = dirs_push(folder, r);
	if (r < 0) {
		free(folder);
		return r;
	}
	export->sink = &sink;
	export->to = folder;
	return 0;
}
