/* SPDX-License-Identifier: MIT */

/*
 * The states of a handle
 *
 *   HANDLE_PLAIN    holds nothing back.  Reads show the published content; writes of ordinary files
 *                   go through.  A write to a state file leads to one of the others:
 *   HANDLE_APPEND   writes at the end of a list: with O_APPEND, or in sequence into a list that was
 *                   empty when it was opened.  Whole lines are published by the write, the piece
 *                   of an unfinished one is held back until flush.
 *   HANDLE_SAVE     everything else: O_TRUNC, truncation, writes anywhere.  The stage holds the new
 *                   content until flush; it is the handle's own view of the file meanwhile.
 *
 *   Flush (the close of a descriptor, and fsync; but not the close by a child that has only
 *   inherited the descriptor, nor one that leaves a duplicate to its process: the writer goes on)
 *   publishes and leaves the state as it is: a child may go on writing, and what it adds is laid
 *   over its own stage, never over the content of another writer: the last close wins, entire.  A
 *   stage that is published counts as a view of the file only until somebody else publishes; the
 *   next read drops it then, so that lock, read, change, write back sees the newest content.
 */

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/model/handle.h"
#include "fs/model/lines.h"

void handles_times_set(struct inode *inode)
{
	for (struct handle *handle = inode->open; handle; handle = handle->next)
		handle->times_set = true;
}

static pid_t read_process(pid_t pid)
{
	char path[32], line[128];
	pid_t process = pid;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = fopen(path, "re");
	if (!status)
		return pid;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "Tgid: %d", &process) == 1)
			break;
	fclose(status);
	return process;
}

/* For so long a number is not given to another thread: many thousands are given before. */
static const int64_t PROCESS_KNOWN = (int64_t)200 * 1000000;

/* The process of a thread; the thread itself when it has ended or is in another pid namespace.
 * Reading that takes as long as committing a row, so it is remembered for a moment. */
static pid_t process_of(pid_t pid)
{
	static _Thread_local struct {
		pid_t pid;
		pid_t process;
		int64_t until;
	} known[8];
	size_t at = (size_t)pid % ARRAY_SIZE(known);
	int64_t now = time_now();

	if (known[at].pid != pid || known[at].until < now ||
	    known[at].until > now + PROCESS_KNOWN) {
		known[at].process = read_process(pid);
		known[at].pid = pid;
		known[at].until = now + PROCESS_KNOWN;
	}
	return known[at].process;
}

void handle_written_by(struct handle *handle, pid_t pid)
{
	if (handle->process && handle->writer == pid)
		return;
	handle->writer = pid;
	handle->process = process_of(pid);
}

bool handle_is_written_by(const struct handle *handle, pid_t pid)
{
	return !pid || pid == handle->writer || !handle->process ||
	       process_of(pid) == handle->process;
}

/* What a handle holds back makes its process see another size. */
static bool handle_size(const struct handle *handle, uint64_t published, uint64_t *ret_size)
{
	if (handle->mode == HANDLE_SAVE && handle->dirty)
		*ret_size = handle->stage.size;
	else if (handle->mode == HANDLE_APPEND && handle->piece.size)
		*ret_size = published + handle->piece.size;
	else
		return false;
	return true;
}

bool handles_own_size(const struct inode *inode, const struct face *face, pid_t pid,
		      uint64_t published, uint64_t *ret_size)
{
	bool has_pages = face->filled || face->untold;
	pid_t process = 0;
	uint64_t size;

	for (const struct handle *handle = inode->open; handle; handle = handle->next) {
		/* Pages that it has written itself are of that size; others would be cut, and show
		 * zeros later. */
		if (has_pages && !(handle->fills && handle->face == face))
			continue;
		if (!handle_size(handle, published, &size))
			continue;
		if (!process)
			process = process_of(pid);
		if (handle->process != process)
			continue;
		*ret_size = size;
		return true;
	}
	return false;
}

