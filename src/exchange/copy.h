/* SPDX-License-Identifier: MIT */
#ifndef COPY_H
#define COPY_H

/*
 * A copy of a store that gets its name only when it is whole, durable and checked: the common part
 * of backup, restore and repair.
 */

#include <stdbool.h>
#include <stdint.h>

#include "src/user/options.h"

struct copy {
	const char *what; /* for the line that shows how far it is */
	const char *from;
	const char *to; /* NULL: the standard output */
	bool replace;	/* what has that name */
	/* Instead of the standard output, gets the file of a copy that is whole, and goes then. */
	int (*take)(struct copy *copy, const char *file);
	void *arg; /* take's own */
	const struct options *options;
	/* Of the copy: */
	uint64_t sessions;
	uint64_t files;
	uint64_t rows;
	uint64_t bytes; /* of its file */
	uint64_t findings;
};

/* 0 when the name is free, or may be replaced; otherwise -errno after a sentence.  For asking at
 * the start. */
int copy_judge(const struct copy *copy);
/* 0, or -errno after a sentence (but -EINTR says nothing); then nothing has changed. */
int copy_run(struct copy *copy);
/* A new empty file beside a path (NULL: in TMPDIR), for a copy of the store from.  Returns its
 * descriptor, which the caller closes when nothing uses the file any longer, or -errno after a
 * sentence.  Removes files that killed commands have left there. */
int copy_make_temporary(const char *from, const char *path, char **ret_name);
/* Print what was copied; for a copy to stdout only what is wrong with it. */
void copy_print(const struct copy *copy, bool json);

#endif
