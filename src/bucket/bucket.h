/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_H
#define BUCKET_H

/* A bucket as a user names it, s3://BUCKET[/PREFIX], backups in it, its layouts, and bringing it up
 * to date with a store. */

#include <semaphore.h>
#include <stdatomic.h>

#include "backend/base/digest.h"
#include "backend/s3/s3.h"
#include "src/exchange/copier.h"
#include "src/exchange/copy.h"
#include "src/rows/rows.h"

struct bucket {
	const char *url; /* borrowed */
	char *name;
	const char *prefix; /* behind BUCKET/, as it was given; "" without one */
	const struct s3_ops *ops;
	struct s3 *s3;
	const char *place; /* "scheme://host[:port]" */
};

extern const char bucket_scheme[];
/* Loads the plugin; where has what a command was told.  The bucket was zeroed, and is released by
 * bucket_done() in any case.  0, or -errno after a sentence. */
int bucket_open(const char *url, const struct s3_options *where, struct bucket *bucket);
void bucket_done(struct bucket *bucket);

/* As the plugin has it, but a failure is said. */
int bucket_perform(const struct bucket *bucket, struct s3_request *request);

/* A store's copy as one object.  It gets its name when it is whole, with its SHA-256 beside it, and
 * is read back.  An object that exists stays, unless it is to be replaced.  keep: 0, or of how many
 * backups of this name the latest stay; then each has the time in its name.  0, or -errno after a
 * sentence. */
int backup_put(struct copy *copy, const struct s3_options *where, uint64_t keep);
/* The object of that name, or the latest backup that was made with keep. */
int backup_get(struct copy *copy, const struct s3_options *where);

/*
 * A layout says which object is which file of the store, by templates (fs/base/template.h).  Keys
 * are relative to the base, which is what stands before all of them: the prefix of the URL and a
 * slash, or without a prefix what the layout's own client uses then.
 */
enum bucket_form {
	FORM_DOCUMENT = 1, /* JSON, byte for byte */
	FORM_TEXT,	   /* any bytes */
	FORM_LIST,	   /* a JSON array, of which each element is a line of the file */
	FORM_PARTS, /* some of the file's lines; the objects follow one another by their keys */
};

enum { BUCKET_CLAUDE = 2, BUCKET_LAYOUTS = 4, BUCKET_KINDS = 4 };
struct bucket_layout {
	const char *name, *help;
	const char *without[2]; /* what a base may be without a prefix, the second one or NULL, */
	const char *behind;	/* and with one, if more stands behind it; or NULL */
	bool joined; /* instead: the prefix without slashes around it, or all of it, and a slash */
	/* The variable s or S is the session.  Only those with capital letters may have slashes; n
	 * is a number. */
	struct {
		const char *key, *path;
		enum bucket_form form;
	} kinds[BUCKET_KINDS];
};
/* Behind the last one, BUCKET_CLAUDE in a store that has the layout claude (fs/base/layout.h). */
extern const struct bucket_layout bucket_layouts[BUCKET_LAYOUTS + 1];

/* By its name, or NULL. */
const struct bucket_layout *layout_named(const char *name);
/* Finds out by the first objects which layout (NULL: any) and which base a bucket has, or may have.
 * 0, or -errno after a sentence. */
int layout_find(const struct bucket *bucket, const struct bucket_layout **layout, struct buf *base);
/* The path of an object, or the key of a file (with FORM_PARTS, what the keys of its parts begin
 * with), with a NUL that does not count: its form; 0: it is none of this layout, or the session
 * does not fit the pattern of the shell (NULL: all); -EINVAL: it would be, but has a name that the
 * other side cannot have; -ENOMEM. */
int layout_turn(const struct bucket_layout *layout, const char *from, bool to_path,
		const char *glob, struct buf *to);

/*
 * Bringing a bucket up to date with a store, or a store with a bucket.
 *
 * Three states decide about each object: the file's, the object's, and how both were when they were
 * last the same.  What has changed on the source's side alone is carried over; what has changed on
 * the other side alone is left to a run the other way; where both have changed and differ, nothing
 * is done but to name it.
 */
enum { SYNC_STAMP = S3_ETAG + 24 };

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
	/* An object that is not what the file has, or that no file can have: its stamp when it was
	 * fetched, and its digest or what is wrong with it. */
	char seen[SYNC_STAMP], shows[DIGEST_TEXT];
	struct bytes here; /* if is_here */
	/* The last one about it: its data is the object as the file has it, if fetched; why says
	 * that it is left out, or what ends all. */
	struct s3_request asked;
	bool is_here, fetched, is_news; /* what was seen is to be kept in mind */
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
	unsigned lane; /* which thread asks; in an export, the same one for all of a folder */
	int error;
};

struct sync {
	struct copier copier; /* what is told and counted; did: of the objects */
	const struct bucket *bucket;
	const struct bucket_layout *layout; /* and base: by layout_find() */
	struct buf base;		    /* where keys of it begin in the bucket */
	struct access *access;		    /* NULL: there is no store yet, in a dry run */
	uint64_t store_layouts;
	const char *glob; /* of the sessions that count; NULL: all */
	bool up;	  /* an export */
	bool drop, dry, watch;
	int64_t every;		 /* nanoseconds from one round to the next; 0: the default */
	struct s3_options where; /* the bucket */
	/* Of sync.c: */
	struct rows rows;
	char file[64];	    /* that keeps what was last the same */
	struct buf news;    /* lines for it */
	int64_t lines;	    /* in it */
	atomic_uint denied; /* objects, one after the other */
	unsigned told;	    /* sentences in this round */
};

/* Compares and brings over once; may be called again.  0, or -errno after a sentence (but -EINTR
 * says nothing): the rest is not done. */
int sync_run(struct sync *sync);
void sync_close(struct sync *sync);

/* Counts, and says a sentence, which is taken over, unless a round before has said it. */
int sync_say(struct sync *sync, uint64_t *count, char *sentence);
/* A part is the same on both sides now; with an empty known, both are gone.  The stamp is that of
 * its file; NULL: it is not the same, but was seen. */
int sync_keep(struct sync *sync, const struct part *part, const char *stamp);
/* What was not changed has the same stamp: "SIZE TIME" of a file, "SIZE ETAG" of an object.  "": it
 * is not there, or no file.  st may be NULL. */
int sync_stamp(struct sync *sync, const char *path, const struct stat *st,
	       char ret_stamp[SYNC_STAMP]);

/* One with this key behind the base; NULL: no memory. */
struct part *task_add(struct task *task, const char *key);
void task_done(struct task *task);
/* sync-file.c: a file, in three steps, of which several threads may do the second one.  0 or
 * -errno when going on is useless. */
int task_read(struct task *task);
/* Asks the bucket, and writes to it: task->error. */
void task_ask(struct task *task);
/* Writes to the store, counts what was done, and keeps in mind what is the same now. */
int task_finish(struct task *task);

#endif
