/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_REMOVALS_H
#define FS_SHARE_REMOVALS_H

/* Files whose rows other programs have deleted: removals.c.  tree.lock is held for writing. */

#include "fs/share/reconcile.h"

/* A file whose key has no rows any more.  It goes when removals_settle() has returned, with the
 * directories that are empty then; the key is borrowed until then. */
int removal_add(struct reconciling *reconciling, const struct changed_key *key,
		struct inode *inode);
int removals_settle(struct reconciling *reconciling);
/* Instead: as if nothing had been gathered. */
void removals_drop(struct reconciling *reconciling);

#endif
