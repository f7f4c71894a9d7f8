/* SPDX-License-Identifier: MIT */
#ifndef FS_WRITE_HANDLE_H
#define FS_WRITE_HANDLE_H

/*
 * Inside this room: what its files share of handles and writings.
 *
 * Unless it says otherwise, callers hold writing.lock of the handle, and inode.lock or tree.lock
 * for writing; and functions return 0 or -errno.  -ESTALE: changes of others come first.
 */

#include <fcntl.h>

#include "fs/write/write.h"

/* Bytes of a list that are not rows. */
enum {
	PIECE_LINES = 1 << 16, /* bytes of whole lines that are one piece together, about */
};

/* Whether it may write.  No lock is needed. */
static inline bool handle_writes(const struct handle *handle)
{
	return (handle->flags & O_ACCMODE) != O_RDONLY;
}

/* Remember the process of thread pid, which has just opened the handle.  Other threads do not know
 * the handle yet; no lock is needed. */
void handle_opened_by(struct handle *handle, pid_t pid);
/* Whether thread pid belongs to the process that has opened the handle, or to the one that has
 * written last; a thread that we cannot see (0) counts as one that has written. */
bool handle_is_opened_by(const struct handle *handle, pid_t pid);
bool handle_is_written_by(const struct handle *handle, pid_t pid);
/* Whether the process that has opened a handle still has descriptors of it after a close; in doubt
 * true. */
bool handle_is_held(const struct tree *tree, const struct handle *handle);
/* Whether another process has descriptors of the open file; in doubt false. */
bool handle_is_held_by(const struct tree *tree, const struct handle *handle, pid_t process);
/* Whether the process that has opened it also has the file open by a handle with another
 * writing. */
bool handle_has_sibling(const struct handle *handle);
/* The process of a thread; and whether a process that we see lives. */
pid_t process_number(pid_t pid);
bool process_lives(pid_t process);
/* Whether other descriptors of the same open file are left when thread pid closes one, in a process
 * that has opened it or has written.  Reads /proc; in doubt false (publish.c says why). */
bool handle_goes_on(struct tree *tree, const struct handle *handle, pid_t pid);

/* Enter HANDLE_SAVE; does nothing there.  With keep the stage begins as the published content with
 * the unfinished line behind it, otherwise empty. */
int handle_begin_save(struct tree *tree, struct handle *handle, bool keep);
/* If another open has parted the writing from the file (temporary.h), begin its stage. */
void handle_part(struct tree *tree, struct handle *handle);
/* The stage was changed: it must be published, at a pause by the tree's thread. */
void handle_staged(struct tree *tree, struct handle *handle);
/* Add it to tree.savers; inode.lock is enough. */
void writing_is_saver(struct tree *tree, struct writing *writing);
/* The last handle that may write is closed.  Under inode.lock. */
void inode_writers_gone(struct tree *tree, struct inode *inode);
/* Whether the list ends in a line that this handle has left unfinished. */
bool handle_owns_tail(struct tree *tree, const struct handle *handle);
/* Where the published content ends.  inode.lock is enough. */
int handle_content_end(struct tree *tree, struct inode *inode, uint64_t *ret_end);
/* Drop a published stage if another writer has published or appended since: only until then does it
 * show the file. */
void handle_drop_outdated(struct handle *handle);
/* Let the next read of the handle show the newest content. */
void handle_drop_old(struct handle *handle);
/* The version of which the handle has read a part, if it was replaced since; or NULL. */
struct version *handle_replaced(const struct handle *handle);
/* The content with which a save by the handle begins, into an empty stage. */
int handle_stage(struct tree *tree, struct handle *handle, struct stage *stage);
/* Of a reader that is just being opened: keep what it is about to read, which others may replace
 * before.  0 or -errno. */
int handle_keep(struct tree *tree, struct handle *handle);
/* All handles of the same open file show what was written, and leave the versions that they were in
 * the middle of. */
void handle_wrote(struct handle *handle);
/* -EIO: the mount has lost a lock that it had, so others may have written since its reads. */
int writing_lost_lock(struct tree *tree, const struct writing *writing);
/* -EFBIG when a state file with data at offset, and zeros before it, would hold a document or a
 * line that the store cannot take.  handle: the one that writes, or NULL, and then inode.lock is
 * enough. */
int check_growth(struct tree *tree, struct inode *inode, const struct handle *handle,
		 uint64_t offset, struct bytes data);

/* Set the size of a handle's stage, as a part of its save; does nothing if it has that size. */
int handle_cut(struct tree *tree, struct handle *handle, uint64_t size, struct notes *notes);

/* Whether bytes are whole lines, or a document, as a file of this kind needs. */
bool content_is_whole(const struct tree *tree, uint32_t kind, struct bytes bytes);

/* Before a file is opened, so that no mount puts its session into the trash; and after the last
 * close.  Under inode.lock; as backend_use(). */
int inode_use_begin(struct tree *tree, struct inode *inode);
void inode_use_end(struct tree *tree, struct inode *inode);

/* As handle_flush() by an unknown thread, while the kernel holds the file: notices of names are
 * sent later.  No lock is held. */
int handle_flush_held(struct tree *tree, struct handle *handle);

/* newer.c: what others have published since a stage was begun; and the content to publish instead
 * of the stage, into a stage that is empty before. */
enum newer { NEWER_NONE, NEWER_NOTHING_TO_DO, NEWER_EXTENDED, NEWER_REPLACED };
int newer_find(struct tree *tree, const struct writing *writing, enum newer *ret_newer);
int newer_meet(struct tree *tree, struct writing *writing, enum newer newer, struct stage *stage);

/* append.c */

enum append_how {
	/* The list's tail was written by the same writer, so the first line goes on with it. */
	APPEND_OWN_TAIL = 1 << 0,
	/* Behind what other mounts have appended meanwhile, as O_APPEND says. */
	APPEND_ANYWHERE = 1 << 1,
};
static inline unsigned handle_append_how(struct tree *tree, const struct handle *handle)
{
	return (handle_owns_tail(tree, handle) ? APPEND_OWN_TAIL : 0U) |
	       (handle->flags & O_APPEND ? APPEND_ANYWHERE : 0U);
}

/* Append bytes to a list: whole lines, of which the last one may lack its newline.  how: enum
 * append_how.  mtime is the time of change.  by: the face that the kernel has written through, or
 * NULL.  Committed when it returns.  Under inode.lock; -EIO: its key is quarantined. */
int append_lines(struct tree *tree, struct inode *inode, struct bytes data, unsigned how,
		 int64_t mtime, const struct face *by, struct notes *notes);
/* Whether a line that comes behind a tail is glued to it; glued: both. */
bool append_shall_glue(struct tree *tree, bool own_tail, struct bytes glued, struct bytes line);
/* The same for the bytes of a list in a stage. */
int append_to_stage(struct tree *tree, struct stage *stage, struct bytes data, bool own_tail);
/* Whether a line (without its newline) would be JSON, or blank, if append_lines() appended it: 1; 0
 * when it would not, which this logs; -errno. */
int append_judge(struct tree *tree, struct inode *inode, struct bytes line, bool own_tail);

/* save.c */

/* Set the present node in a plan that was made ahead; the content must be the same. */
void save_set_target(struct save *save, const struct save_target *target);
/* Whether a list that had size_before bytes keeps all of them and only gets more. */
bool save_only_adds(const struct save *save, const struct inode *inode, uint64_t size_before);

#endif
