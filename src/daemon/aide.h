/* SPDX-License-Identifier: MIT */
#ifndef AIDE_H
#define AIDE_H

/*
 * A process that does for the daemon what the daemon has given up the right to do: it unmounts, and
 * it counts the descriptors of other processes.  It knows one path, and reads nothing of the store;
 * what it is asked is a few numbers and a name, what it answers is a number or a sentence.  It ends
 * when the daemon does, and then leaves the mount alone, unless it is told otherwise: who kills a
 * daemon wants to look at it.
 *
 * It sees to it that a killed daemon ends.  A thread of it may be in the kernel, to make that
 * forget a name or pages (fs/kernel/notify.h), and wait there for the lock of a directory or of a
 * page, a wait that no signal ends; and who has that lock waits for an answer of the daemon.  Since
 * that thread keeps /dev/fuse open, the kernel would let both wait for ever.  So when the daemon's
 * first thread is dead and the process is still there a second later, the connection is aborted, as
 * the kernel would have done: who waits for an answer gets ECONNABORTED.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/base/buf.h"

struct aide {
	pid_t pid;
	int fd;
	unsigned number;      /* of the last question */
	bool waits;	      /* which is not answered */
	pthread_mutex_t lock; /* one question at a time */
};

/* Start it; the process must have no other threads yet.  dir is absolute.  auto_unmount:
 * the mount of a daemon that was killed goes.  0 or -errno. */
int aide_start(struct aide *aide, const char *dir, bool auto_unmount);
/* The number of the connection, when there is one (struct mount_entry). */
void aide_tell_device(struct aide *aide, unsigned device);
/* descriptors_find(); -EIO when it does not answer in time.  From any thread. */
int aide_has_open(struct aide *aide, pid_t pid, uint64_t nodeid, unsigned access);
/* Unmount, lazily if it is in use; a sentence in the log when that fails. */
void aide_unmount(struct aide *aide);
/* End it. */
void aide_done(struct aide *aide);

#endif
