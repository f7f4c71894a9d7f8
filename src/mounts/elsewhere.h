/* SPDX-License-Identifier: MIT */
#ifndef ELSEWHERE_H
#define ELSEWHERE_H

/*
 * Mounts that this mount namespace does not show.
 *
 * A container, a sandbox or a service with a mount namespace of its own got a copy of each mount
 * when it began.  Unmounting here leaves that copy, and its daemon serves on.  Likewise a daemon
 * serves on without any mount, as long as files are open in one that was unmounted lazily.
 */

#include "backend/base/buf.h"
#include "src/mounts/mounts.h"

struct elsewhere {
	unsigned long space; /* the number of the mount namespace, as in "mnt:[4026532177]" */
	long pid;	     /* a process in it, preferably of another program */
	unsigned more;	     /* other processes in it */
};

/* All mounts of ours in the other namespaces that can be seen: root sees all, other users see their
 * own.  fn returns 0 to go on; any other value is the result. */
typedef int elsewhere_fn(void *arg, const struct mount_entry *entry, const struct elsewhere *where);
int elsewhere_each(elsewhere_fn *fn, void *arg);

/* "the mount namespace 4026532177 of sleep (812) and 2 more" */
int elsewhere_name(const struct elsewhere *where, struct buf *words);

/* The namespaces that have the mount, in words as above.  Nothing is appended if there are none. */
int elsewhere_tell(const struct mount_entry *entry, struct buf *words);

#endif
