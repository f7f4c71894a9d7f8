/* SPDX-License-Identifier: MIT */
#ifndef CONTRIB_BACKEND_JOURNAL_JOURNAL_H
#define CONTRIB_BACKEND_JOURNAL_JOURNAL_H

#include "backend/backend.h"

/* A store in memory that writes each batch to a file and reads them all when it is opened.  As
 * backend_open(); -EBUSY while any other process, or another store of this one, has the file. */
int journal_backend_open(const char *path, const struct backend_options *options,
			 struct backend **ret_backend, char **ret_why);

#endif
