/* SPDX-License-Identifier: MIT */
#include "src/exchange/copier.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "src/store/store.h"
#include "src/user/stop.h"

bool copier_is_fatal(int error)
{
	static const int fatal[] = { -EINTR, -ENOSPC, -EDQUOT, -EROFS, -EIO, -ENOTCONN, -ENOMEM };

	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
		if (fatal[i] == error)
			return true;
	return false;
}

int copier_fail(struct copier *copier, const struct copier_entry *entry, int error)
{
	/* It has been removed since it was listed. */
	if (entry->broken && error == -ENOENT && *entry->from &&
	    (!copier->only || strcmp(entry->from, copier->only) != 0))
		return 0;
	if (copier->stopped)
		return error;
	if (copier->flags & COPIER_STRICT) {
		log_error("%s: %s", entry->name, strerror(-error));
		copier->stopped = true;
		return error;
	}
	if (entry->broken && copier->operand && !(error == -EINTR && stop_wanted()))
		return copier_refuse(copier, "cannot read %s: %s", entry->name, strerror(-error));
	store_say(copier->store, entry->path, error);
	copier->failed += error != -EINTR; /* it is copied by the next run */
	copier->stopped = copier_is_fatal(error);
	return copier->stopped ? error : 0;
}

int copier_open(const char *operand, struct access **ret_access, const char **ret_name)
{
	int fd = descriptor_open(operand, O_RDONLY | O_DIRECTORY, 0);
	const char *slash = strrchr(operand, '/');
	_cleanup_(freep) char *folder = NULL;

	*ret_name = NULL;
	if (fd < 0 && errno == ENOTDIR) {
		*ret_name = slash ? slash + 1 : operand;
		folder = slash ? strndup(operand, (size_t)(slash + 1 - operand)) : strdup(".");
		if (!folder)
			return -ENOMEM;
		fd = descriptor_open(folder, O_PATH | O_DIRECTORY, 0);
	}
	return fd < 0 ? -errno : access_folder_open(fd, ret_access);
}

int copier_names_add(struct copier_names *names, const char *name)
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

void copier_names_done(struct copier_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->names[i]);
	free(names->names);
	*names = (struct copier_names){ 0 };
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void copier_names_sort(struct copier_names *names)
{
	if (names->count)
		qsort(names->names, names->count, sizeof(*names->names), compare_names);
}

/* ---- Entries ---- */

/* An entry and what it borrows. */
struct described {
	struct copier_entry entry;
	char *path, *name;
};

static void described_done(struct described *described)
{
	access_file_drop(described->entry.file);
	free(described->path);
	free(described->name);
}

static int describe(struct copier *copier, const char *path, const struct stat *st,
		    struct described *ret_described)
{
	const char *below = copier->below ? copier->below : "";
	const char *operand = copier->operand ? copier->operand : copier->store;
	const bool alone = !*path || (copier->operand && copier->only);

	*ret_described = (struct described){
		.path = str_printf("%s%s%s", below, *below && *path ? "/" : "", path),
		.name = str_printf("%s%s%s", operand,
				   alone	   ? "" :
				   copier->operand ? "/" :
						     ": ",
				   alone ? "" : path),
	};
	ret_described->entry = (struct copier_entry){
		.from = path,
		.path = ret_described->path,
		.name = ret_described->name,
		.set = ACCESS_SET_MODE | ACCESS_SET_TIMES |
		       (copier->flags & COPIER_OWNER ? ACCESS_SET_OWNER : 0),
	};
	if (st)
		ret_described->entry.st = *st;
	if (ret_described->path && ret_described->name)
		return 0;
	described_done(ret_described);
	*ret_described = (struct described){ 0 };
	return -ENOMEM;
}

/* It cannot be listed, or not be looked at. */
static int fail_source(struct copier *copier, const char *path, int error)
{
	_cleanup_(described_done) struct described described = { 0 };
	int r = describe(copier, path, NULL, &described);

	described.entry.broken = true;
	return r < 0 ? r : copier_fail(copier, &described.entry, error);
}

static int take_name(void *arg, const char *name, const struct stat *st)
{
	(void)st;
	return stop_wanted() ? -EINTR : copier_names_add(arg, name);
}

static int list(struct copier *copier, const char *path, struct copier_names *names)
{
	const char *only = copier->only;
	const size_t size = strlen(path);
	_cleanup_(freep) char *next = NULL;
	int r;

	/* A directory above the only path that is copied. */
	if (only && strncmp(only, path, size) == 0 && (!size || only[size] == '/')) {
		only += size + (size != 0);
		next = bytes_dup(bytes_make(only, strcspn(only, "/")));
		return next ? copier_names_add(names, next) : -ENOMEM;
	}
	r = access_list(copier->from, path, false, take_name, names);
	/* An entry that cannot be shown does not hold up the others. */
	if (r == -EIO && !copier->operand && !copier->stopped) {
		copier->failed++;
		store_say(copier->store, path, r);
		r = 0;
	}
	return r;
}

/* ---- Copying one entry ---- */

