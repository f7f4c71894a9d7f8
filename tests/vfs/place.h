/* SPDX-License-Identifier: MIT */
#ifndef TESTS_VFS_PLACE_H
#define TESTS_VFS_PLACE_H

/*
 * Directories with stores in them, over the shim.  A store that is opened is that of world.h, with
 * its tree, so all of world.h that works on an open tree can be used.
 */

#include "backend/base/buf.h"
#include "tests/unit/world.h"
#include "tests/vfs/shim.h"

/* At the beginning and at the end of a case.  The beginning installs the shim. */
void place_begin(void);
void place_end(void);

/* A directory of this name, which is new and empty; its path.  Paths stay until the eighth call
 * from then. */
const char *place_fresh(const char *name);
/* Its path, as it is. */
const char *place_path(const char *name);

/* Open the store in a directory, and its tree, as world_try() does. */
int place_open(const char *dir, char **ret_why);
/* As above, and it must open. */
void place_must_open(const char *dir);
void place_close(void);
/* The path of the store. */
const char *place_store(const char *dir);

/* Errors that the log has got since place_hush(), and the first of them, one a line, or "". */
unsigned place_errors(void);
const char *place_error(void);
void place_hush(void);

/* Wait until one of them has a part; false if that takes too long. */
bool place_hears(const char *part);

#endif
