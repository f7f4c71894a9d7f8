/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_USES_H
#define BACKEND_USES_H

/*
 * A set of inode numbers: what a store remembers of the files that are in use.  A zeroed struct is
 * empty.  Nothing here is shared between threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uses {
	uint64_t *ino; /* rising */
	size_t count;
	size_t room;
};

/* 0 or -ENOMEM.  What is in it already is in it once. */
int uses_add(struct uses *uses, uint64_t ino);
void uses_remove(struct uses *uses, uint64_t ino);
bool uses_has(const struct uses *uses, uint64_t ino);
void uses_done(struct uses *uses);

#endif
