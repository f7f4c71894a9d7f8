/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_GATHER_H
#define FS_SHARE_GATHER_H

/* What is taken in together: gather.c.  tree.lock is held for writing. */

#include "fs/base/batch.h"
#include "fs/tree/tree.h"

struct changed_key;
struct reconciling;

enum {
	ADOPT_TOGETHER = 128, /* names, at the most, in one commit */
	REMOVE_TOGETHER = 64,
};

/* A name that was given, and is not in the store yet; all is counted or in the batch. */
struct adopted {
	struct inode *dir;
	struct inode *made; /* if it is a directory */
	struct bytes name;
	struct backend_node node;
	int64_t items; /* of a list; -1: it is none */
	bool old;      /* its rows were there before the store, which is no event */
};

/* A file that is about to go; all is counted or owned. */
struct removal {
	struct inode *inode;
	struct inode *dir;
	struct buf name;
	struct unlinking unlinking;
	struct version *before; /* what readers in the middle of it go on with, or NULL */
};

/* A directory whose node has changed with them. */
struct gathered_dir {
	struct inode *dir;
	struct backend_node before; /* its times and links */
	bool loses;
};

/* What is committed together. */
struct gathered {
	struct batch batch;
	struct adopted names[ADOPT_TOGETHER];
	size_t count;
	struct removal removals[REMOVE_TOGETHER];
	size_t removal_count;
	struct gathered_dir dirs[2 * ADOPT_TOGETHER + REMOVE_TOGETHER];
	size_t dir_count;
};

/* A directory gets a name, or loses it, with what is gathered; and so many links. */
void gather_dir(struct reconciling *reconciling, struct inode *dir, int links, bool loses);
/* Commits what was gathered; with an error, nothing of it has been done.  Comes before any other
 * commit, so that the view stays the same from one key to the next: what it told of their rows
 * still holds, whichever of them is looked at first. */
int gather_settle(struct reconciling *reconciling);
/* Instead: as if nothing had been gathered. */
void gather_drop(struct reconciling *reconciling);

/* removals.c */

/* A file whose key has no rows any more goes, with the directories that are empty then. */
int removal_add(struct reconciling *reconciling, const struct changed_key *key,
		struct inode *inode);
/* For one that is in the batch: it is committed; it is done with in any case. */
void removal_apply(struct reconciling *reconciling, struct removal *removal);
void removal_end(struct reconciling *reconciling, struct removal *removal);
/* A directory that has lost names goes as well if it is empty, and so on, up to the session. */
int remove_empty(struct reconciling *reconciling, struct inode *dir);

#endif
