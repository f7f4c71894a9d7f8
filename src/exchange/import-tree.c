/* SPDX-License-Identifier: MIT */
/*
 * A tree of files, imported as if it were written to the mount: the folder's content comes to the
 * root of the store, so each folder in it is a session.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/import.h"
#include "src/mounts/mounts.h"
#include "src/store/way.h"

static int find_name(void *arg, const char *name, const struct stat *st)
{
	(void)st;
	return strcmp(name, arg) == 0;
}

/* The same of the last component of a path.  Where its directory is yet to be made, a name means
 * what it means at the root. */
static int ends_in_view(struct copier *copier, char *path)
{
	char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct stat st;
	int r;

	if (*name != '@' || name[strcspn(name, "=,")] != '=')
		return 0;
	r = copier_stat(copier, path, &st);
	if (r < 0)
		return r == -ENOENT && slash ? ends_in_view(copier, name) : 0;
	if (slash)
		*slash = '\0';
	r = access_list(copier->to, slash ? path : "", false, find_name, name);
	if (slash)
		*slash = '/';
	return r <= 0;
}

int import_is_view(struct copier *copier, const char *path)
{
	_cleanup_(freep) char *part = strdup(path);
	int r = part ? 0 : -ENOMEM;

	for (char *end = part; r == 0 && end;) {
		end = strchr(end, '/');
		if (end)
			*end = '\0';
		r = ends_in_view(copier, part);
		if (end)
			*end++ = '/';
	}
	return r;
}

/* The store itself may lie in the folder, and the files that SQLite and we have beside it: the log
 * of a mount and what follows from the store, too. */
static bool is_store(const struct import *import, const struct copier_entry *entry)
{
	static const char *const ends[] = { "",		"-wal",	   "-shm",    "-journal",
					    "-reserve", "-mounts", "-search", "-search-journal",
					    ".log" };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_(freep) char *path = str_printf("%s%s", import->path, ends[i]);

		if (path && stat(path, &st) == 0 && st.st_dev == entry->st.st_dev &&
		    st.st_ino == entry->st.st_ino)
			return true;
	}
	return false;
}

/* What a mount of the store shows is in the store. */
static bool is_own(struct import *import, dev_t device)
{
	if (device != import->judged) {
		import->judged = device;
		import->own = mounts_shows(device, import->copier.store);
	}
	return import->own;
}

static int import_judge(struct copier *copier, const struct copier_entry *entry)
{
	struct import *import = (struct import *)copier;
	int r;

	if (is_own(import, entry->st.st_dev)) {
		log_warning("%s is part of a mount of %s itself, so it is skipped", entry->name,
			    copier->store);
		copier->left++;
		return 1;
	}
	if (S_ISREG(entry->st.st_mode) && is_store(import, entry))
		return 1;
	r = import_is_view(copier, entry->path);
	if (r <= 0)
		return r;
	copier_refuse(copier, "%s has the name of a view, so it is not imported; rename it",
		      entry->name);
	return 1;
}

static int open_operand(struct copier *copier, const char *operand)
{
	int r = copier_open(operand, &copier->from, &copier->only);

	copier->operand = operand;
	return r;
}

static void close_operand(struct copier *copier)
{
	access_close(copier->from);
	copier->from = NULL;
	copier->operand = copier->only = NULL;
}

int import_operand(struct copier *copier, const char *operand)
{
	int r = open_operand(copier, operand);

	if (r < 0)
		return copier_refuse(copier, "cannot read %s: %s", operand, strerror(-r));
	if (copier->to)
		access_beside(copier->to, copier->from, copier->below ? copier->below : "");
	r = copier_run(copier);
	if (copier->to)
		access_beside(copier->to, NULL, NULL);
	close_operand(copier);
	linked_done(&copier->linked);
	return r;
}

static int folder_take(struct import *import, const char *operand)
{
	const char *to = import->to ? import->to : "";
	struct copier *copier = &import->copier;
	const struct copier_entry there = { .path = to, .name = to };
	_cleanup_(freep) char *inside = str_printf("%s/x", to), *why = NULL;
	size_t made = 0;
	struct stat st;
	int r = inside ? mounts_store(copier->store, &import->path, &why) : -ENOMEM;

	if (r == 0 && stat(operand, &st) == 0 && is_own(import, st.st_dev)) {
		r = copier_refuse(copier,
				  "%s is part of a mount of %s itself, so it is not imported",
				  operand, copier->store);
	} else {
		if (r == 0 && *to && !(copier->flags & COPIER_DRY))
			r = access_make_parents(copier->to, inside, &made);
		copier->sink = &copier_target;
		copier->judge = import_judge;
		copier->below = to;
		r = r < 0 ? copier_fail(copier, &there, r) : import_operand(copier, operand);
	}
	free(import->path);
	import->path = NULL;
	return r;
}

static int count(struct import *import, const char *operand)
{
	struct copier *copier = &import->copier;
	int r = open_operand(copier, operand);

	r = r < 0 ? 0 : copier_count(copier);
	close_operand(copier);
	return r;
}

const struct import_layout import_tree = {
	.name = "tree",
	.help = "files and folders, each folder in DIR a session",
	.take = folder_take,
	.count = count,
};
