/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_HAPPENED_H
#define FS_CACHE_HAPPENED_H

/* Saying what has happened, for those who follow (fs/events/events.h).  It is one more of the
 * notices (notes.h): he is told when the kernel has been. */

#include "fs/cache/notes.h"
#include "fs/inode/following.h"

/* What an operation has done, when memory has it.  What the file has now is found out. */
struct happened {
	enum event_what what;
	enum event_by by;
	enum event_moves moves;
	struct inode *inode; /* the file; */
	/* or its node, then it has a name below, */
	const struct backend_node *node;
	int64_t items; /* and so many items (-1: not known) */
	/* Its name, unless that is as the node says; and the one that it had before. */
	const struct inode *dir;
	struct bytes name;
	const struct inode *from_dir;
	struct bytes from;
	int64_t first; /* EVENT_APPEND to a list: index of the first item that was added */
	/* Of the file of what others have done: in which it is as they have left it, if that is
	 * known; with the items that it has then, if it is a list. */
	struct view *view;
};

void notes_happened_now(struct notes *notes, struct tree *tree, const struct happened *happened);
/* Anything may have changed. */
void notes_lost(struct notes *notes, struct tree *tree);
/* An event that is known already. */
void notes_event(struct notes *notes, struct tree *tree, const struct event *event);

/* Under inode.lock, or tree.lock for writing.  Nothing if nobody follows.  What the kernel does by
 * itself, such as the names that its requests are about, is among what is told first. */
static inline void notes_happened(struct notes *notes, struct tree *tree,
				  const struct happened *happened)
{
	if (events_wanted(&tree->events))
		notes_happened_now(notes, tree, happened);
}

#endif
