/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_UPKEEP_H
#define FS_UPKEEP_UPKEEP_H

/* Upkeep: what the tree does without a request. */

#include "fs/inode/locks.h"
#include "fs/api/settings.h"
#include "backend/base/log-pause.h"

/* The thread that removes expired sessions; it is stopped while the tree is stopping. */
int expire_start(struct tree *tree);
void expire_stop(struct tree *tree);

/* Obey the store's settings, when the tree is opened; *ret_why as in settings_read().  And check,
 * in the taker, whether they have changed. */
int settings_obey(struct tree *tree, char **ret_why);
void settings_look(struct tree *tree);
/* A session gets a quota of its own: tell all mounts that there may be one. */
struct batch;
void settings_note_quotas(struct tree *tree, struct batch *batch);
/* A ttl was set. */
void expire_soon(struct tree *tree);

/* Delete from the store the files that were unlinked while open when the last mount ended without a
 * word; the tree is not in use yet (opening), or any more.  Files that other programs have written
 * to since stay until their changes are taken in. */
int tree_delete_orphans(struct tree *tree, bool opening);
/* The same, now and then, for files that no mount of the store needs any more. */
int tree_reap_orphans(struct tree *tree);

/* What this room keeps of a tree (tree.upkeep). */
struct upkeep {
	/* settings.c: the store's settings as the taker saw them last. */
	struct settings settings;
	uint64_t settings_at; /* backend.settings then */
	uint64_t max_size;
	/* expire.c */
	pthread_t expirer;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t changed;
	int64_t expire_at;	      /* when sessions are checked again */
	pthread_t keeper;	      /* writes times, ends ghosts ... */
	struct log_pause ghosts_fail; /* failures to end them: the keeper's, and then
					 tree_close()'s */
	pthread_mutex_t trash_lock;   /* one order of the trash at a time; before tree.lock */
	bool uses_pending;	      /* a mount has not said yet what it has in use; trash_lock */
};

#endif
