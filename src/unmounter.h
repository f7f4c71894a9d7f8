/* SPDX-License-Identifier: MIT */
#ifndef UNMOUNTER_H
#define UNMOUNTER_H

/*
 * A process that unmounts for the daemon, which has given up the right to do so.  It knows one path
 * and one thing to do; nothing of the store or of the kernel's requests reaches it.  It ends when
 * the daemon does, and then leaves the mount alone: who kills a daemon wants to look at it.
 */

#include <stdbool.h>
#include <sys/types.h>

struct unmounter {
	pid_t pid;
	int fd;
};

/* Start it; the process must have no other threads yet.  dir is absolute.  0 or -errno. */
int unmounter_start(struct unmounter *unmounter, const char *dir);
/* Unmount, lazily if it is in use; a sentence in the log when that fails. */
void unmounter_unmount(struct unmounter *unmounter);
/* End it. */
void unmounter_done(struct unmounter *unmounter);

#endif
