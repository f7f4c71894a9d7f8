/* SPDX-License-Identifier: MIT */
#include "src/exchange/export.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "src/mounts/mounts.h"
#include "src/store/store.h"

/* Leave the target out of the export, and refuse to write into a mount of the store. */
static int export_judge(struct copier *copier, const struct copier_entry *entry)
{
	const struct export *export = (const struct export *)copier;
	const char *why = NULL;
	struct stat there;

	if (export->own && entry->st.st_ino == export->own)
		why = "the export goes there, so it is skipped";
	else if (copier->to && S_ISDIR(entry->st.st_mode) &&
		 access_stat(copier->to, entry->path, &there) == 0 &&
		 there.st_dev != export->target && mounts_shows(there.st_dev, copier->store))
		why = "it would replace the directory on which the store is mounted, so it is "
		      "skipped";
	if (why)
		copier_refuse(copier, "%s: %s", entry->name, why);
	return why != NULL;
}

/* Where it goes, an open file or directory: it is left out if it is in the store itself. */
static int aim(struct export *export, int fd)
{
	struct stat st, root;
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	export->target = st.st_dev;
	export->copier.judge = export_judge;
	if (r < 0 || !mounts_shows(st.st_dev, export->copier.store))
		return r;
	r = access_stat(export->copier.from, "", &root);
	if (r == 0 && root.st_ino == st.st_ino)
		return -EXDEV;
	export->own = st.st_ino;
	return r;
}

static int any_entry(void *arg, const char *name, const struct stat *st)
{
	(void)arg, (void)name, (void)st;
	return -ENOTEMPTY;
}

int export_to_folder(struct export *export, const char *path, bool force)
{
	struct copier *copier = &export->copier;
	int r = mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
	int fd = r < 0 ? -1 : descriptor_open(path, O_RDONLY | O_DIRECTORY, 0);

	if (r == 0)
		r = fd < 0 ? -errno : aim(export, fd);
	if (fd >= 0 && r < 0)
		close(fd);
	else if (r == 0)
		r = access_folder_open(fd, &copier->to);
	if (r == 0 && !force)
		r = access_list(copier->to, "", false, any_entry, NULL);
	if (r == -ENOTEMPTY)
		log_error("%s is not empty; with --force, files are added to it, and replace those "
			  "of the same name",
			  path);
	else if (r == -EXDEV)
		log_error("%s is where %s is mounted; name another folder", path, copier->store);
	else if (r < 0)
		log_error("cannot write to %s: %s", path, strerror(-r));
	if (r < 0)
		return r;
	access_beside(copier->to, copier->from, "");
	copier->sink = &copier_target;
	return 0;
}

int export_to_tar(struct export *export, int fd)
{
	int r = aim(export, fd);

	return r < 0 ? r : export_tar_open(&export->copier, fd);
}

int export_end(struct export *export, int error)
{
	struct copier *copier = &export->copier;
	int r;

	if (!copier->to)
		return copier->arg ? export_tar_end(copier, error) : 0;
	r = error == 0 ? access_sync(copier->to) : 0;
	access_close(copier->to);
	copier->to = NULL;
	return r;
}

static int add_path(void *arg, struct bytes path, bool is_dir)
{
	_cleanup_(freep) char *copy = bytes_dup(path);

	(void)is_dir;
	return copy ? copier_names_add(arg, copy) : -ENOMEM;
}

/* A name at the root, or the id of a session. */
static int run_named(struct copier *copier, const struct options *options, const char *name)
{
	const struct copier_entry missing = { .path = name, .name = name };
	struct copier_names paths = { 0 };
	struct stat st;
	int r = strchr(name, '/') ? -ENOENT : access_stat(copier->from, name, &st);

	copier->only = name;
	if (r != -ENOENT)
		return copier_run(copier);
	r = store_session_paths(copier->store, options, name, add_path, &paths);
	for (size_t i = 0; r == 0 && i < paths.count; i++) {
		copier->only = paths.names[i];
		r = copier_run(copier);
	}
	copier->only = NULL;
	if (r == 0 && !paths.count)
		r = strchr(name, '/') ?
			    copier_refuse(copier, "'%s' is a path; name a session", name) :
			    copier_fail(copier, &missing, -ENOENT);
	copier_names_done(&paths);
	return r;
}

int export_all(struct export *export, const struct options *options, char **names)
{
	int r = *names ? 0 : copier_run(&export->copier);
	int error;

	for (; r == 0 && *names; names++)
		r = run_named(&export->copier, options, *names);
	error = export_end(export, r);
	return r < 0 ? r : error;
}
