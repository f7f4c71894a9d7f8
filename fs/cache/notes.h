/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_NOTES_H
#define FS_CACHE_NOTES_H

/* Notices to the kernel, collected under the locks (notes.c) and sent without them (notify.c).
 * Other rooms have this by cache.h. */

#include "fs/inode/locks.h"

/* What the watcher is to be notified of once the locks are free: an entry, or a nodeid. */
struct note {
	bool is_entry;
	bool is_own;	 /* which leads to the same file as before */
	uint64_t number; /* the directory's, or a nodeid */
	int64_t offset;	 /* from which on the pages go; -1: attributes only */
	char *name;	 /* of the entry; NULL: all entries */
	size_t name_size;
	struct notice *notice; /* instead: a change of a file with faces */
	bool is_event;	       /* instead: one may be seen, behind all of the others */
	int64_t event;	       /* its number */
};

/* All that one operation has to tell; ends with notes_send(). */
struct notes {
	struct note *note;
	size_t count;
	size_t room;
	size_t sent; /* the first so many are sent already */
};

enum change {
	CHANGE_ATTR,	 /* attributes only */
	CHANGE_GREW,	 /* bytes were added behind those that were there */
	CHANGE_REPLACED, /* anything else */
};
/* All notes_*() but notes_send() are under inode.lock, or tree.lock for writing. */

/* The content or attributes of a file have changed.  size_before: what it had, or UINT64_MAX when
 * that is not known.  by: the face through which the kernel changed it and so knows, or NULL. */
void notes_change(struct notes *notes, struct tree *tree, struct inode *inode, enum change change,
		  uint64_t size_before, const struct face *by);
/* The same for what was written or cut from offset on without being staged, when the file was a
 * state file and has several faces (write/handle.c), or with by NULL also when it has one. */
void notes_plain(struct notes *notes, struct tree *tree, struct inode *inode, uint64_t size_before,
		 uint64_t offset, const struct face *by);
/* The attributes of a face shall be asked for again. */
void notes_attr(struct notes *notes, const struct inode *inode, const struct face *face);
/* The kernel has put bytes into pages of a face, from offset on, that are elsewhere in the file. */
void notes_misplaced(struct notes *notes, const struct inode *inode, const struct face *face,
		     uint64_t offset);
/* A directory's entries have changed. */
void notes_dir(struct notes *notes, uint64_t ino);
void notes_entry(struct notes *notes, uint64_t parent, struct bytes name);
/* Any name may lead elsewhere. */
void notes_all_names(struct notes *notes);
/* The name of a state file shall be looked up again. */
void notes_own_entry(struct notes *notes, struct tree *tree, struct inode *inode);
/* A name is about to change, or has just changed, by a request of the kernel: it shall be looked up
 * again, and not before that request has ended. */
void notes_name(struct notes *notes, uint64_t parent, struct bytes name);
/* An event with this number may be seen when what was noted before has been sent
 * (fs/events/log/log.h). */
void notes_number(struct notes *notes, struct tree *tree, int64_t number);
/* The kernel shall forget all of an old face, which is old no longer then, unless by then a reader
 * has come that needs what it shows. */
void notes_renew(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* The pages of a face that nobody reads shall go. */
void notes_forget(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* The kernel shall ask again for the attributes of a face.  It waits for nothing to do that, so no
 * turn is waited for; no lock of the tree may be held. */
void notify_attr(struct tree *tree, const struct inode *inode, unsigned face);
/* Whether the kernel holds a number; likewise. */
bool kernel_holds(struct tree *tree, uint64_t nodeid);
/* What the caller waits for until the kernel knows; the tree's notifiers send the rest.  To forget
 * a name the kernel takes the directory, which whoever unlinks or renames the file has, and then
 * waits for the file.  So a request during which the kernel holds the directory or the file (WRITE,
 * SETATTR, FSYNC) does not wait for names. */
enum notify_how {
	NOTIFY_LATER,	/* for nothing */
	NOTIFY_CONTENT, /* for all but names */
	NOTIFY_ALL,
};
/* Send and free; no lock of the tree may be held.  The notes may be used again. */
void notes_send(struct notes *notes, struct tree *tree, enum notify_how how);
/* Leave it all to the notifiers while locks are held, so that whoever comes to have them next finds
 * it there (tree_when_notified()).  When that cannot be, it stays for notes_send(). */
void notes_queue(struct notes *notes, struct tree *tree);
/* The tree's notifiers, two threads.  What was left to them is sent when they have stopped. */
int notifiers_start(struct tree *tree);
void notifiers_stop(struct tree *tree);
/* Send once more what the kernel did not know a second ago; no lock is held. */
void notify_missed(struct tree *tree);

#endif
