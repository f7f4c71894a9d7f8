/* SPDX-License-Identifier: MIT */
#ifndef FS_SHARE_TELLING_H
#define FS_SHARE_TELLING_H

/* Telling those who follow (fs/cache/happened.h) what other mounts have done. */

#include "fs/cache/cache.h"

struct told_note;

/* What they have left, as long as it is digested; zeroed at first. */
struct telling {
	struct told_note *note;
	size_t count;
	size_t room;
	size_t bytes; /* that they take */
	bool lost;    /* there was too much of it, or no memory, or it cannot be told */
};

/* One more note, in the order in which they were left; nothing if nobody follows.  The view is of a
 * time when all of them were there. */
void telling_add(struct telling *telling, const struct tree *tree, struct view *view,
		 const struct backend_feed *feed);
/* It is digested: say what has happened.  tree.lock is held for writing, and no view is open. */
void telling_send(struct telling *telling, struct tree *tree, struct notes *notes);
void telling_done(struct telling *telling);

#endif
