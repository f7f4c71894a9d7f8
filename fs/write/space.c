/* SPDX-License-Identifier: MIT */

/* Size, space and holes, by a handle. */

#include <errno.h>
#include <unistd.h>

#include "fs/content/content.h"
#include "fs/inode/waiting.h"
#include "fs/inode/window.h"
#include "fs/write/handle.h"

/* The size that the writer sees; others see the published size. */
static int written_size(struct tree *tree, const struct handle *handle, uint64_t *ret_size)
{
	const struct writing *writing = handle->writing;
	const struct version *replaced = handle_replaced(handle);
	uint64_t end;
	int r;

	if (writing->mode == HANDLE_SAVE && (writing->dirty || writing->apart)) {
		*ret_size = writing->stage.size;
		return 0;
	}
	if (replaced) {
		*ret_size = replaced->stage.size;
		return 0;
	}
	r = handle_content_end(tree, handle->inode, &end);
	if (r == 0)
		*ret_size = writing_size(writing, end);
	return r;
}

/* The content may have changed since the writer published. */
static void begin_anew(struct writing *writing)
{
	if (writing->mode == HANDLE_SAVE && !writing->dirty && !writing->apart)
		writing->mode = HANDLE_PLAIN;
}

int handle_cut(struct tree *tree, struct handle *handle, uint64_t size, struct notes *notes)
{
	struct writing *writing = handle->writing;
	uint64_t before;
	int r;

	handle_part(tree, handle);
	r = written_size(tree, handle, &before);
	if (r < 0)
		return r;
	if (size != before) {
		begin_anew(writing);
		r = handle_begin_save(tree, handle, size > 0);
		if (r == 0)
			r = stage_truncate(&writing->stage, size);
		if (r < 0)
			return r;
	}
	if (size <= writing->refused_at)
		writing->refused = 0;
	if (size == before)
		return 0;
	writing->line_start = MIN(writing->line_start, size);
	writing->kept = MIN(writing->kept, size);
	writing->settled = false;
	writing->only_adds &= size > 0;
	handle_wrote(handle);
	handle_staged(tree, handle);
	face_take(notes, tree, writing);
	return 0;
}

int handle_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    struct notes *notes)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(stage_done) struct stage stage = { 0 };
	uint64_t before;
	int r;

	if (handle && !handle_writes(handle))
		handle = NULL;
	r = check_growth(tree, inode, handle, size, BYTES(""));
	if (r < 0)
		return r;
	if (handle)
		return handle_cut(tree, handle, size, notes);
	if (size) {
		r = inode_view_begin(tree, inode, &view);
		if (r == 0)
			r = content_size(tree, &view, inode, &before);
		if (r < 0 || size == before)
			return r;
		r = content_to_stage(&view, inode, &stage);
		view_end(&view);
	}
	if (r == 0 && size != stage.size)
		r = stage_truncate(&stage, size);
	return r < 0 ? r : save_publish(tree, inode, NULL, &stage, time_now(), NULL, notes);
}

static int stage_zero(struct stage *stage, uint64_t from, uint64_t to)
{
	static const char zeros[BACKEND_CHUNK];
	int r = 0;

	while (r == 0 && from < to) {
		size_t size = MIN(to - from, sizeof(zeros));

		r = stage_write(stage, from, bytes_make(zeros, size));
		from += size;
	}
	return r;
}

/* For a state file: kind is 0, or a mode of fallocate(2) that makes zeros of the bytes from offset
 * to end. */
static int allocate_staged(struct tree *tree, struct handle *handle, int kind, uint64_t offset,
			   uint64_t end, bool grows, struct notes *notes)
{
	struct stage *stage = &handle->writing->stage;
	uint64_t before;
	int r;

	if (kind)
		handle_wrote(handle);
	r = written_size(tree, handle, &before);
	if (r < 0)
		return r;
	if (!kind || offset >= before)
		return grows && end > before ? handle_cut(tree, handle, end, notes) : 0;
	begin_anew(handle->writing);
	r = handle_begin_save(tree, handle, true);
	grows = grows && end > stage->size;
	if (r == 0 && grows)
		r = stage_truncate(stage, end);
	if (r == 0)
		r = stage_zero(stage, offset, MIN(end, stage->size));
	if (r < 0)
		return r;
	handle->writing->only_cut = handle->writing->only_adds = false;
	handle->writing->settled = false;
	handle_staged(tree, handle);
	face_take(notes, tree, handle->writing);
	return 0;
}

