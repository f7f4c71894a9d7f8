/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_UPKEEP_H
#define FS_UPKEEP_UPKEEP_H

/* What the tree does by itself. */

#include "fs/inode/locks.h"

/* The thread that removes what has lived for long enough; the tree is stopping when it is stopped.
 * */
int expire_start(struct tree *tree);
void expire_stop(struct tree *tree);

/* Obey what the store says for all its mounts, when the tree is opened; *ret_why as in
 * settings_read().  And look, in the taker, whether it says something else by now. */
int settings_obey(struct tree *tree, char **ret_why);
void settings_look(struct tree *tree);
/* A session gets a quota of its own: all mounts are to know that there may be one. */
struct batch;
void settings_note_quotas(struct tree *tree, struct batch *batch);
/* Somebody has set a ttl. */
void expire_soon(struct tree *tree);

/* Delete from the store the files that were unlinked while open when the last mount ended without a
 * word; nobody has the tree yet (opening), or any more.  What other programs have written to since
 * stays until their changes are taken in. */
int tree_delete_orphans(struct tree *tree, bool opening);
/* The same, now and then, of those that no mount of the store needs any more. */
int tree_reap_orphans(struct tree *tree);

#endif
