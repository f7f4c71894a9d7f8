/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_RECONCILE_H
#define FS_MODEL_RECONCILE_H

/* Inside reconciling (reconcile.c) alone; tree.lock is held for writing. */

#include "fs/model/internal.h"

struct changed_key {
	struct buf session;
	struct buf key;
	int64_t first;
	int64_t stamp;
	bool logged; /* the store waits for BACKEND_CHANGE_DONE */
};

static inline struct bytes key_session(const struct changed_key *key)
{
	return buf_bytes(&key->session);
}

static inline struct bytes key_key(const struct changed_key *key)
{
	return buf_bytes(&key->key);
}

enum {
	PATH_ATTEMPTS = 1000,
	ADOPT_TOGETHER = 64, /* names, at the most, in one commit */
};

/* A name that was given, and is not in the store yet; all is counted or in the batch. */
struct adopted {
	struct inode *dir;
	struct inode *made; /* if it is a directory */
	struct bytes name;
};

/* A directory whose node has changed with it. */
struct adopted_dir {
	struct inode *dir;
	struct backend_node before; /* its times and links */
};

struct adoptions {
	struct batch batch;
	struct adopted names[ADOPT_TOGETHER];
	size_t count;
	struct adopted_dir dirs[2 * ADOPT_TOGETHER];
	size_t dir_count;
};

struct reconciling {
	struct tree *tree;
	struct view view;
	struct notes notes;
	struct changed_key *keys;
	size_t count;
	size_t room;
	bool all; /* any key may have changed, up to this stamp */
	int64_t all_stamp;
	int view_error; /* of renewing the view behind a commit */
	struct adoptions adoptions;
};

/* With a new view behind it.  Nothing works as long as changes wait, so they are taken in on a full
 * disk, too. */
int reconcile_commit(struct reconciling *reconciling, struct batch *batch);
/* The key's bytes are borrowed. */
void reconcile_done(const struct changed_key *key, struct batch *batch);

/* A file for a key that has rows and no file.  It is there when adopt_settle() has returned; the
 * key is borrowed until then. */
int adopt_key(struct reconciling *reconciling, const struct changed_key *key, uint32_t kind,
	      const struct backend_key_stat *stat);
/* Commits what was adopted; with an error, nothing of it has been done.  Comes before any other
 * commit, so that the view stays the same from one key that is adopted to the next: what it told of
 * their rows still holds, whichever of them is looked at first. */
int adopt_settle(struct reconciling *reconciling);

#endif