static int allocate_plain(struct tree *tree, const struct handle *handle, int mode, uint64_t offset,
			  uint64_t size, struct notes *notes)
{
	struct inode *inode = handle->inode;
	const uint64_t before = file_size(inode);
	int r = file_allocate(tree, inode, mode, offset, size);

	inode->saved = false;
	if (r == 0)
		notes_plain(notes, tree, inode, before,
			    mode & ~FALLOC_FL_KEEP_SIZE ? offset : before, handle->face);
	if (r == 0)
		notes_happened(notes, tree,
			       &(struct happened){ .what = EVENT_SAVE, .inode = inode });
	return r;
}

static int allocate_once(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
			 uint64_t size, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_HANDLE_LOCK(handle);
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int kind = mode & ~FALLOC_FL_KEEP_SIZE;
	bool grows = !(mode & FALLOC_FL_KEEP_SIZE);
	int r = writing_lost_lock(tree, handle->writing);

	if (r < 0)
		return r;
	handle_part(tree, handle);
	if (!inode_is_state(inode) && !handle_is_staged(handle))
		return allocate_plain(tree, handle, mode, offset, size, notes);
	if (kind == FALLOC_FL_PUNCH_HOLE ? grows : kind && kind != FALLOC_FL_ZERO_RANGE)
		return -EOPNOTSUPP;
	if (offset + size < offset)
		return -EFBIG;
	/* Making zeros of present bytes may reach any length behind the end. */
	r = grows || !kind ? check_growth(tree, inode, handle, offset + size, BYTES("")) : 0;
	if (r < 0 || (!kind && !grows))
		return r;
	return allocate_staged(tree, handle, kind, offset, offset + size, grows, notes);
}

int handle_allocate(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
		    uint64_t size)
{
	if (handle->through)
		return -EROFS;
	return TREE_RETRY_NOTING(tree, NOTIFY_CONTENT,
				 allocate_once(tree, handle, mode, offset, size, &notes));
}

/* The size that the handle reads. */
static int handle_seen_size(struct tree *tree, struct view *view, const struct handle *handle,
			    uint64_t *ret_size)
{
	int r;

	if (handle->writing->mode == HANDLE_SAVE && handle->writing->dirty) {
		*ret_size = handle->writing->stage.size;
		return 0;
	}
	if (handle->old || handle->face->old) {
		*ret_size = (handle->old ? handle->old : handle->face->old)->stage.size;
		return 0;
	}
	r = content_size(tree, view, handle->inode, ret_size);
	if (r == 0 && handle->writing->mode == HANDLE_APPEND)
		*ret_size += handle->writing->piece.size;
	return r;
}

static int seek_once(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		     uint64_t *ret_offset)
{
	struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	WITH_HANDLE_LOCK(handle);
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	uint64_t size = 0;
	int r;

	if (!inode_is_state(inode))
		return file_seek(tree, inode, offset, whence, ret_offset);
	r = inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = handle_seen_size(tree, &view, handle, &size);
	if (r < 0)
		return r;
	if (offset >= size)
		return -ENXIO;
	*ret_offset = whence == SEEK_DATA ? offset : size;
	return 0;
}

/* All of a list is data. */
static int seek_window(struct tree *tree, const struct through *through, uint64_t offset,
		       int whence, uint64_t *ret_offset)
{
	const struct window *window = through->inode->window;

	if (through->events)
		return -ESPIPE;
	if (!window->rows.list)
		return handle_seek(tree, through->handle, offset, whence, ret_offset);
	if (offset >= window->size)
		return -ENXIO;
	*ret_offset = whence == SEEK_HOLE ? window->size : offset;
	return 0;
}

int handle_seek(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		uint64_t *ret_offset)
{
	if (handle->through)
		return seek_window(tree, handle->through, offset, whence, ret_offset);
	return TREE_RETRY(tree, seek_once(tree, handle, offset, whence, ret_offset));
}
