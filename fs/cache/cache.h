/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_CACHE_H
#define FS_CACHE_CACHE_H

/* The door of this room: what the kernel has cached of the files, and notifying it of changes. */

#include "fs/inode/locks.h"

/* notes.c, notify.c: notices to the kernel, collected under the locks and sent without them. */

/* What the watcher is to be notified of once the locks are free. */
struct note {
	bool is_entry;
	bool is_own;	 /* which leads to the same file as before */
	uint64_t number; /* the directory's, or a nodeid */
	int64_t offset;
	char *name;
	size_t name_size;
	struct notice *notice; /* instead: a change of a file with faces */
};

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
/* The content or attributes of a file have changed.  size_before: what it had, or UINT64_MAX when
 * that is not known.  by: the face through which the kernel changed it and so knows, or NULL.
 * Under inode.lock, or tree.lock for writing. */
void notes_change(struct notes *notes, struct tree *tree, struct inode *inode, enum change change,
		  uint64_t size_before, const struct face *by);
/* The same for what was written or cut from offset on without being staged, when the file was a
 * state file and has several faces (write/handle.c). */
void notes_plain(struct notes *notes, struct tree *tree, struct inode *inode, uint64_t size_before,
		 uint64_t offset, const struct face *by);
/* The attributes of a face shall be asked for again. */
void notes_attr(struct notes *notes, const struct inode *inode, const struct face *face);
/* A directory's entries have changed. */
void notes_dir(struct notes *notes, uint64_t ino);
void notes_entry(struct notes *notes, uint64_t parent, struct bytes name);
/* The name of a state file shall be looked up again. */
void notes_own_entry(struct notes *notes, struct tree *tree, const struct inode *inode);
/* The kernel shall forget all of an old face, which is old no longer then, unless by then somebody
 * has come who needs what it shows. */
enum renew {
	RENEW_UNLESS_NEEDED, /* face_is_needed() */
	RENEW_UNLESS_UNREAD, /* or has yet to read to its end */
	RENEW_ANYWAY,
};
void notes_renew(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face,
		 enum renew unless);
