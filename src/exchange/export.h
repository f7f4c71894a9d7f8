/* SPDX-License-Identifier: MIT */
#ifndef EXPORT_H
#define EXPORT_H

/*
 * Handing the files of a store out: to a folder, or as a tar stream.
 *
 * export_all() goes through the store, in the order of the names, and calls the sink for each thing
 * that it finds.  What fails for one file is said and counted, and the rest goes on.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "src/store/access.h"
#include "src/exchange/linked.h"
#include "src/user/progress.h"

struct export_entry {
	const char *path; /* in the store */
	const char *name; /* the last component of it */
	struct stat st;
	const char *target; /* of a symbolic link */
	const char *first;  /* of a file with several names: the first that was handed out, or
			     * NULL */
	const char *xattrs; /* names of those of programs, a NUL behind each and an empty one at
			     * the end; or NULL */
};

struct export;

/* The functions return 0 or -errno. */
struct export_sink {
	/* A directory, before and after what is in it; enter() returns 1 when it has no place,
	 * which was said. */
	int (*enter)(struct export *export, const struct export_entry *entry);
	int (*leave)(struct export *export, const struct export_entry *entry);
	/* A regular file, without entry->first. */
	int (*file)(struct export *export, const struct export_entry *entry,
		    struct access_file *file);
	/* A regular file with entry->first, a symbolic link, a FIFO, a socket. */
	int (*other)(struct export *export, const struct export_entry *entry);
	/* The end; error: what has failed before, or 0. */
	int (*end)(struct export *export, int error);
};

struct export
{
	const char *store;
	struct access *access;
	const struct export_sink *sink;
	void *to;	 /* the sink's own */
	bool keep_owner; /* as root */
	bool keep_setid; /* the store is the caller's own */
	struct progress progress;
	uint64_t files; /* that were handed out, whatever they are but directories */
	uint64_t unchanged;
	uint64_t bytes;
	uint64_t failed;
	bool stopped; /* the sink takes no more, which was said */
	struct linked linked;
	const char *asked; /* a path that must be there; NULL: all */
	int64_t began;	   /* nanoseconds since 1970 */
	ino_t own;	   /* the target's number in the store, if it lies in a mount of it; or 0 */
};

/* Names at the root and ids of sessions, or all when there is none.  -errno: it was of no use to go
 * on, and that was said. */
int export_all(struct export *export, const struct options *options, char **names);

/* Says which keys have rows but no file, since they could not be taken in; each counts as failed.
 * names as for export_all().  0 or -errno, which was not said. */
int export_fileless(struct export *export, const struct options *options, char **names);

/* Where it goes, an open file or directory: it is left out if it is in the store itself. */
int export_aim(struct export *export, int fd);
/* Mode as it is to be on the other side. */
mode_t export_mode(const struct export *export, const struct export_entry *entry);
/* Some bytes of a file, put into an empty buffer; none at the end. */
int export_read(struct export *export, struct access_file *file, struct buf *block);
/* All of these bytes, at an offset. */
int export_write(int fd, struct bytes bytes, off_t at);

/* A folder, which is made if need be; unless force is set it must be empty.  A sentence was said
 * when it fails. */
int export_to_folder(struct export *export, const char *folder, bool force);
/* A tar stream to a descriptor; -EOPNOTSUPP: this program was built without it. */
int export_to_tar(struct export *export, int fd);

#endif
