/* SPDX-License-Identifier: MIT */
#ifndef AIDE_H
#define AIDE_H

/*
 * A process that does for the daemon what the daemon has given up the right to do: it unmounts, and
 * it counts the descriptors of other processes.  It knows one path, and reads nothing of the store;
 * a question is a few numbers and a name, an answer is a number or a sentence.  It ends when the
 * daemon does, and then leaves the mount in place unless auto_unmount is set, so that the mount of
 * a killed daemon can be looked at.
 *
 * It makes sure that a killed daemon ends.  A thread of the daemon may be in the kernel to
 * invalidate a name or pages (fs/kernel/notify.h), and wait there, uninterruptibly, for the lock of
 * a directory or of a page, while the lock's holder waits for an answer of the daemon.  That thread
 * keeps /dev/fuse open, so the kernel would let both wait for ever.  So when the daemon's first
 * thread is dead and the process still exists a second later, the aide aborts the connection, as
 * the kernel would have done: programs that wait for an answer get ECONNABORTED.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct aide {
	pid_t pid;
	int fd;
	unsigned number;      /* of the last question */
	bool waits;	      /* it has no answer yet */
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
