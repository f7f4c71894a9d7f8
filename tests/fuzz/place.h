/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_PLACE_H
#define TESTS_FUZZ_PLACE_H

/*
 * A store with its tree for one input, and what holds for every tree.
 *
 * The folder of the stores is made at the first call, in memory where the system has a filesystem
 * for that, and goes with the process.
 */

#include "fs/api/check.h"
#include "fs/content/content.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "tests/fuzz/fuzz.h"

/* The path of the store's file. */
const char *place_store(void);
/* Write it, or its "-wal" and so on (end).  Without bytes: no file. */
void place_put(const char *end, struct bytes bytes);
void place_get(const char *end, struct buf *bytes);
/* No store is there any more. */
void place_clear(void);
/* An empty store, as a new one is: made once, then copied. */
void place_fresh(void);

/* The backend is the tree's.  NULL when it is refused, which is *ret_error then. */
struct tree *place_open(const struct backend_options *options,
			const struct tree_options *tree_options, int *ret_error);
/* In memory. */
struct tree *place_memory(const struct tree_options *options);

/* Rows of unlinked files go, times are written. */
void place_settle(struct tree *tree);
/* Settle, and fuzz_check() that nobody is known but the root. */
void place_check_inodes(struct tree *tree);
/* Violations that check_store() finds; sentences go to said if that is not NULL; -errno. */
int64_t place_violations(struct backend *backend, struct buf *said);

/*
 * List, stat and read all that is there, and say so in a line each, if out is not NULL: path,
 * type, size, and a digest of the bytes.  A directory's listing ends, sizes are what can be read.
 * damaged: names may be anything, and sizes may lie.
 */
enum walk { WALK_WHOLE, WALK_DAMAGED };
void place_walk(struct tree *tree, enum walk walk, struct buf *out);

/* Call a function for each file and directory, its directory first; it may change what it likes. */
typedef void place_fn(void *arg, struct tree *tree, struct inode *dir, struct bytes name,
		      struct inode *inode);
void place_each(struct tree *tree, enum walk walk, place_fn *fn, void *arg);
/* Write into a file through a handle of these flags, close it; -errno. */
int place_write(struct tree *tree, struct inode *inode, int flags, uint64_t offset,
		struct bytes data);

#endif
