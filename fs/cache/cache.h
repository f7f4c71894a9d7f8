/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_CACHE_H
#define FS_CACHE_CACHE_H

/* The door of this room: what the kernel has cached of the files, and notifying it of changes. */

#include "fs/cache/notes.h"

/*
 * Faces: the numbers under which the kernel knows one file.
 *
 *   The kernel keeps one page cache and one idea of the size for each nodeid, and a write by any
 *   handle moves that size to where the kernel guesses that the file now ends.  For a state file
 *   the guess is often wrong: a writer's unfinished line is held back, a save is not published yet,
 *   another writer has appended meanwhile.  A read through the page cache (sendfile, mmap,
 *   copy_file_range) then sees NULs behind the true end.  So readers and writers of a state file
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
 *   kernel tries once more only, so a thread is not told ESTALE twice (tree.cache.again): when the
 *   name leads to another file by then, a face of that is kept instead.  A thread that finds no
 *   name gives up, and its next open is a first try again.  A thread that comes to the same face
 *   again was not led by a name: it opens an open file, through /proc/self/fd, and joins the
 *   writer of that face, if there is one (struct writing).  A thread that we cannot see, of another
 *   pid namespace, is served where it comes; so each that looks a name up is shown a face of its own,
 *   which is kept for it (face.promised), and the kernel asks for such a name each time.
 *
 * Sizes
 *
 *   sendfile and mappings go by the size that the kernel has of a nodeid, and do not ask.  It can
 *   be told a size only by an answer, which it drops when it was notified of the file meanwhile.
 *   So a face whose content has changed, while nobody had it open to read, is doubted: no reader
 *   opens it until the kernel has forgotten it: it knows the size of a face that it hears of for
 *   the first time.  The face of a writer is not doubted when what it sees is published: the kernel
 *   has followed that (face.traced).
 *
 * Own faces
 *
 *   As soon as a writer has something that is not published, its face is its own: all that goes
 *   through it (fstat, mmap, sendfile, inherited descriptors) sees what was written, and the name
 *   is made to lead elsewhere, to what is published.  A thread that has looked the name up before
 *   and asks for attributes is told ESTALE once.  The face is given back at the close that
 *   publishes.  A writer that came to a face that was not free has none of its own.
 *
 * Old faces
 *
 *   When a save replaces the content of a file, a face whose readers need the previous content
 *   becomes old: it keeps its pages and its size, with a copy of that content (struct version) for
 *   the pages that the kernel does not have yet, and the name is made to lead to another face.  Of
 *   an old face the kernel is only told to ask for the attributes, so nothing disturbs a reader in
 *   the middle.  It is old no longer when the last reader that needs it has closed it: so the size
 *   of what is mapped does not change.
 *
 *   A face that nobody has open and to which no name leads, but that the kernel has not forgotten,
 *   is pinned: a file watch, a bind mount or a descriptor with O_PATH is there.  When it is free,
 *   the name is made to lead to it, and stays there even if the kernel has a wrong size for it.
 *   FORGET comes late: the kernel may look the name up again before it.  So before a name is led
 *   anywhere, the kernel is asked which faces it holds (faces_ask()).  It holds a file until the
 *   request that releases it is answered, so a face counts as open until then (handle_finish()).
 *
 *   Direct reads (struct handle) do not go by the face: each handle sees one version, that of its
 *   open first, and from a read at offset 0 on until the next one.
 *
 * All of it under inode.lock, or tree.lock for writing. */

/* version.c */

/* Whether a reader needs what the file has now, once the saver has published. */
bool versions_wanted(const struct inode *inode, const struct writing *saver);
/* A copy of what the file has, before the commit: 0, or -ESTALE.  NULL, and the log says so: there
 * is no room for one, which is no reason not to save. */
int version_take(struct view *view, struct inode *inode, struct version **ret_version);
/* Hand it to the faces and handles that need it, after the commit; they count it.  Whether a face
 * is old now, so that the name must be looked up again. */
bool versions_apply(struct notes *notes, struct inode *inode, const struct writing *saver,
		    struct version *version);

/* No thread in particular. */
enum { NOBODY = -1 };

/* Bytes of a list from which on its readers have the page cache, unless it is being written when
 * they open it (open.c). */
enum { FACE_CACHED = 1 << 20 };

/* The face with this number, which the kernel was told; the first if there is none. */
struct face *inode_face(struct inode *inode, unsigned number);
/* The same of a number that somebody has kept, as new as the file if it was forgotten since. */
struct face *face_for_number(struct inode *inode, unsigned number);
/* The face that a name leads to for this thread; never NULL, if not always one that is free. */
struct face *face_for_lookup(struct tree *tree, struct inode *inode, pid_t pid);
/* Another mount has taken a name from the file. */
void inode_leave(struct inode *inode);
/* The face that a handle is opened on: the one that the kernel asks for, if it is free or the
 * thread was led here or cannot be led; NULL when the answer is to be ESTALE. */