/* The pages of a face that nobody reads shall go. */
void notes_forget(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* The kernel shall ask again for the attributes of a face.  It waits for nothing to do that, so no
 * turn is waited for; no lock of the tree may be held. */
void notify_attr(struct tree *tree, const struct inode *inode, unsigned face);
/* Send and free.  What the caller waits for until the kernel knows; the tree's notifier sends the
 * rest.  Of a name the kernel learns only when it has the directory, which whoever unlinks or
 * renames the file has, and then waits for the file: so nobody waits for names who serves a request
 * during which the kernel holds the directory or the file (WRITE, SETATTR, FSYNC). */
enum notify_how {
	NOTIFY_LATER,	/* for nothing */
	NOTIFY_CONTENT, /* for all but names */
	NOTIFY_ALL,
};
void notes_send(struct notes *notes, struct tree *tree, enum notify_how how);
void *notifier_run(void *arg);
/* Send once more what the kernel did not know a second ago. */
void notify_missed(struct tree *tree);

/*
 * Faces: the numbers under which the kernel knows one file.
 *
 *   The kernel keeps one page cache and one idea of the size for each nodeid, and a write by any
 *   handle moves that size to where the kernel guesses that the file now ends.  For a state file
 *   the guess is often wrong: a writer's unfinished line is held back, a save is not published yet,
 *   another writer has appended meanwhile.  Who then reads through the page cache (sendfile,
 *   copy_file_range, mmap) sees NULs behind the true end.  So readers and writers of a state file
 *   that are open at the same time never share a nodeid: the file has several, its faces, all with
 *   one st_ino.  The first face's nodeid is the inode's number; the others have the number of the
 *   face in the upper bits.
 *
 * Which face
 *
 *   A face is free for a reader when it shows the newest content and nobody writes there, and for a
 *   writer when nobody else has it open at all: a writer is alone.  The kernel opens the nodeid
 *   that it remembers for a name; when that face is not free, the answer is ESTALE: the kernel
 *   looks the name up again and tries once more, all in the same thread.  That thread is led: the
 *   lookup gives it a face that is free, which is kept for it until it comes (struct led).  The
 *   kernel tries once more only, so who was told ESTALE is never told so again (tree.again): when
 *   the name leads to another file by then, a face of that is kept instead.  A thread that finds no
 *   name gives up, and its next open is a first try again.  Who comes to the same face
 *   again was not led by a name: it opens an open file, through /proc/self/fd.  If somebody
 *   writes there, it joins that writer (struct writing).  A thread that we cannot see, of another
 *   pid namespace, is served where it comes.
 *
 * Own faces
 *
 *   As soon as a writer has something that is not published, its face is its own: all that goes
 *   through it (fstat, mmap, sendfile, inherited descriptors) sees what was written, and the name
 *   is made to lead elsewhere, to what is published: who had looked it up before and asks for
 *   attributes is told ESTALE once.  It is given back at the close that publishes.  A writer that
 *   came to a face that was not free has none of its own.
 *
 * Old faces
 *
 *   When a save replaces the content of a file, the faces stay what they are whose readers need
 *   that: pages, size and all.  They become old, with a copy of the previous content (struct
 *   version) for the pages that the kernel does not have yet, and the name is made to lead to
 *   another face.  Nothing but to ask for the attributes is told to the kernel about an old face,
 *   so nothing can disturb a reader in the middle.  It is old no longer when the last reader that
 *   needs it has closed it or read it to its end.
 *
 *   A face that nobody has open and to which no name leads, but that the kernel has not forgotten,
 *   is pinned: a file watch, a bind mount or a descriptor with O_PATH is there.  When it is free,
 *   the name is made to lead to it.
 *
 *   Direct reads (struct handle) do not go by the face: each handle sees one version, that of its
 *   open first, and from a read at offset 0 on until the next one.
 *
 * All of it under inode.lock, or tree.lock for writing. */

/* version.c */

/* Whether somebody needs what the file has now once the saver has published. */
bool versions_wanted(const struct inode *inode, const struct writing *saver);
/* Before the commit; failing to copy is no reason not to save. */
struct version *version_take(struct view *view, struct inode *inode);
/* After the commit: those who need it count it.  Whether a face is old now, so that the name must
 * be looked up again. */
bool versions_apply(struct notes *notes, struct inode *inode, const struct writing *saver,
		    struct version *version);

/* No thread in particular. */
enum { NOBODY = -1 };

/* Bytes of a list from which on its readers have the page cache, unless it is being written when
 * they open it (open.c). */
enum { FACE_CACHED = 1 << 20 };

struct face *inode_face(struct inode *inode, unsigned number);
/* The same of a number that somebody has kept, as new as the file if it was forgotten since. */
struct face *face_for_number(struct inode *inode, unsigned number);
/* The face that a name leads to for this thread; NULL when there is no memory for one. */
struct face *face_for_lookup(struct tree *tree, struct inode *inode, pid_t pid);
/* The face that a handle is opened on: the one that the kernel asks for, if it is free or the
 * thread was led here or cannot be led; NULL when the answer is to be ESTALE. */
struct face *face_for_open(struct tree *tree, struct inode *inode, unsigned number,
			   enum face_kind kind, pid_t pid);
/* As face_for_open(), when the answer tells the nodeid: always one that is free, if possible. */
struct face *face_for_create(struct inode *inode, enum face_kind kind);
/* Whether the size may be set through this face; if not, the thread was led to another. */
bool face_for_truncate(struct tree *tree, struct inode *inode, unsigned number, pid_t pid);

/* A thread is told ESTALE; and its next try has ended. */
void again_add(struct tree *tree, pid_t pid, enum face_kind kind, uint64_t nodeid);
void again_end(struct tree *tree, pid_t pid);

/* Whether a thread asks again for a nodeid's attributes, or is about to open: not by a name. */
bool again_asks(struct tree *tree, pid_t pid, uint64_t nodeid);

/* Whether readers have a face open, or one is led to it. */
bool face_is_read(const struct inode *inode, const struct face *face);
/* A handle was opened on a face; true when notify_attr() is due before the open is answered.  A
 * handle is closed, and no longer among those of its inode; 1 when notes_renew() is due. */
bool face_opened(struct face *face, struct handle *handle, pid_t pid);
int face_closed(struct handle *handle);
/* What a thread writes to that opens a face where somebody writes, not by a name but through an
 * open file; NULL when it comes by a name. */
struct writing *face_writing(struct tree *tree, struct inode *inode, unsigned number, pid_t pid);
/* From now on a face is the writer's own, if nobody reads there; and no more. */
void face_take(struct notes *notes, struct tree *tree, struct writing *writing);
void face_give_back(struct writing *writing);
/* The kernel shall look the name of a state file up again. */
void name_forget(struct notes *notes, struct tree *tree, struct inode *inode);
/* Nobody may have a face open any more to which no name leads: then the name is looked up again, by
 * when it is known whether the face is pinned. */
void face_settle(struct notes *notes, struct tree *tree, struct inode *inode,
		 const struct face *face);
/* Whether somebody needs that a face goes on showing what it shows: who has yet to read it, is in
 * the middle of it, or reads it through the page cache.  Who has read it to its end by direct reads
 * does not, and is shown what is new. */
bool face_is_needed(const struct inode *inode, const struct face *face);
/* Whether it is not renewed, after all. */
bool face_stays_old(const struct inode *inode, const struct face *face, enum renew unless);
/* Somebody asks for the size of an old face, by a descriptor.  If all have read what it shows,
 * without asking for more, it is old no longer: who follows a file asks again. */
void face_asked(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* The kernel has forgotten what it had of an old face: it shows the newest content. */
void face_renew(struct face *face);

#endif
