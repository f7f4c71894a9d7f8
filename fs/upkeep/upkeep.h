/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_UPKEEP_H
#define FS_UPKEEP_UPKEEP_H

/* What the tree does by itself. */

#include "fs/inode/locks.h"
#include "fs/api/settings.h"
#include "backend/base/log-pause.h"

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

/* What this room keeps of a tree (tree.upkeep). */
struct upkeep {
	/* settings.c: what the store says, as the taker has seen it last. */
	struct settings settings;
	uint64_t max_size;
	/* expire.c */
	pthread_t expirer;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t changed;
	int64_t expire_at;	      /* when sessions are looked at again */
	pthread_t keeper;	      /* writes times, ends ghosts ... */
	struct log_pause ghosts_fail; /* of who ends them: the keeper, and then tree_close() */
	pthread_mutex_t trash_lock;   /* one order of the trash at a time; before tree.lock */
	bool untold;		      /* a mount has not told what it has in use; trash_lock */
};

#endif
