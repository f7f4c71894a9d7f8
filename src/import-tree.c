/* SPDX-License-Identifier: MIT */
/*
 * A tree of files, taken in as the mount would take it: what is in a folder comes to the root of
 * the store, so that each folder in it is a session.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/import.h"
#include "src/walk.h"

/* A file with several names, by the first of them that was taken in. */
struct linked {
	dev_t dev;
	ino_t ino;
	char *path;
};

struct trip {
	struct import *import;
	const char *operand;
	const char *to; /* "" or where it goes in the store */
	void *linked;	/* of tsearch(3) */
};

static int compare_linked(const void *a, const void *b)
{
	const struct linked *one = a, *other = b;

	if (one->dev != other->dev)
		return one->dev < other->dev ? -1 : 1;
	return one->ino < other->ino ? -1 : one->ino > other->ino;
}

static void linked_free(void *node)
{
	struct linked *linked = node;

	free(linked->path);
	free(linked);
}

static struct linked *find_linked(const struct trip *trip, const struct stat *st)
{
	const struct linked wanted = { .dev = st->st_dev, .ino = st->st_ino };
	struct linked **found = tfind(&wanted, &trip->linked, compare_linked);

	return found ? *found : NULL;
}

static int keep_linked(struct trip *trip, const struct stat *st, const char *path)
{
	struct linked *linked = find_linked(trip, st);
	char *copy = strdup(path);

	if (linked && copy) {
		free(linked->path);
		linked->path = copy;
		return 0;
	}
	linked = copy ? calloc(1, sizeof(*linked)) : NULL;
	if (!linked) {
		free(copy);
		return -ENOMEM;
	}
	*linked = (struct linked){ st->st_dev, st->st_ino, copy };
	if (tsearch(linked, &trip->linked, compare_linked))
		return 0;
	linked_free(linked);
	return -ENOMEM;
}

/* The store itself may lie in the folder, and the files that SQLite and we have beside it. */
static bool is_store(const struct import *import, const struct walk_entry *entry)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal", "-reserve", "-held" };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_(freep) char *path = NULL;

		if (asprintf(&path, "%s%s", import->store, ends[i]) < 0) {
			path = NULL;
			return false;
		}
		if (stat(path, &st) == 0 && st.st_dev == entry->st.st_dev &&
		    st.st_ino == entry->st.st_ino)
			return true;
	}
	return false;
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
	if (asprintf(ret_path, "%s%s%s", a, *a && *b ? "/" : "", b) >= 0)
		return 0;
	*ret_path = NULL;
	return -ENOMEM;
}

static int describe(const struct trip *trip, const struct walk_entry *entry, struct names *names,
		    struct import_file *file)
{
	int r = join(&names->path, trip->to, entry->path);

	if (r == 0)
		r = join(&names->name, trip->operand, entry->path);
	if (r == 0 &&
	    asprintf(&names->by_proc, "/proc/self/fd/%d/%s", entry->dir, entry->name) < 0) {
		names->by_proc = NULL;
		r = -ENOMEM;
	}
	*file = (struct import_file){
		.path = names->path,
		.name = names->name,
		.st = entry->st,
		.set = ACCESS_SET_MODE | ACCESS_SET_TIMES |
		       (trip->import->keep_owner ? ACCESS_SET_OWNER : 0),
		.xattr_path = S_ISLNK(entry->st.st_mode) ? NULL : names->by_proc,
		.fd = -1,
	};
	return r;
}

static int enter(void *arg, const struct walk_entry *entry)
{
	struct trip *trip = arg;
	_cleanup_(names_done) struct names names = { 0 };
	struct import_file file;
	int r = describe(trip, entry, &names, &file);

	return r < 0 ? r : import_enter(trip->import, &file);
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
	struct linked *first = linked ? find_linked(trip, &entry->st) : NULL;
	_cleanup_(closep) int fd = -1;
	bool taken = false;
	int r;

	if (is_store(trip->import, entry))
		return 0;
	r = first ? import_link(trip->import, file, first->path) : 1;
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
	return r == 0 && taken && linked ? keep_linked(trip, &entry->st, file->path) : r;
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
	return import_refuse(trip->import, "%s is a device; a store takes none in", file->name);
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

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(types); i++)
		if ((entry->st.st_mode & S_IFMT) == types[i].type)
			return types[i].take(trip, entry, &file);
	return r;
}

static int failed(void *arg, const char *path, int error)
{
	struct trip *trip = arg;
	_cleanup_(freep) char *name = NULL;
	int r = join(&name, trip->operand, path);

	return r < 0 ? r : cannot_read(trip, name, error);
}

static int take(struct import *import, const char *operand, const char *to)
{
	struct trip trip = { .import = import, .operand = operand, .to = to };
	const struct walk walk = { enter, leave, take_leaf, failed, &trip };
	_cleanup_(freep) char *inside = NULL;
	int r = join(&inside, to, "x");

	if (r == 0)
		r = import_parents(import, inside);
	if (r < 0)
		r = import_fail(import, to, r);
	else
		r = walk_operand(operand, &walk);
	tdestroy(trip.linked, linked_free);
	return r;
}

struct census {
	uint64_t files;
	uint64_t bytes;
};

static int pass(void *arg, const struct walk_entry *dir)
{
	(void)arg;
	(void)dir;
	return 0;
}

static int count_leaf(void *arg, const struct walk_entry *entry)
{
	struct census *census = arg;

	census->files++;
	if (S_ISREG(entry->st.st_mode))
		census->bytes += (uint64_t)entry->st.st_size;
	return 0;
}

static int forgive(void *arg, const char *path, int error)
{
	(void)arg;
	(void)path;
	(void)error;
	return 0;
}

static int count(struct import *import, const char *operand)
{
	struct census census = { 0 };
	const struct walk walk = { pass, pass, count_leaf, forgive, &census };
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
