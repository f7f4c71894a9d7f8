/* SPDX-License-Identifier: MIT */

/*
 * The states of struct writing
 *
 *   A writing belongs to one open file, with all its descriptors and processes, and to the handles
 *   that were opened again through it (/dev/stdout): they write and see the same.  An open by a
 *   name makes another one.
 *
 *     state          holds back                           its handles read
 *     HANDLE_PLAIN   nothing                              the published content
 *     HANDLE_APPEND  the unfinished last line (piece)     the published content and the piece
 *     HANDLE_SAVE    the new content (stage), if dirty;   the stage
 *                    nothing, once it is published
 *
 *     from           when                                 to
 *     any, clean     write to an ordinary file            PLAIN: committed as it is
 *     PLAIN, APPEND  write to a list with O_APPEND, or    APPEND: whole lines are committed, the
 *                    in sequence to a list that was       rest is the piece
 *                    empty when opened (streams)
 *     PLAIN, APPEND  any other write, a truncation        SAVE, dirty, from content and piece
 *     PLAIN          O_TRUNC                              SAVE, dirty, from nothing
 *     APPEND         flush                                APPEND: the piece joins the list
 *     SAVE           any write, a truncation              SAVE, dirty
 *     SAVE           flush, or a pause if it is whole     SAVE: the stage is published
 *     SAVE, clean    a write with O_APPEND                SAVE, dirty, from the newest content
 *     SAVE, clean    a read after others have published   PLAIN: the stage is dropped
 *
 *   Flush is the close of a descriptor, or fsync.  It is not the close by a child that has only
 *   inherited the descriptor, nor one that leaves a duplicate to its process: there the writer goes
 *   on.  After a flush the state stays: a child may go on writing, over its own stage and never
 *   over the content of another writer, so the last close wins, entire.  But what was only added to
 *   a document (O_APPEND) is added to its content at the flush; and a save that has only set the
 *   size keeps what others have added since, and does not replace what they have saved (newer.c).
 */

#include <errno.h>
#include <fcntl.h>

#include "fs/base/lines.h"
#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/inode/quota.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"
#include "backend/base/tick.h"

int handle_begin_save(struct tree *tree, struct handle *handle, bool keep)
{
	struct writing *writing = handle->writing;
	_cleanup_(stage_done) struct stage stage = { 0 };
	struct version *replaced = handle_replaced(handle);
	uint64_t kept, seen;
	int r = keep && writing->mode != HANDLE_SAVE ? handle_stage(tree, handle, &stage) : 0;

	if (r < 0 || writing->mode == HANDLE_SAVE)
		return r;
	kept = seen = stage.size;
	/* With an unknown end, nothing is found behind it later. */
	if (!keep && handle_content_end(tree, handle->inode, &seen) < 0)
		seen = UINT64_MAX;
	/* A piece that was held back is part of what the writer sees. */
	if (keep && writing->piece.size) {
		struct bytes piece;

		r = stage_map(&writing->piece, &piece);
		if (r == 0)
			r = stage_write(&stage, stage.size, piece);
		if (r < 0)
			return r;
	}
	stage_done(&writing->piece);
	stage_done(&writing->stage);
	writing->stage = stage;
	writing->line_start = stage.size;
	writing->only_cut = stage.size == kept; /* a piece was written */
	writing->only_adds = keep;
	writing->kept = kept;
	writing->seen = seen;
	writing->version = replaced ? VERSION_REPLACED : handle->inode->version;
	stage = (struct stage){ 0 };
	writing->mode = HANDLE_SAVE;
	writing->dirty = writing->streams = false;
	return 0;
}

void inode_writers_gone(struct tree *tree, struct inode *inode)
{
	inode->dates = (struct dates){ 0 };
	/* The save has failed: the previous content stays, and is its own. */
	if (inode->inherits && !inode->inherited) {
		inode->inherits = false;
		quota_void(tree);
	}
}

