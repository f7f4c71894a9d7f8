/* SPDX-License-Identifier: MIT */

/*
 * The content of a state file, kept in memory for its readers: beside other mounts, and in a store
 * that cannot keep a snapshot for them, or cannot for a while (reader-snapshot.h).
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
#include "fs/inode/reader-snapshot.h"

enum { KEPT_MOST = 16 << 20 };

uint64_t content_kept_most(const struct tree *tree, const struct inode *inode)
{
	if (!inode_is_state(inode) || inode->orphaned)
		return 0;
	if (!tree->reader_snapshots.may_be)
		return KEPT_MOST;
	return backend_is_shared(tree->backend) || tree->reader_snapshots.unwanted ?
		       CONTENT_CACHED :
		       0;
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
	uint64_t size, kept = inode->kept ? inode->kept->stage.size : 0;
	int r = content_size(view->tree, view, inode, &size);

	if (r < 0)
		return r;
	/* Kept is the content, or what a list begins with.  A document is shared with others that
	 * have read it. */
	if (inode->kept && (inode->kept_version != inode->version ||
			    (inode->node.kind == BACKEND_LIST ? kept > size : kept != size)))
		version_drop(&inode->kept);
	if (size > most)
		return 1;
	r = keep(view, inode, size);
	if (r < 0)
		version_drop(&inode->kept);
	/* Without room they read from the store. */
	return r == -ENOMEM || r == -ENOSPC ? 1 : r;
}

/* Bytes that come behind a draft make no other version of it. */
static bool content_has_kept(const struct inode *inode)
{
	return inode->kept && inode->kept_version == inode->version &&
	       (!inode_is_draft(inode) || inode->kept->stage.size == inode->node.size);
}

struct version *content_kept(struct inode *inode)
{
	if (!content_has_kept(inode))
		return NULL;
	inode->kept->count++;
	return inode->kept;
}

static bool has_readers(const struct inode *inode)
{
	const struct handle *handle = inode->open;

	while (handle && !handle->keeps)
		handle = handle->next;
	return handle;
}

/* From the snapshot that has it as it is known. */
static void keep_open(struct tree *tree, struct inode *inode)
{
	struct view *view = reader_snapshot_view(tree, inode);
	uint64_t size;

	if (!view)
		return;
	version_drop(&inode->kept);
	inode->kept = version_new();
	inode->kept_version = inode->version;
	if (inode->kept && (content_size(tree, view, inode, &size) < 0 || size > KEPT_MOST ||
			    content_to_stage(view, inode, &inode->kept->stage) < 0))
		version_drop(&inode->kept);
	reader_snapshot_seen(tree, inode);
}

void contents_keep(struct tree *tree)
{
	WITH_WRITE_LOCK(tree);
	struct inodes all = inodes_get(tree, NULL);

	for (size_t i = 0; i < all.count; i++)
		if (inode_is_state(all.inode[i]) && has_readers(all.inode[i]) &&
		    !content_has_kept(all.inode[i]))
			keep_open(tree, all.inode[i]);
	inodes_forget(tree, &all);
}
