/* SPDX-License-Identifier: MIT */

/* Reading by a handle: its own stage, the version that it is in the middle of, or the newest
 * content. */

#include <errno.h>

#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/inode/waiting.h"
#include "fs/inode/window.h"
#include "fs/write/handle.h"

void handle_drop_outdated(struct handle *handle)
{
	const struct inode *inode = handle->inode;
	bool grown = inode->node.kind == BACKEND_LIST && inode->loaded &&
		     inode->list.size != handle->writing->stage.size;

	/* In a file that is not a state file any more, writes and cuts are committed as they
	 * are. */
	bool plain = !inode_is_state(inode) || inode->orphaned;

	if (handle->writing->mode != HANDLE_SAVE || handle->writing->dirty ||
	    handle->writing->apart ||
	    (handle->writing->version == inode->version && !grown && !plain))
		return;
	stage_done(&handle->writing->stage);
	handle->writing->mode = HANDLE_PLAIN;
}

void handle_wrote(struct handle *handle)
{
	const struct writing *writing = handle->writing;

	if (writing->count == 1) {
		handle_drop_old(handle);
		return;
	}
	for (handle = writing->inode->open; handle; handle = handle->next)
		if (handle->writing == writing)
			handle_drop_old(handle);
}

void handle_drop_old(struct handle *handle)
{
	version_drop(&handle->old);
}

struct version *handle_replaced(const struct handle *handle)
{
	return handle->old && handle->old->replaced ? handle->old : NULL;
}

/* A new document is a draft of no bytes. */
static bool is_new(const struct inode *inode)
{
	return inode_is_draft(inode) && !inode->node.size && !inode->orphaned && !inode->apart;
}

int handle_stage(struct tree *tree, struct handle *handle, struct stage *stage)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct version *replaced = handle_replaced(handle);
	struct inode *inode = handle->inode;
	int r = 0;

	if (replaced)
		return stage_copy(&replaced->stage, stage);
	if (!is_new(inode))
		r = inode_view_begin(tree, inode, &view);
	return r < 0 || is_new(inode) ? r : content_to_stage(&view, inode, stage);
}

/* A document as the store has it now, though changes of others wait: if it is still the one that
 * memory knows. */
static int document_ahead(struct tree *tree, struct inode *inode, struct version **ret_version)
{
	_cleanup_(version_drop) struct version *version = version_new();
	_cleanup_(view_end) struct view view = { 0 };
	struct backend_node node;
	bool same;
	int r = version ? view_begin(tree, BACKEND_ANYWAY, &view) : -ENOMEM;

	if (r == 0)
		r = ASK(&view, node_get, inode->ino, &node);
	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	same = node.kind == inode->node.kind && !(node.flags & BACKEND_DRAFT) &&
	       bytes_equal(node.session, inode->node.session) &&
	       bytes_equal(node.key, inode->node.key);
	backend_node_done(&node);
	r = same ? content_to_stage(&view, inode, &version->stage) : -ESTALE;
	/* Its row was deleted. */
	if (r == 0 && !version->stage.size)
		r = -ESTALE;
	if (r == 0)
		*ret_version = steal_ptr(version);
	return r;
}

int handle_keep(struct tree *tree, struct handle *handle)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode = handle->inode;
	/* What another one of the open file holds back comes behind it. */
	const uint64_t most =
		handle->keeps && handle->writing->count == 1 ? content_kept_most(tree, inode) : 0;
	const bool is_document = inode->node.kind != BACKEND_LIST && !inode_is_draft(inode);
	int r;

	version_drop(&handle->old);
	if (!most)
		return 0;
	r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_keep(&view, inode,
				 handle->direct || is_document ? most : CONTENT_CACHED);
	if (r == 0 && is_document)
		handle->old = content_kept(inode);
	view_end(&view);
	if (r == -ESTALE && is_document && backend_is_shared(tree->backend))
		r = document_ahead(tree, inode, &handle->old);
	/* Without room it is read from the store. */
	return r == -ENOMEM || r == -ENOSPC ? 0 : MIN(r, 0);
}

/* The writer sees its unfinished line behind the list. */
static int read_piece(struct tree *tree, struct view *view, struct handle *handle, uint64_t offset,
		      size_t size, struct buf *out)
{
	uint64_t end;
	int r;

	if (handle->writing->mode != HANDLE_APPEND || !handle->writing->piece.size || !size)
		return 0;
	r = content_size(tree, view, handle->inode, &end);
	if (r < 0 || offset < end)
		return r;
	return stage_read(&handle->writing->piece, offset - end, size, out);
}

static int read_published(struct tree *tree, struct view *view, struct handle *handle,
			  uint64_t offset, size_t size, struct buf *out)
{
	struct inode *inode = handle->inode;
	const uint64_t most = content_kept_most(tree, inode);
	int r = most ? content_keep(view, inode, most) : 1;

	if (r == 0)
		return stage_read(&inode->kept->stage, offset, size, out);
	return r < 0 ? r : content_read(tree, view, inode, handle, offset, size, out);
}

/* The published content, with the writer's piece behind it. */
static int read_with_piece(struct tree *tree, struct view *view, struct handle *handle,
			   uint64_t offset, size_t size, struct buf *out)
{
	size_t before = out->size;
	int r = read_published(tree, view, handle, offset, size, out);

	if (r < 0)
		return r;
	before = out->size - before;
	return read_piece(tree, view, handle, offset + before, size - before, out);
}

/* A reader gets bytes only when their size is shown: otherwise a program that has read them and
 * then asks for the size would get a smaller one. */
static size_t bounded(const struct handle *handle, uint64_t offset, size_t size)
{
	uint64_t bound = handle->kind == FACE_READ ? handle->inode->bound : UINT64_MAX;

	return offset < bound ? MIN(size, bound - offset) : 0;
}

