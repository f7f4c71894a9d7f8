/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_LOCKS_H
#define FS_KERNEL_LOCKS_H

/*
 * The table of locks: which owner holds which part of which file, and which owners wait for it.
 *
 * It knows nothing of requests (lock-requests.c does): a caller that has to wait leaves a struct
 * lock_wait in the table, and calls that end waits hand these out again in a list.  The caller
 * excludes threads, and owns the memory of waits.
 *
 * Files are inode numbers, so that all ways to a file share its locks.  There are two kinds of
 * locks, which know nothing of each other, as on Linux:
 *
 *   whole files   flock(2).  The owner is the open file.  Going from shared to exclusive or back
 *                 gives the old lock up first, and it is gone if the new one is not granted.
 *   ranges        fcntl(2).  The owner is a number that the kernel makes up: of a process's table
 *                 of descriptors, or of an open file (F_OFD_SETLK).  The kernel uses a number again
 *                 once its process is gone, maybe before we hear that its files were closed; so
 *                 each lock also belongs to the open file by which it was taken, and closing that
 *                 file takes away its own locks only.
 *
 * A new lock is compared with locks that are held, not with waits; waits are granted in the order
 * of arrival.
 *
 * A close that has returned to its caller may not have reached us whole: FLUSH is answered before
 * close returns, RELEASE comes after it, and may be overtaken by the next request.  So a lock is
 * "closing" if its open file was flushed a moment ago, or is not flushed at all: another lock
 * that must not wait fails only LOCKS_CLOSING_TIME after that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Nanoseconds. */
#define LOCKS_CLOSING_TIME INT64_C(500000000)

/* A lock to be taken, held, or released. */
struct lock {
	uint64_t ino;
	uint64_t file;	/* the open file: a number that is never used again */
	bool silent;	/* that file has no FLUSH, only RELEASE at its last close */
	bool whole;	/* flock */
	short type;	/* F_RDLCK, F_WRLCK, F_UNLCK */
	uint64_t owner; /* of a range */
	uint64_t start; /* of a range */
	uint64_t end;	/* inclusive */
	pid_t pid;	/* of a range: the process that F_GETLK tells */
	bool maps;	/* the right to map the file comes with it; with F_UNLCK that alone */
	uint64_t lease; /* the lease of the mount that it needs; 0: any */
};

/* A lock that may have to wait. */
struct lock_wait {
	struct lock lock;
	const void *who; /* the caller's name for it */
	bool sleeps;	 /* waits until granted; otherwise only while the locks in its way are
			    closing */
	bool others;	 /* locks of other mounts are in its way, which must be polled */
	unsigned round;	 /* of locks_poll() */
	int64_t until;	 /* then: its time-out */
	int error;	 /* when it is handed out: 0 when granted, or -errno */
	struct lock_wait *next;
};

enum { LOCKS_BUCKETS = 256 };

/*
 * Other mounts of the store have locks, too: a lock that this table grants is taken only if they
 * allow it (ask), and they are notified when it is released (changed).  We do not know which of
 * their locks are closing, so a lock that must not wait fails after LOCKS_OTHERS_TIME.  A deadlock
 * across mounts is not noticed.
 */
#define LOCKS_OTHERS_TIME INT64_C(60000000)

struct locks {
	/* 0, -EAGAIN or another error.  NULL: there are no others. */
	int (*ask)(void *arg, const struct lock *lock);
	void (*changed)(void *arg, uint64_t ino);
	void *arg;
	unsigned round;
	struct lock_file *file[LOCKS_BUCKETS]; /* those with locks, by inode number */
	struct lock_wait *waiting;	       /* in the order of arrival */
	struct lock_wait **last;
};

void locks_init(struct locks *locks);
/* Forget all locks; it must not have waits. */
void locks_done(struct locks *locks);

/*
 * Take, change or release wait->lock.  0: done; 1: wait was left in the table; -EAGAIN: another
 * lock is in the way; -EDEADLK: waiting would never end; -ENOLCK: no memory.  *ret_ended are the
 * waits that ended by it.  now: a time that only rises, in nanoseconds.
 */
int locks_set(struct locks *locks, struct lock_wait *wait, int64_t now,
	      struct lock_wait **ret_ended);
/* Whether a range would be granted; otherwise *ret_lock is the first one in its way.  With F_UNLCK:
 * whether its owner holds nothing there; otherwise *ret_lock is the first that it holds. */
bool locks_test(const struct locks *locks, const struct lock *lock, struct lock *ret_lock);
/* Whether its owner would hold less after this request than now. */
bool locks_gives_up(const struct locks *locks, const struct lock *lock);

/* Each lock of a file, or of all (ino 0), by file; until fn returns something else than 0. */
typedef int lock_fn(void *arg, const struct lock *lock);
int locks_each(const struct locks *locks, uint64_t ino, lock_fn *fn, void *arg);
/* Whether other mounts were notified of locks of a file; and noting that they were, which lasts as
 * long as there are any: 0 or -ENOLCK. */
bool locks_notified(const struct locks *locks, uint64_t ino);
int locks_set_notified(struct locks *locks, uint64_t ino);

/*
 * The right to map a file shared and writable, which open files have until they are gone.  Those of
 * one mount share it.  locks_map() takes it: 0, -ENOLCK or what ask() answers.
 */
int locks_map(struct locks *locks, uint64_t ino, uint64_t file);
/* Whether an open file has it; file 0: any. */
bool locks_maps(const struct locks *locks, uint64_t ino, uint64_t file);

/* All locks are gone; locks_poll() grants those that wait. */
void locks_lose(struct locks *locks);

/* Whether a file has locks; without them it has no waits either. */
bool locks_any(const struct locks *locks, uint64_t ino);

/* The owner of ranges has closed a descriptor of an open file: release them. */
void locks_flush(struct locks *locks, uint64_t ino, uint64_t file, uint64_t owner, int64_t now,
		 struct lock_wait **ret_ended);
/* The open file is gone, and all that was taken by it. */
void locks_release(struct locks *locks, uint64_t ino, uint64_t file, struct lock_wait **ret_ended);

/* Stop waiting; NULL when it does not wait (any more). */
struct lock_wait *locks_cancel(struct locks *locks, const void *who);
/* Check whether other mounts have released what was in the way; returns whether any still wait for
 * that. */
bool locks_poll(struct locks *locks, struct lock_wait **ret_ended);
/* End the waits that have timed out; returns the time of the next one, or INT64_MAX. */
int64_t locks_expire(struct locks *locks, int64_t now, struct lock_wait **ret_ended);
/* End all waits. */
void locks_end(struct locks *locks, int error, struct lock_wait **ret_ended);

#endif