void handle_staged(struct tree *tree, struct handle *handle)
{
	struct writing *writing = handle->writing;

	writing_is_saver(tree, writing);
	writing->dirty = true;
	writing->failed = 0;
	writing->written = time_now();
	writing->busy = tick_now();
	writing->times_set = false;
}

void handle_part(struct tree *tree, struct handle *handle)
{
	struct writing *writing = handle->writing;

	if (!writing->parted)
		return;
	writing->parted = false;
	stage_done(&writing->stage);
	stage_done(&writing->piece);
	writing->stage = writing->base;
	writing->base = (struct stage){ 0 };
	writing->mode = HANDLE_SAVE;
	writing->streams = false;
	writing->line_start = writing->stage.size;
	writing->kept = writing->seen = 0;
	/* A writer that has only emptied the file replaces nothing. */
	writing->only_cut = !writing->stage.size;
	writing->only_adds = false;
	handle_staged(tree, handle);
}

/* Appending. */

/* -EFBIG when a line is longer than the store can take. */
static int check_line_lengths(struct tree *tree, const struct handle *handle, struct bytes data)
{
	uint64_t before = handle->writing->piece.size;
	struct line line;

	if (before + data.size <= tree->backend->max_item)
		return 0;
	while (lines_next(&data, &line)) {
		if (before + line.size > tree->backend->max_item)
			return -EFBIG;
		before = 0;
	}
	return 0;
}

int handle_content_end(struct tree *tree, struct inode *inode, uint64_t *ret_end)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = 0;

	if (inode_is_state(inode) && !inode->loaded && !inode_is_draft(inode))
		r = view_begin(tree, BACKEND_ANYWAY, &view);
	return r < 0 ? r : content_size(tree, &view, inode, ret_end);
}

bool handle_owns_tail(struct tree *tree, const struct handle *handle)
{
	uint64_t end;

	return handle->writing->owns_tail && handle_content_end(tree, handle->inode, &end) == 0 &&
	       end == handle->writing->tail_end;
}

/* Publish lines that follow the piece; on failure the piece is as before. */
static int append_behind_piece(struct tree *tree, struct handle *handle, struct bytes lines,
			       struct notes *notes)
{
	uint64_t before = handle->writing->piece.size;
	const unsigned how = handle_append_how(tree, handle);
	struct bytes all = lines;
	int r = 0;

	if (before) {
		r = stage_write(&handle->writing->piece, before, lines);
		if (r == 0)
			r = stage_map(&handle->writing->piece, &all);
	}
	if (r == 0)
		r = append_lines(tree, handle->inode, all, how, time_now(), handle->face, notes);
	if (r < 0 && before)
		stage_truncate(&handle->writing->piece, before);
	if (r == 0)
		stage_done(&handle->writing->piece);
	return r;
}

/* With -o strict: whether the first line is good with the piece before it: 1, 0, -errno. */
static int strict_first(struct tree *tree, struct handle *handle, struct bytes text)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	bool own = handle_owns_tail(tree, handle);
	struct bytes piece;
	int r;

	if (!handle->writing->piece.size)
		return append_judge(tree, handle->inode, text, own);
	r = stage_map(&handle->writing->piece, &piece);
	if (r == 0)
		r = buf_join(&line, piece, text);
	return r < 0 ? r : append_judge(tree, handle->inode, buf_bytes(&line), own);
}

/* With -o strict: the lines before the first one that is not JSON. */
static int strict_part(struct tree *tree, struct handle *handle, struct bytes lines,
		       struct bytes *ret_good)
{
	struct bytes rest = lines;
	struct line line;
	size_t good = 0;

	while (lines_next(&rest, &line)) {
		int r = good == 0 ? strict_first(tree, handle, line.text) :
				    lines_is_row(line.text, NULL) || lines_is_blank(line.text);

		if (r < 0)
			return r;
		if (!r)
			break;
		good += line.size;
	}
	*ret_good = bytes_make(lines.data, good);
	return 0;
}

static ssize_t handle_append(struct tree *tree, struct handle *handle, struct bytes data,
			     struct notes *notes)
{
	struct bytes lines = lines_whole(data);
	size_t taken = data.size;
	struct bytes rest;
	int r;

