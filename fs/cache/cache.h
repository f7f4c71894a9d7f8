/* SPDX-License-Identifier: MIT */
#ifndef FS_CACHE_CACHE_H
#define FS_CACHE_CACHE_H

/* The door of this room: what the kernel has cached of files, and notifying it of changes. */

#include "fs/cache/notes.h"

/*
 * Faces: the nodeids under which the kernel knows one file.
 *
 * The kernel keeps one page cache and one size for each nodeid, and a write by any handle moves
 * that size to where the kernel guesses that the file now ends.  For a state file the guess is
 * often wrong: a writer's unfinished line is held back, a save is not published yet, another writer
 * has appended meanwhile.  A read through the page cache (sendfile, mmap, copy_file_range) then
 * sees NULs behind the true end.  So readers and writers of a state file that are open at the same
 * time never share a nodeid: the file has several, its faces, all with one st_ino.  The first
 * face's nodeid is the inode's number; the others have the number of the face in the upper bits.
 *
 *   state    when                                shows               until
 *
 *   free     not open, and not old               the newest content  a reader or a writer opens it
 *   read     readers have it open; it is free    the newest content  the last close: free; a save
 *            for more of them                                        replaces what they need: old
 *   written  one writing has it open: a writer   the newest content  it holds something back: own;
 *            is alone                                                the last close: free
 *   own      the writing holds something back,   what the writer     a close publishes: written
 *            and the name leads elsewhere        sees
 *   old      readers need the content from       that content        the last of these closes: free
 *            before a save, and the name leads   (struct version)
 *            elsewhere
 *
 *   also     when                                                    then
 *
 *   pinned   the kernel holds it, though it is not open and no name  the name is led to it as soon
 *            leads there: a file watch, a bind mount, O_PATH         as it is free
 *   doubted  its content changed while it had no reader: the         readers do not open it until
 *            kernel's size may be wrong                              the kernel has forgotten it
 *   stale    the kernel has yet to forget pages of it                the same
 *   reserved a thread was led there (struct led), or was shown it    other threads do not open it
 *            and cannot be seen (promised)
 *
 * Which face a thread gets
 *
 *   The kernel opens the nodeid that it remembers for a name.  When that face is not free, the
 *   answer is ESTALE: the kernel looks the name up again and tries once more, all in the same
 *   thread.  That thread is led: the lookup gives it a free face, which is reserved for it.  The
 *   kernel tries only twice, so a thread does not get ESTALE twice (tree.cache.again): if the name
 *   leads to another file by then, a face of that is reserved instead, and if its bytes are gone by
 *   then, what the name leads to is opened in its place.  A second try always opens what the thread
 *   has looked up last.  If it comes elsewhere, or there after the kernel has forgotten that face,
 *   its second try has ended without an open (it found no name), and it is led by what another
 *   thread has looked up: that is a first try again.  A thread that comes to the same face again
 *   without having looked up was not led by a name: it opens an open file, through /proc/self/fd,
 *   and joins the writing of that face, if there is one.  A thread of another pid namespace cannot
 *   be seen and is served where it comes; so each of its lookups gets a face of its own, and the
 *   kernel does not cache such a name.
 *
 * Sizes
 *
 *   sendfile and mappings use the size that the kernel has of a nodeid, and do not ask.  Only an
 *   answer can set it, and the kernel drops an answer when it was notified of the file meanwhile.
 *   But it takes the size of a face that it hears of for the first time: so a doubted face waits
 *   until the kernel has forgotten it.  The face of a writer is not doubted when what it sees is
 *   published: the kernel has followed that (face.traced).
 *
 * Own faces
 *
 *   All that goes through an own face (fstat, mmap, sendfile, inherited descriptors) sees what was
 *   written.  A thread that has looked the name up before and asks for attributes gets ESTALE
 *   once.  A writer on a face that was not free does not get an own face.
 *
 * Old faces
 *
 *   An old face keeps its pages and its size; the copy of the content is for pages that the kernel
 *   does not have yet.  The kernel is notified of its attributes only, so that a reader in the
 *   middle is not disturbed, and the size of what is mapped does not change.
 *
 * FORGET comes late: the kernel may look the name up again before it.  So before a name is led
 * anywhere, the kernel is asked which faces it holds (faces_ask()).  A name stays on a pinned face
 * even if the kernel has a wrong size for it.  The kernel holds a file until the request that
 * releases it is answered, so a face counts as open until then (handle_finish()).
 *
 * Direct reads (struct handle) do not depend on the face: each handle sees one version, at first
 * that of its open, and from a read at offset 0 on the newest, until the next such read.
 *
 * All of it under inode.lock, or tree.lock for writing.
 */

/* version.c */

/* Whether a reader needs the present content once the saver has published. */
bool versions_wanted(const struct inode *inode, const struct writing *saver);
/* A copy of the present content, before the commit: 0, or -ESTALE.  Without room for it: NULL and a
 * log entry, since that must not prevent the save. */
int version_take(struct view *view, struct inode *inode, struct version **ret_version);
/* After the commit, give the copy to the faces and handles that need it; they count it.  Returns
 * whether a face became old, so that the name must be looked up again. */
bool versions_apply(struct notes *notes, struct inode *inode, const struct writing *saver,
		    struct version *version);

