/* SPDX-License-Identifier: MIT */
#include "src/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/buf.h"
#include "src/base/cleanup.h"
#include "src/stop.h"

int walk_names_add(struct walk_names *names, const char *name)
{
	char *copy;

	if (names->count == names->room) {
		size_t room = names->room ? names->room * 2 : 64;
		char **grown = reallocarray(names->names, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		names->names = grown;
		names->room = room;
	}
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

void walk_names_sort(struct walk_names *names)
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

static int read_names(int fd, struct walk_names *names)
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
	walk_names_sort(names);
	return r;
}

static int walk_below(int dir, struct buf *path, const struct walk *walk);

static int walk_into(const struct walk_entry *entry, struct buf *path, const struct walk *walk)
{
	_cleanup_(closep) int fd = -1;
	int r = walk->enter(walk->arg, entry);

	if (r)
		return r == 1 ? 0 : r;
	fd = openat(entry->dir, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : walk->failed(walk->arg, entry->path, -errno);
	r = walk_below(fd, path, walk);
	return r == 0 ? walk->leave(walk->arg, entry) : r;
}

static int walk_entry(int dir, const char *name, struct buf *path, const struct walk *walk)
{
	struct walk_entry entry = { .dir = dir, .name = name };
	int r = fstatat(dir, name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;

	if (r < 0)
		return r == -ENOENT ? 0 : walk->failed(walk->arg, path->data, r);
	if (!S_ISDIR(entry.st.st_mode)) {
		entry.path = path->data;
		return walk->leaf(walk->arg, &entry);
	}
	/* The path grows and moves while the directory is walked. */
	_cleanup_(freep) char *kept = strdup(path->data);
	if (!kept)
		return -ENOMEM;
	entry.path = kept;
	return walk_into(&entry, path, walk);
}

/* The path has a NUL behind it, before and after. */
static int walk_below(int dir, struct buf *path, const struct walk *walk)
{
	_cleanup_(walk_names_done) struct walk_names names = { 0 };
	const size_t size = path->size;
	int r = read_names(dir, &names);

	if (r < 0)
		return walk->failed(walk->arg, path->data, r);
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		path->size = size - 1;
		r = stop_wanted() ? -EINTR : 0;
		if (r == 0)
			r = buf_printf(path, "%s%s", size > 1 ? "/" : "", names.names[i]);
		if (r == 0)
			r = buf_append_byte(path, '\0');
		if (r == 0)
			r = walk_entry(dir, names.names[i], path, walk);
	}
	path->size = size;
	path->data[size - 1] = '\0';
	return r;
}

int walk_dir(int dir, const char *path, const struct walk *walk)
{
	_cleanup_(buf_done) struct buf grown = { 0 };
	int r = buf_append(&grown, path, strlen(path) + 1);

	return r < 0 ? r : walk_below(dir, &grown, walk);
}

int walk_operand(const char *operand, const struct walk *walk)
{
	_cleanup_(closep) int dir = open(operand, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(freep) char *folder = NULL;
	const char *slash = strrchr(operand, '/');
	struct walk_entry entry = { .name = slash ? slash + 1 : operand };

	entry.path = entry.name;
	if (dir >= 0)
		return walk_dir(dir, "", walk);
	if (errno != ENOTDIR)
		return walk->failed(walk->arg, "", -errno);
	folder = slash ? strndup(operand, (size_t)(slash + 1 - operand)) : strdup(".");
	if (!folder)
		return -ENOMEM;
	dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	entry.dir = dir;
	if (dir < 0 || fstatat(dir, entry.name, &entry.st, AT_SYMLINK_NOFOLLOW) < 0)
		return walk->failed(walk->arg, "", -errno);
	return walk->leaf(walk->arg, &entry);
}
