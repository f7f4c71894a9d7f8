/* SPDX-License-Identifier: MIT */
#ifndef IMPORT_ATTR_H
#define IMPORT_ATTR_H

/*
 * What a file has besides its content, in the store and in the source of an import.
 */

#include "src/exchange/import.h"

/* What has this path in the store: 0, or -ENOENT, also where there is no store. */
int import_stat(struct import *import, const char *path, struct stat *ret_stat);

/* Whether the store shows something at this path that is not there (sessfs-views(7)), so that what
 * was done to that, it would be done to what it shows.  1, 0 or -errno. */
int import_is_view(struct import *import, const char *path);

bool import_same_time(const struct timespec *a, const struct timespec *b);

/* What is there has the right content, and is to have the attributes; 1 when it had others, 0, or
 * -errno.  there may be NULL: not known. */
int import_settle(struct import *import, const struct import_file *file, const struct stat *there);

#endif
