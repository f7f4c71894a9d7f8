/* SPDX-License-Identifier: MIT */
#include "src/exchange/import-attr.h"

#include <errno.h>
#include <linux/limits.h>
#include <sys/xattr.h>

#include "fs/api/trash.h"
#include "backend/base/cleanup.h"

int import_stat(struct import *import, const char *path, struct stat *ret_stat)
{
	int r = import->access ? access_stat(import->access, path, ret_stat) : -ENOENT;

	/* In a dry run there may be a file where a directory would be. */
	return r == -ENOTDIR && import->dry ? -ENOENT : r;
}

static int find_name(void *arg, const char *name, const struct stat *st)
{
	(void)st;
	return strcmp(name, arg) == 0;
}

/* The same of the last component of a path.  Where its directory is yet to be made, a name means
 * what it means at the root. */
static int ends_in_view(struct import *import, char *path)
{
	char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct stat st;
	int r;

	if (*name != '@' || name[strcspn(name, "=,")] != '=')
		return 0;
	r = import_stat(import, path, &st);
	if (r < 0)
		return r == -ENOENT && slash ? ends_in_view(import, name) : 0;
	if (slash)
		*slash = '\0';
	r = access_list(import->access, slash ? path : "", false, find_name, name);
	if (slash)
		*slash = '/';
	return r <= 0;
}

int import_is_view(struct import *import, const char *path)
{
	_cleanup_(freep) char *part = strdup(path);
	int r = part ? 0 : -ENOMEM;

	for (char *end = part; r == 0 && end;) {
		end = strchr(end, '/');
		if (end)
			*end = '\0';
		r = ends_in_view(import, part);
		if (end)
			*end++ = '/';
	}
	return r;
}

bool import_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static unsigned differing(const struct import_file *file, const struct stat *there)
{
	const struct stat *st = &file->st;
	unsigned set = 0;

	if (!S_ISLNK(st->st_mode) && ((st->st_mode ^ there->st_mode) & 07777))
		set |= ACCESS_SET_MODE;
	/* Changing the owner takes set-id bits away. */
	if (st->st_uid != there->st_uid || st->st_gid != there->st_gid)
		set |= ACCESS_SET_OWNER | (S_ISLNK(st->st_mode) ? 0 : ACCESS_SET_MODE);
	if (!import_same_time(&st->st_mtim, &there->st_mtim))
		set |= ACCESS_SET_TIMES;
	return set & file->set;
}

static bool is_ours(const char *name)
{
	return strncmp(name, "user.sessfs.", 12) == 0;
}

/* Those that are copied: what programs have written for themselves, and of ours what people set. */
static bool is_copied(const char *name)
{
	static const char *const set[] = { TRASH_TTL, QUOTA_ATTRIBUTE };

	for (size_t i = 0; i < ARRAY_SIZE(set); i++)
		if (strcmp(name, set[i]) == 0)
			return true;
	return strncmp(name, "user.", 5) == 0 && !is_ours(name);
}

static int list_source(const struct import_file *file, struct buf *names)
{
	ssize_t size;
	int r = buf_reserve(names, XATTR_LIST_MAX);

	if (r < 0)
		return r;
	size = llistxattr(file->xattr_path, names->data, XATTR_LIST_MAX);
	names->size = size < 0 ? 0 : (size_t)size; /* a filesystem without any */
	return 0;
}

static int get_source(const struct import_file *file, const char *name, struct buf *value)
{
	ssize_t size;
	int r = buf_reserve(value, XATTR_SIZE_MAX);

	if (r < 0)
		return r;
	size = lgetxattr(file->xattr_path, name, value->data, XATTR_SIZE_MAX);
	if (size < 0)
		return -errno;
	value->size = (size_t)size;
	return 0;
}

#define EACH_NAME(name, names)                                                                     \
	(const char *name = (names)->data; name && name < (names)->data + (names)->size;           \
	 name += strlen(name) + 1)

static bool is_listed(const struct buf *names, const char *wanted)
{
	for
		EACH_NAME(name, names)
	if (strcmp(name, wanted) == 0)
		return true;
	return false;
}

/* 1 when it was not the same. */
static int settle_xattr(struct import *import, const struct import_file *file, const char *name,
			bool listed)
{
	_cleanup_(buf_done) struct buf value = { 0 }, there = { 0 };
	int r = get_source(file, name, &value);

	if (r == 0 && listed)
		r = access_get_xattr(import->access, file->path, name, &there);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	if (listed && bytes_equal(buf_bytes(&value), buf_bytes(&there)))
		return 0;
	r = import->dry ? 0 : access_set_xattr(import->access, file->path, name, buf_bytes(&value));
	if (r == -EOPNOTSUPP) /* that of a session, which this is not here */
		return 0;
	return r < 0 ? r : 1;
}

static int settle_xattrs(struct import *import, const struct import_file *file)
{
	_cleanup_(buf_done) struct buf names = { 0 }, there = { 0 };
	int changed = 0, r = file->xattr_path ? list_source(file, &names) : 0;

	if (!file->xattr_path || r < 0)
		return r;
	r = access_list_xattr(import->access, file->path, &there);
	for
		EACH_NAME(name, &names)
		{
			if (r < 0 || !is_copied(name))
				continue;
			r = settle_xattr(import, file, name, is_listed(&there, name));
			changed |= r > 0;
		}
	for
		EACH_NAME(name, &there)
		{
			if (r < 0 || !is_copied(name) || is_ours(name) || is_listed(&names, name))
				continue;
			r = import->dry ? 0 : access_remove_xattr(import->access, file->path, name);
			changed = 1;
		}
	return r < 0 ? r : changed;
}

/* Extended attributes of a file that its owner may not write to need that right for a moment. */
static int settle_read_only(struct import *import, const struct import_file *file,
			    const struct stat *there)
{
	struct stat writable = *there;
	int r, changed;

	writable.st_mode |= S_IWUSR;
	r = access_set_attr(import->access, file->path, &writable, ACCESS_SET_MODE);
	if (r < 0)
		return r;
	changed = settle_xattrs(import, file);
	r = access_set_attr(import->access, file->path, there, ACCESS_SET_MODE);
	return changed < 0 ? changed : r < 0 ? r : changed;
}

int import_settle(struct import *import, const struct import_file *file, const struct stat *there)
{
	struct stat now;
	unsigned set;
	int r = 0, changed;

	if (!there) {
		r = import_stat(import, file->path, &now);
		there = &now;
	}
	/* Something that does not exist yet. */
	if (r == -ENOENT && import->dry)
		return 0;
	changed = r < 0 ? r : settle_xattrs(import, file);
	if (changed == -EACCES && !(there->st_mode & S_IWUSR))
		changed = settle_read_only(import, file, there);
	if (changed < 0)
		return changed;
	set = differing(file, there);
	if (set && !import->dry)
		r = access_set_attr(import->access, file->path, &file->st, set);
	return r < 0 ? r : changed || set;
}
