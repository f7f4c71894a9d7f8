/* SPDX-License-Identifier: MIT */
#ifndef KEEP_COPY_H
#define KEEP_COPY_H

#include "src/exchange/keep.h"

/* Copy what is not there yet of a tree of files, with modes, times, attributes and, as root,
 * owners, and read it back: 0, or -errno after a sentence.  to is made if it is not there. */
int keep_copy(const char *from, const char *to, unsigned long *files);
/* Remove from a copy what from does not have, or has as another type: 0, or -errno after a
 * sentence. */
int keep_prune(const char *from, const char *to, unsigned long *files);
/* Copy additions to from since it was copied to to: new files, and bytes behind the end of others.
 * Files that differ otherwise become conflicts.  Files that have not changed since keep->since stay
 * as they are in to. */
int keep_bring_over(const char *from, const char *to, struct keep *keep);

#endif
