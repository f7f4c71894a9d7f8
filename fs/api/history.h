/* SPDX-License-Identifier: MIT */
#ifndef FS_API_HISTORY_H
#define FS_API_HISTORY_H

/*
 * What people and commands do with history (backend/history.h): see what was changed, put it back,
 * have it forgotten.
 *
 * The last two are done by a store that was opened with rows_only: each is one commit of rows and
 * nothing else, and to every mount a change by another program, which it takes in as such.
 */

#include "backend/backend.h"

/* A change of a key. */
struct history_change {
	struct bytes key;
	int64_t time; /* nanoseconds since 1970 */
	enum history_what {
		HISTORY_SAVE,
		HISTORY_APPEND,
		HISTORY_DELETE,
		HISTORY_MOVE,
		HISTORY_UNDO,
		HISTORY_MERGED,
		HISTORY_RETURN, /* of a file that had been removed */
	} what;
	uint64_t items; /* that were taken away, or added */
	uint64_t added; /* by a save, too */
	int64_t first;	/* lowest and highest index of them */
	int64_t last;
	int64_t by;	/* HISTORY_MOVE: how far those behind went */
	int64_t to;	/* HISTORY_UNDO: time as of which all was put back */
	uint64_t bytes; /* of what was taken away */
	int64_t pid;	/* process that did it; 0: SQL; -1: not known */
};

typedef int history_change_fn(void *arg, const struct history_change *change);
/* The changes of a session, or (key.data) of one key, the newest first, at most so many. */
int history_changes(struct backend *backend, struct bytes session, struct bytes key, size_t most,
		    history_change_fn *fn, void *arg);

/* What putting back does to a key. */
struct history_undone {
	struct bytes key;
	int64_t time;	   /* as of which it is then */
	uint64_t restored; /* rows that come back, be it in the place of others */
	uint64_t removed;  /* rows that go, be it for others */
};

typedef int history_undone_fn(void *arg, const struct history_undone *undone);
/* As of a time: one commit for all keys.  fn is told of each key that changes, before that.
 * -ENODATA: nothing has changed since. */
int history_undo(struct backend *backend, struct bytes session, struct bytes key, int64_t time,
		 bool dry_run, history_undone_fn *fn, void *arg);

/* All rows of a key go for good, or those with an index from first to last, with all that was kept
 * of the key; with key.data NULL the same of all keys of the session.  -ENOENT: there is nothing.
 * */
int history_forget(struct backend *backend, struct bytes session, struct bytes key, int64_t first,
		   int64_t last);

/* A new session with the rows of another one as of a time (INT64_MAX: now), in one transaction. */
struct history_fork {
	struct bytes session;
	struct bytes to;
	struct bytes key; /* of this one alone; data NULL: of all */
	int64_t time;
	int64_t first; /* items of lists, both inclusive; INT64_MIN, INT64_MAX: all */
	int64_t last;
	bool rewrites; /* the id becomes the new one also in items, keys and files of text, */
	struct bytes part, part_to; /* as the client has it; set by tree_fork() */
};
/* The new id may be all of one, or what the client knows a session by (layouts.h).  -ENOENT: there
 * is no such session; -EEXIST: there is one of the new id; -EINVAL: its id is not part of its path,
 * or the new one would not be such a session; -EOPNOTSUPP. */
struct tree;
int tree_fork(struct tree *tree, const struct history_fork *fork, uint64_t *ret_rows);
/* In words (fs/api/trash.h). */
int order_fork(struct buf *order, const struct history_fork *fork);

/* The ops of the rows of a key as those of another one (fs/base/batch.h). */
struct batch;
struct backend_node;
int history_copy(struct backend *backend, struct backend_snapshot *snapshot,
		 const struct history_fork *fork, const struct backend_node *from,
		 const struct backend_node *to, struct batch *batch, uint64_t *ret_rows);

#endif