int handle_begin_save(struct tree *tree, struct handle *handle, bool keep)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(stage_done) struct stage stage = { 0 };
	int r;

	if (handle->mode == HANDLE_SAVE)
		return 0;
	if (keep) {
		r = view_begin(tree, 0, &view);
		if (r == 0)
			r = content_to_stage(tree, &view, handle->inode, &stage);
		if (r < 0)
			return r;
	}
	/* A piece that was held back is part of what the writer sees. */
	if (keep && handle->piece.size) {
		struct bytes piece;

		r = stage_map(&handle->piece, &piece);
		if (r == 0)
			r = stage_write(&stage, stage.size, piece);
		if (r < 0)
			return r;
	}
	stage_done(&handle->piece);
	stage_done(&handle->stage);
	handle->stage = stage;
	stage = (struct stage){ 0 };
	handle->mode = HANDLE_SAVE;
	handle->dirty = false;
	handle->version = handle->inode->version;
	return 0;
}

void handle_staged(struct tree *tree, struct handle *handle)
{
	if (!handle->is_saver) {
		handle->is_saver = true;
		pthread_mutex_lock(&tree->times_lock);
		handle->saver_next = tree->savers;
		handle->saver_link = &tree->savers;
		if (handle->saver_next)
			handle->saver_next->saver_link = &handle->saver_next;
		tree->savers = handle;
		pthread_mutex_unlock(&tree->times_lock);
	}
	handle->dirty = true;
	handle->failed = 0;
	handle->written = time_now();
	handle->times_set = false;
}

/* Reading. */

void handle_drop_outdated(struct handle *handle)
{
	const struct inode *inode = handle->inode;
	bool grown = inode->node.kind == BACKEND_LIST && inode->loaded &&
		     inode->list.size != handle->stage.size;

	if (handle->mode != HANDLE_SAVE || handle->dirty ||
	    (handle->version == inode->version && !grown))
		return;
	stage_done(&handle->stage);
	handle->mode = HANDLE_PLAIN;
}

void handle_drop_old(struct handle *handle)
{
	version_drop(&handle->old);
	handle->pinned = false;
}

/* A reader of a document sees one version of it, from a read at its start until the next one: the
 * content is kept then, and what follows is read from there. */
static int handle_pin(struct tree *tree, struct view *view, struct handle *handle)
{
	int r;

	handle->pinned = handle->whole_valid = false;
	stage_done(&handle->whole);
	r = content_to_stage(tree, view, handle->inode, &handle->whole);
	handle->pinned = r == 0;
	/* Without room for it the reader sees what there is. */
	return r == -ESTALE || r == -EIO ? r : 0;
}

/* The line that the writer has not finished stands behind the list for itself. */
static int read_piece(struct tree *tree, struct view *view, struct handle *handle, uint64_t offset,
		      size_t size, struct buf *out)
{
	uint64_t end;
	int r;

	if (handle->mode != HANDLE_APPEND || !handle->piece.size || !size)
		return 0;
	r = content_size(tree, view, handle->inode, &end);
	if (r < 0 || offset < end)
		return r;
	return stage_read(&handle->piece, offset - end, size, out);
}

static int read_newest(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		       struct buf *out)
{
	struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	size_t before;
	int r;

	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	/* What was begun as a list may have an unfinished line behind it. */
	if (inode_is_state(inode) && inode->node.kind != BACKEND_LIST && !handle->piece.size)
		r = handle_pin(tree, &view, handle);
	if (r < 0)
		return r;
	if (handle->pinned)
		return stage_read(&handle->whole, offset, size, out);
	before = out->size;
	r = content_read(tree, &view, inode, handle, offset, size, out);
	if (r < 0)
		return r;
	before = out->size - before;
	return read_piece(tree, &view, handle, offset + before, size - before, out);
}

/* out has so many bytes before. */
static int read_once(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		     size_t before, struct buf *out)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	out->size = before;
	if (handle->mode == HANDLE_SAVE && handle->dirty)
		return stage_read(&handle->stage, offset, size, out);
	handle_drop_outdated(handle);
	if (!offset)
		handle_drop_old(handle);
	if (handle->old)
		r = stage_read(&handle->old->stage, offset, size, out);
	else if (handle->pinned)
		r = stage_read(&handle->whole, offset, size, out);
	else
		r = read_newest(tree, handle, offset, size, out);
	/* Who has been told that the file ends here waits for what comes. */
	handle->middle = r == 0 && out->size > before;
	if (r == 0 && !handle->middle)
		version_drop(&handle->old);
	return r;
}

