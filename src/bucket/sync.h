/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_SYNC_H
#define BUCKET_SYNC_H

/*
 * Bringing a bucket up to date with a store, or a store with a bucket.
 *
 * Three states decide about each object: the file's, the object's, and how both were when they were
 * last the same.  What has changed on the source's side alone is carried over; what has changed on
 * the other side alone is left to a run the other way; where both have changed and differ, nothing
 * is done but to name it.
 */

#include "src/bucket/bucket.h"
#include "src/exchange/copier.h"

enum { SYNC_DIGEST = 33, SYNC_STAMP = 48, PLAN_TEXTS = 8 };

enum move {
	MOVE_NONE,
	MOVE_SAME, /* only to be kept in mind */
	MOVE_BRING,
	MOVE_DROP, /* on the other side */
	MOVE_COMPARE,
	MOVE_CONFLICT,
};

/* An object of a file, and its lines of the file. */
struct part {
	struct buf key;	    /* with the base, and a NUL that does not count */
	char etag[S3_ETAG]; /* in the bucket; "": it is not there */
	uint64_t size;
	/* When both were the same; "": never.  Then the digest of the lines in the file. */
	char known[S3_ETAG], digest[SYNC_DIGEST];
	int64_t lines;
	/* What sync-file.c finds and does: */
	struct bytes here; /* if is_here */
	struct buf there;  /* the object as the file has it, if fetched */
	time_t modified;
	bool is_here, fetched, replaces;
	char *why; /* it is left out, or what ends all: a sentence without its name */
	enum move move;
};

/* A file that differs. */
struct task {
	char *path;
	enum bucket_form form;
	char stamp[SYNC_STAMP]; /* "" where there is no file */
	uint64_t need;		/* bytes that it may take in memory */
	struct part *parts;
	size_t count, room;
	/* Of sync-file.c: */
	struct sync *sync;
	struct buf local;  /* the file's content */
	struct bytes tail; /* of it, that belongs to no part */
	unsigned lane;
	int error;
};
void task_done(struct task *task);
int task_add(struct task *task, struct part **ret_part);

/*
 * What is known of both sides lies in a temporary database, so memory does not grow with it.  What
 * was last the same is kept in the store, in an ordinary file at its root with a line for each
 * change.  It is no more than a help: where a line is missing or wrong, contents are compared.
 */
#define PLAN_FILES ".sessfs-s3-" /* names of files at the root begin so */
struct plan {
	const struct bucket_layout *layout;
	const char *below; /* where files of the layout begin in the store */
	const char *glob;  /* of the sessions that count; NULL: all */
	bool up;	   /* an export */
	struct buf base;
	struct sqlite3 *db;
	struct sqlite3_stmt *statements[PLAN_TEXTS];
	bool waits;	       /* a task that has been read, but not given: */
	int64_t rank;	       /* of the last one, in its folder */
	struct access *access; /* NULL: there is no store yet, in a dry run */
	char file[64];
	struct buf news; /* lines for the file */
	uint64_t lines;
};

/* Reads what is kept under a name.  0 or -errno. */
int plan_open(struct plan *plan);
/* Writes what is new; closes. */
int plan_close(struct plan *plan);
/* layout_turn() with what stands before files. */
int plan_turn(const struct plan *plan, struct bytes from, bool to_path, struct buf *to,
	      enum bucket_form *ret_form);
/* Forgets both sides, for another look. */
int plan_begin(struct plan *plan);
/* Something that is there: an object and its ETag, or with the key "" a file and its stamp. */
int plan_add(struct plan *plan, const char *path, const char *key, const char *version,
	     uint64_t size);
/* Finds what differs; 0 or -errno. */
int plan_find(struct plan *plan, uint64_t *ret_count, uint64_t *ret_unchanged);
/* The next file that differs, in the order that numbers have, too: 1, 0 at the end.  For an export,
 * those that follow one with is_first are of different folders, until it returns 0, too. */
int plan_next(struct plan *plan, bool is_first, struct task *task);
/* A part is the same on both sides now; with an empty known, both are gone. */
int plan_keep(struct plan *plan, const struct task *task, const struct part *part);
/* Writes news to the store; access_sync() makes it last. */
int plan_flush(struct plan *plan);

enum { SYNC_CREATED, SYNC_REPLACED, SYNC_DELETED, SYNC_CONFLICTS, SYNC_UNCHANGED, SYNC_COUNTS };
struct sync {
	struct copier copier; /* of an import: writes to copier.to; its progress is silent */
	const struct bucket *bucket;
	const struct bucket_layout *layout; /* NULL: find out */
	uint64_t store_layouts;
	bool drop, dry;
	uint64_t counts[SYNC_COUNTS]; /* of a run */
	struct progress progress;
	struct plan plan; /* glob, up and access are the caller's */
};

/* Prepares, and finds out the layout of the bucket.  0, or -errno after a sentence. */
int sync_open(struct sync *sync);
/* Compares and brings over once; may be called again.  0, or -errno after a sentence (but -EINTR
 * says nothing): the rest is not done. */
int sync_run(struct sync *sync);
/* 0, or -errno after a sentence. */
int sync_close(struct sync *sync);
/* A short name for long bytes. */
void sync_digest(struct bytes bytes, char ret_digest[SYNC_DIGEST]);
/* Size and time of a file, "" where there is none: one that was not changed has the same ones. */
int sync_stamp(struct sync *sync, const char *path, char ret_stamp[SYNC_STAMP]);

/* sync-file.c: a file, in three steps, of which several threads may do the second one.  0 or
 * -errno when going on is useless. */
int task_read(struct task *task);
/* Asks the bucket, and writes to it: task->error. */
void task_ask(struct task *task);
/* Writes to the store, counts what was done, and keeps in mind what is the same now. */
int task_finish(struct task *task);

#endif
