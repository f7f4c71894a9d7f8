/* SPDX-License-Identifier: MIT */
/*
 * Through the mount.
 *
 * The table of mounts says which path shows a store, but anybody may mount a filesystem that claims
 * to (mounts_is_believed()).  Even where that is believed, another process answers, so no path
 * leads out of the mount: symbolic links are not followed, and other mounts not entered.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "backend/backend.h"
#include "fs/api/trash.h"
#include "fs/api/tree.h"
#include "src/store/way.h"
#include "src/mounts/mounts.h"

static int failed(void)
{
	return errno ? -errno : -EIO;
}

/* What a call has put behind the bytes that are there, or -1. */
static int took(struct buf *buf, ssize_t size)
{
	if (size < 0)
		return failed();
	buf->size += (size_t)size;
	return 0;
}

static int open_beneath(const struct access *access, int dir, const char *path, uint64_t flags,
			mode_t mode)
{
	const struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   (access->is_folder ? 0 : RESOLVE_NO_XDEV),
	};
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? failed() : (int)fd;
}

/* In several parts, since no call takes a path of PATH_MAX bytes or more. */
static int mount_place(struct access *access, const char *path, struct access_place *ret_place)
{
	char part[PATH_MAX];
	size_t size, length;
	int dir = access->root, fd;

	ret_place->name = access_split(path, &size);
	for (;;) {
		length = MIN(size, sizeof(part) - 1);
		while (length < size && path[length] != '/')
			length--;
		snprintf(part, sizeof(part), "%.*s", (int)length, path);
		fd = open_beneath(access, dir, *part ? part : ".", O_PATH | O_DIRECTORY, 0);
		if (dir != access->root)
			close(dir);
		if (fd < 0 || length == size)
			break;
		path += length + 1;
		size -= length + 1;
		dir = fd;
	}
	ret_place->fd = fd;
	return MIN(fd, 0);
}

static void mount_done(struct access *access, struct access_place *place)
{
	(void)access;
	closep(&place->fd);
}

/* What the place is as a path below its descriptor. */
static const char *below(const struct access_place *place)
{
	return *place->name ? place->name : ".";
}

static int mount_stat(const struct access_place *place, struct stat *ret_stat)
{
	return fstatat(place->fd, below(place), ret_stat, AT_SYMLINK_NOFOLLOW) < 0 ? failed() : 0;
}