int handle_read(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out)
{
	size_t before = out->size;

	return TREE_RETRY(tree, read_once(tree, handle, offset, size, before, out));
}

/* The kernel fills its pages. */
static int fill_once(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		     size_t before, struct buf *out)
{
	struct inode *inode = handle->inode;
	struct face *face = handle->face;
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	out->size = before;
	face->filled = handle->fills = true;
	if (face->old) {
		face->old_used = time_now();
		return stage_read(&face->old->stage, offset, size, out);
	}
	if (handle->mode == HANDLE_SAVE && handle->dirty)
		return stage_read(&handle->stage, offset, size, out);
	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	return content_read(tree, &view, inode, handle, offset, size, out);
}

int handle_fill(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out)
{
	size_t before = out->size;

	return TREE_RETRY(tree, fill_once(tree, handle, offset, size, before, out));
}

/* Appending. */

struct bytes whole_lines(struct bytes data)
{
	const char *newline = data.size ? memrchr(data.data, '\n', data.size) : NULL;

	return bytes_make(data.data, newline ? (size_t)(newline - data.data) + 1 : 0);
}

/* -EFBIG when a line is longer than the store can take. */
static int check_line_lengths(struct tree *tree, const struct handle *handle, struct bytes data)
{
	uint64_t before = handle->piece.size;
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

int handle_list_end(struct tree *tree, struct inode *inode, uint64_t *ret_end)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = 0;

	if (!inode->loaded && !inode_is_draft(inode))
		r = view_begin(tree, BACKEND_ANYWAY, &view);
	return r < 0 ? r : content_size(tree, &view, inode, ret_end);
}

bool handle_owns_tail(struct tree *tree, const struct handle *handle)
{
	uint64_t end;

	return handle->owns_tail && handle_list_end(tree, handle->inode, &end) == 0 &&
	       end == handle->tail_end;
}

/* Publish lines that follow the piece; on failure the piece is as before. */
static int append_behind_piece(struct tree *tree, struct handle *handle, struct bytes lines,
			       struct notes *notes)
{
	uint64_t before = handle->piece.size;
	bool own = handle_owns_tail(tree, handle);
	struct bytes all = lines;
	int r = 0;

	if (before) {
		r = stage_write(&handle->piece, before, lines);
		if (r == 0)
			r = stage_map(&handle->piece, &all);
	}
	if (r == 0)
		r = append_lines(tree, handle->inode, all, own, time_now(), handle->face, notes);
	if (r < 0 && before)
		stage_truncate(&handle->piece, before);
	if (r == 0)
		stage_done(&handle->piece);
	return r;
}

/* With -o strict: whether the first line is good with the piece before it: 1, 0, -errno. */
static int strict_first(struct tree *tree, struct handle *handle, struct bytes text)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	bool own = handle_owns_tail(tree, handle);
	struct bytes piece;
	int r;

	if (!handle->piece.size)
		return append_judge(tree, handle->inode, text, own);
	r = stage_map(&handle->piece, &piece);
	if (r == 0)
		r = buf_append_bytes(&line, piece);
	if (r == 0)
		r = buf_append_bytes(&line, text);
	return r < 0 ? r : append_judge(tree, handle->inode, buf_bytes(&line), own);
}

/* With -o strict: the lines up to the first one that is no JSON. */
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
	struct bytes lines = whole_lines(data);
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
		handle->owns_tail = false;
	}
	handle->mode = HANDLE_APPEND;
	handle->failed = 0;
	rest = bytes_make(data.data + lines.size, taken - lines.size);
	if (rest.size) {
		r = stage_write(&handle->piece, handle->piece.size, rest);
		/* The lines before it are committed: a short write tells what was taken. */
		if (r < 0 && !lines.size)
			return r;
		if (r < 0)
			taken = lines.size;
	}
	handle->stream_end += taken;
	handle->written = time_now();
	handle->times_set = false;
	return (ssize_t)taken;
}

