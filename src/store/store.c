/* SPDX-License-Identifier: MIT */
#include "src/store/store.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/user/stop.h"

static bool holds(const void *path, const struct mount_entry *entry)
{
	size_t size = strlen(entry->point);
	const char *behind = (const char *)path + size;

	return strncmp(path, entry->point, size) == 0 && (!*behind || *behind == '/');
}

/* Whether the user has named a mount point of ours, or a path below one, instead of the store. */
static bool say_mounted(const char *path)
{
	_cleanup_(mount_entry_done) struct mount_entry entry = { 0 };
	_cleanup_(freep) char *absolute = NULL;

	if (mounts_absolute_unasked(path, &absolute) < 0 && mounts_absolute(path, &absolute) < 0)
		return false;
	if (mounts_last(holds, absolute, &entry) < 0 || strcmp(entry.type, MOUNTS_TYPE) != 0)
		return false;
	log_error("%s is in the mount of a store; name the store itself, which is %s", path,
		  entry.source);
	return true;
}

int store_say_opened(const char *store, int r, const char *why)
{
	return r < 0 && (r != -EISDIR || !say_mounted(store)) ? say_why(why, r) : r;
}

int store_open(const char *store, unsigned flags, const struct options *options,
	       struct access **ret_access)
{
	_cleanup_(freep) char *why = NULL;

	int r;

	stop_watch();
	r = access_open(store, flags, options, ret_access, &why);
	return store_say_opened(store, r, why);
}

int store_open_backend(const char *store, const struct options *options,
		       struct settings *ret_settings, struct backend **ret_backend)
{
	_cleanup_(freep) char *why = NULL;
	int r = access_backend(store, options, true, ret_backend, &why);

	if (r == 0 && ret_settings)
		return store_settings(*ret_backend, ret_settings, NULL);
	return store_say_opened(store, r, why);
}

int store_settings(struct backend *backend, struct settings *ret_settings, char **ret_table)
{
	_cleanup_(freep) char *why = NULL;
	int r = settings_read(backend, ret_settings, ret_table, &why);

	return r < 0 ? say_why(why, r) : 0;
}

int store_look(struct backend *backend, unsigned flags, struct store_look *ret_look)
{
	ret_look->backend = backend;
	return backend->ops->snapshot_begin(backend, BACKEND_ANYWAY | flags, &ret_look->snapshot);
}

void store_look_done(struct store_look *look)
{
	if (look->snapshot)
		look->backend->ops->snapshot_end(look->backend, look->snapshot);
	look->snapshot = NULL;
}

int store_session_paths(const char *store, const struct options *options, const char *name,
			session_path_fn *fn, void *arg)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	_cleanup_(store_look_done) struct store_look look = { 0 };
	struct settings settings;
	int r = store_open_backend(store, options, &settings, &backend);

	if (r == 0)
		r = store_look(backend, BACKEND_LATEST, &look);
	return r < 0 ? r :
		       session_paths(backend, look.snapshot, settings.value[SETTING_LAYOUT],
				     bytes_str(name), fn, arg);
}

void store_follow(struct progress *progress, const char *store, unsigned times)
{
	struct stat st;

	if (stat(store, &st) == 0)
		progress_set_total(progress, 0, (uint64_t)st.st_size * times);
	progress_follow(progress, PROGRESS_TICKS | PROGRESS_READS);
}

int store_check(const char *store, struct backend *backend, backend_report_fn *report, void *arg,
		struct check_result *ret_result)
{
	enum { TIMES = 5 }; /* SQLite reads it twice, and we read the rows three times */
	struct progress progress;
	int r;

	progress_begin(&progress, "check", "file");
	store_follow(&progress, store, TIMES);
	r = check_store(backend, report, arg, ret_result);
	progress_end(&progress);
	return r;
}

void store_say(const char *store, const char *path, int error)
{
	static const struct {
		int error;
		const char *sentence;
	} sentences[] = {
		{ -ENOENT, "there is no such file or session" },
		{ -EISDIR, "it is a directory" },
		{ -EBUSY, "it is in use" },
		{ -ELOOP, "there is a symbolic link on the path; use its target" },
		{ -EXDEV, "the path leads out of the store" },
		{ -EOPNOTSUPP, "it is not a regular file" },
		{ -ENOSPC, "there is no space left" },
		{ -EINVAL, "its bytes are not JSON, so it is refused (-o strict)" },
		{ -ENOTCONN, "the mount has ended" },
	};
	const char *sentence = strerror(-error);

	if (error == -EINTR && stop_wanted())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++)
		if (sentences[i].error == error)
			sentence = sentences[i].sentence;
	log_error("%s: %s: %s", store, *path ? path : "/", sentence);
}
