/* SPDX-License-Identifier: MIT */
#include "src/export.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/import.h"
#include "src/stop.h"
#include "src/verb.h"
#include "src/walk.h"

enum { BLOCK = 256 * 1024 };

mode_t export_mode(const struct export *export, const struct export_entry *entry)
{
	/* Whoever owns the store can write any mode and owner into it. */
	return entry->st.st_mode & (export->keep_setid ? 07777 : 01777);
}

int export_read(struct export *export, struct access_file *file, struct buf *block)
{
	int r = stop_wanted() ? -EINTR : access_file_read(file, BLOCK, block);

	export->bytes += block->size;
	progress_add(&export->progress, 0, block->size);
	return r;
}

int export_xattr(struct export *export, const struct export_entry *entry, const char *name,
		 struct buf *value)
{
	return access_get_xattr(export->access, entry->path, name, value);
}

/* Files with several names */

struct linked {
	ino_t ino;
	char *path;
};

static int compare_linked(const void *a, const void *b)
{
	const struct linked *one = a, *other = b;

	return one->ino < other->ino ? -1 : one->ino > other->ino;
}

static void linked_free(void *node)
{
	struct linked *linked = node;

	free(linked->path);
	free(linked);
}

static const char *find_linked(const struct export *export, const struct stat *st)
{
	const struct linked wanted = { .ino = st->st_ino };
	struct linked **found = tfind(&wanted, &export->linked, compare_linked);

	return found ? (*found)->path : NULL;
}

static int keep_linked(struct export *export, const struct export_entry *entry)
{
	struct linked *linked;

	if (entry->st.st_nlink < 2 || entry->first)
		return 0;
	linked = calloc(1, sizeof(*linked));
	if (!linked)
		return -ENOMEM;
	linked->ino = entry->st.st_ino;
	linked->path = strdup(entry->path);
	if (linked->path && tsearch(linked, &export->linked, compare_linked))
		return 0;
	linked_free(linked);
	return -ENOMEM;
}

/* Going through the store */

static int fail(struct export *export, const char *path, int error)
{
	if (error != -EINTR)
		export->failed++;
	verb_fail(export->store, path, error);
	return import_is_fatal(error) ? error : 0;
}

static int list_xattrs(struct export *export, struct export_entry *entry)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	int r = access_list_xattr(export->access, entry->path, &names);
	const char *end = names.data + names.size;

	for (const char *name = names.data; r == 0 && name && name < end; name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0)
			r = buf_append(&entry->xattrs, name, strlen(name) + 1);
	return r;
}

static int export_regular(struct export *export, struct export_entry *entry)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	int r;

	entry->first = entry->st.st_nlink > 1 ? find_linked(export, &entry->st) : NULL;
	if (entry->first)
		return export->sink->other(export, entry);
	r = access_file_open(export->access, entry->path, ACCESS_FILE_READ, &file);
	if (r == 0)
		r = export->sink->file(export, entry, file);
	return r < 0 ? r : keep_linked(export, entry);
}

static int export_symlink(struct export *export, struct export_entry *entry)
{
	_cleanup_(buf_done) struct buf target = { 0 };
	int r = access_read_link(export->access, entry->path, &target);

	if (r == 0)
		r = buf_append_byte(&target, '\0');
	entry->target = target.data;
	return r < 0 ? r : export->sink->other(export, entry);
}

static int export_special(struct export *export, struct export_entry *entry)
{
	return export->sink->other(export, entry);
}

static int refuse_device(struct export *export, struct export_entry *entry)
{
	export->failed++;
	log_error("%s: %s: it is a device, which is not exported", export->store, entry->path);
	return 0;
}

static int export_below(struct export *export, const char *path);

static int export_directory(struct export *export, struct export_entry *entry)
{
	int r = export->sink->enter(export, entry);

	if (r == 0)
		r = export_below(export, entry->path);
	return r < 0 ? r : export->sink->leave(export, entry);
}

static int export_entry_of(struct export *export, struct export_entry *entry)
{
	static const struct {
		mode_t type;
		int (*take)(struct export *export, struct export_entry *entry);
	} types[] = {
		{ S_IFREG, export_regular },  { S_IFDIR, export_directory },
		{ S_IFLNK, export_symlink },  { S_IFIFO, export_special },
		{ S_IFSOCK, export_special }, { S_IFCHR, refuse_device },
		{ S_IFBLK, refuse_device },
	};
	int r = access_stat(export->access, entry->path, &entry->st);

	if (r == 0 && !S_ISLNK(entry->st.st_mode))
		r = list_xattrs(export, entry);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(types); i++)
		if ((entry->st.st_mode & S_IFMT) == types[i].type)
			return types[i].take(export, entry);
	return r;
}

/* gone: it may have been removed since it was listed. */
static int export_path(struct export *export, const char *path, bool gone)
{
	const char *slash = strrchr(path, '/');
	struct export_entry entry = { .path = path, .name = slash ? slash + 1 : path };
	int r = stop_wanted() ? -EINTR : export_entry_of(export, &entry);

	if (r == 0 && !S_ISDIR(entry.st.st_mode)) {
		export->files++;
		progress_add(&export->progress, 1, 0);
	}
	buf_done(&entry.xattrs);
	return r < 0 && !(gone && r == -ENOENT) ? fail(export, path, r) : 0;
}

static int take_name(void *arg, const char *name, const struct stat *st)
{
	(void)st;
	return stop_wanted() ? -EINTR : walk_names_add(arg, name);
}

static int export_below(struct export *export, const char *path)
{
	_cleanup_(walk_names_done) struct walk_names names = { 0 };
	int r = access_list(export->access, path, false, take_name, &names);

	walk_names_sort(&names);
	for (size_t i = 0; r == 0 && i < names.count; i++) {
		_cleanup_(buf_done) struct buf below = { 0 };

		r = buf_printf(&below, "%s%s%s", path, *path ? "/" : "", names.names[i]);
		if (r == 0)
			r = buf_append_byte(&below, '\0');
		if (r == 0)
			r = export_path(export, below.data, true);
	}
	return r;
}

static int export_names(struct export *export, char **names)
{
	int r = 0;

	for (char **name = names; r == 0 && *name; name++) {
		if (strchr(*name, '/')) {
			export->failed++;
			log_error("'%s' is a path; name a session", *name);
			continue;
		}
		r = export_path(export, *name, false);
	}
	return r;
}

int export_all(struct export *export, char **names)
{
	int r = *names ? export_names(export, names) : export_below(export, "");
	int error = export->sink->end(export, r);

	tdestroy(export->linked, linked_free);
	export->linked = NULL;
	return r < 0 ? r : error;
}