static bool write_appends(struct tree *tree, struct handle *handle, uint64_t offset)
{
	struct inode *inode = handle->inode;

	if (inode->node.kind != BACKEND_LIST || inode->orphaned || handle->mode == HANDLE_SAVE)
		return false;
	if (handle->flags & O_APPEND)
		return true;
	if (!handle->streams || offset != handle->stream_end)
		return false;
	/* Only as long as nobody else has written: then the place would not be the end. */
	if (!inode->loaded) {
		_cleanup_(view_end) struct view view = { 0 };

		if (view_begin(tree, 0, &view) < 0 || content_load(tree, &view, inode) < 0)
			return false;
	}
	return !inode_is_draft(inode) &&
	       inode->list.size + handle->piece.size == handle->stream_end;
}

/* Writing. */

/* A write that was refused (a full disk) leaves a gap, and content with a gap is never published:
 * whoever closes after such an error keeps the previous content. */
static void handle_refuse(struct handle *handle, uint64_t offset, int error)
{
	if (handle->refused && handle->refused_at <= offset)
		return;
	handle->refused = error;
	handle->refused_at = offset;
}

/* Until the writer tries again from there, with success. */
static void handle_repair(struct handle *handle, uint64_t from, uint64_t to)
{
	if (from <= handle->refused_at && handle->refused_at < to)
		handle->refused = 0;
}

bool handle_holds_back(const struct handle *handle)
{
	return handle->mode == HANDLE_SAVE ? handle->dirty : handle->piece.size != 0;
}

/* Whether a write goes through: to an ordinary file, or to one without a name, of which nobody sees
 * a save.  Who still holds back what was written under another name keeps the order. */
static bool write_is_plain(struct handle *handle)
{
	const struct inode *inode = handle->inode;

	if ((inode_is_state(inode) && !inode->orphaned) || handle_holds_back(handle))
		return false;
	stage_done(&handle->stage);
	handle->mode = HANDLE_PLAIN;
	return true;
}

void notes_plain(struct notes *notes, struct tree *tree, struct inode *inode, uint64_t size_before,
		 uint64_t offset, const struct face *by)
{
	if (inode->face_count > 1)
		notes_change(notes, tree, inode,
			     offset < size_before ? CHANGE_REPLACED : CHANGE_GREW, size_before, by);
}

static ssize_t write_plain(struct tree *tree, struct handle *handle, bool append, uint64_t offset,
			   struct bytes data, struct notes *notes)
{
	struct inode *inode = handle->inode;
	uint64_t size = inode->orphaned ? inode->orphan.size : file_size(inode);
	int r;

	if (append)
		offset = size;
	r = inode->orphaned ? stage_write(&inode->orphan, offset, data) :
			      file_write(tree, inode, offset, data);
	if (r < 0)
		return r;
	notes_plain(notes, tree, inode, size, offset, handle->face);
	return (ssize_t)data.size;
}

static ssize_t write_once(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
			  struct bytes data, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	bool append = (handle->flags & O_APPEND) && pid != HANDLE_PAGES;
	int r;

	/* Pages of a shared mapping come from whatever thread the kernel has. */
	if (inode_is_state(inode) && pid != HANDLE_PAGES)
		handle_written_by(handle, pid);
	if (write_is_plain(handle))
		return write_plain(tree, handle, append, offset, data, notes);
	if (pid != HANDLE_PAGES && write_appends(tree, handle, offset))
		return handle_append(tree, handle, data, notes);
	if (append && handle->mode == HANDLE_SAVE && !handle->dirty)
		handle->mode = HANDLE_PLAIN; /* the end is where the file ends now */
	r = handle_begin_save(tree, handle, true);
	if (r < 0)
		return r;
	if (append)
		offset = handle->stage.size;
	if (inode->node.kind != BACKEND_LIST && inode->node.kind != BACKEND_ORDINARY &&
	    offset + data.size > tree->backend->max_item)
		r = -EFBIG;
	if (r == 0)
		r = stage_write(&handle->stage, offset, data);
	if (r < 0) {
		handle_refuse(handle, offset, r);
		return r;
	}
	handle_repair(handle, offset, offset + data.size);
	handle_staged(tree, handle);
	return (ssize_t)data.size;
}

