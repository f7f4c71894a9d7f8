/* SPDX-License-Identifier: MIT */
#ifndef STORE_H
#define STORE_H

/* A store that a user has named: open it and check it, or say why not. */

#include "fs/api/check.h"
#include "fs/api/settings.h"
#include "fs/api/trash.h"
#include "src/store/access.h"
#include "src/user/progress.h"

/* Open a store, or say why not; 0 or -errno. */
int store_open(const char *store, unsigned flags, const struct options *options,
	       struct access **ret_access);
/* The settings are wanted, too, unless they are NULL.  The backend is to be closed in any case. */
int store_open_backend(const char *store, const struct options *options,
		       struct settings *ret_settings, struct backend **ret_backend);

/* The settings of the store (settings_read()), or say why they are not known. */
int store_settings(struct backend *backend, struct settings *ret_settings, char **ret_table);

/* A state of a store, as BACKEND_ANYWAY and these flags show it.  A zeroed one may be done. */
struct store_look {
	struct backend *backend;
	struct backend_snapshot *snapshot;
};
int store_look(struct backend *backend, unsigned flags, struct store_look *ret_look);
void store_look_done(struct store_look *look);

/* session_paths() of a store that is open. */
int store_session_paths(const char *store, const struct options *options, const char *name,
			session_path_fn *fn, void *arg);

/* Say why a store cannot be opened, if r is -errno; returns r. */
int store_say_opened(const char *store, int r, const char *why);

/* check_store() of a store that is open, with a line of progress. */
int store_check(const char *store, struct backend *backend, backend_report_fn *report, void *arg,
		struct check_result *ret_result);

/* Follow ticks, and reads of a store that will be read so many times. */
void store_follow(struct progress *progress, const char *store, unsigned times);

/* Say what is wrong with a path, unless a signal ends us. */
void store_say(const char *store, const char *path, int error);

#endif