	r = check_line_lengths(tree, handle, data);
	if (r < 0)
		return r;
	if (tree->options.strict) {
		struct bytes good;

		r = strict_part(tree, handle, lines, &good);
		if (r < 0)
			return r;
		if (lines.size && !good.size)
			return -EINVAL;
		if (good.size < lines.size)
			taken = good.size;
		lines = good;
	}
	if (lines.size) {
		r = append_behind_piece(tree, handle, lines, notes);
		if (r < 0)
			return r;
		handle->writing->owns_tail = false;
	}
	handle->writing->mode = HANDLE_APPEND;
	handle->writing->failed = 0;
	rest = bytes_make(data.data + lines.size, taken - lines.size);
	if (rest.size) {
		r = stage_write(&handle->writing->piece, handle->writing->piece.size, rest);
		/* The lines before it are committed: a short write says so. */
		if (r < 0 && !lines.size)
			return r;
		if (r < 0)
			taken = lines.size;
	}
	handle->writing->stream_end += taken;
	handle->writing->written = time_now();
	handle->writing->busy = tick_now();
	handle->writing->times_set = false;
	return (ssize_t)taken;
}

/* Whether it is the first write to a list that was emptied by the open, which replaces what others
 * have written meanwhile. */
static bool is_first_of_save(const struct handle *handle)
{
	return handle->writing->streams && !handle->writing->stream_end && handle->flags & O_TRUNC;
}

/* Whether the list is empty, 0 or 1; or -errno. */
static int is_empty(struct tree *tree, struct inode *inode)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = inode->loaded ? 0 : inode_view_begin(tree, inode, &view);

	if (r == 0 && !inode->loaded)
		r = content_load(tree, &view, inode);
	return r < 0 ? r : !inode->list.size;
}

/* Whether the write appends (HANDLE_APPEND), 0 or 1; or -errno. */
static int write_appends(struct tree *tree, struct handle *handle, uint64_t offset)
{
	struct inode *inode = handle->inode;

	if (inode->node.kind != BACKEND_LIST || inode->orphaned ||
	    handle->writing->mode == HANDLE_SAVE)
		return 0;
	if (handle->flags & O_APPEND)
		return 1;
	if (!handle->writing->streams || offset != handle->writing->stream_end ||
	    inode_is_draft(inode))
		return 0;
	/* Others may have added lines meanwhile: then the write must replace them, not follow
	 * them. */
	return is_first_of_save(handle) ? is_empty(tree, inode) : 1;
}

/* Writing. */

/* A failed write (a full disk) leaves a gap, and content with a gap is never published: the close
 * after such an error keeps the previous content. */
static void handle_refuse(struct handle *handle, uint64_t offset, int error)
{
	if (handle->writing->refused && handle->writing->refused_at <= offset)
		return;
	handle->writing->refused = error;
	handle->writing->refused_at = offset;
}

/* The writer has written there again, with success. */
static void handle_repair(struct handle *handle, uint64_t from, uint64_t to)
{
	if (from <= handle->writing->refused_at && handle->writing->refused_at < to)
		handle->writing->refused = 0;
}

bool handle_holds_back(const struct handle *handle)
{
	const struct writing *writing = handle->writing;

	return writing->mode == HANDLE_SAVE ? writing->dirty : writing->piece.size != 0;
}

bool handle_is_staged(const struct handle *handle)
{
	return handle->writing->apart || handle_holds_back(handle);
}

/* Whether a write is committed as it is: to an ordinary file, or to one without a name, where a
 * save could not be seen.  A handle that still holds back what was written under another name keeps
 * the order. */
static bool write_is_plain(struct handle *handle)
{
	const struct inode *inode = handle->inode;

	if ((inode_is_state(inode) && !inode->orphaned) || handle_is_staged(handle))
		return false;
	stage_done(&handle->writing->stage);
	handle->writing->mode = HANDLE_PLAIN;
	return true;
}

/* Readers in the middle of a state file that has lost its name keep the version that they began
 * with, as when a file is saved. */
