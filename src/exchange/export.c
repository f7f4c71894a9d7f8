/* SPDX-License-Identifier: MIT */
#include "src/exchange/export.h"

#include <errno.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/import.h"
#include "src/mounts/mounts.h"
#include "src/user/stop.h"
#include "src/store/store.h"
#include "src/exchange/walk.h"

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

int export_write(int fd, struct bytes bytes, off_t at)
{
	size_t written = 0;

	while (written < bytes.size) {
		ssize_t size =
			pwrite(fd, bytes.data + written, bytes.size - written, at + (off_t)written);

		if (size < 0 && errno != EINTR)
			return -errno;
		written += (size_t)MAX(size, 0);
	}
	return 0;
}

int export_aim(struct export *export, int fd)
{
	struct stat st, root;
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	if (r < 0 || !mounts_shows(st.st_dev, export->store))
		return r;
	r = access_stat(export->access, "", &root);
	if (r == 0 && root.st_ino == st.st_ino)
		return -EXDEV;
	export->own = st.st_ino;
	return r;
}

static int leave_out(struct export *export)
{
	export->failed++;
	return 0;
}

static int fail(struct export *export, const char *path, int error)
{
	if (export->stopped)
		return error;
	if (error != -EINTR)
		export->failed++;
	store_say(export->store, path, error);
	return import_is_fatal(error) ? error : 0;
}

/* It has been removed since it was listed. */
static bool is_gone(const struct export *export, const char *path, int error)
{
	return error == -ENOENT && *path && (!export->asked || strcmp(path, export->asked) != 0);
}

static int judge(struct export *export, const char *path, int r)
{
	return r < 0 && !is_gone(export, path, r) ? fail(export, path, r) : 0;
}

static int list_xattrs(struct export *export, struct walk_entry *entry)
{
	_cleanup_(buf_done) struct buf names = { 0 }, kept = { 0 };
	int r = access_list_xattr(export->access, entry->path, &names);
	const char *end = names.data + names.size;

	for (const char *name = names.data; r == 0 && name && name < end; name += strlen(name) + 1)
		if (strncmp(name, "user.", 5) == 0)
			r = buf_append(&kept, name, strlen(name) + 1);
	if (r == 0 && kept.size)
		r = buf_append_byte(&kept, '\0');
	if (r == 0)
		entry->own = steal_ptr(kept.data);
	return r;
}

static int export_regular(struct export *export, struct export_entry *entry)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	int r;

	entry->first = entry->st.st_nlink > 1 ? linked_find(&export->linked, &entry->st) : NULL;
	if (entry->first)
		return export->sink->other(export, entry);
	r = access_file_open(export->access, entry->path, ACCESS_FILE_READ, &file);
	if (r == 0)
		r = export->sink->file(export, entry, file);
	return r < 0 || entry->st.st_nlink < 2 ?
		       r :
		       linked_keep(&export->linked, &entry->st, entry->path);
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
	log_error("%s: %s: it is a device, which is not exported", export->store, entry->path);
	return leave_out(export);
}

static void refuse_own(struct export *export, const char *path)
{
	log_error("%s: %s: the export goes there, so it is skipped", export->store, path);
	leave_out(export);
}

/* Something that is no directory. */
static int export_leaf(struct export *export, struct export_entry *entry)
{
	static const struct {
		mode_t type;
		int (*take)(struct export *export, struct export_entry *entry);
	} types[] = {
		{ S_IFREG, export_regular }, { S_IFLNK, export_symlink },
		{ S_IFIFO, export_special }, { S_IFSOCK, export_special },
		{ S_IFCHR, refuse_device },  { S_IFBLK, refuse_device },
	};
	const uint64_t failed = export->failed;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((entry->st.st_mode & S_IFMT) == types[i].type)
			r = types[i].take(export, entry);
	if (r == 0 && export->failed == failed) {
		export->files++;
		progress_add(&export->progress, 1, 0);
	}
	return r;
}

static struct export_entry entry_of(const struct walk_entry *entry)
{
	const char *slash = strrchr(entry->path, '/');

	return (struct export_entry){ .path = entry->path,
				      .name = slash ? slash + 1 : entry->path,
				      .st = entry->st,
				      .xattrs = entry->own };
}

