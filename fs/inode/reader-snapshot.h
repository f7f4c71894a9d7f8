/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_READER_SNAPSHOT_H
#define FS_INODE_READER_SNAPSHOT_H

/*
 * The state of the store before other programs change it.
 *
 *   What another program replaces is gone before this mount notices.  A reader in the middle of
 *   such a file must see the version that it began with; so while files are read, one snapshot for
 *   the whole tree is kept, and that version is copied from it (share/reconcile-key.c).  It is
 *   begun when a state file is opened to be read, or looked up by a thread that was led to it, and
 *   lasts while one is open.  It is renewed twice a second, since the log of the database cannot
 *   begin anew behind it.  Where that has become too large, none is kept for a while, and instead
 *   the content of what is open is kept (content/kept.c).  While the tree's taker is late
 *   (waiting.h) it stays for the readers of what waits, and a second one is kept for those that go
 *   past that.  A store in which a snapshot blocks others has none (backend_snapshot_keep()).
 */

#include "fs/inode/locks.h"

/* A file is about to be read: keep a snapshot that has it as the tree knows it.  Under inode.lock,
 * without a view.  0, or -ESTALE. */
int reader_snapshot_begin(struct tree *tree, const struct inode *inode);
/* A reader has opened a file; has closed it. */
void reader_snapshot_opened(struct tree *tree);
void reader_snapshot_closed(struct tree *tree);
/* The snapshot in which the file is as the tree knows it, but for what was added behind it; or
 * NULL.  Under tree.lock for writing.  A returned view stays until reader_snapshot_seen(), and the
 * lock is held until then; meanwhile the inode has the flags and size of the snapshot. */
struct view *reader_snapshot_view(struct tree *tree, struct inode *inode);
void reader_snapshot_seen(struct tree *tree, struct inode *inode);
bool reader_snapshot_held(struct tree *tree);
/* Twice a second: go on with a newer snapshot, or end it without readers. */
void reader_snapshot_renew(struct tree *tree);
/* When a tree is made, and before its store is closed. */
void reader_snapshot_start(struct tree *tree);
void reader_snapshot_end(struct tree *tree);

#endif
