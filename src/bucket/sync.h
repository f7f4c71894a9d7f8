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

#include <semaphore.h>

#include "backend/base/digest.h"
#include "src/bucket/bucket.h"
#include "src/exchange/copier.h"

enum { SYNC_STAMP = S3_ETAG + 24, SYNC_TEXTS = 7 };

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
	struct buf key; /* with the base, and a NUL that does not count */
	/* Its stamps: of now, "" if it is not there, and of when both were the same, "": never. */
	char now[SYNC_STAMP], known[SYNC_STAMP];
	char digest[DIGEST_TEXT]; /* of the lines in the file, then */
	int64_t lines;
	struct bytes here; /* if is_here */
	/* The last one about it: its data is the object as the file has it, if fetched; why says
	 * that it is left out, or what ends all. */
	struct s3_request asked;
	bool is_here, fetched, replaces;
	enum move move;
};

/* A file that differs. */
struct task {
	struct sync *sync;
	char *path;
	enum bucket_form form;
	char stamp[SYNC_STAMP]; /* "" where there is no file */
	uint64_t need;		/* bytes that it may take in memory */
	struct part *parts;
	size_t count, room;
	struct buf local;  /* the file's content */
	struct bytes tail; /* of it, that belongs to no part */
	sem_t asked;
	size_t folder; /* bytes of the path */
	unsigned lane; /* which thread asks; in an export, the same one for all of a folder */
	int error;
};

enum { SYNC_CREATED, SYNC_REPLACED, SYNC_DELETED, SYNC_CONFLICTS, SYNC_UNCHANGED, SYNC_COUNTS };
struct sync {
	struct copier copier; /* of an import: writes to copier.to; its progress is silent */
	const struct bucket *bucket;
	const struct bucket_layout *layout; /* NULL: find out */
	struct access *access;		    /* NULL: there is no store yet, in a dry run */
	uint64_t store_layouts;
	const char *glob; /* of the sessions that count; NULL: all */
	bool up;	  /* an export */
	bool drop, dry;
	uint64_t counts[SYNC_COUNTS]; /* of a run */
	/* Of sync.c: */
	struct progress progress;
	struct buf base; /* where keys of it begin in the bucket */
	struct sqlite3 *db;
	struct sqlite3_stmt *statements[SYNC_TEXTS];
	char file[64];	       /* that keeps what was last the same */
	char read[SYNC_STAMP]; /* of it, when it was read */
	struct buf news;       /* lines for it */
	uint64_t lines;	       /* in it, */
	uint64_t known;	       /* and how many say what is still so */
};

/* Prepares, and finds out the layout of the bucket.  0, or -errno after a sentence. */
int sync_open(struct sync *sync);
/* Compares and brings over once; may be called again.  0, or -errno after a sentence (but -EINTR
 * says nothing): the rest is not done. */
int sync_run(struct sync *sync);
/* 0, or -errno after a sentence. */
int sync_close(struct sync *sync);

/* A part is the same on both sides now; with an empty known, both are gone.  The stamp is that of
 * its file. */
int sync_keep(struct sync *sync, const struct part *part, const char *stamp);
/* What was not changed has the same stamp: "SIZE TIME" of a file, "SIZE ETAG" of an object.  "": it
 * is not there. */
int sync_stamp(struct sync *sync, const char *path, char ret_stamp[SYNC_STAMP]);
void sync_stamp_object(uint64_t size, const char *etag, char ret_stamp[SYNC_STAMP]);

int task_add(struct task *task, struct part **ret_part);
void task_done(struct task *task);
/* sync-file.c: a file, in three steps, of which several threads may do the second one.  0 or
 * -errno when going on is useless. */
int task_read(struct task *task);
/* Asks the bucket, and writes to it: task->error. */
void task_ask(struct task *task);
/* Writes to the store, counts what was done, and keeps in mind what is the same now. */
int task_finish(struct task *task);

#endif