static int mount_list(const struct access_place *place, bool with_stat, access_entry_fn *fn,
		      void *arg)
{
	int fd = open_beneath(place->access, place->fd, below(place), O_RDONLY | O_DIRECTORY, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = fd < 0 ? fd : dir ? 0 : failed();

	if (!dir) {
		closep(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir))) {
		struct stat st = { .st_mode = DTTOIF(entry->d_type) };

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (!with_stat || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			r = fn(arg, entry->d_name, &st);
		else if (errno != ENOENT) /* removed after it was listed */
			r = failed();
	}
	if (r == 0 && errno)
		r = failed();
	closedir(dir);
	return r;
}

static int mount_remove(const struct access_place *place, bool dir)
{
	return unlinkat(place->fd, place->name, dir ? AT_REMOVEDIR : 0) < 0 ? failed() : 0;
}

static int mount_rename(const struct access_place *from, const char *to)
{
	return renameat(from->fd, from->name, from->fd, to) < 0 ? failed() : 0;
}

/* An older daemon would only store the order as an attribute. */
static int mount_order(struct access *access, struct bytes order)
{
	char known[8];

	if (fgetxattr(access->root, TRASH_ORDERS, known, sizeof(known)) < 0)
		return errno == ENODATA ? -EOPNOTSUPP : failed();
	return fsetxattr(access->root, TRASH_ORDERS, order.data, order.size, 0) < 0 ? failed() : 0;
}

static int mount_open(const struct access_place *place, int flags, mode_t mode,
		      struct access_file *file)
{
	/* If the file has become a FIFO meanwhile, O_NONBLOCK keeps us from waiting for its other
	 * end.  A file that is made in a folder is private until it has its mode. */
	int fd = open_beneath(place->access, place->fd, below(place), (uint64_t)flags | O_NONBLOCK,
			      place->access->is_folder ? 0600 : mode);

	if (fd < 0)
		return fd;
	file->fd = fd;
	return 0;
}

/* Lock the file for ourselves alone, and check that it still has the name: -EAGAIN.  Only the
 * lock's holder removes the name. */
static int claim(const struct access_place *place, int fd)
{
	struct stat st, named;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return failed();
	if (fstat(fd, &st) < 0)
		return failed();
	if (fstatat(place->fd, place->name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? -EAGAIN : failed();
	return S_ISREG(st.st_mode) && st.st_ino == named.st_ino ? 0 : -EAGAIN;
}

static int make_claimed(const struct access_place *place, mode_t mode, struct access_file *file)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL;
	int r = mount_open(place, flags, mode, file);

	if (r == -EEXIST && !(file->access->beside && file->access->is_beside(file))) {
		_cleanup_(closep) int fd = open_beneath(place->access, place->fd, place->name,
							O_RDONLY | O_NONBLOCK, 0);

		/* The process that made it holds its lock as long as it lives. */
		if (fd >= 0 && claim(place, fd) == 0)
			unlinkat(place->fd, place->name, 0);
		r = mount_open(place, flags, mode, file);
	}
	if (r < 0)
		return r;
	r = claim(place, file->fd);
	if (r == 0)
		return 0;
	if (r != -EAGAIN) /* another process has it then, to remove it */
		unlinkat(place->fd, place->name, 0);
	closep(&file->fd);
	return r;
}

/* All processes try the same names, so a file that a killed process has left is found and removed
 * by the next one. */
static int mount_begin(const struct access_place *place, mode_t mode, struct access_file *file)
{
	enum { TEMPORARIES = 10000 }; /* at once, in one directory */
	struct access_place beside = *place;
	int r = -EAGAIN;

	for (int i = 0; (r == -EAGAIN || r == -EEXIST) && i < TEMPORARIES; i++) {
		free(file->temporary);
		file->temporary = str_printf(".sessfs-put-%d", i);
		if (!file->temporary)
			return -ENOMEM;
		beside.name = file->temporary;
		r = make_claimed(&beside, mode, file);
	}
	return r;
}

static int mount_take_place(struct access_file *file, const struct access_place *place)
{
	return renameat(place->fd, file->temporary, place->fd, place->name) < 0 ? failed() : 0;
}

static ssize_t mount_read(struct access_file *file, void *data, size_t size)
{
	ssize_t done = pread(file->fd, data, size, (off_t)file->offset);

	return done < 0 ? failed() : done;
}

/* It was opened with O_NONBLOCK. */
static int mount_next(struct access_file *file, size_t size, int milliseconds, struct buf *data)
{
	struct pollfd ready = { .fd = file->fd, .events = POLLIN };
	ssize_t done;
	int r = buf_reserve(data, size);

	if (r < 0)
		return r;
	if (poll(&ready, 1, milliseconds) < 0)
		return failed();
	done = read(file->fd, data->data + data->size, size);
	return done < 0 && errno == EAGAIN ? 0 : took(data, done);
}

static ssize_t mount_write(struct access_file *file, struct bytes data)
{
	/* With O_APPEND the kernel ignores the offset. */
	ssize_t done = pwrite(file->fd, data.data, data.size, (off_t)file->offset);

	return done < 0 ? failed() : done;
}

/* A user who may not give files away keeps the new file, but then it gets no set-id bits. */
static int judge_owner(const struct stat *now, const struct stat *like, int given, mode_t *mode)
{
	if (given == 0 || (now->st_uid == like->st_uid && now->st_gid == like->st_gid))
		return 0;
	if (errno != EPERM)
		return failed();
	*mode &= 0777;
	return 0;
}

static int mount_resize(struct access_file *file, uint64_t size)
{
	return ftruncate(file->fd, (off_t)size) < 0 ? failed() : 0;
}

/* The calls for attributes take no directory, nor all of them a descriptor.  An open file is what
 * the path leads to; a name is not followed: the flag for that. */
static int through_proc(const struct access_place *place, char path[PATH_MAX])
{
	const bool open = place->file;

	snprintf(path, PATH_MAX, "/proc/self/fd/%d%s%s", place->fd, open ? "" : "/",
		 open ? "" : below(place));
	return open ? 0 : AT_SYMLINK_NOFOLLOW;
}

static int mount_set_attr(const struct access_place *place, const struct stat *st, unsigned mask)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	mode_t mode = st->st_mode & 07777;
	char path[PATH_MAX];
	const int flags = through_proc(place, path);
	struct stat now;
	int r = fstatat(AT_FDCWD, path, &now, flags) < 0 ? failed() : 0;

	if (r == 0 && (mask & ACCESS_SET_OWNER))
		r = judge_owner(&now, st, fchownat(AT_FDCWD, path, st->st_uid, st->st_gid, flags),
				&mode);
	if (r == 0 && (mask & ACCESS_SET_MODE) && !S_ISLNK(now.st_mode) &&
	    fchmodat(AT_FDCWD, path, mode, flags) < 0)
		r = failed();
	if (r == 0 && (mask & ACCESS_SET_TIMES) && utimensat(AT_FDCWD, path, times, flags) < 0)
		r = failed();
	return r;
}

static int mount_make_special(const struct access_place *place, const struct access_new *what)
{
	int r = S_ISDIR(what->mode) ? mkdirat(place->fd, place->name, what->mode & 07777) :
		S_ISLNK(what->mode) ? symlinkat(what->target, place->fd, place->name) :
				      mknodat(place->fd, place->name, what->mode, 0);

	return r < 0 ? failed() : 0;
}

static int mount_link(const struct access_place *from, const struct access_place *to)
{
	return linkat(from->fd, from->name, to->fd, to->name, 0) < 0 ? failed() : 0;
}

static int mount_read_link(const struct access_place *place, struct buf *target)
{
	int r = buf_reserve(target, PATH_MAX);

	return r < 0 ? r :
		       took(target, readlinkat(place->fd, place->name, target->data + target->size,
					       PATH_MAX));
}

static int mount_list_xattr(const struct access_place *place, struct buf *names)
{
	char path[PATH_MAX];
	int r = buf_reserve(names, XATTR_LIST_MAX);

	through_proc(place, path);
	return r < 0 ? r : took(names, llistxattr(path, names->data + names->size, XATTR_LIST_MAX));
}

static int mount_get_xattr(const struct access_place *place, const char *name, struct buf *value)
{
	char path[PATH_MAX];
	int r = buf_reserve(value, XATTR_SIZE_MAX);

	through_proc(place, path);
	return r < 0 ? r :
		       took(value, (place->file ? getxattr : lgetxattr)(path, name,
									value->data + value->size,
									XATTR_SIZE_MAX));
}

static int mount_set_xattr(const struct access_place *place, const char *name,
			   const struct bytes *value)
{
	char path[PATH_MAX];
	const bool open = !through_proc(place, path);
	int r = value ? (open ? setxattr : lsetxattr)(path, name, value->data, value->size, 0) :
			(open ? removexattr : lremovexattr)(path, name);

	return r < 0 ? failed() : 0;
}

/* sync(2) does not reach a daemon; syncing any directory brings all to the medium, also what the
 * daemon holds back for anybody. */
static int mount_sync(struct access *access)
{
	int fd = open_beneath(access, access->root, ".", O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && (fsync(fd) < 0 || (access->is_folder && syncfs(fd) < 0)))
		r = failed();
	closep(&fd);
	return r;
}

/* The error that a close would return. */
static int mount_settle(struct access_file *file, bool sync)
{
	int fd;

	if (sync)
		return fsync(file->fd) < 0 ? failed() : 0;
	fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 || close(fd) < 0 ? failed() : 0;
}

static int mount_finish(struct access_file *file, bool sync)
{
	int r = sync && fsync(file->fd) < 0 ? failed() : 0;

	if (close(file->fd) < 0 && r == 0)
		r = failed();
	return r;
}

static void mount_drop(struct access_file *file)
{
	close(file->fd);
}

static void mount_close(struct access *access)
{
	closep(&access->root);
}

static const struct access_way way = {
	.close = mount_close,
	.place = mount_place,
	.done = mount_done,
	.stat = mount_stat,
	.list = mount_list,
	.remove = mount_remove,
	.rename = mount_rename,
	.make = mount_make_special,
	.link = mount_link,
	.read_link = mount_read_link,
	.set_attr = mount_set_attr,
	.list_xattr = mount_list_xattr,
	.get_xattr = mount_get_xattr,
	.set_xattr = mount_set_xattr,
	.sync = mount_sync,
	.order = mount_order,
	.open = mount_open,
	.begin = mount_begin,
	.settle = mount_settle,
	.take_place = mount_take_place,
	.read = mount_read,
	.next = mount_next,
	.write = mount_write,
	.resize = mount_resize,
	.finish = mount_finish,
	.drop = mount_drop,
};

int access_folder_open(int fd, struct access **ret_access)
{
	struct access *access = calloc(1, sizeof(*access));

	if (!access) {
		close(fd);
		return -ENOMEM;
	}
	*access = (struct access){ .way = &way, .root = fd, .is_folder = true };
	*ret_access = access;
	return 0;
}

static bool is_fit(const void *store, const struct mount_entry *entry)
{
	return mounts_is_of(store, entry) && strcmp(entry->root, "/") == 0 &&
	       mounts_is_believed(entry);
}

/* The root of the last mount that can be used; -ENOENT.  *ret_why is a sentence about one that
 * cannot. */
static int open_last(const char *store, unsigned flags, char **ret_why)
{
	_cleanup_(mount_list_done) struct mount_list fit = { 0 };
	int r = mounts_list(is_fit, store, &fit), root = -ENOENT;

	if (r < 0)
		return r;
	for (size_t i = fit.count; i && root < 0; i--) {
		const struct mount_entry *entry = &fit.entries[i - 1];

		if ((flags & ACCESS_WRITE) && entry->read_only) {
			if (!*ret_why)
				str_explain(ret_why, 0,
					    "%s is mounted read-only on %s; unmount it there to "
					    "change it",
					    store, entry->point);
			if (!*ret_why)
				return -ENOMEM;
			continue;
		}
		root = mounts_open(entry);
		/* A view does not have all that the store has. */
		if (root >= 0 && !(flags & ACCESS_TO_SETTLE) &&
		    fgetxattr(root, VIEW_ATTRIBUTE, NULL, 0) >= 0) {
			close(root);
			root = -ENOENT;
		}
	}
	return root;
}

int access_mount_open(struct access *access, const char *store, unsigned flags, char **ret_why)
{
	_cleanup_(freep) char *unfit = NULL;
	int r;

	/* If the path leads to another file by now than the one that is mounted, that file has no
	 * owner. */
	if (backend_has_path(store) && !backend_is_owned(store))
		return -ENOENT;
	r = open_last(store, flags, &unfit);
	if (r < 0) {
		*ret_why = steal_ptr(unfit);
		return r == -ENOMEM ? r : -ENOENT;
	}
	access->way = &way;
	access->root = r;
	return 0;
}
