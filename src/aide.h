/* SPDX-License-Identifier: MIT */
#ifndef AIDE_H
#define AIDE_H

/*
 * A process that does for the daemon what the daemon has given up the right to do: it unmounts, and
 * it counts the descriptors of other processes.  It knows one path, and reads nothing of the store;
 * what it is asked is a few numbers and a name, what it answers is a number or a sentence.  It ends
 * when the daemon does, and then leaves the mount alone: who kills a daemon wants to look at it.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/buf.h"

struct aide {
	pid_t pid;
	int fd;
	bool mute;	      /* it has not answered once, and is not asked again */
	pthread_mutex_t lock; /* one question at a time */
};

/* Start it; the process must have no other threads yet.  dir is absolute.  0 or -errno. */
int aide_start(struct aide *aide, const char *dir);
/* descriptors_count(); 0 when it does not answer.  From any thread. */
unsigned aide_count(struct aide *aide, pid_t pid, uint64_t ino, int access, struct bytes name);
/* Unmount, lazily if it is in use; a sentence in the log when that fails. */
void aide_unmount(struct aide *aide);
/* End it. */
void aide_done(struct aide *aide);

#endif
