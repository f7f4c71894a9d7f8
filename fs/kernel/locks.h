/* SPDX-License-Identifier: MIT */
#ifndef FS_KERNEL_LOCKS_H
#define FS_KERNEL_LOCKS_H

/*
 * The table of locks: who holds which part of which file, and who waits for it.
 *
 * It knows nothing of requests (lock-requests.c does): a caller that has to wait leaves a
 * struct lock_wait in the table, and whatever ends waits hands these out again in a list.  The
 * caller excludes threads, and owns the memory of what waits.
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
 * Who asks is compared with locks that are held, not with those who wait; who waits is granted its
 * lock in the order of arrival.
 *
 * A close that has returned to its caller may not have reached us whole: FLUSH is answered before
 * close returns, RELEASE comes after it, and may be overtaken by the next request.  So a lock whose
 * open file was flushed a moment ago, or is not flushed at all, is "closing": who asks for it
 * without wanting to wait is refused only LOCKS_CLOSING_TIME after that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Nanoseconds. */
#define LOCKS_CLOSING_TIME INT64_C(500000000)

/* A lock that is asked for, held, or given up. */
struct lock {
	uint64_t ino;
	uint64_t file;	/* the open file: a number that is never used again */
	bool silent;	/* no close of a descriptor of that file is told, but the last */
	bool whole;	/* flock */
	short type;	/* F_RDLCK, F_WRLCK, F_UNLCK */
	uint64_t owner; /* of a range */
	uint64_t start; /* of a range */
	uint64_t end;	/* inclusive */
	pid_t pid;	/* of a range: the process that F_GETLK tells */
	bool maps;	/* the right to map the file comes with it; with F_UNLCK that alone */
	uint64_t lease; /* of the mount, which it needs; 0: any */
};

/* One who asks, and may have to wait. */
struct lock_wait {
	struct lock lock;
	const void *who; /* the caller's name for it */
	bool sleeps;	 /* until granted; otherwise only while who is in its way is closing */
	bool others;	 /* other mounts' are in its way, which tell nobody when they go */
	unsigned round;	 /* of locks_poll() */
	int64_t until;	 /* then: the end of its patience */
	int error;	 /* when it is handed out: 0 when granted, or -errno */
	struct lock_wait *next;
};

enum { LOCKS_BUCKETS = 256 };

/*
 * Other mounts of the store have locks, too: a lock that is granted by this table is taken only if
 * they let it be (ask), and what was asked for is told them when it is given up (changed).  Of
 * their locks it is not known which are closing, so who does not want to wait is refused after
 * LOCKS_OTHERS_TIME.  A deadlock across mounts is not noticed.
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
/* Forget all locks; nobody waits any more. */
void locks_done(struct locks *locks);

/*
 * Take, change or give up wait->lock.  0: done; 1: wait was left in the table; -EAGAIN: somebody is
 * in the way; -EDEADLK: waiting would never end; -ENOLCK: no memory.  *ret_ended are the waits of
 * others that ended by it.  now: a time that only rises, in nanoseconds.
 */
int locks_set(struct locks *locks, struct lock_wait *wait, int64_t now,
	      struct lock_wait **ret_ended);
/* Whether a range would be granted; otherwise *ret_lock is the first one in its way.  With F_UNLCK:
 * whether its owner holds nothing there; otherwise *ret_lock is the first that it holds. */
bool locks_test(const struct locks *locks, const struct lock *lock, struct lock *ret_lock);
/* Whether its owner would have less by this request than it has now. */
bool locks_gives_up(const struct locks *locks, const struct lock *lock);

/* Each lock of a file, or of all (ino 0), by file; until fn returns something else than 0. */
typedef int lock_fn(void *arg, const struct lock *lock);
int locks_each(const struct locks *locks, uint64_t ino, lock_fn *fn, void *arg);
/* Whether other mounts were told of locks of a file; and that they were, as long as there are any:
 * 0 or -ENOLCK. */
bool locks_notified(const struct locks *locks, uint64_t ino);
int locks_set_notified(struct locks *locks, uint64_t ino);

/*
 * The right to map a file shared and writable, which open files have until they are gone.  Those of
 * one mount share it.  locks_map() takes it: 0, -ENOLCK or what ask() answers.
 */
int locks_map(struct locks *locks, uint64_t ino, uint64_t file);
/* Whether an open file has it; file 0: any. */
bool locks_maps(const struct locks *locks, uint64_t ino, uint64_t file);

/* Nobody holds anything any more; who waits is granted what he can have by locks_poll(). */
void locks_lose(struct locks *locks);

/* Whether anybody holds anything of a file; without it, nobody waits for it either. */
bool locks_any(const struct locks *locks, uint64_t ino);

/* A descriptor of an open file was closed by the owner of ranges: these are given up. */
void locks_flush(struct locks *locks, uint64_t ino, uint64_t file, uint64_t owner, int64_t now,
		 struct lock_wait **ret_ended);
/* The open file is gone, and all that was taken by it. */
void locks_release(struct locks *locks, uint64_t ino, uint64_t file, struct lock_wait **ret_ended);

/* Stop waiting; NULL when it does not wait (any more). */
struct lock_wait *locks_cancel(struct locks *locks, const void *who);
/* Look whether other mounts have given up what was in the way; whether any wait for that. */
bool locks_poll(struct locks *locks, struct lock_wait **ret_ended);
/* End the waits whose patience has ended; returns the time of the next one, or INT64_MAX. */
int64_t locks_expire(struct locks *locks, int64_t now, struct lock_wait **ret_ended);
/* End all waits. */
void locks_end(struct locks *locks, int error, struct lock_wait **ret_ended);

#endif
