/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_TRASH_INTERNAL_H
#define FS_UPKEEP_TRASH_INTERNAL_H

/* What trash.c, trash-look.c and trash-return.c share. */

#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/base/entries.h"
#include "fs/inode/locks.h"
#include "fs/inode/trashed.h"

#define TRASH_SECOND INT64_C(1000000000) /* nanoseconds */

/* homes.c */

/* All homes of a session, of which one may be known, as entries that know only the nodes. */
int homes_of(struct view *view, uint64_t layout, const struct backend_node *home,
	     struct bytes session, struct entries *homes);

/* trash-look.c */

/* All that is in a directory, each directory before its content. */
int family_find(struct view *view, uint64_t dir, struct entries *family);
/* The struct session_look of a session with these homes, and this family below them.  rows: what
 * session_stat() says, or NULL. */
int family_look(struct view *view, const struct entries *homes,
		const struct backend_session_stat *rows, const struct entries *family,
		struct session_look *look);

/* fork.c: an order behind its first word. */
int fork_order(struct tree *tree, struct bytes order);

/* trash-return.c: the directory in which a path has its last name, counted; -ENOENT: one on the way
 * is not there, -EEXIST: one is a file.  The name is part of the path. */
int path_parent(struct tree *tree, struct view *view, struct bytes path, struct inode **ret_dir,
		struct bytes *ret_name);

/* trash.c */

/* An operation under trash_lock that returns -EAGAIN is tried again until each mount has said what
 * it has in use, or until this time: then it is -EBUSY. */
int64_t uses_wait_until(const struct tree *tree);
bool uses_wait(struct tree *tree, int64_t until, int *r);
#define TRASH_RETRY(tree, call)                                                                    \
	({                                                                                         \
		const int64_t until_ = uses_wait_until(tree);                                      \
		int tried_;                                                                        \
		do                                                                                 \
			tried_ = TREE_RETRY(tree, call);                                           \
		while (uses_wait(tree, until_, &tried_));                                          \
		tried_;                                                                            \
	})

#endif
