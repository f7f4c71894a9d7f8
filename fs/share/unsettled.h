/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_UNSETTLED_H
#define FS_SHARE_UNSETTLED_H

/* Changes of other programs that stay in the store's log: unsettled.c.  tree.lock is held for
 * writing. */

#include "fs/share/reconcile.h"

/* Whether a change may stay in the store's log; kind is what its rows say that the file is. */
int unsettled_may_be(struct reconciling *reconciling, const struct changed_key *key,
		     struct inode *inode, uint32_t kind, bool *ret_may);
/* It does, and the file is what it says. */
void unsettled_add(struct reconciling *reconciling, const struct changed_key *key,
		   struct inode *inode, const struct backend_key_stat *stat);
/* Settle one of which nothing is new. */
int unsettled_settle(struct reconciling *reconciling, const struct changed_key *key,
		     struct inode *inode);
/* Whether another mount has settled what this one had seen. */
bool unsettled_was_seen(struct tree *tree, const struct backend_feed *feed);
/* It does no longer, if it did. */
void unsettled_end(struct tree *tree, struct inode *inode);
/* The lowest index of what is new in it; and whether nothing is. */
int64_t unsettled_first(const struct changed_key *key, const struct inode *inode);
bool unsettled_is_seen(const struct changed_key *key, const struct inode *inode);
/* Collect those that are to be settled. */
int unsettled_collect(struct reconciling *reconciling);

#endif
