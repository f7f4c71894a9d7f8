/* SPDX-License-Identifier: MIT */
#ifndef FS_EVENTS_EVENTS_H
#define FS_EVENTS_EVENTS_H

/* The door of this room: saying what has happened, for those who follow.  What is kept of it, and
 * how it is read, is in fs/events/log/log.h. */

#include "fs/cache/cache.h"
#include "fs/events/log/log.h"

/* following.c: who follows what happens in a tree, and which path a file has. */

/* Somebody follows a directory, or no more.  Events are kept for a while behind the last one.  No
 * lock is held; since as for event_reader_begin(). */
int following_begin(struct tree *tree, struct inode *dir, int64_t since,
		    struct event_reader *reader);
void following_end(struct tree *tree, struct event_reader *reader);
/* Whether that while is over is looked at now and then. */
void following_look(struct tree *tree);

/* The path of a name in a directory, as events have it; dir NULL and no name: the root's.  Under
 * tree.lock. */
int following_path(const struct inode *dir, struct bytes name, struct buf *path);
/* Text as a line of JSON can have it: bytes that are no UTF-8 are shown as names (names.h). */
int following_text(struct bytes text, struct buf *shown);

/* happened.c: saying it.  An event is one more of the notices (fs/cache/notes.h): it is told when
 * the kernel has been. */

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

/* others.c: what other mounts have done. */

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
