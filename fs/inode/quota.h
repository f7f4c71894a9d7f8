/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_QUOTA_H
#define FS_INODE_QUOTA_H

/*
 * How many bytes a session may hold.
 *
 *   A session's directory may have a quota of its own (QUOTA_ATTRIBUTE), and all that have none go
 *   by that of the store (the setting "quota").  What counts is the sizes of its files: a file with
 *   several names where its newest one lies, one that was unlinked and is open as long as it is.
 *
 *   A batch says how much larger it makes the content of a directory (batch_grows()).  Every batch
 *   passes tree.quota.take() before its commit (commit.c), which fails with -EDQUOT if a session
 *   would outgrow its quota.  The size of a session is counted when it is first needed
 *   (quota-count.c), and each commit of this mount adds to it.  Changes of others make a count
 *   *stale*: it is used for ten times as long as counting takes, a second at most, since it may be
 *   too low by what they have written; near the quota for less, and after the notes of other mounts
 *   are read.  A stale count alone never refuses a batch.
 *
 *   While no session has a quota, nothing is read or counted (tree.quota.on).
 */

#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/inode/tree.h"
#include "backend/base/log-pause.h"

/* batch_grows(): it becomes smaller by an unknown size. */
#define QUOTA_LESS INT64_MIN

/* What is known of a session with its directory.  tree.quota.lock, unless said otherwise. */
struct quota {
	bool looked;	/* for a quota of its own, */
	int64_t own;	/* which is this; -1: it has none */
	uint64_t asked; /* how often it may have changed */
	bool counted;
	bool exact;	    /* what it holds may also be less */
	int64_t used;	    /* with what is just being committed */
	uint64_t pending;   /* of that */
	uint64_t begun;	    /* so much has ever been */
	uint64_t lessened;  /* how often it became smaller */
	uint64_t counts;    /* how often it was counted */
	int64_t counted_at; /* tick_now() */
	int64_t cost;	    /* how long that took */
	uint64_t others;    /* at the count: tree.quota.others then, */
	uint64_t voided;    /* how often all counts were given up, */
	uint64_t freed;	    /* and how many files went that had been unlinked before */
	struct log_pause warned;
};

/* Whether anything has to be counted. */
static inline bool quota_on(const struct tree *tree)
{
	return tree->quota.on;
}

/* 0, or -EDQUOT: what lies in a directory may not become larger by so many bytes. */
int quota_room(struct tree *tree, uint64_t dir, int64_t by);
/* The same for bytes that are not committed yet but certainly will be: they are held until then. */
int quota_charge(struct tree *tree, struct inode *inode, int64_t by);
/* The held bytes of a file are about to be committed; and were, or were not. */
void quota_storing(struct tree *tree);
void quota_stored(struct tree *tree);

/* The quota and size of the session that a directory is or lies in; *ret_limit 0: no quota, and it
 * was counted only if always is set.  -ENODATA: there is no session. */
int quota_stat(struct tree *tree, uint64_t dir, bool always, uint64_t *ret_limit,
	       uint64_t *ret_used);

/* The directory in which a file counts, also one that was unlinked; 0: that is not known.  And
 * batch_grows() of it. */
uint64_t quota_dir(const struct inode *inode);
void quota_grows(const struct inode *inode, int64_t by, struct batch *batch);
/* Set where a file counts when its known name is gone.  Under tree.lock for writing. */
static inline void quota_left(struct tree *tree, struct inode *inode, uint64_t dir)
{
	if (!inode->left_dir && dir)
		tree->quota.left++;
	if (inode->left_dir && !dir)
		tree->quota.left--;
	inode->left_dir = dir;
}

/* The quota attribute of a directory may have changed. */
void quota_look_again(struct tree *tree, struct inode *dir);
/* Others have changed something in a session; data NULL: in any session. */
void quota_stale(struct tree *tree, struct bytes session);
/* All counts are wrong. */
static inline void quota_void(struct tree *tree)
{
	tree->quota.voided++;
}

/* "10M", "0": 0 or -EINVAL. */
int quota_parse(struct bytes text, int64_t *ret_quota);

void quotas_init(struct tree *tree);
void quotas_done(struct tree *tree);

/* quota-count.c: the bytes of all files below a directory, by what the store has. */
int quota_count(struct tree *tree, struct view *view, uint64_t dir, uint64_t *ret_bytes);
/* The held bytes of these files: charged, not stored yet. */
uint64_t quota_held(struct tree *tree, uint64_t dir);

#endif
