/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_FACE_H
#define FS_MODEL_FACE_H

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
 *   A face is free for an opener when nobody of the other sort has it open and it shows the newest
 *   content.  The kernel opens the nodeid that it remembers for a name; when that face is not free,
 *   the answer is ESTALE: the kernel looks the name up again and tries once more, all in the same
 *   thread.  That thread is led: the lookup gives it a face that is free, which is kept for it
 *   until it comes (struct led).  The kernel tries once more only, so who was told ESTALE is never
 *   told so again (tree.again): when the name leads to another file by then, a face of that is kept
 *   instead; who comes to a face that is not free all the same (it opened through /proc/self/fd, so
 *   no name was looked up) is served there.
 *
 * Old faces
 *
 *   When a save replaces the content of a file, the faces that readers have open stay what they
 *   are: pages, size and all.  They become old, with a copy of the previous content (struct
 *   version) for the pages that the kernel does not have yet, and the name is made to lead to
 *   another face. Nothing at all is told to the kernel about an old face, so nothing can disturb a
 *   reader in the middle.  An old face becomes a free one when its last reader has closed, or when
 *   nobody has asked anything of it for FACE_IDLE.
 *
 *   Direct reads (struct handle) do not go by the face: each handle sees one version from a read at
 *   offset 0 on until the next one.
 *
 * All of it under inode.lock, or tree.lock for writing.
 */

#include "fs/model/internal.h"

/* Bytes of a list from which on its readers have the page cache, unless it is being written when
 * they open it (open.c). */
enum { FACE_CACHED = 1 << 20 };

struct face *inode_face(struct inode *inode, unsigned number);
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
void again_add(struct tree *tree, pid_t pid, enum face_kind kind);
void again_end(struct tree *tree, pid_t pid);

/* Whether readers have a face open, or one is led to it. */
bool face_is_read(const struct inode *inode, const struct face *face);
/* A handle was opened on a face; true when tell_attr() is due before the open is answered.  A
 * handle is closed; 1 when the face was old and nobody has it open any more: notes_renew() is due.
 */
bool face_opened(struct face *face, struct handle *handle, pid_t pid);
int face_closed(struct handle *handle);
/* The kernel has forgotten what it had of an old face: it shows the newest content. */
void face_renew(struct tree *tree, struct face *face);
/* Old faces that nobody has asked anything of for FACE_IDLE. */
void faces_expire(struct tree *tree, struct notes *notes);

void faces_done(struct inode *inode);

/* version.c */

/* The content of a file before a save, for those who are in the middle of it; counted under
 * inode.lock. */
struct version {
	unsigned count;
	struct stage stage;
};
/* Whether somebody needs what the file has now once the saver has published. */
bool versions_wanted(const struct inode *inode, const struct handle *saver);
/* Before the commit; failing to copy is no reason not to save. */
struct version *version_take(struct tree *tree, struct view *view, struct inode *inode);
/* After the commit: those who need it count it.  Whether a face is old now, so that the name must
 * be looked up again. */
bool versions_apply(struct tree *tree, struct inode *inode, const struct handle *saver,
		    struct version *version);
/* One count less, if there is one. */
void version_drop(struct version **version);

#endif
