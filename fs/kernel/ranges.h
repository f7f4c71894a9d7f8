/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_RANGES_H
#define FS_KERNEL_RANGES_H

/*
 * A set of ranges that may overlap, to be asked which of them overlap another one: a search tree
 * by where they start, each node of which knows how far those below it reach (a treap).  All
 * calls take a time that grows with the logarithm of the number of ranges.
 *
 * A range is a member of another struct, whose owner has the memory.  The caller excludes threads.
 */

#include <stdint.h>

struct range {
	uint64_t start;
	uint64_t end; /* inclusive */
	/* The set's own. */
	uint64_t reach;
	uint32_t rank;
	struct range *left;
	struct range *right;
};

/* Its start and end do not change while it is in a set. */
void ranges_add(struct range **root, struct range *range);
void ranges_remove(struct range **root, struct range *range);
/* The one behind after (NULL: the first), in the order of their starts, that overlaps start to end;
 * NULL when there is none. */
struct range *ranges_next(struct range *root, const struct range *after, uint64_t start,
			  uint64_t end);

#endif
