/* SPDX-License-Identifier: MIT */
#ifndef EXPORT_H
#define EXPORT_H

/*
 * Exporting the files of a store: to a folder, or as a tar stream.  A file that fails is reported
 * and counted, and the rest goes on.
 */

#include "src/exchange/copier.h"

struct export
{
	struct copier copier; /* must be first */
	ino_t own;    /* the target's number in the store, if it lies in a mount of it; or 0 */
	dev_t target; /* the device of the folder */
};

/* Export the names at the root and ids of sessions, or all without any.  -errno: going on would be
 * useless, and a sentence has said why. */
int export_all(struct export *export, const struct options *options, char **names);

/* Says which keys have rows but no file, since they could not be taken in, although they were
 * written before a time (nanoseconds since 1970); each counts as failed.  names as for
 * export_all().  0 or -errno. */
int export_fileless(struct copier *copier, const struct options *options, char **names,
		    int64_t began);

/* A folder, which is made if need be; unless force is set it must be empty.  A sentence was said
 * when it fails. */
int export_to_folder(struct export *export, const char *folder, bool force);
/* A tar stream to a descriptor; -EOPNOTSUPP: this program was built without it. */
int export_to_tar(struct export *export, int fd);
/* Closes the target; error: what has failed before, or 0. */
int export_end(struct export *export, int error);

/* export-tar.c. */
int export_tar_open(struct copier *copier, int fd);
int export_tar_end(struct copier *copier, int error);

#endif