/* By a function of the sink, or NULL.  1: left out, or failed without ending the whole. */
static int visit(struct copier *copier, const char *path, const struct stat *st, bool judged,
		 int (*take)(struct copier *copier, struct copier_entry *entry))
{
	_cleanup_(described_done) struct described described = { 0 };
	int r = describe(copier, path, st, &described);

	if (r == 0 && judged && copier->judge)
		r = copier->judge(copier, &described.entry);
	if (r == 0 && take)
		r = take(copier, &described.entry);
	if (r >= 0)
		return r;
	r = copier_fail(copier, &described.entry, r);
	return r < 0 ? r : 1;
}

static int take_regular(struct copier *copier, struct copier_entry *entry)
{
	const bool linked = entry->st.st_nlink > 1 && !(copier->flags & COPIER_STRICT);
	int r = 1;

	entry->first = linked ? linked_find(&copier->linked, &entry->st) : NULL;
	if (entry->first)
		r = copier->sink->other(copier, entry);
	if (r <= 0)
		return r;
	entry->first = NULL;
	r = access_file_open(copier->from, entry->from, ACCESS_FILE_READ, &entry->file);
	entry->broken = r < 0;
	if (r == 0)
		r = copier->sink->file(copier, entry);
	return r == 0 && linked ? linked_keep(&copier->linked, &entry->st, entry->path) : r;
}

int copier_leaf(struct copier *copier, struct copier_entry *entry)
{
	const mode_t type = entry->st.st_mode & S_IFMT;
	_cleanup_(buf_done) struct buf target = { 0 };
	int r = 0;

	if (type == S_IFREG)
		return take_regular(copier, entry);
	if (copier->flags & COPIER_STRICT && type != S_IFLNK) {
		log_error("%s is neither a file nor a folder", entry->name);
		copier->stopped = true;
		return -EINVAL;
	}
	if (type == S_IFCHR || type == S_IFBLK)
		return copier_refuse(copier, "%s is a device, which is not %s", entry->name,
				     copier->operand ? "imported" : "exported");
	if (type == S_IFLNK) {
		r = access_read_link(copier->from, entry->from, &target);
		entry->broken = r < 0;
		if (r == 0)
			r = buf_append_byte(&target, '\0');
		entry->target = target.data;
	}
	return r < 0 ? r : copier->sink->other(copier, entry);
}

/* ---- The way through the source ---- */

/* A directory that the copier is in. */
struct level {
	struct copier_names names; /* that are in it */
	size_t next;		   /* of them */
	size_t size;		   /* of its path */
	struct stat st;		   /* what it was when it was entered */
};

/* Without recursion: directories may be nested to any depth. */
struct trip {
	struct copier *copier;
	struct buf path; /* with a NUL behind it that is not counted */
	struct level *levels;
	size_t depth;
	size_t room;
};

static void trip_done(struct trip *trip)
{
	while (trip->depth)
		copier_names_done(&trip->levels[--trip->depth].names);
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
	r = list(trip->copier, trip->path.data, &level->names);
	copier_names_sort(&level->names);
	return r < 0 ? fail_source(trip->copier, trip->path.data, r) : 0;
}

static int trip_take(struct trip *trip, const char *name)
{
	struct copier *copier = trip->copier;
	const struct copier_sink *sink = copier->sink;
	struct stat st;
	int r = buf_printf(&trip->path, "%s%s", trip->path.size ? "/" : "", name);

	if (r < 0)
		return r;
	r = access_stat(copier->from, trip->path.data, &st);
	if (r < 0)
		return fail_source(copier, trip->path.data, r);
	r = visit(copier, trip->path.data, &st, true,
		  S_ISDIR(st.st_mode) ? sink->enter :
		  sink->leaf	      ? sink->leaf :
					copier_leaf);
	return r == 0 && S_ISDIR(st.st_mode) ? descend(trip, &st) : MIN(r, 0);
}

int copier_run(struct copier *copier)
{
	_cleanup_(trip_done) struct trip trip = { .copier = copier };
	int r = buf_printf(&trip.path, "%s", "");

	if (r == 0)
		r = descend(&trip, &(const struct stat){ 0 });
	while (r == 0 && trip.depth) {
		struct level *level = &trip.levels[trip.depth - 1];

		trip.path.size = level->size;
		trip.path.data[level->size] = '\0';
		if (stop_wanted()) {
			r = -EINTR;
		} else if (level->next < level->names.count) {
			r = trip_take(&trip, level->names.names[level->next++]);
		} else {
			copier_names_done(&level->names);
			r = --trip.depth ? visit(copier, trip.path.data, &level->st, false,
						 copier->sink->leave) :
					   0;
			r = MIN(r, 0);
		}
	}
	return r;
}

static int count_leaf(struct copier *copier, struct copier_entry *entry)
{
	copier->progress.items_total++;
	if (S_ISREG(entry->st.st_mode))
		copier->progress.bytes_total += (uint64_t)entry->st.st_size;
	return 0;
}

int copier_count(struct copier *copier)
{
	static const struct copier_sink counting = { .leaf = count_leaf };
	struct copier census = { .from = copier->from,
				 .sink = &counting,
				 .arg = copier->arg,
				 .operand = copier->operand,
				 .only = copier->only,
				 .stopped = true };
	int r = copier_run(&census);

	if (r == 0)
		progress_set_total(&copier->progress,
				   copier->progress.items_total + census.progress.items_total,
				   copier->progress.bytes_total + census.progress.bytes_total);
	return r == -EINTR ? r : 0;
}

void copier_done(struct copier *copier)
{
	linked_done(&copier->linked);
	buf_done(&copier->invalid_names);
}
