/* SPDX-License-Identifier: MIT */
#ifndef FS_WRITE_TEMPORARY_H
#define FS_WRITE_TEMPORARY_H

/*
 * Saves by one temporary name
 *
 *   Clients write K.json.tmp and rename it over K.json, and many of them use the same name each
 *   time: two of them that save at once would write into one file, and what the first one renames
 *   would be torn.  So beside each other they do not share it.
 *
 * Which names
 *
 *   Those of names_is_temporary() below a session, of an ordinary file that has no other name.  A
 *   file with a second link, one outside of sessions and one that looks like a lock is none.
 *
 * What is whose
 *
 *   The inode is an ordinary file, and one writer at a time has it as on any disk: it writes in
 *   place, everybody reads what it has written so far, a mapping is one of the file.  Only when a
 *   second open empties the file (O_TRUNC) is there more than one save:
 *
 *     somebody has the file open to       the saves part: what each has written, the new one
 *     write                               nothing, is its own stage (writing.apart), which is put
 *                                         into the file, whole, at its close and its fsync; the
 *                                         file shows the last that was, or what the first writer
 *                                         had when they parted
 *     nobody has; its last save was       it is emptied in place, and what it had is kept in
 *     closed or synced                    memory (inode.saves) until the new save is closed, or
 *                                         for as long as the process lives that has made it
 *
 *   An open that has made the file (O_CREAT) begins a save as one that empties it: what another
 *   one closes may come to be there before the file is open.  One that does neither (O_APPEND, r+)
 *   joins the file as it is.  An O_TRUNC by an open file (/dev/stdout) of a thread that we see is
 *   no save of its own.
 *
 * What a rename takes
 *
 *   The newest save of the process that renames, by the order of opens, fsyncs and closes: the
 *   file, one that was kept, or what an open one has written so far, even where its file was
 *   renamed away.  Since threads of a process are not told apart, one that is open and not synced
 *   comes behind one that was closed as long as its bytes are none that the new name could have
 *   (half a document).  Where the process has none, or is not known (pid 0): the newest that was
 *   closed or synced.  Where there is none: the file.
 *
 *   But a file that another process has open, and that is half a document so far, is not there
 *   (-ENOENT) for one that we see and that has no descriptor of it: its own save has gone with the
 *   name, which another one has renamed.
 *
 *   What is taken becomes the content of the inode, which moves; the one who made it goes on
 *   writing there if it has it open, as on any disk.  What another process has closed, and lives to
 *   rename, comes to be under the name again at once; a writer that has the file open finds its
 *   bytes there from its close on (writing.away).
 *
 *   Removing the name, or renaming another file over it, removes all of its saves.  All of this is
 *   in memory: when the daemon ends, the file is what was put into it last.  Other mounts know
 *   nothing of it, and write into the file that there is.
 */

#include "fs/write/write.h"

/* Of open.c, in open_used(): a file is opened to be written.  1: the handle saves by a stage, and
 * the file is not to be emptied. */
int temporary_open(struct tree *tree, struct handle *handle, pid_t pid);
/* The last handle of a writing is closed: what is here of it goes.  No lock is needed. */
void temporary_left(struct tree *tree, struct writing *writing);
/* The file was closed or synced by a handle that writes in place. */
void temporary_saved(struct tree *tree, struct handle *handle);
/* A stage of its own is about to be the content of the file, and is. */
int temporary_meets(struct tree *tree, struct inode *inode);
void temporary_replaced(struct tree *tree, struct inode *inode, pid_t process);

#endif
