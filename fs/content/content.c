/* SPDX-License-Identifier: MIT */

/* The bytes of a file of any kind (kind.h). */

#include <errno.h>

#include "fs/content/kind.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"

static bool content_in_chunks(const struct inode *inode)
{
	return inode->node.kind == BACKEND_ORDINARY || inode_is_draft(inode);
}

static const struct content_kind *content_kind(const struct inode *inode)
{
	static const struct content_kind apart = { 0 }; /* fs/inode/aparts.h */

	if (inode->orphaned)
		return &content_orphan;
	if (inode->apart)
		return &apart;
	if (content_in_chunks(inode) || !inode_is_state(inode))
		return &content_chunks;
	return inode->node.kind == BACKEND_LIST ? &content_list : &content_row;
}

int content_load(struct tree *tree, struct view *view, struct inode *inode)
{
	const struct content_kind *kind = content_kind(inode);
	struct backend_tail tail;
	int r;

	if (!kind->size)
		return -EIO;
	if (inode->loaded || !kind->take)
		return 0;
	r = backend_tail_get(view->backend, view->snapshot, &inode->node, &tail);
	return r < 0 || kind->take(inode, &tail) ? r : kind->load(tree, view, inode, tail.mark);
}

bool content_is_row(const struct inode *inode)
{
	return content_kind(inode) == &content_row;
}

bool content_fits(const struct view *view, const struct inode *inode)
{
	return inode->changed <= view->changes && !view->past && !inode->unapplied;
}

void content_take(struct inode *inode, const struct view *view, const struct backend_tail *tail)
{
	const struct content_kind *kind = content_kind(inode);

	if (tail->known && kind->take && !inode->loaded && content_fits(view, inode))
		(void)kind->take(inode, tail);
}

int content_size(struct tree *tree, struct view *view, struct inode *inode, uint64_t *ret_size)
{
	int r = content_load(tree, view, inode);

	if (r == 0)
		*ret_size = content_kind(inode)->size(inode);
	return r;
}

int64_t content_less(const struct inode *inode)
{
	const struct content_kind *kind = content_kind(inode);

	if (!S_ISREG(inode->node.mode) || inode->inherits || inode->orphaned)
		return 0;
	return kind->size && (inode->loaded || !kind->take) ? -(int64_t)kind->size(inode) :
							      QUOTA_LESS;
}

int content_read(struct tree *tree, struct view *view, struct inode *inode, struct handle *handle,
		 uint64_t offset, size_t size, struct buf *out)
{
	int r = content_load(tree, view, inode);

	return r < 0 ? r : content_kind(inode)->read(view, inode, handle, offset, size, out);
}

int content_to_stage(struct view *view, struct inode *inode, struct stage *stage)
{
	const struct content_kind *kind = content_kind(inode);

	return kind->to_stage ? kind->to_stage(view, inode, stage) : -EIO;
}

int content_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data)
{
	const struct content_kind *kind = content_kind(inode);

	return kind->write ? kind->write(tree, inode, offset, data) : -EIO;
}

void content_remove(const struct inode *inode, struct batch *batch)
{
	if (inode_is_state(inode))
		batch_row_delete(batch, inode->node.session, inode->node.key, INT64_MIN, INT64_MAX);
	if (content_in_chunks(inode))
		batch_chunk_delete(batch, inode->node.ino, 0, INT64_MAX);
	if (inode->node.kind == BACKEND_LIST) {
		batch_piece_delete(batch, inode->node.ino, INT64_MIN, INT64_MIN);
		batch_mark_delete(batch, inode->node.ino, 0);
	}
}
