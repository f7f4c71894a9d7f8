/* SPDX-License-Identifier: MIT */

/*
 * Deleting more at once than a full disk allows.
 *
 *   A deletion is one transaction, and a transaction has to fit into the store's log.  When it does
 *   not, the content is deleted in several, the last part first, each as large as succeeds.  What
 *   is left in between is a shorter file: rows 0 ... k with their pieces and marks, or the first
 *   chunks.
 *
 *   So this is only for files that cannot be seen any more - ghosts and orphans, which lost their
 *   names in an earlier transaction - and for files that become empty or shorter anyway.  A save
 *   that replaces content is always one transaction.
 */

#include <errno.h>

#include "fs/base/batch.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"
#include "fs/inode/shed.h"

/* One transaction: deletes all from position from on. */
typedef int shed_part_fn(struct tree *tree, struct backend_node *node, int64_t from);

/* Make the node fit what is left of the file. */
static void shed_node_put(struct backend_node *node, struct batch *batch)
{
	if (!node->nlink)
		return;
	node->mtime = node->ctime = time_now();
	node_rewritten(node);
	batch_node_put(batch, node);
}

static int shed_parts(struct tree *tree, struct backend_node *node, int64_t first, int64_t last,
		      shed_part_fn *part)
{
	uint64_t left = (uint64_t)last - (uint64_t)first + 1, count = left / 2;

	/* The last one is left to the caller, which deletes what remains. */
	while (left > 1) {
		int r;

		count = MIN(count, left - 1);
		r = part(tree, node, (int64_t)((uint64_t)first + left - count));
		if (r == -ENOSPC && count > 1) {
			count /= 2;
			continue;
		}
		if (r < 0)
			return r;
		left -= count;
	}
	return 0;
}

static int shed_rows_part(struct tree *tree, struct backend_node *node, int64_t from)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct backend_mark mark = { 0 };
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = ASK(&view, mark_find_index, node->ino, from - 1, &mark);
	if (r < 0 && r != -ENOENT)
		return r;
	view_end(&view);
	node->flags &= ~(uint32_t)BACKEND_NO_NEWLINE;
	shed_node_put(node, &batch);
	batch_row_delete(&batch, node->session, node->key, from, INT64_MAX);
	batch_piece_delete(&batch, node->ino, from, INT64_MIN);
	batch_mark_delete(&batch, node->ino, mark.offset + 1);
	return batch_commit(&batch, tree->backend, BACKEND_FREES);
}

static int shed_chunks_part(struct tree *tree, struct backend_node *node, int64_t from)
{
	_cleanup_(batch_done) struct batch batch = { 0 };

	node->size = MIN(node->size, (uint64_t)from * BACKEND_CHUNK);
	shed_node_put(node, &batch);
	batch_chunk_delete(&batch, node->ino, from, INT64_MAX);
	return batch_commit(&batch, tree->backend, BACKEND_FREES);
}

/* All but so many of the oldest records. */
static int shed_past_part(struct tree *tree, struct backend_node *node, int64_t left)
{
	_cleanup_(batch_done) struct batch batch = { 0 };

	BATCH_PUT(&batch, BACKEND_PAST_FORGET, .ino = node->ino, .session = node->session,
		  .key = node->key, .at = INT64_MAX, .to = left);
	return batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

/* Its rows are hidden. */
static int shed_trashed_part(struct tree *tree, struct backend_node *node, int64_t from)
{
	_cleanup_(batch_done) struct batch batch = { 0 };

	batch_hidden_delete(&batch, node->ino, from);
	return batch_commit(&batch, tree->backend, BACKEND_ANYWAY | BACKEND_FREES);
}

static int count_record(void *arg, const struct backend_past *past)
{
	int64_t *count = arg;

	(void)past;
	++*count;
	return 0;
}

/* What was kept of a file, too; ino: of hidden rows, or 0.  1: something is gone. */
static int shed_past(struct tree *tree, const struct backend_node *node, uint64_t ino)
{
	const struct backend_past_key key = { ino, node->session, node->key };
	struct backend_node past = { .ino = ino, .session = node->session, .key = node->key };
	_cleanup_(view_end) struct view view = { 0 };
	int64_t count = 0;
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = backend_past_list(view.backend, view.snapshot, &key, INT64_MIN, count_record,
				      &count);
	view_end(&view);
	if (r == 0)
		r = shed_parts(tree, &past, 0, count - 1, shed_past_part);
	return r < 0 ? r : count > 1;
}

static int shed_rows(struct tree *tree, struct backend_node *node)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct backend_key_stat stat;
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = ASK(&view, key_stat, node->session, node->key, &stat);
	view_end(&view);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return shed_parts(tree, node, stat.first, stat.last, shed_rows_part);
}

static int shed_chunks(struct tree *tree, struct backend_node *node, uint64_t size)
{
	if (node->size <= size)
		return 0;
	return shed_parts(tree, node, (int64_t)(size / BACKEND_CHUNK),
			  (int64_t)((node->size - 1) / BACKEND_CHUNK), shed_chunks_part);
}

int shed_hidden(struct tree *tree, const struct backend_node *node)
{
	struct backend_node copy = *node;
	int r = 0;

	copy.nlink = 0;
	if (kind_is_state(node->kind) && node->key.data)
		r = shed_rows(tree, &copy);
	if (r == 0 && (node->kind == BACKEND_ORDINARY || (node->flags & BACKEND_DRAFT)))
		r = shed_chunks(tree, &copy, 0);
	/* With what was kept of the parts, when there was room for that. */
	if (r == 0 && kind_is_state(node->kind) && node->key.data)
		r = shed_past(tree, &copy, 0);
	return MIN(r, 0);
}

int shed_kept(struct tree *tree, const struct backend_node *node)
{
	return shed_past(tree, node, 0);
}

int shed_trashed(struct tree *tree, const struct backend_node *node)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct backend_node copy = *node;
	struct backend_mark mark;
	int r;

	copy.nlink = 0;
	r = view_begin(tree, BACKEND_ANYWAY, &view);
	/* There are few rows behind the last mark. */
	if (r == 0)
		r = ASK(&view, mark_find_index, node->ino, INT64_MAX, &mark);
	view_end(&view);
	if (r == 0)
		r = shed_parts(tree, &copy, 0, mark.index, shed_trashed_part);
	if (r == 0 || r == -ENOENT)
		r = shed_chunks(tree, &copy, 0);
	if (r == 0 && node->key.data)
		r = shed_past(tree, &copy, node->ino);
	return MIN(r, 0);
}

int shed_content(struct tree *tree, struct inode *inode, uint64_t size)
{
	struct backend_node node = inode->node;
	int r = 0;

	quota_void(tree);
	if (inode->node.kind == BACKEND_LIST && !inode_is_draft(inode) && !size)
		r = shed_rows(tree, &node);
	else if (inode->node.kind == BACKEND_ORDINARY)
		r = shed_chunks(tree, &node, size);
	inode->node = node;
	inode_unload(inode);
	inode->stored_known = false;
	inode->version++;
	return r;
}