static int look(void *arg, struct walk_entry *entry)
{
	struct export *export = arg;
	int r = access_stat(export->access, entry->path, &entry->st);

	if (r == 0 && export->own && entry->st.st_ino == export->own) {
		refuse_own(export, entry->path);
		return 1;
	}
	if (r == 0 && !S_ISLNK(entry->st.st_mode))
		r = list_xattrs(export, entry);
	return is_gone(export, entry->path, r) ? 1 : r;
}

static int take_name(void *arg, const char *name, const struct stat *st)
{
	(void)st;
	return stop_wanted() ? -EINTR : walk_names_add(arg, name);
}

static int list(void *arg, const char *path, struct walk_names *names)
{
	struct export *export = arg;
	int r = access_list(export->access, path, false, take_name, names);

	/* Entries that cannot be shown keep none of the others back. */
	if (r == -EIO) {
		export->failed++;
		store_say(export->store, path, r);
		r = 0;
	}
	return is_gone(export, path, r) ? 0 : r;
}

static int enter(void *arg, const struct walk_entry *dir)
{
	struct export *export = arg;
	const struct export_entry entry = entry_of(dir);
	int r = export->sink->enter(export, &entry);

	if (r == 0)
		return 0;
	r = r < 0 ? judge(export, dir->path, r) : leave_out(export);
	return r < 0 ? r : 1;
}

static int leave(void *arg, const struct walk_entry *dir)
{
	struct export *export = arg;
	const struct export_entry entry = entry_of(dir);
	int r = export->sink->leave(export, &entry);

	return r < 0 ? fail(export, dir->path, r) : 0;
}

static int take_leaf(void *arg, const struct walk_entry *leaf)
{
	struct export *export = arg;
	struct export_entry entry = entry_of(leaf);

	return judge(export, leaf->path, export_leaf(export, &entry));
}

static int failed(void *arg, const char *path, int error)
{
	return fail(arg, path, error);
}

/* What is at a path, or all. */
static int go(struct export *export, const char *name)
{
	static const struct walk_source source = { look, list };
	const struct walk walk = { enter, leave, take_leaf, failed, export };

	export->asked = name;
	return walk_source(&source, name, &walk);
}

/* The same with the directories above it, of which so many bytes are done. */
static int go_down(struct export *export, const char *path, size_t done)
{
	const char *slash = strchr(path + done, '/');
	_cleanup_(freep) char *dir = NULL, *own = NULL;
	struct walk_entry above = { 0 };
	int r, error;

	if (!slash)
		return go(export, path);
	dir = str_printf("%.*s", (int)(slash - path), path);
	if (!dir)
		return -ENOMEM;
	above.path = above.name = dir;
	r = look(export, &above);
	own = above.own;
	if (r)
		return r == 1 ? 0 : fail(export, dir, r);
	r = enter(export, &above);
	if (r)
		return MIN(r, 0);
	r = go_down(export, path, (size_t)(slash - path) + 1);
	error = leave(export, &above);
	return r < 0 ? r : error;
}

static int add_path(void *arg, struct bytes path, bool is_dir)
{
	_cleanup_(freep) char *copy = bytes_dup(path);

	(void)is_dir;
	return copy ? walk_names_add(arg, copy) : -ENOMEM;
}

/* A name at the root, or the id of a session. */
static int go_named(struct export *export, const struct options *options, const char *name)
{
	struct walk_names paths = { 0 };
	struct stat st;
	int r = strchr(name, '/') ? -ENOENT : access_stat(export->access, name, &st);

	if (r != -ENOENT)
		return go(export, name);
	r = store_session_paths(export->store, options, name, add_path, &paths);
	for (size_t i = 0; r == 0 && i < paths.count; i++)
		r = go_down(export, paths.names[i], 0);
	if (r == 0 && !paths.count && strchr(name, '/')) {
		leave_out(export);
		log_error("'%s' is a path; name a session", name);
	} else if (r == 0 && !paths.count) {
		r = fail(export, name, -ENOENT);
	}
	walk_names_done(&paths);
	return r;
}

int export_all(struct export *export, const struct options *options, char **names)
{
	int r = *names ? 0 : go(export, NULL);
	int error;

	for (; r == 0 && *names; names++)
		r = go_named(export, options, *names);
	error = export->sink->end(export, r);
	linked_done(&export->linked);
	return r < 0 ? r : error;
}
