/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_KEPT_H
#define FS_INODE_KEPT_H

/*
 * The state of the store before other programs change it.
 *
 *   What another program replaces is gone by the time that it is noticed.  A reader in the middle
 *   of such a file is to see the version that it began with; so while somebody reads, a snapshot is
 *   kept, one for the whole tree, from which that version is copied then (share/reconcile-key.c).
 *   It is begun when a state file is opened to be read, or looked up by a thread that was led to
 *   it, and lasts while one is open.  It is renewed twice a second, since the log of the database
 *   cannot begin anew behind it.  While the tree's taker is late (waiting.h) it stays, as those who
 *   read what waits need it, and a second one is kept for who goes past that.  A store in which a
 *   snapshot is in others' way has none (backend_snapshot_keep()).
 */

#include "fs/inode/locks.h"

/* Somebody is about to read a file, which is published as the tree knows it: keep that.  Under
 * inode.lock, without a view.  0, or -ESTALE. */
int kept_begin(struct tree *tree, const struct inode *inode);
/* Another reader has a file open; it is closed. */
void kept_opened(struct tree *tree);
void kept_closed(struct tree *tree);
/* What is kept of the file, if it is what the tree knows still, but for what was added behind it;
 * or NULL.  Under tree.lock for writing.  A view that is returned stays until kept_seen(), since
 * kept.lock is held so long; and until then the inode says of its content what it was in it. */
struct view *kept_view(struct tree *tree, struct inode *inode);
void kept_seen(struct tree *tree, struct inode *inode);
/* From time to time: go on with a newer snapshot, or end it when nobody reads. */
void kept_renew(struct tree *tree);
/* When a tree is made, and before its store is closed. */
void kept_start(struct tree *tree);
void kept_end(struct tree *tree);

#endif
