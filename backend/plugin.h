/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_PLUGIN_H
#define BACKEND_PLUGIN_H

/*
 * A kind of store in a shared object of its own, sessfs-SCHEME.so, and in a package of its own, so
 * that other users do not need its libraries.  schemes/ loads it when a URL asks for it, and keeps
 * it until the process ends.
 *
 * The object has one symbol, sessfs_plugin, and copies of what it uses of backend/base/ and
 * backend/: libseam.la is linked into it as into the program.  It takes no symbol from its loader.
 * That may also be libsessfs, which exports none of these and may itself have been loaded by a
 * language's interpreter.  What such a copy must share with the other is handed over: the sink of
 * the log.  All else goes through struct backend, so both must be of one version, and built with
 * the same headers.
 */

#include "backend/backend.h"
#include "backend/base/log.h"

struct s3_ops;
struct url;

/* What a plugin is asked for, and has been built as: the program and its version, and a checksum of
 * the headers that describe what both use.  libseam.la has them. */
extern const char plugin_abi[], plugin_seam[];

struct plugin {
	const char *abi;  /* plugin_abi; stays the first field */
	const char *seam; /* plugin_seam; stays the second */
	/* log_set_sink() and log_set_level() of the plugin's copy. */
	void (*set_log_sink)(log_sink *sink);
	void (*set_log_level)(int level);
	/* Load what the plugin's libraries load when they are first used: afterwards the process
	 * may map no code and read few files (src/daemon/guard.h).  Does not connect.  NULL: there
	 * is nothing to do.  0, or -errno and a sentence. */
	int (*prepare)(const struct url *url, char **ret_why);
	/* As backend_open().  The URL is borrowed: what is needed to connect again is copied, and
	 * the copy of the password overwritten when the store is closed. */
	int (*open)(const struct url *url, const struct backend_options *options,
		    struct backend **ret_backend, char **ret_why);
	/* As backend_read_older(); NULL: no such store has an older table. */
	int (*read_older)(const struct url *url, const char *table, backend_older_fn *fn, void *arg,
			  char **ret_why);
	/* Requests to S3 (backend/s3/s3.h): no kind of store, so nothing is opened. */
	const struct s3_ops *s3;
};

extern __attribute__((visibility("default"))) const struct plugin sessfs_plugin;

#endif
