/* SPDX-License-Identifier: MIT */
/*
 * To a folder.  A file is written under a name of its own and renamed when it is whole, with all
 * its attributes, so that what is there under its name is never a half, and a second run can tell
 * by size and time what is there already.  The folder may be another user's and change meanwhile:
 * each directory is held open, and no symbolic link is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/export.h"

enum { TEMPORARIES = 100, TEMPORARY = 64 };

struct folder {
	int *dirs; /* from the folder itself to where we are */
	size_t depth;
	size_t room;
};

static int failed(void)
{
	return errno ? -errno : -EIO;
}

static int here(const struct export *export)
{
	const struct folder *folder = export->to;

	return folder->dirs[folder->depth - 1];
}

static int push(struct folder *folder, int fd)
{
	if (folder->depth == folder->room) {
		size_t room = folder->room ? folder->room * 2 : 16;
		int *grown = reallocarray(folder->dirs, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		folder->dirs = grown;
		folder->room = room;
	}
	folder->dirs[folder->depth++] = fd;
	return 0;
}

static void pop(struct folder *folder)
{
	close(folder->dirs[--folder->depth]);
}

static int set_xattrs(struct export *export, const struct export_entry *entry, int fd)
{
	const char *end = entry->xattrs.data + entry->xattrs.size;
	int r = 0;

	for (const char *name = entry->xattrs.data; r == 0 && name && name < end;
	     name += strlen(name) + 1) {
		_cleanup_(buf_done) struct buf value = { 0 };

		r = export_xattr(export, entry, name, &value);
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

static int folder_enter(struct export *export, const struct export_entry *entry)
{
	int fd, r;

	if (mkdirat(here(export), entry->name, 0700) < 0 && errno != EEXIST)
		return failed();
	fd = openat(here(export), entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed();
	r = push(export->to, fd);
	if (r < 0)
		close(fd);
	return r;
}

static int folder_leave(struct export *export, const struct export_entry *entry)
{
	int r = dress(export, entry, here(export));

	pop(export->to);
	return r;
}

static bool is_there(const struct export *export, const struct export_entry *entry)
{
	const struct timespec *ours = &entry->st.st_mtim;
	struct stat st;

	return fstatat(here(export), entry->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size == entry->st.st_size &&
	       st.st_mtim.tv_sec == ours->tv_sec && st.st_mtim.tv_nsec == ours->tv_nsec;
}

static int write_all(int fd, const struct buf *block)
{
	size_t written = 0;

	while (written < block->size) {
		ssize_t size = write(fd, block->data + written, block->size - written);

		if (size < 0 && errno != EINTR)
			return failed();
		written += (size_t)MAX(size, 0);
	}
	return 0;
}

static int copy(struct export *export, struct access_file *file, int fd)
{
	_cleanup_(buf_done) struct buf block = { 0 };
	int r;

	do {
		buf_clear(&block);
		r = export_read(export, file, &block);
		if (r == 0)
			r = write_all(fd, &block);
	} while (r == 0 && block.size);
	return r;
}

static void name_temporary(char name[TEMPORARY], int attempt)
{
	snprintf(name, TEMPORARY, ".sessfs-export-%d-%d", (int)getpid(), attempt);
}

static int open_temporary(int dir, char name[TEMPORARY])
{
	int fd = -1;

	for (int i = 0; fd < 0 && i < TEMPORARIES && (!i || errno == EEXIST); i++) {
		name_temporary(name, i);
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	return fd < 0 ? failed() : fd;
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
	fd = open_temporary(here(export), temporary);
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
static int link_first(const struct folder *folder, const char *first, int dir, const char *name)
{
	const struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	_cleanup_(closep) int fd =
		(int)syscall(SYS_openat2, folder->dirs[0], first, &how, sizeof(how));
	char path[64];

	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW);
}

static int make(struct export *export, const struct export_entry *entry, const char *name)
{
	const struct folder *folder = export->to;
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
	struct folder *folder = export->to;
	int r = 0;

	if (error == 0 && folder->depth && syncfs(folder->dirs[0]) < 0)
		r = failed();
	while (folder->depth)
		pop(folder);
	free(folder->dirs);
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
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	const struct dirent *entry;
	bool empty = true;

	if (!dir) {
		closep(&own);
		return false;
	}
	while (empty && (entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
	closedir(dir);
	return empty;
}

int export_to_folder(struct export *export, const char *path, bool force)
{
	struct folder *folder = calloc(1, sizeof(*folder));
	int fd, r = folder ? 0 : -ENOMEM;

	if (r == 0 && mkdir(path, 0777) < 0 && errno != EEXIST)
		r = failed();
	fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = failed();
	if (r == 0 && !force && !is_empty(fd)) {
		log_error("%s is not empty; --force puts files into it and over those of the same "
			  "name",
			  path);
		r = -ENOTEMPTY;
	} else if (r < 0) {
		log_error("cannot write to %s: %s", path, strerror(-r));
	}
	if (r == 0)
		r = push(folder, fd);
	if (r < 0) {
		closep(&fd);
		free(folder);
		return r;
	}
	export->sink = &sink;
	export->to = folder;
	return 0;
}
