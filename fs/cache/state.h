/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_STATE_H
#define FS_CACHE_STATE_H

/* Inside this room: what it keeps of a tree (tree.cache). */

#include "fs/cache/cache.h"

enum { NOTIFIER_FILES, NOTIFIER_NAMES, NOTIFIERS };

struct notifier {
	struct tree *tree;
	pthread_t thread;
	struct notify_job *jobs;
	struct notify_job **jobs_end;
	pthread_cond_t given; /* a job, where there was none */
	bool busy;
};

/* A thread that got ESTALE, for any file that it comes to next. */
struct retrying {
	uint64_t number; /* counts them up; 0: a free slot */
	pid_t pid;
	enum face_kind kind;
	uint64_t nodeid;  /* for which it got ESTALE */
	uint64_t found;	  /* the nodeid of its last lookup since; 0: it has looked up none */
	unsigned lookups; /* since */
	bool asked;	  /* for attributes, since the last of them */
};

enum { AGAIN_SETS = 64, AGAIN_SLOTS = 8 };

struct cache {
	/* notify.c: what the notifiers send, and the threads that wait for their turn. */
	pthread_mutex_t lock; /* of what follows it */
	struct tree_watcher watcher;
	pthread_cond_t changed;
	struct notifier notifier[NOTIFIERS];
	bool stop;
	unsigned notifying;    /* callers that send notices themselves */
	struct missed *missed; /* the newest first */
	/* again.c; tree.table_lock */
	struct retrying again[AGAIN_SETS][AGAIN_SLOTS]; /* the set is that of the pid */
	uint64_t again_last;
	_Atomic unsigned again_count;
	_Atomic bool unseen; /* threads of other pid namespaces look names up */
};

/* Whether a thread got ESTALE, and for what. */
bool again_get(struct tree *tree, pid_t pid, struct retrying *ret_again);

#endif
