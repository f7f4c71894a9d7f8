/* SPDX-License-Identifier: MIT */
/*
 * A tree of files, taken in as the mount would take it: what is in a folder comes to the root of
 * the store, so that each folder in it is a session.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/import-attr.h"
#include "src/exchange/import.h"
#include "src/exchange/linked.h"
#include "src/mounts/mounts.h"
#include "src/exchange/walk.h"

struct trip {
	struct import *import;
	const char *operand;
	const char *to; /* "" or where it goes in the store */
	struct linked linked;
	dev_t judged; /* the device that is known to be a mount of the store, or not: */
	bool own;
	char *store; /* its path without links, or its name (mounts_store()) */
};

/* The store itself may lie in the folder, and the files that SQLite and we have beside it: the log
 * of a mount and what follows from the store, too. */
static bool is_store(const struct trip *trip, const struct walk_entry *entry)
{
	static const char *const ends[] = { "",		"-wal",	   "-shm",    "-journal",
					    "-reserve", "-mounts", "-search", ".log" };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_(freep) char *path = str_printf("%s%s", trip->store, ends[i]);

		if (path && stat(path, &st) == 0 && st.st_dev == entry->st.st_dev &&
		    st.st_ino == entry->st.st_ino)
			return true;
	}
	return false;
}

/* What a mount of the store shows is in the store. */
static bool is_own(struct trip *trip, dev_t device)
{
	if (device != trip->judged) {
		trip->judged = device;
		trip->own = mounts_shows(device, trip->import->store);
	}
	return trip->own;
}

/* An entry as the rest wants it; done with names_done(). */
struct names {
	char *path;    /* in the store */
	char *name;    /* for people */
	char *by_proc; /* for calls that take no directory */
};

static void names_done(struct names *names)
{
	free(names->path);
	free(names->name);
	free(names->by_proc);
}

static int join(char **ret_path, const char *a, const char *b)
{
	*ret_path = str_printf("%s%s%s", a, *a && *b ? "/" : "", b);
	return *ret_path ? 0 : -ENOMEM;
}

static int describe(const struct trip *trip, const struct walk_entry *entry, struct names *names,
		    struct import_file *file)
{
	int r = join(&names->path, trip->to, entry->path);

	if (r == 0)
		r = join(&names->name, trip->operand, entry->path);
	names->by_proc = str_printf("/proc/self/fd/%d/%s", entry->dir, entry->name);
	*file = (struct import_file){
		.path = names->path,
		.name = names->name,
		.st = entry->st,
		.set = ACCESS_SET_MODE | ACCESS_SET_TIMES |
		       (trip->import->keep_owner ? ACCESS_SET_OWNER : 0),
		.xattr_path = S_ISLNK(entry->st.st_mode) ? NULL : names->by_proc,
		.fd = -1,
	};
	return names->by_proc ? r : -ENOMEM;
}

static int leave_out(struct trip *trip, const struct import_file *file)
{
	log_warning("%s is part of a mount of %s itself, so it is skipped", file->name,
		    trip->import->store);
	trip->import->left++;
	return 1;
}

/* 1: it was said that it has no place. */
static int judge(struct trip *trip, const struct walk_entry *entry, const struct import_file *file)
{
	int r;

	if (is_own(trip, entry->st.st_dev))
		return leave_out(trip, file);
	r = import_is_view(trip->import, file->path);
	if (r <= 0)
		return r;
	r = import_refuse(trip->import,
			  "%s has the name of a view, so it is not imported; rename it",
			  file->name);
	return r < 0 ? r : 1;
}

static int enter(void *arg, const struct walk_entry *entry)
{
	struct trip *trip = arg;
	_cleanup_(names_done) struct names names = { 0 };
	struct import_file file;
	int r = describe(trip, entry, &names, &file);

	if (r == 0)
		r = judge(trip, entry, &file);
	return r ? r : import_enter(trip->import, &file);
}

static int leave(void *arg, const struct walk_entry *entry)
{
	struct trip *trip = arg;
	_cleanup_(names_done) struct names names = { 0 };
	struct import_file file;
	int r = describe(trip, entry, &names, &file);

	return r < 0 ? r : import_leave(trip->import, &file);
}

static int cannot_read(struct trip *trip, const char *name, int error)
{
	return import_refuse(trip->import, "cannot read %s: %s", name, strerror(-error));
}