static void keep_orphan(const struct handle *handle, struct notes *notes)
{
	struct inode *inode = handle->inode;
	_cleanup_(version_drop) struct version *version = NULL;

	if (!inode->orphaned || !versions_wanted(inode, handle->writing))
		return;
	if (version_take(NULL, inode, &version) == 0 && version)
		versions_apply(notes, inode, handle->writing, version);
}

static ssize_t write_plain(struct tree *tree, struct handle *handle, bool append, uint64_t offset,
			   struct bytes data, struct notes *notes)
{
	struct inode *inode = handle->inode;
	const uint64_t guess = offset;
	uint64_t size;
	int r = content_size(tree, NULL, inode, &size);

	if (r == 0 && append)
		offset = size;
	if (r == 0) {
		keep_orphan(handle, notes);
		r = content_write(tree, inode, offset, data);
	}
	if (r < 0)
		return r;
	inode->saved = false;
	if (!handle->direct) {
		handle->face->filled = true;
		/* The kernel may still have the end from before a write of another mount. */
		if (offset != guess)
			notes_misplaced(notes, inode, handle->face, MIN(guess, offset));
	}
	notes_plain(notes, tree, inode, size, offset,
		    handle->direct && !inode_is_state(inode) ? NULL : handle->face);
	notes_happened(notes, tree,
		       &(struct happened){
			       .what = offset < size ? EVENT_SAVE : EVENT_APPEND,
			       .inode = inode,
		       });
	return (ssize_t)data.size;
}

/* Where the last line that the handle sees begins, or a place behind that. */
static int last_line_start(struct tree *tree, struct inode *inode, const struct handle *handle,
			   uint64_t *ret_start)
{
	int r;

	if (handle && handle->writing->mode == HANDLE_SAVE) {
		*ret_start = handle->writing->line_start;
		return 0;
	}
	r = handle_content_end(tree, inode, ret_start);
	if (r == 0 && handle)
		*ret_start += handle->writing->piece.size;
	return r;
}

/* Whether its writes go only into its stage until that is published. */
static bool is_staging(const struct handle *handle)
{
	return handle->writing->mode == HANDLE_SAVE && handle->writing->dirty;
}

/* Do not stage what can never be published.  Under inode.lock. */
static int check_quota(struct tree *tree, struct inode *inode, const struct handle *handle,
		       uint64_t end)
{
	_cleanup_(view_end) struct view view = { 0 };
	uint64_t size;
	int r;

	if (!quota_on(tree) || inode->orphaned || !inode_is_state(inode) ||
	    (handle && is_staging(handle) && end <= handle->writing->stage.size))
		return 0;
	r = inode->loaded ? 0 : inode_view_begin(tree, inode, &view);
	if (r == 0)
		r = content_size(tree, &view, inode, &size);
	view_end(&view);
	if (r == 0 && inode->inherits)
		size = 0;
	if (r < 0 || end <= size)
		return r;
	return quota_room(tree, quota_dir(inode), (int64_t)(end - size));
}

int check_growth(struct tree *tree, struct inode *inode, const struct handle *handle,
		 uint64_t offset, struct bytes data)
{
	uint64_t end = offset + data.size, limit = tree->backend->max_item, start;
	const char *newline;
	int r;

	if (end < offset || end > INT64_MAX)
		return -EFBIG;
	r = check_quota(tree, inode, handle, end);
	if (r < 0)
		return r;
	if (end <= limit || inode->node.kind == BACKEND_ORDINARY)
		return 0;
	if (inode->node.kind != BACKEND_LIST)
		return -EFBIG;
	r = last_line_start(tree, inode, handle, &start);
	if (r < 0)
		return r;
	newline = data.size ? memchr(data.data, '\n', data.size) : NULL;
	if (newline)
		end = offset + (uint64_t)(newline - data.data);
	return end > start && end - start > limit ? -EFBIG : 0;
}

static void note_last_line(struct handle *handle, uint64_t offset, struct bytes data)
{
	size_t lines = lines_whole(data).size;

	if (lines)
		handle->writing->line_start = MAX(handle->writing->line_start, offset + lines);
}

