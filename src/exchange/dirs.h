/* SPDX-License-Identifier: MIT */
#ifndef DIRS_H
#define DIRS_H

/*
 * The directories from one down to where a walk is, as descriptors, however deep that is: only the
 * last ones are open.  One that was closed is opened again by ".." of the one below it, and must
 * then be the same: somebody may move directories meanwhile.
 */

#include <stddef.h>
#include <sys/types.h>

struct dirs {
	struct dirs_level {
		int fd; /* -1: closed */
		dev_t dev;
		ino_t ino;
	} * levels;
	size_t depth;
	size_t room;
};

/* One further down.  The descriptor is taken over, also when that fails with -errno. */
int dirs_push(struct dirs *dirs, int fd);
/* One up; -ESTALE when it is another one now, which is not entered: then dirs_here() is -1. */
int dirs_pop(struct dirs *dirs);
/* Where the walk is, or -1. */
static inline int dirs_here(const struct dirs *dirs)
{
	return dirs->depth ? dirs->levels[dirs->depth - 1].fd : -1;
}
/* Close all. */
void dirs_done(struct dirs *dirs);

#endif