struct face *face_for_open(struct tree *tree, struct inode *inode, unsigned number,
			   enum face_kind kind, pid_t pid);
/* held.c: before the name is led anywhere, ask the kernel what it holds of the faces that may be
 * pinned (face.gone).  No lock is held. */
void faces_ask(struct tree *tree, struct inode *inode);
/* Whether any may be. */
bool inode_is_pinned(const struct inode *inode);
/* Whether the kernel knows nothing of it. */
bool face_is_fresh(const struct face *face);
/* The kernel is about to be answered with it, and what it shows (inode_hold()). */
void face_answers(struct face *face);
/* A handle that was created was shown with this size. */
void face_created(const struct handle *handle, uint64_t size);
/* What the writer sees is published. */
void face_published(const struct writing *writing);
/* The kernel takes the file of a writer that adds to it for so large, and it ends there. */
void face_guessed(struct face *face, uint64_t guess, uint64_t end);
/* As face_for_open(), when the answer tells the nodeid: always one that is free, if possible. */
struct face *face_for_create(const struct tree *tree, struct inode *inode, enum face_kind kind);
/* Whether the size may be set through this face; if not, the thread was led to another. */
bool face_for_truncate(struct tree *tree, struct inode *inode, unsigned number, pid_t pid);

/* again.c; no lock is needed.  For so long a thread that was told ESTALE may come again. */
static const int64_t AGAIN_TIME = (int64_t)5 * 1000000000;
/* Note that a thread is told ESTALE; and that its next try has ended. */
void again_add(struct tree *tree, pid_t pid, enum face_kind kind, uint64_t nodeid);
void again_end(struct tree *tree, pid_t pid);
/* A name leads a thread to a nodeid. */
void again_led(struct tree *tree, pid_t pid, uint64_t nodeid);
/* Whether a thread opens for the second time: the same nodeid, or the one that the name has led it
 * to since.  The kernel takes no other then: what another has looked up, it looks up again. */
bool again_opens(struct tree *tree, pid_t pid, uint64_t nodeid);
/* Whether a name has led it elsewhere, or nowhere, since: then it opens this for the first time.
 * But it may make a file first (faces). */
bool again_found_other(struct tree *tree, pid_t pid, uint64_t nodeid);
/* Whether a thread asks again for a nodeid's attributes, or is about to open: not by a name. */
bool again_asks(struct tree *tree, pid_t pid, uint64_t nodeid);

/* Whether a thread was told ESTALE for just this nodeid, and has opened nothing since: no name has
 * led it there. */
bool again_is(struct tree *tree, pid_t pid, uint64_t nodeid);
/* Whether it was told so of a window a moment ago. */
bool again_looks(struct tree *tree, pid_t pid);

/* Whether readers have a face open, or one is led to it. */
bool face_is_read(const struct inode *inode, const struct face *face);
/* A handle was opened on a face: true when notify_attr() is due before the open is answered. */
bool face_opened(struct face *face, struct handle *handle, pid_t pid);
/* A handle is closed, and no longer among those of its inode: 1 when notes_renew() is due. */
int face_closed(struct handle *handle);
/* The writing that a thread joins which opens a face through an open file; NULL when it comes by a
 * name, or nobody writes there.  adds: it does no more than that (O_APPEND). */
struct writing *face_writing(struct tree *tree, struct inode *inode, unsigned number, bool adds,
			     pid_t pid);
/* Make the face of a writer its own, if nobody reads there; and give it back. */
void face_take(struct notes *notes, struct tree *tree, struct writing *writing);
void face_give_back(struct writing *writing);
/* The kernel shall look the name of a state file up again. */
void name_forget(struct notes *notes, struct tree *tree, struct inode *inode);
/* A handle of a face was closed, or the face is old no longer.  If nobody has it open and no name
 * leads to it, the name is looked up again: by then it is known whether the face is pinned. */
void face_settle(struct notes *notes, struct tree *tree, struct inode *inode,
		 const struct face *face);
/* Whether a reader needs that a face goes on showing what it shows.  All do, until they close it:
 * a mapping holds it, and what is mapped must not become shorter.  But one that has come to its end
 * by direct reads, and has read again since, follows what is new; so has one that got a lock. */
bool face_is_needed(const struct inode *inode, const struct face *face);
/* The attributes of an old face were told.  A descriptor that has read all, and then asks again and
 * again, follows what is new, too: tail(1) does not read before it is told another size.  Who asks
 * is the thread that was the last to read by it: others ask as well, for descriptors of their own,
 * or since they come by the name, which led there a moment ago. */
void face_asked(const struct inode *inode, const struct face *face, pid_t pid);
/* An old face that nobody needs any more is to be old no longer. */
void face_unless_needed(struct notes *notes, struct tree *tree, struct inode *inode,
			struct face *face);
/* The kernel has forgotten what it had of an old face: it shows the newest content. */
void face_renew(struct face *face);

/* tree.cache, before anything else of this room and at the end.  -ENOMEM. */
int cache_init(struct tree *tree);
void cache_done(struct tree *tree);

#endif