static int take_regular(struct trip *trip, const struct walk_entry *entry, struct import_file *file)
{
	const bool linked = entry->st.st_nlink > 1;
	const char *first = linked ? linked_find(&trip->linked, &entry->st) : NULL;
	_cleanup_(closep) int fd = -1;
	bool taken = false;
	int r;

	if (is_store(trip, entry))
		return 0;
	r = first ? import_link(trip->import, file, first) : 1;
	if (r <= 0)
		return r;
	/* Not to wait for the other end of what has become a FIFO since. */
	fd = openat(entry->dir, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &file->st) < 0)
		return errno == ENOENT ? 0 : cannot_read(trip, file->name, -errno);
	if (!S_ISREG(file->st.st_mode))
		return 0;
	file->fd = fd;
	r = import_regular(trip->import, file, &taken);
	return r == 0 && taken && linked ? linked_keep(&trip->linked, &entry->st, file->path) : r;
}

static int take_symlink(struct trip *trip, const struct walk_entry *entry, struct import_file *file)
{
	char target[PATH_MAX + 1];
	ssize_t size = readlinkat(entry->dir, entry->name, target, sizeof(target) - 1);

	if (size < 0)
		return errno == ENOENT ? 0 : cannot_read(trip, file->name, -errno);
	target[size] = '\0';
	return import_special(trip->import, file, target);
}

static int take_special(struct trip *trip, const struct walk_entry *entry, struct import_file *file)
{
	(void)entry;
	return import_special(trip->import, file, NULL);
}

static int refuse_device(struct trip *trip, const struct walk_entry *entry,
			 struct import_file *file)
{
	(void)entry;
	return import_refuse(trip->import, "%s is a device, which is not imported", file->name);
}

static int take_leaf(void *arg, const struct walk_entry *entry)
{
	static const struct {
		mode_t type;
		int (*take)(struct trip *trip, const struct walk_entry *entry,
			    struct import_file *file);
	} types[] = {
		{ S_IFREG, take_regular },  { S_IFLNK, take_symlink },	{ S_IFIFO, take_special },
		{ S_IFSOCK, take_special }, { S_IFCHR, refuse_device }, { S_IFBLK, refuse_device },
	};
	struct trip *trip = arg;
	_cleanup_(names_done) struct names names = { 0 };
	struct import_file file;
	int r = describe(trip, entry, &names, &file);

	if (r == 0)
		r = judge(trip, entry, &file);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(types); i++)
		if ((entry->st.st_mode & S_IFMT) == types[i].type)
			return types[i].take(trip, entry, &file);
	return MIN(r, 0);
}

static int failed(void *arg, const char *path, int error)
{
	struct trip *trip = arg;
	_cleanup_(freep) char *name = NULL;
	int r = join(&name, trip->operand, path);

	return r < 0 ? r : cannot_read(trip, name, error);
}

static void trip_done(struct trip *trip)
{
	linked_done(&trip->linked);
	free(trip->store);
}

static int take(struct import *import, const char *operand, const char *to)
{
	_cleanup_(trip_done) struct trip trip = { .import = import, .operand = operand, .to = to };
	const struct walk walk = { enter, leave, take_leaf, failed, &trip };
	_cleanup_(freep) char *inside = NULL, *why = NULL;
	struct stat st;
	int r = join(&inside, to, "x");

	if (r == 0)
		r = mounts_store(import->store, &trip.store, &why);
	if (r == 0 && stat(operand, &st) == 0 && is_own(&trip, st.st_dev))
		return import_refuse(import,
				     "%s is part of a mount of %s itself, so it is not imported",
				     operand, import->store);
	if (r == 0)
		r = import_parents(import, inside);
	return r < 0 ? import_fail(import, to, r) : walk_operand(operand, &walk);
}

struct census {
	struct trip trip;
	uint64_t files;
	uint64_t bytes;
};

static int count_dir(void *arg, const struct walk_entry *dir)
{
	struct census *census = arg;

	return is_own(&census->trip, dir->st.st_dev);
}

static int count_leaf(void *arg, const struct walk_entry *entry)
{
	struct census *census = arg;

	census->files++;
	if (S_ISREG(entry->st.st_mode))
		census->bytes += (uint64_t)entry->st.st_size;
	return 0;
}

static int count(struct import *import, const char *operand)
{
	struct census census = { .trip = { .import = import } };
	const struct walk walk = { count_dir, NULL, count_leaf, NULL, &census };
	int r = walk_operand(operand, &walk);

	progress_set_total(&import->progress, import->progress.items_total + census.files,
			   import->progress.bytes_total + census.bytes);
	return r;
}

const struct import_layout import_tree = {
	.name = "tree",
	.help = "files and folders, each folder in DIR a session",
	.take = take,
	.count = count,
	.has_to = true,
};
