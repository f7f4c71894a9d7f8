/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_SYNC_H
#define BUCKET_SYNC_H

/*
 * Bringing a bucket up to date with a store, or a store with a bucket.
 *
 * Three states decide about each object: the file's, the object's, and how both were when they were
 * last the same (plan.h).  What has changed on the source's side alone is carried over; what has
 * changed on the other side alone is left to a run the other way; where both have changed and
 * differ, nothing is done but to name it.
 */

#include <pthread.h>

#include "src/bucket/bucket.h"
#include "src/bucket/plan.h"
#include "src/exchange/copier.h"

struct sync {
	struct copier copier; /* of an import: writes to copier.to; its progress is silent */
	const struct bucket *bucket;
	const struct bucket_layout *layout; /* NULL: find out */
	struct access *access;		    /* NULL: there is no store yet, in a dry run */
	uint64_t store_layouts;
	const char *glob;
	bool up; /* export */
	bool drop, dry;
	/* Results: */
	uint64_t created, replaced, removed, conflicts, unchanged;
	/* Of this file: */
	struct progress progress;
	struct plan plan;
	pthread_mutex_t lock; /* for all of the above, and the store */
	pthread_cond_t changed;
	struct task last; /* that was claimed */
	bool claiming;
	uint64_t claimed, done, held;
	unsigned running;
	int error;
};

/* Prepares, and finds out the layout of the bucket.  0, or -errno after a sentence. */
int sync_open(struct sync *sync);
/* Compares and brings over once; may be called again.  0, or -errno after a sentence (but -EINTR
 * says nothing): the rest is not done. */
int sync_run(struct sync *sync);
/* 0, or -errno after a sentence. */
int sync_close(struct sync *sync);

/* sync-file.c: one file; called without the lock.  0, or -errno when going on is useless. */
int sync_file(struct sync *sync, struct task *task, uint64_t ticket);
/* Waits until all that were claimed before are done: what is written is written in order. */
void sync_turn(struct sync *sync, uint64_t ticket);

#endif
