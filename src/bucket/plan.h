/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_PLAN_H
#define BUCKET_PLAN_H

/*
 * What is known of both sides: what is in the bucket, what is in the store, and how both were when
 * they were last the same.  It lies in a temporary database, so memory does not grow with it.
 *
 * What was last the same is kept in the store, in an ordinary file at its root with a line for each
 * change.  It is no more than a help: where a line is missing or wrong, contents are compared.
 */

#include <sys/stat.h>

#include "backend/s3/s3.h"
#include "src/bucket/layout.h"
#include "src/store/access.h"

/* A file's size and time; a file that was not changed has the same ones. */
struct stamp {
	int64_t size; /* -1: there is none */
	int64_t ctime;
};

/* An object of a file, and the lines in it. */
struct item {
	struct buf key;	    /* with the base */
	char etag[S3_ETAG]; /* in the bucket, "": it is not there */
	uint64_t size;
	char modified[32];
	char known_etag[S3_ETAG]; /* when both were the same, "": never */
	char known_md5[S3_HASH];  /* of the lines in the file */
	int64_t lines;
};

struct task {
	char *path, *folder;
	struct buf place; /* its name, in an order that numbers have, too */
	enum bucket_form form;
	struct stamp stamp;
	struct item *items;
	size_t count, room;
};
void task_done(struct task *task);
int task_add(struct task *task, struct item **ret_item);

#define PLAN_FILES ".sessfs-s3-" /* names of files at the root begin so */
enum { PLAN_TEXTS = 16 };
struct plan {
	const struct bucket_layout *layout;
	const char *root;
	const char *glob; /* of the sessions that count; NULL: all */
	struct buf base;
	struct sqlite3 *db;
	struct sqlite3_stmt *statements[PLAN_TEXTS];
	struct access *access; /* NULL: nothing is kept */
	char file[64];
	struct buf news; /* lines for the file */
	uint64_t lines, unchanged;
};

/* Reads what is kept under a name.  0 or -errno. */
int plan_open(struct plan *plan);
/* Writes what is new; closes. */
int plan_close(struct plan *plan);
/* Forgets both sides, for another look. */
int plan_begin(struct plan *plan);
/* Something that is there: 1, or 0 when it does not belong to the layout; -EINVAL as layout.h. */
int plan_add_object(struct plan *plan, const struct s3_object *object);
int plan_add_file(struct plan *plan, const char *path, const struct stat *st);
/* Finds what differs; 0 or -errno. */
int plan_find(struct plan *plan, uint64_t *ret_count);
/* The next file that differs: behind the task's own in its folder, 1 or 0; or the first of the
 * first folder behind it. */
int plan_next(struct plan *plan, struct task *task, bool in_folder);
/* An item of a file, which has this stamp, is now the same as its object; with an empty known_etag,
 * both are gone. */
int plan_keep(struct plan *plan, const struct task *task, const struct item *item,
	      const struct stamp *stamp);
/* Writes news to the store; access_sync() makes it last. */
int plan_flush(struct plan *plan);

#endif
