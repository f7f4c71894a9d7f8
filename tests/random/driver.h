/* SPDX-License-Identifier: MIT */
#ifndef TESTS_RANDOM_DRIVER_H
#define TESTS_RANDOM_DRIVER_H

/*
 * What a game is played on: the model layer in this process, or a mount, or several.  Calls return
 * what the system call would: 0 or a count, or -errno.  Open files are slots, processes are
 * numbers: a process that goes to another mount is another one, PROCESSES further for each.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "backend/base/buf.h"

enum { SLOTS = 6, PROCESSES = 3 };

struct driver_options {
	unsigned mounts; /* of one store; 0: one */
	bool memory;	 /* a store in memory; what can SQL does not come then */
	bool strict;
	bool exact;
};

/* Games that are played with one set of options. */
struct profile {
	const char *title;
	struct driver_options options;
	bool big;     /* with content above 128 KiB */
	unsigned ops; /* of a game */
	bool first;   /* only the seed that is always the same, unless the profile is named */
};

/* How an open file is read. */
enum { READ_PLAIN, READ_MAPPED, READ_SENT, READ_WAYS };

struct driver_row {
	struct bytes data;
	const char *created;
	const char *updated;
};
typedef void driver_row_fn(void *arg, int64_t index, const struct driver_row *row);
typedef void driver_name_fn(void *arg, const char *name);

/* A driver with a defect, which a game must notice. */
struct driver;
struct defect {
	const char *title;
	void (*bring)(struct driver *driver);
};

struct driver {
	const struct defect *defects;
	size_t defect_count;
	const struct profile *profiles;
	size_t profile_count;
	bool is_mount; /* with pages, attributes that are cached, and a real clock */
	int (*start)(const struct driver_options *options);
	void (*finish)(void);
	/* Called where start() was not, behind each game: what a game has left goes.  Or NULL. */
	void (*clear)(void);
	int (*restart)(int mount, bool kill);
	/* One operation begins.  Calls that name no process are made on this mount. */
	void (*tick)(int mount);
	int64_t (*now)(void);
	/* Who has staged something has paused.  Or NULL. */
	int (*pause)(void);
	/* Rows of unlinked files go. */
	int (*settle)(void);
	int (*make_dir)(const char *path);
	int (*open)(int slot, int process, const char *path, int flags);
	int (*close)(int slot);
	/* A child that has inherited the descriptor closes it. */
	int (*stranger)(int slot);
	ssize_t (*write)(int slot, uint64_t offset, struct bytes data);
	ssize_t (*read)(int slot, int way, uint64_t offset, size_t size, struct buf *out);
	int (*sync)(int slot);
	int (*cut)(int slot, uint64_t size);
	int (*stat)(int slot, struct stat *ret_stat);
	int (*times)(int slot, int64_t mtime);
	int (*cut_name)(int process, const char *path, uint64_t size);
	int (*stat_name)(int process, const char *path, struct stat *ret_stat);
	int (*times_name)(const char *path, int64_t mtime);
	int (*mode)(const char *path, mode_t mode);
	int (*set_xattr)(const char *path, const char *name, const char *value);
	int (*get_xattr)(const char *path, const char *name, struct buf *out);
	int (*unlink)(int process, const char *path);
	int (*rename)(int process, const char *path, const char *path_to, unsigned flags);
	/* The whole of a file, opened for that. */
	int (*content)(int process, const char *path, int way, struct buf *out);
	int (*names)(const char *path, driver_name_fn *fn, void *arg);
	int (*rows)(const char *key, driver_row_fn *fn, void *arg);
	/* Keys of session "s". */
	int (*keys)(driver_name_fn *fn, void *arg);
	/* data NULL: the row is deleted; index negative: all are. */
	int (*sql)(const char *key, int64_t index, struct bytes data);
	/* sessfs check; what is wrong is appended. */
	int (*check)(struct buf *out);
};

extern struct driver driver;

#endif
