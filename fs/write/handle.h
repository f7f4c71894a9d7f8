/* SPDX-License-Identifier: MIT */
#ifndef FS_WRITE_HANDLE_H
#define FS_WRITE_HANDLE_H

/* Inside this room.  Under inode.lock, or tree.lock for writing, unless it says otherwise. */

#include <fcntl.h>

#include "fs/write/write.h"

/* Bytes of a list that are no rows. */
enum {
	PIECE_MAX = 1 << 20,   /* bytes of one piece; longer ones are several */
	PIECE_LINES = 1 << 16, /* bytes of whole lines that are one piece together, about */
};

static inline bool handle_writes(const struct handle *handle)
{
	return (handle->flags & O_ACCMODE) != O_RDONLY;
}

/* Remember which process a handle belongs to. */
void handle_opened_by(struct handle *handle, pid_t pid);
/* Whether a thread belongs to the process that has opened it, or to the one that has written last;
 * one that we cannot see (0) may. */
bool handle_is_opened_by(const struct handle *handle, pid_t pid);
bool handle_is_written_by(const struct handle *handle, pid_t pid);
/* Whether the close of a descriptor by this thread leaves others of what the handle writes, to whom
 * it is known that they have opened it or have written. */
bool handle_goes_on(struct tree *tree, const struct handle *handle, pid_t pid);

/* The stage begins with what there is now; by that it is told whether others publish later. */
void handle_note_begun(struct tree *tree, struct writing *writing);
/* From now on a stage; with keep it begins as the published content. */
int handle_begin_save(struct tree *tree, struct handle *handle, bool keep);
/* The stage was changed. */
void handle_staged(struct tree *tree, struct handle *handle);
/* Whether the list ends in a line that this handle has left unfinished. */
bool handle_owns_tail(struct tree *tree, const struct handle *handle);
/* Where a list, or its draft, ends. */
int handle_list_end(struct tree *tree, struct inode *inode, uint64_t *ret_end);
/* What lies before the end of the last whole line. */
struct bytes whole_lines(struct bytes data);
/* A stage that was published is a view of the file only until somebody else publishes or
 * appends. */
void handle_drop_outdated(struct handle *handle);
/* The next read of the handle shows the newest content. */
void handle_drop_old(struct handle *handle);
/* Who has the same open file sees what was written, whatever they were in the middle of. */
void handle_wrote(struct handle *handle);
/* -EFBIG when a state file with data at offset, and zeros before it, would hold a document or a
 * line that the store cannot take.  handle: by which that is done, or NULL. */
int check_growth(struct tree *tree, struct inode *inode, const struct handle *handle,
		 uint64_t offset, struct bytes data);

/* Set the size by a handle. */
int handle_cut(struct tree *tree, struct handle *handle, uint64_t size, struct notes *notes);

/* As handle_flush(), while the kernel holds the file. */
int handle_flush_held(struct tree *tree, struct handle *handle);

/* append.c */

/* Append bytes to a list: whole lines, and with closing an unfinished one at the end.  own_tail:
 * the list's tail was written by the same writer.  mtime is the time of change.  by: the face
 * through which the kernel knows, or NULL.  Committed when it returns. */
int append_lines(struct tree *tree, struct inode *inode, struct bytes data, bool own_tail,
		 int64_t mtime, const struct face *by, struct notes *notes);
/* Whether a line (without its newline) would be JSON, or blank, if append_lines() appended it: 1;
 * 0 when it would not, which the log knows then; -errno. */
int append_judge(struct tree *tree, struct inode *inode, struct bytes line, bool own_tail);

/* save.c */

/* A plan is made use of later, for the same content. */
void save_set_target(struct save *save, const struct save_target *target);
/* Whether a list of so many bytes keeps them all and only gets more. */
bool save_only_adds(const struct save *save, const struct inode *inode, uint64_t size_before);

#endif
