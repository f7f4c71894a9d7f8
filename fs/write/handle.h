/* SPDX-License-Identifier: MIT */
#ifndef FS_WRITE_HANDLE_H
#define FS_WRITE_HANDLE_H

/*
 * Inside this room: what the files of it share of a handle and of what is written by it.
 *
 * The callers hold writing.lock of the handle, and inode.lock or tree.lock for writing, unless it
 * says otherwise.  0 or -errno, if nothing else is said; -ESTALE: changes of others come first.
 */

#include <fcntl.h>

#include "fs/write/write.h"

/* Bytes of a list that are no rows. */
enum {
	PIECE_MAX = 1 << 20,   /* bytes of one piece; longer ones are several */
	PIECE_LINES = 1 << 16, /* bytes of whole lines that are one piece together, about */
};

/* Whether it may write, whatever it does.  No lock is needed. */
static inline bool handle_writes(const struct handle *handle)
{
	return (handle->flags & O_ACCMODE) != O_RDONLY;
}

/* Remember to which process a handle belongs that thread pid has just opened.  Nobody else knows
 * the handle yet; no lock is needed. */
void handle_opened_by(struct handle *handle, pid_t pid);
/* Whether thread pid belongs to the process that has opened the handle, or to the one that has
 * written last; a thread that we cannot see (0) counts as one that has written. */
bool handle_is_opened_by(const struct handle *handle, pid_t pid);
bool handle_is_written_by(const struct handle *handle, pid_t pid);
/* Whether a handle that was closed has descriptors left in the process that has opened it. */
bool handle_is_held(const struct tree *tree, const struct handle *handle);
/* Whether another process has some of the open file; in doubt it has. */
bool handle_is_held_by(const struct tree *tree, const struct handle *handle, pid_t process);
/* Whether the process that has opened it has the file open by another handle, which writes
 * something else. */
bool handle_has_sibling(const struct handle *handle);
/* The process of a thread; and whether one lives that we see. */
pid_t process_number(pid_t pid);
bool process_lives(pid_t process);
/* Whether other descriptors of the same open file are left when thread pid closes one, in a process
 * that has opened it or has written.  Asks /proc; in doubt there are none (publish.c says why). */
bool handle_goes_on(struct tree *tree, const struct handle *handle, pid_t pid);

/* Let what is written go to a stage from now on; nothing if it does already.  With keep the stage
 * begins as the published content with the unfinished line behind it, otherwise empty. */
int handle_begin_save(struct tree *tree, struct handle *handle, bool keep);
/* Begin the stage that another open has made the writing's own (temporary.h), if it has. */
void handle_part(struct tree *tree, struct handle *handle);
/* The stage was changed: it is to be published, and the tree's thread looks for a pause. */
void handle_staged(struct tree *tree, struct handle *handle);
/* It is among tree.savers from now on; inode.lock is enough. */
void writing_is_saver(struct tree *tree, struct writing *writing);
/* The last handle that may write is closed.  Under inode.lock. */
void inode_writers_gone(struct tree *tree, struct inode *inode);
/* Whether the list ends in a line that this handle has left unfinished. */
bool handle_owns_tail(struct tree *tree, const struct handle *handle);
/* Where the published content ends.  inode.lock is enough. */
int handle_content_end(struct tree *tree, struct inode *inode, uint64_t *ret_end);
/* Drop a stage that was published if somebody else has published or appended since: only until then
 * is it a view of the file. */
void handle_drop_outdated(struct handle *handle);
/* Let the next read of the handle show the newest content. */
void handle_drop_old(struct handle *handle);
/* All handles of the same open file show what was written, whatever they were in the middle of. */
void handle_wrote(struct handle *handle);
/* -EIO: it had a lock that the mount has lost, so others may have written since it has read. */
int writing_lost_lock(struct tree *tree, const struct writing *writing);
/* -EFBIG when a state file with data at offset, and zeros before it, would hold a document or a
 * line that the store cannot take.  handle: by which that is done, or NULL, and then inode.lock is
 * enough. */
int check_growth(struct tree *tree, struct inode *inode, const struct handle *handle,
		 uint64_t offset, struct bytes data);

/* Set the size of what is written by a handle, as a part of its save; nothing if it has that. */
int handle_cut(struct tree *tree, struct handle *handle, uint64_t size, struct notes *notes);

/* Whether bytes are whole lines, or a document, as such a file has. */
bool content_is_whole(const struct tree *tree, uint32_t kind, struct bytes bytes);

/* Before a file is opened, so that no mount puts its session into the trash, and at the end; under
 * inode.lock.  As backend_use(). */
int inode_use_begin(struct tree *tree, struct inode *inode);
void inode_use_end(struct tree *tree, struct inode *inode);

/* The next saver behind one, whose lock is given back, or the first (NULL), that no thread is
 * using; with its lock. */
struct writing *saver_next(struct tree *tree, struct writing *after);

/* As handle_flush() by nobody in particular, while the kernel holds the file: names are notified
 * later.  No lock is held. */
int handle_flush_held(struct tree *tree, struct handle *handle);

/* newer.c: what others have published since a stage was begun, as a save meets it; and what is
 * published then instead of the stage, which is empty before. */
enum newer { NEWER_NONE, NEWER_NOTHING_TO_DO, NEWER_EXTENDED, NEWER_REPLACED };
int newer_find(struct tree *tree, const struct writing *writing, enum newer *ret_newer);
int newer_meet(struct tree *tree, struct writing *writing, enum newer newer, struct stage *stage);

/* append.c */

/* Append bytes to a list: whole lines, of which the last one may lack its newline.  own_tail: the
 * list's tail was written by the same writer, so the first line goes on with it.  mtime is the time
 * of change.  by: the face through which the kernel knows, or NULL.  Committed when it returns.
 * Under inode.lock; -EIO: its key is set apart. */
int append_lines(struct tree *tree, struct inode *inode, struct bytes data, bool own_tail,
		 int64_t mtime, const struct face *by, struct notes *notes);
/* The same of the bytes of a list in a stage. */
int append_to_stage(struct tree *tree, struct stage *stage, struct bytes data, bool own_tail);
/* Whether a line (without its newline) would be JSON, or blank, if append_lines() appended it: 1;
 * 0 when it would not, which the log knows then; -errno. */
int append_judge(struct tree *tree, struct inode *inode, struct bytes line, bool own_tail);

/* save.c */

/* Let a plan that was made ahead be for the node as it is now; the content is the same. */
void save_set_target(struct save *save, const struct save_target *target);
/* Whether a list that had size_before bytes keeps all of them and only gets more. */
bool save_only_adds(const struct save *save, const struct inode *inode, uint64_t size_before);

#endif