/* An answer had the attributes of an old face.  A descriptor that has read all, and then asks again
 * and again, follows the new content, too: tail(1) reads only after it sees another size.  Only
 * questions of the thread that was the last to read by it count: other threads ask for descriptors
 * of their own, or by the name, which led there a moment ago. */
void face_asked(const struct inode *inode, const struct face *face, pid_t pid);
/* Renew an old face that readers do not need any more. */
void face_unless_needed(struct notes *notes, struct tree *tree, struct inode *inode,
			struct face *face);

/* An unknown thread. */
enum { NOBODY = -1 };

/* The face with this number; the first if there is none. */
struct face *inode_face(struct inode *inode, unsigned number);
/* The same for a number that was remembered: a new face if the file was forgotten since. */
struct face *face_for_number(struct inode *inode, unsigned number);
/* The face that a name leads to for this thread; never NULL, if not always one that is free. */
struct face *face_for_lookup(struct tree *tree, struct inode *inode, pid_t pid);
/* Whether a face was reserved for a thread that will read. */
bool face_is_reserved(struct inode *inode, pid_t pid);
/* Another mount has removed a name of the file. */
void inode_leave(struct inode *inode);
/* The face that a handle is opened on: the one that the kernel asks for, if it is free or the
 * thread was led here or cannot be led; NULL: answer ESTALE. */
struct face *face_for_open(struct tree *tree, struct inode *inode, unsigned number,
			   enum face_kind kind, pid_t pid);
/* held.c: before the name is led anywhere, ask the kernel which of the faces that may be pinned it
 * holds (face.gone).  No lock is held. */
void faces_ask(struct tree *tree, struct inode *inode);
/* Whether any face may be pinned. */
bool inode_is_pinned(const struct inode *inode);
/* Whether the kernel does not know the face. */
bool face_is_fresh(const struct face *face);
/* The kernel may have forgotten it: then no thread is on its way there any more. */
void face_forgotten(struct tree *tree, struct inode *inode, const struct face *face);
/* The kernel is about to get an answer with the face and its attributes (inode_hold()). */
void face_answers(struct face *face);
/* The answer to a create had this size. */
void face_created(const struct handle *handle, uint64_t size);
/* What the writer sees is published. */
void face_published(const struct writing *writing);
/* After an append, the kernel guesses that the file ends at guess, and it ends at end. */
void face_guessed(struct face *face, uint64_t guess, uint64_t end);
/* As face_for_open(), when the answer has the nodeid: always a free face, if possible. */
struct face *face_for_create(struct tree *tree, struct inode *inode, enum face_kind kind);
/* Whether the size may be set through this face; if not, the thread is led to another. */
bool face_for_truncate(struct tree *tree, struct inode *inode, unsigned number, pid_t pid);

/* again.c; no lock is needed.  Note that a thread gets ESTALE; and that its next try has ended. */
void again_add(struct tree *tree, pid_t pid, enum face_kind kind, uint64_t nodeid);
void again_end(struct tree *tree, pid_t pid);
/* A name leads a thread to a nodeid; and the kernel has forgotten that before the thread came. */
void again_led(struct tree *tree, pid_t pid, uint64_t nodeid);
void again_lost(struct tree *tree, pid_t pid, uint64_t nodeid);
/* As tree_opens_again(), to ask for attributes, which a try does once behind its look-up. */
bool again_asks(struct tree *tree, pid_t pid, uint64_t nodeid);
/* Whether a thread got ESTALE for just this nodeid and has looked up nothing since: a name did not
 * lead it there. */
bool again_is(struct tree *tree, pid_t pid, uint64_t nodeid);
/* Whether it got ESTALE for a window, and has opened nothing since. */
bool again_looks(struct tree *tree, pid_t pid);

/* Whether readers have a face open, or one is led to it. */
bool face_is_read(const struct inode *inode, const struct face *face);
/* A handle was opened on a face: true when notify_attr() is due before the open is answered. */
bool face_opened(struct face *face, struct handle *handle, pid_t pid);
/* A handle is closed, and no longer among those of its inode: 1 when notes_renew() is due. */
int face_closed(struct handle *handle);
/* The writing that a thread joins by opening a face through an open file; NULL when it comes by a
 * name, or the face has no writing.  adds: it only appends (O_APPEND). */
struct writing *face_writing(struct tree *tree, struct inode *inode, unsigned number, bool adds,
			     pid_t pid);
/* Make the face of a writer its own, if it has no readers; and give it back. */
void face_take(struct notes *notes, struct tree *tree, struct writing *writing);
void face_give_back(struct writing *writing);
/* Make the kernel look the name of a state file up again. */
void name_forget(struct notes *notes, struct tree *tree, struct inode *inode);
/* A handle of a face was closed, or the face is not old any more.  If it is not open and no name
 * leads to it, the name is looked up again: by then we know whether the face is pinned. */
void face_settle(struct notes *notes, struct tree *tree, struct inode *inode,
		 const struct face *face);
/* Whether a reader needs a face to go on showing its content.  All do until they close it: a
 * mapping holds it, and what is mapped must not become shorter.  But a reader that has reached the
 * end by direct reads and has read again since follows the new content; so does one that got a
 * lock. */
bool face_is_needed(const struct inode *inode, const struct face *face);
/* The kernel has forgotten an old face: it shows the newest content from now on. */
void face_renew(struct face *face);

/* tree.cache, before anything else of this room and at the end.  -ENOMEM. */
int cache_init(struct tree *tree);
void cache_done(struct tree *tree);

#endif
