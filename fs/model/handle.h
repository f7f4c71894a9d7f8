/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_HANDLE_H
#define FS_MODEL_HANDLE_H

/* What handle.c (reading and writing), open.c and publish.c share.  Under inode.lock, or tree.lock
 * for writing, unless it says otherwise. */

#include <fcntl.h>

#include "fs/model/face.h"

static inline bool handle_writes(const struct handle *handle)
{
	return (handle->flags & O_ACCMODE) != O_RDONLY;
}

/* pid is the thread that writes; looked up only when it is another one than before. */
void handle_written_by(struct handle *handle, pid_t pid);
/* Whether a thread belongs to the process that writes; one that we cannot see (0) may. */
bool handle_is_written_by(const struct handle *handle, pid_t pid);

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
/* A stage that was published is a view of the file only until somebody else publishes, or
 * appends. */
void handle_drop_outdated(struct handle *handle);
/* The next read of the handle shows the newest content. */
void handle_drop_old(struct handle *handle);

#endif
