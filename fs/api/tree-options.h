/* SPDX-License-Identifier: MIT */
#ifndef FS_API_TREE_OPTIONS_H
#define FS_API_TREE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"

struct tree;

/* What the store says of strict, exact, pause, ttl, grace, history, max_size and quota counts
 * before what is here (fs/api/settings.h). */
struct tree_options {
	bool read_only;
	bool strict;   /* refuse bytes that are not JSON with EINVAL (contract, section 6) */
	bool relayout; /* opened to place all files by another layout (fs/api/layout.h) */
	bool whole;    /* rows that were there before the store get files before it is opened */
	bool exact;    /* never close off a torn line of a dead writer (contract, section 5) */
	bool set_pause;
	unsigned pause; /* a whole save is published after so many seconds without a write; 0: only
			   when its writer closes or syncs; not set: 1 */
	/* Remove sessions automatically: those with a ttl of their own that has run out, those
	 * without one that have not changed for ttl (0: none), and for good what was in the trash
	 * for its grace. */
	bool expires;
	int64_t ttl; /* nanoseconds, as the next two */
	int64_t grace;
	int64_t history; /* how long what is removed or replaced may come back */
	uint64_t history_size;
	uint64_t max_size; /* quota of the store in bytes; 0: none */
	uint64_t quota;	   /* of each session that has none of its own; 0: none */
	/* Clauses of a question: the root shows its matches, and nothing else is there; NULL: none.
	 * Used by tree_open() alone. */
	const char *view;
	bool set_uid; /* show every file as owned by uid; likewise gid */
	bool set_gid;
	bool set_umask; /* clear these bits in every mode shown */
	uid_t uid;
	gid_t gid;
	mode_t umask;
	/* Whether a process has an open file with this nodeid of the mount, opened in one of these
	 * ways (enum descriptor_access): 1, 0; -ENOENT: there is no such process; -ESRCH: it has no
	 * descriptors at all, like a thread of the kernel; -errno: not known.  Called with locks
	 * held, from any thread.  NULL: each close is taken for the last. */
	int (*has_open)(void *arg, pid_t pid, uint64_t nodeid, unsigned access);
	void *arg;
};

/* Whether a tree can be shown through these clauses (NULL: it is shown as it is); -EINVAL, with a
 * sentence for the user in *ret_why, owned by the caller. */
int tree_judge_view(const char *clauses, char **ret_why);

/* Make a tree over a store; takes the store over on success and closes it in tree_close().  On
 * failure *ret_why is a sentence for the user, owned by the caller.  Starts a thread of its own, so
 * call it after any fork. */
int tree_open(struct backend *backend, const struct tree_options *options, struct tree **ret_tree,
	      char **ret_why);
/* Write what is pending, sync and close.  NULL is fine. */
void tree_close(struct tree *tree);

#endif
