/* SPDX-License-Identifier: MIT */
#ifndef LINKED_H
#define LINKED_H

/*
 * Files with several names, by the one under which each was handed over first.  A zeroed one is
 * empty.
 */

#include <sys/stat.h>

struct linked {
	void *root; /* of tsearch(3) */
};

/* The first name; NULL: the file is new. */
const char *linked_find(const struct linked *linked, const struct stat *st);
/* 0 or -ENOMEM; of a file that is known already the name is another one then. */
int linked_keep(struct linked *linked, const struct stat *st, const char *path);
void linked_done(struct linked *linked);

#endif
