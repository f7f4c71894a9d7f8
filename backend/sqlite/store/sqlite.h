/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SQLITE_H
#define BACKEND_SQLITE_SQLITE_H

#include "backend/backend.h"

/* A store in a SQLite file; errors as backend_open().  Starts a thread of its own and holds locks
 * that a child would not inherit: open it in the process that will use it, after any fork. */
int sqlite_backend_open(const char *path, const struct backend_options *options,
			struct backend **ret_backend, char **ret_why);

/* As backend_repair(). */
int sqlite_backend_repair(const char *path, const char *new_path,
			  const struct backend_repair *repair,
			  struct backend_repaired *ret_repaired, char **ret_why);
/* As backend_discard(). */
void sqlite_backend_discard(const char *path);
/* As backend_install(). */
int sqlite_backend_install(const char *new_path, const char *path, bool replace, char **ret_why);
/* As backend_library(). */
const char *sqlite_backend_library(bool *ret_flawed);
/* As backend_is_owned(). */
bool sqlite_backend_is_owned(const char *path);
/* As backend_read_older(). */
int sqlite_backend_read_older(const char *path, const char *table, backend_older_fn *fn, void *arg,
			      char **ret_why);

#endif
