/* SPDX-License-Identifier: MIT */
#ifndef FS_EVENTS_EVENTS_H
#define FS_EVENTS_EVENTS_H

/* The door of this room: reporting events to readers that follow a tree.  The kept events, and how
 * to read them, are in fs/events/log/log.h. */

#include "fs/cache/cache.h"
#include "fs/events/log/log.h"

/* following.c: the followers of a tree, and the paths of files. */

/* A reader begins or ends to follow a directory.  Events are kept for a while after the last reader
 * has ended.  No lock is held; since as for event_reader_begin(). */
int following_begin(struct tree *tree, struct inode *dir, int64_t since,
		    struct event_reader *reader);
void following_end(struct tree *tree, struct event_reader *reader);
/* Called now and then: ends keeping events when that while is over. */
void following_look(struct tree *tree);

/* The path of a name in a directory, as events have it; dir NULL and an empty name: the root's.
 * Under tree.lock. */
int following_path(const struct inode *dir, struct bytes name, struct buf *path);
/* Text for a line of JSON: bytes that are not UTF-8 are shown as in names (names.h). */
int following_text(struct bytes text, struct buf *shown);

/* An event that is being made, with the buffers of its texts. */
struct composing {
	struct event event;
	struct buf session;
	struct buf key;
	struct buf path;
	struct buf from;
};
void composing_done(struct composing *composing);
/* A text of it: what is in its buffer. */
static inline struct bytes composing_text(const struct buf *buf)
{
	return bytes_make(buf->size ? buf->data : "", buf->size);
}
/* The same, shown; a text without data stays as it is. */
int composing_show(struct bytes text, struct buf *buf, struct bytes *ret_text);

/* happened.c: reporting an event.  It is one more of the notices (fs/cache/notes.h): readers get it
 * after the kernel got its notices. */

/* What an operation has done, when memory has it.  Size and items are looked up. */
struct happened {
	enum event_what what;
	enum event_by by;
	enum event_moves moves;
	struct inode *inode; /* the file; */
	/* or its node, if dir and name are set, */
	const struct backend_node *node;
	int64_t items; /* and so many items (-1: not known) */
	/* Its name, unless the node says it; and the one that it had before. */
	const struct inode *dir;
	struct bytes name;
	const struct inode *from_dir;
	struct bytes from;
	int64_t first; /* EVENT_APPEND to a list: index of the first item that was added */
	/* For a change of another mount: a view in which the file is as that mount has left it, if
	 * there is one; with the number of its items then, if it is a list. */
	struct view *view;
};

void notes_happened_now(struct notes *notes, struct tree *tree, const struct happened *happened);
/* Anything may have changed. */
void notes_lost(struct notes *notes, struct tree *tree);
/* An event that is known already. */
void notes_event(struct notes *notes, struct tree *tree, const struct event *event);

/* Under inode.lock, or tree.lock for writing.  Does nothing without followers.  The kernel is
 * notified first, also of what it does itself, such as the names of its requests. */
static inline void notes_happened(struct notes *notes, struct tree *tree,
				  const struct happened *happened)
{
	if (events_wanted(&tree->events))
		notes_happened_now(notes, tree, happened);
}

/* others.c: what other mounts have done. */

struct held_note;

/* The notes that they have left, while they are digested; zeroed at first. */
struct telling {
	struct held_note *note;
	size_t count;
	size_t room;
	size_t bytes; /* bytes of these notes */
	bool lost;    /* there were too many, or no memory, or they cannot be reported */
};

/* Add a note, in the order in which they were left; does nothing without followers.  The view shows
 * all of them.  0, or -ESTALE when it shows them no longer: they are digested again. */
int telling_add(struct telling *telling, const struct tree *tree, struct view *view,
		const struct backend_feed *feed);
/* They are digested: report what has happened.  tree.lock is held for writing, and no view is
 * open. */
void telling_send(struct telling *telling, struct tree *tree, struct notes *notes);
void telling_done(struct telling *telling);

#endif
