/* SPDX-License-Identifier: MIT */
#include "src/exchange/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "src/exchange/dirs.h"
#include "src/user/stop.h"

int walk_names_add(struct walk_names *names, const char *name)
{
	char *copy;

	if (ARRAY_ROOM(names->names, names->count, names->room) < 0)
		return -ENOMEM;
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	names->names[names->count++] = copy;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(struct walk_names *names)
{
	if (names->count)
		qsort(names->names, names->count, sizeof(*names->names), compare_names);
}

void walk_names_done(struct walk_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->names[i]);
	free(names->names);
	*names = (struct walk_names){ 0 };
}

int walk_names_read(int fd, struct walk_names *names)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = own < 0 ? NULL : fdopendir(own);
	const struct dirent *entry;
	int r = dir ? 0 : -errno;

	if (!dir) {
		closep(&own);
		return r;
	}
	rewinddir(dir);
	while (r == 0 && (errno = 0, entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = walk_names_add(names, entry->d_name);
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	return r;
}

/* A directory that the walk is in. */
struct level {
	struct walk_names names; /* that are in it */
	size_t next;		 /* of them */
	size_t size;		 /* of its path */
	struct walk_entry entry; /* what it was when it was entered; the first one has no name */
};

static void level_done(struct level *level)
{
	walk_names_done(&level->names);
	free(level->entry.own);
}

/* Without recursion: how deep it goes is the folder's affair. */
struct trip {
	const struct walk *walk;
	const struct walk_source *source; /* NULL: the system */
	struct dirs dirs;
	struct buf path; /* with a NUL behind it that is not counted */
	struct level *levels;
	size_t depth;
	size_t room;
};

static void trip_done(struct trip *trip)
{
	while (trip->depth)
		level_done(&trip->levels[--trip->depth]);
	free(trip->levels);
	buf_done(&trip->path);
	dirs_done(&trip->dirs);
}

static int fail(const struct walk *walk, const char *path, int error)
{
	return walk->failed ? walk->failed(walk->arg, path, error) : 0;
}

static int leave(const struct walk *walk, const struct walk_entry *dir)
{
	return walk->leave ? walk->leave(walk->arg, dir) : 0;
}

/* Into a directory, which is open if it is the system's, and taken over. */
static int descend(struct trip *trip, int fd, struct walk_entry *entry)
{
	struct level *level;
	int r;

	if (ARRAY_ROOM(trip->levels, trip->depth, trip->room) < 0) {
		closep(&fd);
		return -ENOMEM;
	}
	r = trip->source ? 0 : dirs_push(&trip->dirs, fd);
	if (r < 0)
		return r;
	level = &trip->levels[trip->depth++];
	*level = (struct level){ .size = trip->path.size, .entry = *entry };
	entry->own = NULL;
	r = trip->source ? trip->source->list(trip->walk->arg, trip->path.data, &level->names) :
			   walk_names_read(fd, &level->names);
	sort_names(&level->names);
	return r < 0 ? fail(trip->walk, trip->path.data, r) : 0;
}

/* Out of the last directory. */
static int ascend(struct trip *trip)
{
	_cleanup_(level_done) struct level level = trip->levels[--trip->depth];
	int r;

	if (!*level.entry.name)
		return 0;
	r = trip->source ? 0 : dirs_pop(&trip->dirs);
	level.entry.path = trip->path.data;
	level.entry.dir = dirs_here(&trip->dirs);
	if (r < 0)
		return fail(trip->walk, trip->path.data, r);
	return leave(trip->walk, &level.entry);
}

static int enter(struct trip *trip, struct walk_entry *entry)
{
	const struct walk *walk = trip->walk;
	int fd, r = walk->enter(walk->arg, entry);

	if (r)
		return r == 1 ? 0 : r;
	if (trip->source)
		return descend(trip, -1, entry);
	fd = openat(entry->dir, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return descend(trip, fd, entry);
	if (errno == ENOENT)
		return 0;
	r = fail(walk, entry->path, -errno);
	return r < 0 ? r : leave(walk, entry);
}

/* 1: it has gone. */
static int look(const struct trip *trip, struct walk_entry *entry)
{
	if (trip->source)
		return trip->source->look(trip->walk->arg, entry);
	if (fstatat(entry->dir, entry->name, &entry->st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	return 0;
}

static int take(struct trip *trip, const char *name)
{
	struct walk_entry entry = { .dir = dirs_here(&trip->dirs), .name = name };
	const struct walk *walk = trip->walk;
	int r = buf_printf(&trip->path, "%s%s", trip->path.size ? "/" : "", name);

	if (r < 0)
		return r;
	entry.path = trip->path.data;
	r = look(trip, &entry);
	if (r)
		r = r == 1 ? 0 : fail(walk, entry.path, r);
	else
		r = S_ISDIR(entry.st.st_mode) ? enter(trip, &entry) : walk->leaf(walk->arg, &entry);
	free(entry.own);
	return r;
}

static int go(struct trip *trip)
{
	int r = 0;

	while (r == 0 && trip->depth) {
		struct level *level = &trip->levels[trip->depth - 1];

		trip->path.size = level->size;
		trip->path.data[level->size] = '\0';
		if (stop_wanted())
			r = -EINTR;
		else if (level->next < level->names.count)
			r = take(trip, level->names.names[level->next++]);
		else
			r = ascend(trip);
	}
	return r;
}

/* What is in a directory, without the directory itself. */
static int walk_dir(int dir, const struct walk *walk)
{
	_cleanup_(trip_done) struct trip trip = { .walk = walk };
	struct walk_entry first = { .name = "" };
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : buf_printf(&trip.path, "%s", "");

	if (r < 0) {
		closep(&fd);
		return fd < 0 ? fail(walk, "", r) : r;
	}
	r = descend(&trip, fd, &first);
	return r < 0 ? r : go(&trip);
}

int walk_source(const struct walk_source *source, const char *name, const struct walk *walk)
{
	_cleanup_(trip_done) struct trip trip = { .walk = walk, .source = source };
	struct walk_entry first = { .name = "" };
	int r = buf_printf(&trip.path, "%s", "");

	if (r == 0)
		r = name ? take(&trip, name) : descend(&trip, -1, &first);
	return r < 0 ? r : go(&trip);
}

int walk_operand(const char *operand, const struct walk *walk)
{
	_cleanup_(closep) int dir = open(operand, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(freep) char *folder = NULL;
	const char *slash = strrchr(operand, '/');
	struct walk_entry entry = { .name = slash ? slash + 1 : operand };

	entry.path = entry.name;
	if (dir >= 0)
		return walk_dir(dir, walk);
	if (errno != ENOTDIR)
		return fail(walk, "", -errno);
	folder = slash ? strndup(operand, (size_t)(slash + 1 - operand)) : strdup(".");
	if (!folder)
		return -ENOMEM;
	dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	entry.dir = dir;
	if (dir < 0 || fstatat(dir, entry.name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(walk, "", -errno);
	return walk->leaf(walk->arg, &entry);
}
