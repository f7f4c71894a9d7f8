/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_NOTES_H
#define FS_CACHE_NOTES_H

/* Notices to the kernel, collected under the locks (notes.c) and sent without them (notify.c).
 * Other rooms have this by cache.h. */

#include "fs/inode/locks.h"

/* A notice for the watcher, sent once the locks are free: of an entry, or a nodeid. */
struct note {
	bool is_entry;
	bool is_own;	 /* which leads to the same file as before */
	uint64_t number; /* the directory's, or a nodeid */
	int64_t offset;	 /* from which on the pages go; -1: attributes only */
	char *name;	 /* of the entry; NULL: all entries */
	size_t name_size;
	struct notice *notice; /* instead: a change of a file with faces */
	bool is_event;	       /* instead: an event may be seen, behind all of the others */
	int64_t event;	       /* its number */
};

/* All notices of one operation; ends with notes_send(). */
struct notes {
	struct note *note;
	size_t count;
	size_t room;
	size_t sent; /* the first so many are sent already */
	/* That the caller reads in meanwhile, or NULL: what waits for its end may be what a read in
	 * another one would wait for. */
	struct view *view;
};

enum change {
	CHANGE_ATTR,	 /* attributes only */
	CHANGE_GREW,	 /* bytes were added behind those that were there */
	CHANGE_REPLACED, /* anything else */
};
/* All notes_*() but notes_send() are under inode.lock, or tree.lock for writing. */

/* The content or attributes of a file have changed.  size_before: the size from before, or
 * UINT64_MAX when that is not known.  by: the face through which the kernel itself changed it, or
 * NULL. */
void notes_change(struct notes *notes, struct tree *tree, struct inode *inode, enum change change,
		  uint64_t size_before, const struct face *by);
/* The same for bytes that were written or cut from offset on without a stage, when the file was a
 * state file and has several faces (write/handle.c), or with by NULL also when it has one. */
void notes_plain(struct notes *notes, struct tree *tree, struct inode *inode, uint64_t size_before,
		 uint64_t offset, const struct face *by);
/* Make the kernel ask again for the attributes of a face. */
void notes_attr(struct notes *notes, const struct inode *inode, const struct face *face);
/* The kernel has put bytes into pages of a face, from offset on, that lie elsewhere in the file. */
void notes_misplaced(struct notes *notes, const struct inode *inode, const struct face *face,
		     uint64_t offset);
/* A directory's entries have changed. */
void notes_dir(struct notes *notes, uint64_t ino);
void notes_entry(struct notes *notes, uint64_t parent, struct bytes name);
/* Any name may lead elsewhere. */
void notes_all_names(struct notes *notes);
/* Make the kernel look the name of a state file up again. */
void notes_own_entry(struct notes *notes, struct tree *tree, struct inode *inode);
/* A name is about to change, or has just changed, by a request of the kernel: look it up again, but
 * only after that request has ended. */
void notes_name(struct notes *notes, uint64_t parent, struct bytes name);
/* An event with this number may be seen when what was noted before has been sent
 * (fs/events/log/log.h). */
void notes_number(struct notes *notes, struct tree *tree, int64_t number);
/* Make the kernel forget all of an old face, which is then free, unless a reader that needs its
 * content has come by then. */
void notes_renew(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* Forget the pages of a face without readers. */
void notes_forget(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* Make the kernel ask again for the attributes of a face, at once.  The kernel does not wait for
 * anything to do that, so this does not wait for its turn; no lock of the tree may be held. */
void notify_attr(struct tree *tree, const struct inode *inode, unsigned face);
/* Whether the kernel holds a nodeid; likewise. */
bool kernel_holds(struct tree *tree, uint64_t nodeid);
/* Which notices the caller waits for; the tree's notifiers send the rest.  To forget a name the
 * kernel locks the directory, which an unlink or a rename of the file holds while it waits for the
 * file.  So a request during which the kernel holds the directory or the file (WRITE, SETATTR,
 * FSYNC) must not wait for names. */
enum notify_how {
	NOTIFY_LATER,	/* for nothing */
	NOTIFY_CONTENT, /* for all but names */
	NOTIFY_ALL,
};
/* Send and free; no lock of the tree may be held.  The notes may be used again. */
void notes_send(struct notes *notes, struct tree *tree, enum notify_how how);
/* TREE_RETRY() of a call that has &notes among its arguments, which are sent behind it. */
#define TREE_RETRY_NOTING(tree, how, call)                                                         \
	({                                                                                         \
		struct notes notes = { 0 };                                                        \
		__typeof__(call) noted_ = TREE_RETRY(tree, call);                                  \
		notes_send(&notes, (tree), (how));                                                 \
		noted_;                                                                            \
	})
/* Queue all for the notifiers while locks are held, so that the locks' next holder finds it queued
 * (tree_when_notified()).  Without memory it stays for notes_send(). */
void notes_queue(struct notes *notes, struct tree *tree);
/* The tree's notifiers, two threads.  They have sent all that is queued when they have stopped. */
int notifiers_start(struct tree *tree);
void notifiers_stop(struct tree *tree);
/* Send once more the notices of nodeids that the kernel did not know a second ago; no lock is
 * held. */
void notify_missed(struct tree *tree);

#endif
