/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_VIEW_H
#define FS_INODE_VIEW_H

/* Views: snapshots of the store. */

#include "backend/backend.h"

struct tree;

/* It ends with its scope: _cleanup_(view_end). */
struct view {
	struct backend *backend; /* NULL: none */
	struct backend_snapshot *snapshot;
	bool past;	  /* changes of others wait: each key is to be asked for (waiting.h) */
	uint64_t changes; /* tree.changes that it shows, at least */
};
/* flags: of enum backend_flags.  0, or -errno as backend_ops.snapshot_begin(); -ESTALE also while
 * memory does not have what the store may show (commit.h), unless BACKEND_ANYWAY is among them.
 * While the tree's taker is late it goes past what waits. */
int view_begin(struct tree *tree, unsigned flags, struct view *view);
/* The same, but never past anything. */
int view_begin_whole(struct tree *tree, unsigned flags, struct view *view);
void view_end(struct view *view);
/* Ask the store by one of its reads (backend.h), as a view shows it. */
#define ASK(view, read, ...)                                                                       \
	((view)->backend->ops->read((view)->backend, (view)->snapshot, ##__VA_ARGS__))

#endif
