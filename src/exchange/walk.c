/* SPDX-License-Identifier: MIT */
#include "src/exchange/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
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

/* A directory that the walk is in. */
struct level {
	struct walk_names names; /* that are in it */
	size_t next;		 /* of them */
	size_t size;		 /* of its path */
	struct stat st;		 /* what it was when it was entered */
};

/* Without recursion: how deep it goes is the folder's affair. */
struct trip {
	const struct walk *walk;
	const struct walk_source *source;
	struct buf path; /* with a NUL behind it that is not counted */
	struct level *levels;
	size_t depth;
	size_t room;
};

static void trip_done(struct trip *trip)
{
	while (trip->depth)
		walk_names_done(&trip->levels[--trip->depth].names);
	free(trip->levels);
	buf_done(&trip->path);
}

/* Into a directory. */
static int descend(struct trip *trip, const struct stat *st)
{
	struct level *level;
	int r;

	if (ARRAY_ROOM(trip->levels, trip->depth, trip->room) < 0)
		return -ENOMEM;
	level = &trip->levels[trip->depth++];
	*level = (struct level){ .size = trip->path.size, .st = *st };
	r = trip->source->list(trip->walk->arg, trip->path.data, &level->names);
	sort_names(&level->names);
	return r < 0 ? trip->walk->failed(trip->walk->arg, trip->path.data, r) : 0;
}

/* Out of the last directory. */
static int ascend(struct trip *trip)
{
	struct level *level = &trip->levels[--trip->depth];
	const struct walk_entry dir = { trip->path.data, level->st };

	walk_names_done(&level->names);
	return trip->depth ? trip->walk->leave(trip->walk->arg, &dir) : 0;
}

static int take(struct trip *trip, const char *name)
{
	const struct walk *walk = trip->walk;
	struct walk_entry entry;
	int r = buf_printf(&trip->path, "%s%s", trip->path.size ? "/" : "", name);

	if (r < 0)
		return r;
	entry.path = trip->path.data;
	r = trip->source->look(walk->arg, &entry);
	if (r < 0)
		return walk->failed(walk->arg, entry.path, r);
	if (!S_ISDIR(entry.st.st_mode))
		return walk->leaf(walk->arg, &entry);
	r = walk->enter(walk->arg, &entry);
	return r == 0 ? descend(trip, &entry.st) : MIN(r, 0);
}

int walk_source(const struct walk_source *source, const struct walk *walk)
{
	_cleanup_(trip_done) struct trip trip = { .walk = walk, .source = source };
	int r = buf_printf(&trip.path, "%s", "");

	if (r == 0)
		r = descend(&trip, &(const struct stat){ 0 });
	while (r == 0 && trip.depth) {
		struct level *level = &trip.levels[trip.depth - 1];

		trip.path.size = level->size;
		trip.path.data[level->size] = '\0';
		if (stop_wanted())
			r = -EINTR;
		else if (level->next < level->names.count)
			r = take(&trip, level->names.names[level->next++]);
		else
			r = ascend(&trip);
	}
	return r;
}