static int read_newest(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		       struct buf *out)
{
	struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	int r = handle->keeps ? reader_snapshot_begin(tree, inode) : 0;

	if (r == 0)
		r = inode_view_begin(tree, inode, &view);
	if (r < 0)
		return r;
	/* A file that was a list may have an unfinished line behind it. */
	if (inode_is_state(inode) && inode->node.kind != BACKEND_LIST &&
	    !handle->writing->piece.size) {
		/* A reader of a document sees one version of it, from a read at its start until the
		 * next one.  Without room for a copy, it sees the newest content. */
		handle->old = content_kept(inode);
		r = handle->old ? 0 : document_get(&view, inode, &handle->old);
		if (r == -ESTALE || r == -EIO)
			return r;
	}
	if (handle->old)
		return stage_read(&handle->old->stage, offset, size, out);
	return read_with_piece(tree, &view, handle, offset, size, out);
}

/* A reader in the middle, or about to begin, may go on with what is kept. */
static bool goes_on(const struct handle *handle, uint64_t offset)
{
	const struct inode *inode = handle->inode;

	return (handle->fresh || handle->middle) && handle->keeps && handle->writing->count == 1 &&
	       inode->kept && inode->kept_version == inode->version &&
	       offset < inode->kept->stage.size;
}

static bool begins_with(struct stage *stage, struct stage *beginning)
{
	struct bytes bytes, first;
	bool does = stage_map(stage, &bytes) == 0 && stage_map(beginning, &first) == 0 &&
		    bytes.size >= first.size &&
		    bytes_equal(bytes_make(bytes.data, first.size), first);

	stage_unmap(stage);
	stage_unmap(beginning);
	return does;
}

/* The version that a reader is in the middle of; behind its end the list, if that has only grown
 * since: what others have done is not always known exactly. */
static int read_old(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		    struct buf *out)
{
	const uint64_t most = content_kept_most(tree, handle->inode);
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode = handle->inode;
	int r;

	if (offset < handle->old->stage.size || inode->node.kind != BACKEND_LIST || !most)
		return stage_read(&handle->old->stage, offset, size, out);
	r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_keep(&view, inode, most);
	if (r != 0 || !begins_with(&inode->kept->stage, &handle->old->stage))
		return MIN(r, 0);
	handle_drop_old(handle);
	return stage_read(&inode->kept->stage, offset, bounded(handle, offset, size), out);
}

/* Whether the handle's content ends there, as far as that is known. */
static bool is_end(const struct handle *handle, uint64_t offset)
{
	struct inode *inode = handle->inode;
	uint64_t size;

	if (handle->old)
		return offset >= handle->old->stage.size;
	return inode->loaded && content_size(NULL, NULL, inode, &size) == 0 && offset >= size;
}

/* out has so many bytes before. */
static int read_once(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		     size_t before, struct buf *out, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_HANDLE_LOCK(handle);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	if (inode_is_leaving(tree, inode))
		return -ESTALE;
	out->size = before;
	handle_part(tree, handle);
	handle_drop_outdated(handle);
	if (!offset && !handle->fresh)
		handle_drop_old(handle);
	if (handle->writing->mode == HANDLE_SAVE)
		r = stage_read(&handle->writing->stage, offset, size, out);
	else if (handle->old)
		r = read_old(tree, handle, offset, size, out);
	else if (goes_on(handle, offset))
		r = stage_read(&inode->kept->stage, offset, bounded(handle, offset, size), out);
	else
		r = read_newest(tree, handle, offset, bounded(handle, offset, size), out);
	/* If changes of others come first, the handle stays where it was. */
	if (r < 0)
		return r;
	/* After a read at the end of the file, or from the start after all of it. */
	handle->again |= !handle->fresh && (!handle->middle || (handle->ended && !offset));
	handle->asked = 0;
	handle->fresh = handle->closed = false;
	/* A reader at the end of the file waits for what comes. */
	handle->middle = out->size > before;
	handle->ended |= is_end(handle, offset + (out->size - before));
	if (!handle->middle)
		handle_drop_old(handle);
	face_unless_needed(notes, tree, inode, handle->face);
	return r;
}

void handle_read_by(struct handle *handle, pid_t pid)
{
	handle->reader = pid;
}

int handle_read(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out)
{
	size_t before = out->size;

	if (handle->through)
		return tree->views->read(tree, handle->through, offset, size, false, out);
	return TREE_RETRY_NOTING(tree, NOTIFY_LATER,
				 read_once(tree, handle, offset, size, before, out, &notes));
}

/* The kernel fills its pages. */
static int fill_once(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		     size_t before, struct buf *out)
{
	struct inode *inode = handle->inode;
	struct face *face = handle->face;
	_cleanup_(view_end) struct view view = { 0 };
	WITH_HANDLE_LOCK(handle);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	if (inode_is_leaving(tree, inode))
		return -ESTALE;
	out->size = before;
	face->filled = handle->fills = true;
	if (face->old)
		return stage_read(&face->old->stage, offset, size, out);
	if (handle->writing->mode == HANDLE_SAVE && handle->writing->dirty)
		return stage_read(&handle->writing->stage, offset, size, out);
	r = handle->keeps ? reader_snapshot_begin(tree, inode) : 0;
	if (r == 0)
		r = inode_view_begin(tree, inode, &view);
	if (r < 0)
		return r;
	if (face->own)
		return read_with_piece(tree, &view, handle, offset, size, out);
	return read_published(tree, &view, handle, offset, size, out);
}

int handle_fill(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out)
{
	size_t before = out->size;

	if (handle->through)
		return tree->views->read(tree, handle->through, offset, size, true, out);
	return TREE_RETRY(tree, fill_once(tree, handle, offset, size, before, out));
}