ssize_t handle_write(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
		     struct bytes data)
{
	struct notes notes = { 0 };
	ssize_t r = TREE_RETRY(tree, write_once(tree, handle, pid, offset, data, &notes));

	/* Who writes pages holds them until this is answered, and another may wait for them. */
	notes_tell(&notes, tree, handle->direct && pid != HANDLE_PAGES);
	return r;
}

/* Size, space, holes. */

static int truncate_by_handle(struct tree *tree, struct handle *handle, uint64_t size)
{
	struct inode *inode = handle->inode;
	int r;

	/* What is empty and stays empty goes on as a stream. */
	if (size == 0 && handle->mode != HANDLE_SAVE && !handle->piece.size && inode->loaded &&
	    inode->node.kind == BACKEND_LIST && !inode->list.size)
		return 0;
	r = handle_begin_save(tree, handle, size > 0);
	if (r == 0)
		r = stage_truncate(&handle->stage, size);
	if (r == 0) {
		if (size <= handle->refused_at)
			handle->refused = 0;
		handle_staged(tree, handle);
	}
	return r;
}

int handle_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    struct notes *notes)
{
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(stage_done) struct stage stage = { 0 };
	int r = 0;

	if (size > (uint64_t)INT64_MAX)
		return -EFBIG;
	if (inode->node.kind != BACKEND_LIST && inode->node.kind != BACKEND_ORDINARY &&
	    size > tree->backend->max_item)
		return -EFBIG;
	if (handle && handle_writes(handle))
		return truncate_by_handle(tree, handle, size);
	if (size) {
		r = view_begin(tree, 0, &view);
		if (r == 0)
			r = content_to_stage(tree, &view, inode, &stage);
		view_end(&view);
	}
	if (r == 0 && size != stage.size)
		r = stage_truncate(&stage, size);
	return r < 0 ? r : save_publish(tree, inode, NULL, &stage, time_now(), notes);
}

static int allocate_once(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
			 uint64_t size)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	if (!inode_is_state(inode) && !handle_holds_back(handle))
		return file_allocate(tree, inode, mode, offset, size);
	if (mode & ~FALLOC_FL_KEEP_SIZE)
		return -EOPNOTSUPP;
	if (offset + size < offset || offset + size > tree->backend->max_item)
		return -EFBIG;
	if (mode & FALLOC_FL_KEEP_SIZE)
		return 0;
	r = handle_begin_save(tree, handle, true);
	if (r == 0 && offset + size > handle->stage.size) {
		r = stage_truncate(&handle->stage, offset + size);
		if (r == 0)
			handle_staged(tree, handle);
	}
	return r;
}

int handle_allocate(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
		    uint64_t size)
{
	return TREE_RETRY(tree, allocate_once(tree, handle, mode, offset, size));
}

/* The size of what the handle reads. */
static int handle_seen_size(struct tree *tree, struct view *view, const struct handle *handle,
			    uint64_t *ret_size)
{
	int r;

	if (handle->mode == HANDLE_SAVE && handle->dirty)
		*ret_size = handle->stage.size;
	else if (handle->old)
		*ret_size = handle->old->stage.size;
	else if (handle->face->old)
		*ret_size = handle->face->old->stage.size;
	else if (handle->pinned)
		*ret_size = handle->whole.size;
	else {
		r = content_size(tree, view, handle->inode, ret_size);
		if (r < 0)
			return r;
		if (handle->mode == HANDLE_APPEND)
			*ret_size += handle->piece.size;
	}
	return 0;
}

static int seek_once(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		     uint64_t *ret_offset)
{
	struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	uint64_t size = 0;
	int r;

	if (!inode_is_state(inode))
		return file_seek(tree, inode, offset, whence, ret_offset);
	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = handle_seen_size(tree, &view, handle, &size);
	if (r < 0)
		return r;
	if (offset >= size)
		return -ENXIO;
	*ret_offset = whence == SEEK_DATA ? offset : size;
	return 0;
}

int handle_seek(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		uint64_t *ret_offset)
{
	return TREE_RETRY(tree, seek_once(tree, handle, offset, whence, ret_offset));
}
