/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_SHARE_H
#define FS_SHARE_SHARE_H

/* The door of this room: living with others who change the rows. */

#include "fs/inode/locks.h"

/* Take in what others changed, in steps between which others come to use the tree. */
int tree_reconcile(struct tree *tree);
/* Digest what other mounts have left: 1, or 0 when there was nothing, or -errno.  While somebody is
 * changing the tree, nothing is done (0), or, if patient, he is waited for. */
int tree_digest_now(struct tree *tree, bool patient);

/* Whether a key that is set apart is to be tried again.  No lock is held. */
bool aparts_are_due(struct tree *tree);
/* Whether changes that stay in the store's log are to be settled. */
bool unsettled_are_due(struct tree *tree);
/* rest.c: one step of the walk over rows that were there before the store, if this mount is to
 * walk; whether there is more to be done at once.  The taker's. */
bool rest_step(struct tree *tree);
/* All of it, in a tree whose taker does not run yet. */
int rest_take_in(struct tree *tree);
/* There is nothing to be walked over any more; the taker's, or when it has ended. */
void rest_done(struct tree *tree);
/* No rows are without a file any more. */
void rest_end(struct tree *tree);

#endif
