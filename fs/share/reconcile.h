/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_RECONCILE_H
#define FS_SHARE_RECONCILE_H

/* Inside reconciling (reconcile.c) alone; tree.lock is held for writing, but not over a commit. */

#include "fs/base/batch.h"
#include "fs/cache/cache.h"
#include "fs/inode/commit.h"
#include "fs/share/gather.h"
#include "fs/tree/tree.h"

struct changed_key {
	struct buf session;
	struct buf key;
	int64_t first;
	bool rewritten; /* rows that were there may have changed */
	int64_t stamp;	/* as the store has logged it: negative when it was set apart */
	bool logged;	/* the store waits for BACKEND_CHANGE_DONE */
	bool rowless;	/* nothing is to be done unless it has no rows */
	bool rest;	/* nothing is to be done unless it has rows and no file: rest.c */
	bool settle;	/* its change may not stay in the log: unsettled.c */
	/* What the walk knows already. */
	bool has_stat;
	bool has_kind;
	uint32_t kind;
	struct backend_key_stat stat;
	/* What was looked at (look.c), as is its stat and kind, in the view with this number: rows,
	 * a file, an orphan and the directory of the session are all missing, and the place of that
	 * directory is empty; or the directory is there, and the name that a file gets is free in
	 * it. */
	unsigned looked;
	bool no_rows, no_file, no_orphan, no_session, no_name;
	uint64_t dir; /* 0: not looked for */
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
	STEP_KEYS = 64, /* beside those that are wanted */
	LOOK_KEYS = STEP_KEYS,
};

struct reconciling {
	struct tree *tree;
	struct view view;
	unsigned views; /* so far */
	struct notes notes;
	struct changed_key *keys;
	size_t count;
	size_t room;
	size_t wanted;	      /* of the keys: those that somebody waits for, the first */
	struct wanted *asked; /* what these are of */
	bool more;	      /* others wait for the next step */
	bool all;	      /* any key may have changed, up to this stamp */
	int64_t all_stamp;
	int64_t newest; /* stamp of a change that the store told of */
	bool may_stay;	/* changes may stay in its log (unsettled.c) */
	int view_error; /* of renewing the view behind a commit */
	struct gathered gathered;
};

/* Whether what was looked at of a key holds still. */
static inline bool key_holds(const struct reconciling *reconciling, const struct changed_key *key)
{
	return key->looked == reconciling->views;
}

/* digest.c */

/* Take in what other mounts have committed: 1, or 0 when there is nothing.  No view may be open. */
int digest_feed(struct tree *tree, struct notes *notes);

/* look.c */

/* What it needs to know of some keys, LOOK_KEYS at the most, in few questions. */
int reconcile_look(struct reconciling *reconciling, size_t first, size_t end);

/* reconciling.c */

int reconcile_begin(struct reconciling *reconciling); /* its view */
/* The view is another one then.  On a full disk, too: nothing works as long as changes wait. */
int reconcile_commit(struct reconciling *reconciling, struct batch *batch);
/* One more key to be taken in: session, key, first and rewritten of a change, and if the store has
 * logged it, the stamp.  Copies the bytes. */
int reconcile_add(struct reconciling *reconciling, const struct backend_change *change,
		  bool logged);
/* Whether it is one of those that are collected because somebody waits for them. */
bool reconcile_has(const struct reconciling *reconciling, const struct backend_change *change);
/* Whether they stand before some that this mount has appended: the store has said where. */
bool rows_are_known(const struct inode *inode, const struct backend_feed *feed);
/* The inode of the file that has the rows, if it is known, as a reference; or NULL. */
int rows_inode(struct tree *tree, struct view *view, const struct backend_feed *feed,
	       struct inode **ret_inode);
/* The key's bytes are borrowed. */
void reconcile_done(const struct changed_key *key, struct batch *batch);
/* What a file had before others changed it, if somebody needs that and it was kept; or NULL. */
struct version *reconcile_version(struct tree *tree, struct inode *inode);
/* What others have changed of a key by now, after what was taken in: the first row, INT64_MAX if
 * nothing.  With a view. */
int64_t changed_since(struct reconciling *reconciling, struct bytes session, struct bytes key);

/* reconcile.c */

/* Take in all keys that were collected. */
int reconcile_take_in(struct reconciling *reconciling);
void reconcile_free(struct reconciling *reconciling);

/* rest.c */

/* Collect, of what is asked, the keys that may have no files although they have rows, but for those
 * that are collected. */
int rest_collect(struct reconciling *reconciling);
/* They are taken in. */
void rest_settle(struct reconciling *reconciling);

/* reconcile-key.c */

/* Bytes of a state file, of which no more were shown; UINT64_MAX: not known. */
uint64_t known_size(const struct inode *inode);
/* Whether rows from first on stand behind all of the list, as it was shown last. */
bool is_behind_list(const struct inode *inode, int64_t first);
/* What stands below a draft is another thing, but the draft is what it was: a save of it that was
 * begun is none of something older. */
void draft_stays(struct inode *draft);
/* Take one key in; borrowed. */
int reconcile_one(struct reconciling *reconciling, const struct changed_key *key);
/* A sidecar that came may make a list of the single beside it, which is one more key then. */
int reconcile_neighbour(struct reconciling *reconciling, const struct changed_key *key);

/* adopt.c */

/* A file for a key that has rows and no file, with the owner and the mode of another one (like), or
 * with those of the root (NULL).  It is there when gather_settle() has returned; the key is
 * borrowed until then. */
int adopt_key(struct reconciling *reconciling, const struct changed_key *key, uint32_t kind,
	      const struct backend_key_stat *stat, const struct backend_node *like);

/* apart.c */

/* Set a key apart that could not be taken in, because of an error, in a commit of its own.  Returns
 * an error when that fails as well: then it is not this key's fault. */
int apart_set(struct reconciling *reconciling, const struct changed_key *key, int error);
/* A key was taken in: if it was set apart, it is so no more. */
void apart_end(struct reconciling *reconciling, const struct changed_key *key);
/* Collect those that are to be tried again. */
int aparts_collect(struct reconciling *reconciling);

#endif
