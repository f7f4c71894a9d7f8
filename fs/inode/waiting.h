/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_WAITING_H
#define FS_INODE_WAITING_H

/*
 * Waiting for what others have changed.
 *
 *   It is taken in by a thread of the tree's, the taker, which has to commit for that.  A request
 *   that comes upon such changes (-ESTALE) asks the taker, and waits for it.  What other mounts
 *   have left is digested in memory alone, which the request does by itself, if nobody is in the
 *   way.
 *
 *   Another program may have changed very much, or hold the store's lock.  So a request waits for a
 *   twentieth of a second, or a second if the taker comes no further; then the taker is *late*, and
 *   until it has taken in everything, requests go past what waits: each asks only for the keys that
 *   it uses (inode_view_begin(), key_heed()).  If one of those waits, it is *wanted*: it comes
 *   next, and the request waits for that, ten seconds at the most if nothing happens.  A batch that
 *   names one is refused by the store, and its keys are wanted, too.  What is asked by no key, such
 *   as the list of all sessions, is meanwhile what was taken in last, and so is the list of a
 *   session when the taker has come no further for a second.
 *
 *   Other mounts may commit, again and again, before a request has a view of what they have left.
 *   After some tries, or one more beside a taker that is late, it takes the store's turn: they wait
 *   until it has digested that, if need be behind a step of the taker, and has run once more.
 */

#include "fs/inode/locks.h"

/* A view of the content of one file, under its lock. */
int inode_view_begin(struct tree *tree, const struct inode *inode, struct view *view);
/* Whether a view may be used for a key, or with key.data NULL for all of a session: 0, or
 * -ESTALE. */
int key_heed(struct tree *tree, const struct view *view, struct bytes session, struct bytes key);
/* The same of the key of a state file. */
int inode_heed(struct tree *tree, const struct view *view, const struct inode *inode);
/*
 * What was there before the store.
 *
 *   A store may be made beside the rows of a service, and these may be many.  As long as it says so
 *   (BACKEND_UNADOPTED), there may be rows that have no files and that nobody has told of.  One
 *   mount walks over all of them by and by (share/rest.c).  Until it is through, a name that is not
 *   there is asked for in the rows (tree/rest.c); the session that has it is wanted, and all of it
 *   taken in.  So is a session before it is listed (inode.whole).  Who lists a directory that
 *   sessions lie in waits at the end of it for more.
 */
/* All of a session, or a key of it, is wanted: -ESTALE. */
int rest_want(struct tree *tree, struct bytes session, struct bytes key);
/* Wait until the walk has come one step further: 1, or 0 if it has ended; -EBUSY: it gets on no
 * more.  No lock is held. */
int rest_wait(struct tree *tree);
/* Whether no other program has changed anything for ten minutes, as far as that counts: commits
 * that can wait do so until then (share/unsettled.c). */
bool tree_is_quiet(const struct tree *tree);
/* What a batch names, which the store has refused. */
void tree_want_batch(struct tree *tree, const struct backend_op *ops, size_t count);

/* The taker's. */

struct wanted {
	struct wanted *next;
	struct buf session;
	struct buf key;
	bool whole; /* the session, whatever the key */
};
/* What is wanted, the newest first, and is not from now on; owned by the caller. */
struct wanted *wanted_take(struct tree *tree);
void wanted_free(struct wanted *wanted);

/* The thread; it ends when tree.stopping is set. */
int taker_start(struct tree *tree, void *run(void *arg));
void taker_stop(struct tree *tree);
/* How often it was asked, and whether it has done so often. */
bool taker_asked(struct tree *tree, uint64_t *ret_asked);
/* It has come one step further; it has taken in all that it was asked for, or failed. */
void taker_stepped(struct tree *tree);
void taker_has(struct tree *tree, uint64_t asked, int result);
/* Sleep for so long, or until the taker has done something, tree_rouse() is called or was since the
 * last time, or the tree is closed. */
void tree_doze(struct tree *tree, int milliseconds);
void tree_rouse(struct tree *tree);

void waiting_init(struct tree *tree);
void waiting_done(struct tree *tree);

#endif
