/* SPDX-License-Identifier: MIT */
#ifndef FS_WRITE_TEMPORARY_H
#define FS_WRITE_TEMPORARY_H

/*
 * Saves by one temporary name
 *
 *   Clients write K.json.tmp and rename it over K.json, and many of them use the same name each
 *   time: two that save at once would write into one file, and the first rename would move torn
 *   bytes.  So each of them gets a save of its own.
 *
 * Which names
 *
 *   Those of names_is_temporary() below a session, of an ordinary file without another name.  Not a
 *   file with a second link, one outside of sessions, or one that looks like a lock.
 *
 * Which save is where
 *
 *   The inode is an ordinary file, and a single writer uses it as on any disk: it writes in place,
 *   readers see what it has written so far, a mapping is one of the file.  There is more than one
 *   save only when a second open empties the file (O_TRUNC):
 *
 *     the file is open for writing        the saves part: each has a stage of its own
 *                                         (writing.apart), with what it has written; that of the
 *                                         new one is empty.  Its close and fsync put the stage into
 *                                         the file, whole; until then the file shows the last that
 *                                         was put there, or what the first writer had when they
 *                                         parted
 *     it is not open; its last save was   it is emptied in place, and the last save is kept in
 *     closed or synced                    memory (inode.saves) until the new save is closed, or as
 *                                         long as the process that made it lives
 *
 *   An open that has made the file (O_CREAT) begins a save like one that empties it, since another
 *   close may put its save there before the open.  An open with neither (O_APPEND, r+) joins the
 *   file as it is.  O_TRUNC through an open file (/dev/stdout), by a thread that we see, does not
 *   begin a save.
 *
 * Which save a rename takes
 *
 *   The newest save of the process that renames, by the order of opens, fsyncs and closes: the
 *   file, a kept save, or what an open one has written so far, even if its file was renamed away.
 *   The threads of a process cannot be told apart, so a save that is open and not synced comes
 *   behind a closed one as long as its bytes cannot be content of the new name (half a document).
 *   If the process has none, or is not known (pid 0): the newest that was closed or synced.  If
 *   there is none: the file.
 *
 *   But a file that another process has open, and that is half a document so far, does not exist
 *   (-ENOENT) for a process that we see and that has no descriptor of it: its own save has gone
 *   with the name, in the rename of another process.
 *
 *   The save that is taken becomes the content of the inode, which moves; its writer goes on there
 *   if it has it open, as on any disk.  What another process has closed, and lives to rename, gets
 *   the name again at once; the bytes of a writer that has the file open get it at its close
 *   (writing.away).
 *
 *   Removing the name, or renaming another file over it, removes all of its saves.  All of this is
 *   in memory: when the daemon ends, the file is what was put into it last.  Other mounts know
 *   nothing of it, and write into the file that there is.
 */

#include "fs/write/write.h"

/* Called by open_used() for a file that is opened for writing.  1: the handle saves by a stage, and
 * the file must not be emptied. */
int temporary_open(struct tree *tree, struct handle *handle, pid_t pid);
/* The last handle of a writing is closed: free what is kept of it here.  No lock is needed. */
void temporary_left(struct tree *tree, struct writing *writing);
/* The file was closed or synced by a handle that writes in place. */
void temporary_saved(struct tree *tree, struct handle *handle);
/* A save's own stage is about to become the content of the file; and has become it. */
int temporary_meets(struct tree *tree, struct inode *inode);
void temporary_replaced(struct tree *tree, struct inode *inode, pid_t process);

#endif
