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
 *   A batch says how much larger it makes what lies in a directory (batch_grows()), and every one
 *   passes tree.quota.take() before it is committed (commit.c): there a session that would outgrow
 *   its quota is found, and the batch fails with -EDQUOT.  What a session holds is counted when
 *   that is first asked for (quota-count.c), and then kept by what was committed here.  What others
 *   have changed makes a count *stale*: it is good for ten times as long as counting takes, a
 *   second at most, since it may be too low by what they have written; where the quota is nearly
 *   reached, for less, and the notes of other mounts are asked for.  No batch is refused by one.
 *
 *   Where no session has a quota nothing is looked up, asked for, or counted (tree.quota.on).
 */

#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/inode/tree.h"
#include "backend/base/log-pause.h"

/* batch_grows(): it becomes smaller, by how much is not known. */
#define QUOTA_LESS INT64_MIN

/* What is known of a session with its directory.  tree.quota.lock, unless said otherwise. */
struct quota {
	bool looked;	/* for a quota of its own, */
	int64_t own;	/* which is this; -1: it has none */
	uint64_t asked; /* how often it may have become another one */
	bool counted;
	bool exact;	    /* what it holds may also be less */
	int64_t used;	    /* with what is just being committed */
	uint64_t pending;   /* of that */
	uint64_t begun;	    /* so much has ever been */
	uint64_t lessened;  /* how often it became smaller */
	uint64_t counts;    /* how often it was counted */
	int64_t counted_at; /* tick_now() */
	int64_t cost;	    /* how long that took */
	uint64_t others;    /* when it was counted: what others had changed, */
	uint64_t voided;    /* how often all counts were given up, */
	uint64_t freed;	    /* and how many files went that had been unlinked before */
	struct log_pause told;
};

/* Whether anything has to be counted. */
static inline bool quota_on(const struct tree *tree)
{
	return tree->quota.on;
}

/* 0, or -EDQUOT: what lies in a directory may not become larger by so many bytes. */
int quota_room(struct tree *tree, uint64_t dir, int64_t by);
/* The same for what is not committed yet and will be, whatever happens: it is held until then. */
int quota_charge(struct tree *tree, struct inode *inode, int64_t by);
/* What is held of a file is about to be committed; and it was, or not. */
void quota_storing(struct tree *tree);
void quota_stored(struct tree *tree);

/* What the session that a directory is or lies in may hold and holds; *ret_limit 0: as much as it
 * likes, and it was counted only if always is set.  -ENODATA: there is no session. */
int quota_stat(struct tree *tree, uint64_t dir, bool always, uint64_t *ret_limit,
	       uint64_t *ret_used);

/* The directory in which a file counts, also one that was unlinked; 0: that is not known.  And
 * batch_grows() of it. */
uint64_t quota_dir(const struct inode *inode);
void quota_grows(const struct inode *inode, int64_t by, struct batch *batch);
/* Where a file counts when it has no name any more that it knows.  Under tree.lock for writing. */
static inline void quota_left(struct tree *tree, struct inode *inode, uint64_t dir)
{
	if (!inode->left_dir && dir)
		tree->quota.left++;
	if (inode->left_dir && !dir)
		tree->quota.left--;
	inode->left_dir = dir;
}

/* The attribute of a directory may be another one. */
void quota_look_again(struct tree *tree, struct inode *dir);
/* Others have changed something of a session; data NULL: of whatever session. */
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
/* What is charged of them, and not stored yet. */
uint64_t quota_held(struct tree *tree, uint64_t dir);

#endif
