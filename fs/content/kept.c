/* SPDX-License-Identifier: MIT */

/*
 * The content of a state file, kept in memory for its readers: beside other mounts, beside other
 * programs that have changed something of late, since their log may have to begin anew without the
 * snapshot that is kept for readers, and in a store that cannot keep one (reader-snapshot.h).
 *
 *   What another mount or program replaces is gone before this mount notices.  So all bytes that
 *   readers get are those of inode.kept: it is read whole, in one snapshot, at an open or before
 *   the first of these bytes, and grows with the list.  When the content is replaced, it is the
 *   version that readers in the middle go on with.  The last close drops it.
 *
 *   Larger content is read from the store, part by part.
 */

#include <errno.h>

#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"

enum { KEPT_MOST = 16 << 20 };

uint64_t content_kept_most(const struct tree *tree, const struct inode *inode)
{
	if (!inode_is_state(inode) || inode->orphaned)
		return 0;
	if (!tree->reader_snapshots.may_be)
		return KEPT_MOST;
	return backend_is_shared(tree->backend) || !tree_is_quiet(tree) ? CONTENT_CACHED : 0;
}

/* Whether what is kept is the content, or what a list of so many bytes begins with.  A document is
 * shared with others that have read it. */
static bool is_beginning(const struct inode *inode, uint64_t size)
{
	const uint64_t kept = inode->kept->stage.size;

	return inode->kept_version == inode->version &&
	       (inode->node.kind == BACKEND_LIST ? kept <= size : kept == size);
}

static int keep(struct view *view, struct inode *inode, uint64_t size)
{
	_cleanup_(buf_done) struct buf added = { 0 };
	int r;

	if (!inode->kept) {
		inode->kept_version = inode->version;
		if (inode->node.kind != BACKEND_LIST)
			return document_get(view, inode, &inode->kept);
		inode->kept = version_new();
		return inode->kept ? content_to_stage(view, inode, &inode->kept->stage) : -ENOMEM;
	}
	size -= inode->kept->stage.size;
	if (!size)
		return 0;
	r = content_read(view->tree, view, inode, NULL, inode->kept->stage.size, size, &added);
	return r < 0 ? r :
		       stage_write(&inode->kept->stage, inode->kept->stage.size, buf_bytes(&added));
}

int content_keep(struct view *view, struct inode *inode, uint64_t most)
{
	uint64_t size;
	int r = content_size(view->tree, view, inode, &size);

	if (r < 0)
		return r;
	if (inode->kept && !is_beginning(inode, size))
		version_drop(&inode->kept);
	if (size > most)
		return 1;
	r = keep(view, inode, size);
	if (r < 0)
		version_drop(&inode->kept);
	/* Without room they read from the store. */
	return r == -ENOMEM || r == -ENOSPC ? 1 : r;
}

struct version *content_kept(struct inode *inode)
{
	/* Bytes that come behind a draft make no other version of it. */
	if (!inode->kept || inode->kept_version != inode->version ||
	    (inode_is_draft(inode) && inode->kept->stage.size != inode->node.size))
		return NULL;
	inode->kept->count++;
	return inode->kept;
}
