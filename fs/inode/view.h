/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_VIEW_H
#define FS_INODE_VIEW_H

/* Views: snapshots of the store. */

#include "backend/backend.h"

struct inode;
struct tree;

enum { VIEW_WHOLE = 2 };

/* It ends with its scope: _cleanup_(view_end). */
struct view {
	struct backend *backend; /* NULL: none */
	struct backend_snapshot *snapshot;
	struct tree *tree;
	const struct inode *inode; /* that is read in it, or NULL */
	unsigned flags;
	bool past;	  /* changes of others wait: each key must be heeded (waiting.h) */
	uint64_t changes; /* tree.changes that it shows, at least */
	/* Files of which it has all bytes already (backend_looked.whole); ino 0: none. */
	struct view_whole {
		uint64_t ino;
		struct buf bytes;
	} whole[VIEW_WHOLE];
};
/* flags: of enum backend_flags.  0, or -errno as backend_ops.snapshot_begin(); -ESTALE also while
 * memory does not have what the store may show (commit.h), unless flags has BACKEND_ANYWAY.  Where
 * a snapshot begins with its first read, that read may answer -ESTALE instead.  While the tree's
 * taker is late, the view goes past what waits.  A view must not move in memory until it is
 * ended. */
int view_begin(struct tree *tree, unsigned flags, struct view *view);
/* The same, but never past anything. */
int view_begin_whole(struct tree *tree, unsigned flags, struct view *view);
/* The same of a store that has no tree, as it is now. */
int view_begin_plain(struct backend *backend, struct view *view);
void view_end(struct view *view);
/* All bytes of a node's file, if the view has them already, valid as long as the view; or NULL. */
const struct buf *view_whole(const struct view *view, uint64_t ino);
/* Call one of the store's reads (backend.h) with a view. */
#define ASK(view, read, ...)                                                                       \
	((view)->backend->ops->read((view)->backend, (view)->snapshot, ##__VA_ARGS__))
/* The names of a node's attributes, each with a NUL behind it. */
int view_xattr_names(const struct view *view, uint64_t ino, struct buf *names);

#endif
