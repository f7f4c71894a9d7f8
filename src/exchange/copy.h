/* SPDX-License-Identifier: MIT */
#ifndef COPY_H
#define COPY_H

/*
 * A copy of a store that has its name only when it is whole, durable and was looked at: what
 * backup, restore and repair have in common.
 */

#include <stdbool.h>
#include <stdint.h>

#include "src/user/options.h"

struct copy {
	const char *what; /* for the line that shows how far it is */
	const char *from;
	const char *to; /* NULL: the standard output */
	bool replace;	/* what has that name */
	const struct options *options;
	/* Of the copy: */
	uint64_t sessions;
	uint64_t files;
	uint64_t rows;
	uint64_t bytes; /* of its file */
	uint64_t findings;
};

/* Whether the name is free, or may be taken: 0, or -errno after a sentence.  For asking before
 * anything is done. */
int copy_judge(const struct copy *copy);
/* 0, or -errno after a sentence (but -EINTR says nothing); then nothing has changed. */
int copy_run(struct copy *copy);
/* An empty file of the caller's own beside the path that it is to have, made from the store from;
 * its descriptor, which is closed when nothing uses the file any more, or -errno after a sentence.
 * What commands that were killed have left there goes. */
int copy_make_temporary(const char *from, const char *path, char **ret_name);
/* Tell what was copied; of a copy to the standard output only what is wrong with it. */
void copy_print(const struct copy *copy, bool json);

#endif