/* Begin to save, or go on.  What was published ends where the file ends now. */
static int stage_again(struct tree *tree, struct handle *handle, bool append)
{
	struct writing *writing = handle->writing;
	const enum handle_mode before = writing->mode;
	int r;

	if (append && before == HANDLE_SAVE && !writing->dirty && !writing->apart)
		writing->mode = HANDLE_PLAIN;
	r = handle_begin_save(tree, handle, !is_first_of_save(handle));
	/* It will be tried again, and must find the state as it was. */
	if (r < 0)
		writing->mode = before;
	return r;
}

static ssize_t write_once(struct tree *tree, struct handle *handle, int flags, pid_t pid,
			  uint64_t offset, struct bytes data, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_HANDLE_LOCK(handle);
	bool stages = is_staging(handle);
	WITH_CHANGE(stages ? NULL : tree, stages ? NULL : inode);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	bool append;
	int r = writing_lost_lock(tree, handle->writing);

	if (r < 0)
		return r;
	if (flags >= 0 && pid != HANDLE_PAGES)
		handle->flags = (handle->flags & ~O_APPEND) | (flags & O_APPEND);
	append = (handle->flags & O_APPEND) && pid != HANDLE_PAGES;
	handle->closed = false;
	handle_part(tree, handle);
	/* Pages of a shared mapping come from any thread of the kernel. */
	if (inode_is_state(inode) && pid != HANDLE_PAGES)
		handle_written_by(handle, pid);
	handle_wrote(handle);
	if (write_is_plain(handle))
		return write_plain(tree, handle, append, offset, data, notes);
	r = pid != HANDLE_PAGES ? write_appends(tree, handle, offset) : 0;
	if (r < 0)
		return r;
	if (r > 0) {
		ssize_t taken = handle_append(tree, handle, data, notes);
		uint64_t end;

		if (handle->writing->piece.size)
			face_take(notes, tree, handle->writing);
		if (taken > 0 && handle_content_end(tree, inode, &end) == 0)
			face_guessed(handle->face, offset + (uint64_t)taken, end);
		return taken;
	}
	r = stage_again(tree, handle, append);
	if (r < 0)
		return r;
	if (append)
		offset = handle->writing->stage.size;
	r = check_growth(tree, inode, handle, offset, data);
	if (r == 0)
		r = stage_write(&handle->writing->stage, offset, data);
	if (r < 0) {
		handle_refuse(handle, offset, r);
		return r;
	}
	note_last_line(handle, offset, data);
	handle_repair(handle, offset, offset + data.size);
	handle->writing->only_cut = handle->writing->settled = false;
	handle->writing->only_adds &= append;
	handle_staged(tree, handle);
	face_take(notes, tree, handle->writing);
	return (ssize_t)data.size;
}

ssize_t handle_write_as(struct tree *tree, struct handle *handle, int flags, pid_t pid,
			uint64_t offset, struct bytes data)
{
	const struct through *through = handle->through;

	/* Through a window a list can only be appended to, but fcntl(2) can remove O_APPEND, and a
	 * shared mapping writes at offsets of the window: both are refused. */
	if (through && through->saves && pid != HANDLE_PAGES)
		return tree->views->write(through, pid, offset, data);
	if (through && (!through->handle || !(flags & O_APPEND) || pid == HANDLE_PAGES))
		return -EROFS;
	if (through)
		return handle_write_as(tree, through->handle, flags, pid, offset, data);
	/* The kernel holds the pages that it writes until this is answered, and a notice may wait
	 * for them. */
	return TREE_RETRY_NOTING(tree,
				 handle->direct && pid != HANDLE_PAGES ? NOTIFY_CONTENT :
									 NOTIFY_LATER,
				 write_once(tree, handle, flags, pid, offset, data, &notes));
}

ssize_t handle_write(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
		     struct bytes data)
{
	return handle_write_as(tree, handle, HANDLE_AS_BEFORE, pid, offset, data);
}
