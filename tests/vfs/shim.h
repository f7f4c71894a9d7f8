/* SPDX-License-Identifier: MIT */
#ifndef TESTS_VFS_SHIM_H
#define TESTS_VFS_SHIM_H

/*
 * A SQLite VFS between SQLite and the system's own, for three kinds of accidents: the power fails,
 * a call does, or somebody else comes in between.  shim_install() makes it the default of this
 * process, before anything uses SQLite.
 *
 * Power loss
 *
 *   From shim_record() to shim_recorded() every write, truncation, sync, creation and deletion in
 *   one directory is logged, in the order in which they happen, with the bytes, whichever thread
 *   makes them.  Nothing is really synced meanwhile: a sync is an entry of the log.
 *   shim_cut() then makes the directory as it may be found after the power has failed at some place
 *   of the log.  So one run of a test is cut in as many places and ways as one likes.
 *
 *   What a medium may do is what SQLite assumes (sqlite.org/atomiccommit.html, sections 2 and 9;
 *   sqlite.org/psow.html):
 *   - What was written to a file before its last sync is there.
 *   - Of what was written since, anything may be there: all of it, nothing, some writes without
 *     those before them, some sectors of a write, the new size without the bytes (zeros, or what
 *     the medium held there before).
 *   - Bytes beside those that were written do not change.
 *   - A new name, or the loss of one, is durable when the directory was synced; of later changes
 *     of names a first part is there, as a filesystem's journal keeps them.  The bytes belong to
 *     the file, so a file made anew under an old name may be lost and the old one be there again.
 *   - The unix VFS syncs the directory itself when it syncs a new journal or WAL for the first time
 *     and when it deletes a journal; the shim takes that as given.
 *   - The -shm file is memory shared between processes and does not survive
 *     (sqlite.org/walformat.html, section 2.1).
 *   Files that are made or synced around SQLite are logged, too: one that appears under a name
 *   that SQLite opens counts as made then, and fsync() and fdatasync() of the code under test come
 *   here if the program is linked with -Wl,--wrap=fsync,--wrap=fdatasync.
 *
 * Faults
 *
 *   shim_fail() makes the nth call of one kind fail, or all from the nth on, with the result that
 *   the unix VFS gives for this error (sqlite.org/rescode.html), and errno as the system would set
 *   it.  Calls are counted from there on, in the thread that asked, in the others, or in all.
 *   While a lock is refused for good, SQLite's sleeps take no time.
 *
 * Steps
 *
 *   shim_watch() has a function called before each call on a file, so that somebody else can come
 *   in between: what the function does itself is not watched, and SQLite's sleeps in it take no
 *   time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void shim_install(void);

/* The log. */

struct shim_log;

/* What is in the directory now is durable.  No file in it may be open. */
void shim_record(const char *dir);
/* The log, to be freed. */
struct shim_log *shim_recorded(void);
void shim_log_free(struct shim_log *log);
/* An entry of the caller's. */
void shim_mark(uint64_t number);

enum shim_entry {
	SHIM_WRITTEN,
	SHIM_TRUNCATED,
	SHIM_SYNCED,
	SHIM_CREATED,
	SHIM_DELETED,
	SHIM_DIR_SYNCED,
	SHIM_MARK,
};

size_t shim_log_size(const struct shim_log *log);
enum shim_entry shim_log_entry(const struct shim_log *log, size_t at);
/* Of a SHIM_MARK. */
uint64_t shim_log_mark(const struct shim_log *log, size_t at);

/* What is left of writes that were not synced. */
enum shim_pattern {
	SHIM_DROP_ALL,
	SHIM_KEEP_ALL,
	SHIM_PREFIX,	   /* the first ones, as many as chance will have it, in each file */
	SHIM_SUBSET,	   /* some, and others not: they were reordered */
	SHIM_TEAR_512,	   /* some sectors of this size of some writes */
	SHIM_TEAR_4096,	   /* likewise */
	SHIM_ZERO_TAIL,	   /* none, but the size of the file is the new one: zeros */
	SHIM_GARBAGE_TAIL, /* likewise, but no zeros */
	SHIM_PATTERNS,
};
const char *shim_pattern_name(enum shim_pattern pattern);

struct shim_cut {
	size_t at; /* so many entries of the log come before */
	enum shim_pattern pattern;
	uint64_t seed;
	bool syncs_lie; /* a medium that only says that it has synced */
};

/* Make the directory, which must be empty, as it is found after the power has failed. */
void shim_cut(const struct shim_log *log, const struct shim_cut *cut, const char *dir);

/* Faults. */

enum shim_call {
	SHIM_OPEN,
	SHIM_READ,
	SHIM_WRITE,
	SHIM_SYNC, /* also fsync() and fdatasync() of the code under test */
	SHIM_TRUNCATE,
	SHIM_SIZE,
	SHIM_LOCK,
	SHIM_SHM_MAP,
	SHIM_SHM_LOCK,
	SHIM_DELETE,
	SHIM_ACCESS,
	SHIM_MALLOC, /* SQLite's own */
	SHIM_CALLS,
};
const char *shim_call_name(enum shim_call call);

enum shim_error { SHIM_IO, SHIM_FULL, SHIM_BUSY, SHIM_NOMEM, SHIM_ERRORS };
/* What the operations of a store answer to it: -EIO ... */
int shim_errno(enum shim_error error);
/* Whether such a call can fail like that. */
bool shim_can_fail(enum shim_call call, enum shim_error error);

enum shim_threads { SHIM_THIS_THREAD, SHIM_OTHER_THREADS, SHIM_ALL_THREADS };

struct shim_fault {
	enum shim_call call;
	enum shim_error error;
	enum shim_threads threads;
	uint64_t nth; /* 1: the next one; 0: none, count only */
	bool lasting;
};

void shim_fail(const struct shim_fault *fault);
/* No more faults. */
void shim_heal(void);
/* Calls of the kind since shim_fail(). */
uint64_t shim_calls(void);
/* How many of them failed. */
uint64_t shim_failures(void);

/* Steps. */

/* The call as SQLite names it, without the x; for locks of shared memory "ShmLock" or "ShmUnlock"
 * and the first of them: "ShmLock 1". */
typedef void shim_step_fn(void *arg, const char *step);

/* NULL: no more.  When this returns, no other thread is in the function of before. */
void shim_watch(enum shim_threads threads, shim_step_fn *fn, void *arg);

#endif
