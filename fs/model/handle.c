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
 *   Flush (each close of a descriptor, and fsync; but not the close by a child that has only
 *   inherited the descriptor: the writer goes on) publishes and leaves the state as it is: a
 *   descriptor that was duplicated may go on writing, and what it adds is laid over its own stage,
 *   never over the content of another writer: the last close wins, entire.  A stage that is
 *   published counts as a view of the file only until somebody else publishes; the next read drops
 *   it then, so that lock, read, change, write back sees the newest content.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/model/internal.h"
#include "fs/model/lines.h"
#include "src/base/log.h"

/* Nanoseconds without a write after which a writer has paused. */
static const int64_t PAUSE = 1000000000;

struct inode *handle_inode(struct handle *handle)
{
	return handle->inode;
}

static bool handle_writes(const struct handle *handle)
{
	return (handle->flags & O_ACCMODE) != O_RDONLY;
}

void handles_times_set(struct inode *inode)
{
	for (struct handle *handle = inode->open; handle; handle = handle->next)
		handle->times_set = true;
}

/* The process of a thread; the thread itself when it has ended or is in another pid namespace. */
static pid_t process_of(pid_t pid)
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

/* Looking a process up takes longer than a write: only when the thread is another one. */
static void handle_written_by(struct handle *handle, pid_t pid)
{
	if (handle->process && handle->writer == pid)
		return;
	handle->writer = pid;
	handle->process = process_of(pid);
}

/* Whether a thread belongs to the process that writes; one that we cannot see (0) may. */
static bool handle_is_written_by(const struct handle *handle, pid_t pid)
{
	return !pid || pid == handle->writer || !handle->process ||
	       process_of(pid) == handle->process;
}

bool handles_own_size(const struct inode *inode, pid_t pid, uint64_t *ret_size)
{
	pid_t process = 0;

	for (const struct handle *handle = inode->open; handle; handle = handle->next) {
		if (handle->mode != HANDLE_SAVE || !handle->dirty)
			continue;
		if (!process)
			process = process_of(pid);
		if (handle->process != process)
			continue;
		*ret_size = handle->stage.size;
		return true;
	}
	return false;
}

/* From now on a stage; with keep it begins as the published content. */
static int handle_begin_save(struct tree *tree, struct handle *handle, bool keep)
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

static void handle_staged(struct tree *tree, struct handle *handle)
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

bool inode_reads_direct(struct tree *tree, struct inode *inode)
{
	bool direct = false;

	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	direct = inode->node.kind != BACKEND_LIST;
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		direct |= handle_writes(handle);
	return direct;
}

/* Opening. */

static int handle_open_state(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	uint64_t size = 0;
	int r;

	if (!handle_writes(handle))
		return 0;
	if (inode->inherited) {
		/* Unlink and write again is a save: others see the previous content until then. */
		inode->inherited = false;
		r = handle_begin_save(tree, handle, false);
		if (r == 0)
			handle_staged(tree, handle);
		return r;
	}
	if (inode->node.kind == BACKEND_LIST && !inode_is_draft(inode) && !inode->orphaned) {
		_cleanup_(view_end) struct view view = { 0 };

		r = view_begin(tree, 0, &view);
		if (r == 0)
			r = content_size(tree, &view, inode, &size);
		if (r < 0)
			return r;
		handle->streams = size == 0;
	}
	if (!(handle->flags & O_TRUNC) || handle->streams)
		return 0;
	r = handle_begin_save(tree, handle, false);
	if (r == 0)
		handle_staged(tree, handle);
	return r;
}

/* 1 when the file was replaced or removed between its lookup and now, and nobody kept its bytes. */
static int open_once(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r = 0;

	if (inode->gone && !inode->orphaned)
		return 1;
	if (inode_is_state(inode))
		r = handle_open_state(tree, handle);
	else if ((handle->flags & O_TRUNC) && S_ISREG(inode->node.mode))
		r = file_truncate(tree, inode, 0);
	if (r < 0)
		return r;
	handle->next = inode->open;
	inode->open = handle;
	return 0;
}

int tree_open_file(struct tree *tree, struct inode *inode, int flags, pid_t pid,
		   struct handle **ret_handle)
{
	struct handle *handle;
	int r;

	if (tree->options.read_only && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)))
		return -EROFS;
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return -ENOMEM;
	handle->inode = inode;
	handle->flags = flags;
	if (inode_is_state(inode) && handle_writes(handle))
		handle_written_by(handle, pid);
	r = TREE_RETRY(tree, open_once(tree, handle));
	if (r != 0) {
		stage_done(&handle->stage);
		free(handle);
		return r < 0 ? r : -ESTALE;
	}
	inode_ref(tree, inode);
	*ret_handle = handle;
	return 0;
}

/* Reading. */

/* A reader of a document sees one version of it, from a read at its start until the next one: the
 * content is kept then, and what follows is read from there. */
static bool handle_reads_pinned(const struct handle *handle, uint64_t offset)
{
	return handle->pinned && offset > 0;
}

static int handle_pin(struct tree *tree, struct view *view, struct handle *handle)
{
	int r;

	handle->pinned = handle->whole_valid = false;
	stage_done(&handle->whole);
	r = content_to_stage(tree, view, handle->inode, &handle->whole);
	handle->pinned = r == 0;
	return r;
}

static int read_once(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		     struct buf *out)
{
	struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	if (handle->mode == HANDLE_SAVE && handle->dirty)
		return stage_read(&handle->stage, offset, size, out);
	if (handle->mode == HANDLE_SAVE && handle->version != inode->version) {
		stage_done(&handle->stage);
		handle->mode = HANDLE_PLAIN;
	}
	if (handle_reads_pinned(handle, offset))
		return stage_read(&handle->whole, offset, size, out);
	r = view_begin(tree, 0, &view);
	if (r < 0)
		return r;
	if (inode_is_state(inode) && inode->node.kind != BACKEND_LIST) {
		r = handle_pin(tree, &view, handle);
		return r < 0 ? r : stage_read(&handle->whole, offset, size, out);
	}
	return content_read(tree, &view, inode, handle, offset, size, out);
}

int handle_read(struct tree *tree, struct handle *handle, uint64_t offset, size_t size,
		struct buf *out)
{
	return TREE_RETRY(tree, read_once(tree, handle, offset, size, out));
}

/* Appending. */

/* The end of a writer's last whole line in data, whose start goes on behind the piece. */
static struct bytes whole_lines(struct bytes data)
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

static bool tail_is_own(const struct handle *handle)
{
	const struct inode *inode = handle->inode;

	return handle->owns_tail && inode->loaded && inode->list.tail_size &&
	       inode->list.size == handle->tail_end;
}

/* Publish lines that follow the piece; on failure the piece is as before. */
static int append_behind_piece(struct tree *tree, struct handle *handle, struct bytes lines)
{
	uint64_t before = handle->piece.size;
	bool own = tail_is_own(handle);
	struct bytes all = lines;
	int r = 0;

	if (before) {
		r = stage_write(&handle->piece, before, lines);
		if (r == 0)
			r = stage_map(&handle->piece, &all);
	}
	if (r == 0)
		r = append_lines(tree, handle->inode, all, own, time_now());
	if (r < 0 && before)
		stage_truncate(&handle->piece, before);
	if (r == 0)
		stage_done(&handle->piece);
	return r;
}

/* Whether a line that goes on behind the piece is JSON together with it. */
static bool strict_piece(struct handle *handle, struct bytes text)
{
	_cleanup_(buf_done) struct buf whole = { 0 };
	struct bytes piece;

	if (stage_map(&handle->piece, &piece) < 0 || buf_append_bytes(&whole, piece) < 0 ||
	    buf_append_bytes(&whole, text) < 0)
		return false;
	return lines_is_row(buf_bytes(&whole), NULL);
}

/* With -o strict: the lines up to the first one that is no JSON. */
static struct bytes strict_part(struct handle *handle, struct bytes lines)
{
	size_t good = 0;
	struct bytes rest = lines;
	struct line line;

	while (lines_next(&rest, &line)) {
		bool is_row = good == 0 && handle->piece.size ? strict_piece(handle, line.text) :
								lines_is_row(line.text, NULL);

		if (!is_row && !lines_is_blank(line.text))
			break;
		good += line.size;
	}
	return bytes_make(lines.data, good);
}

static ssize_t handle_append(struct tree *tree, struct handle *handle, struct bytes data)
{
	struct bytes lines = whole_lines(data);
	size_t taken = data.size;
	struct bytes rest;
	int r;

	r = check_line_lengths(tree, handle, data);
	if (r < 0)
		return r;
	if (tree->options.strict) {
		struct bytes good = strict_part(handle, lines);

		if (lines.size && !good.size)
			return -EINVAL;
		if (good.size < lines.size)
			taken = good.size;
		lines = good;
	}
	if (lines.size) {
		r = append_behind_piece(tree, handle, lines);
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

	if (inode->node.kind != BACKEND_LIST || handle->mode == HANDLE_SAVE)
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

/* *ret_from: where bytes became visible to others, if they did. */
static ssize_t write_once(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
			  struct bytes data, uint64_t *ret_from)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	bool append = handle->flags & O_APPEND;
	int r;

	if (inode_is_state(inode))
		handle_written_by(handle, pid);
	if (!inode_is_state(inode) && handle->mode == HANDLE_PLAIN) {
		r = file_write(tree, inode, append ? inode->node.size : offset, data);
		return r < 0 ? r : (ssize_t)data.size;
	}
	if (inode->orphaned && handle->mode != HANDLE_SAVE) {
		r = stage_write(&inode->orphan, append ? inode->orphan.size : offset, data);
		return r < 0 ? r : (ssize_t)data.size;
	}
	if (write_appends(tree, handle, offset)) {
		*ret_from = inode->loaded ? inode->list.size - inode->list.tail_size : 0;
		return handle_append(tree, handle, data);
	}
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

/* Where bytes became visible to others: everything behind offset. */
static void tell_content(struct tree *tree, struct inode *inode, uint64_t offset)
{
	struct notes notes = { 0 };

	/* The kernel itself forgets the attributes of a file that it has written. */
	if (!inode->cached)
		return;
	notes_content(&notes, inode->ino, offset);
	notes_tell(&notes, tree, true);
}

ssize_t handle_write(struct tree *tree, struct handle *handle, pid_t pid, uint64_t offset,
		     struct bytes data)
{
	struct inode *inode = handle->inode;
	uint64_t from = UINT64_MAX;
	ssize_t r = TREE_RETRY(tree, write_once(tree, handle, pid, offset, data, &from));

	if (r > 0 && from != UINT64_MAX)
		tell_content(tree, inode, from);
	return r;
}

/* Publishing what was held back. */

static int join_piece(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	struct bytes piece;
	int r;

	if (inode->node.kind != BACKEND_LIST || inode->orphaned) {
		/* The file was renamed or unlinked meanwhile and is no list any more. */
		r = handle_begin_save(tree, handle, true);
		if (r == 0)
			handle_staged(tree, handle);
		return r;
	}
	r = stage_map(&handle->piece, &piece);
	if (r == 0)
		r = append_lines(tree, inode, piece, tail_is_own(handle),
				 handle->times_set ? inode->node.mtime : handle->written);
	if (r < 0)
		return r;
	stage_done(&handle->piece);
	handle->owns_tail = inode->loaded && inode->list.tail_size;
	handle->tail_end = inode->list.size;
	return 0;
}

static int publish_stage(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	int r = save_publish(tree, inode, &handle->stage,
			     handle->times_set ? inode->node.mtime : handle->written);

	if (r < 0)
		return r;
	handle->dirty = false;
	handle->version = inode->version;
	return 0;
}

/* A half-written line or document is not published because its writer thinks. */
static bool stage_is_whole(struct handle *handle)
{
	struct bytes bytes, tail;

	if (stage_map(&handle->stage, &bytes) < 0)
		return false;
	if (handle->inode->node.kind == BACKEND_SINGLE)
		return json_valid(bytes, NULL);
	tail = whole_lines(bytes);
	tail = bytes_make(bytes.data + tail.size, bytes.size - tail.size);
	return handle->inode->node.kind == BACKEND_LIST && (!tail.size || lines_is_row(tail, NULL));
}

void handles_publish_paused(struct tree *tree)
{
	struct notes notes = { 0 };
	int64_t now = time_now();

	{
		/* Alone: no handle is used or closed meanwhile. */
		WITH_WRITE_LOCK(tree);
		for (struct handle *handle = tree->savers; handle; handle = handle->saver_next) {
			if (handle->mode != HANDLE_SAVE || !handle->dirty || handle->refused ||
			    now - handle->written < PAUSE || handle->paused_at == handle->written)
				continue;
			handle->paused_at = handle->written;
			if (stage_is_whole(handle) && publish_stage(tree, handle) == 0)
				notes_content(&notes, handle->inode->ino, 0);
		}
	}
	notes_tell(&notes, tree, false);
}

static int flush_once(struct tree *tree, struct handle *handle, pid_t pid, bool *published)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r = 0;

	*published = false;
	if (!handle_is_written_by(handle, pid))
		return 0;
	if (handle->mode == HANDLE_APPEND && handle->piece.size) {
		r = join_piece(tree, handle);
		*published = r == 0;
	}
	if (r == 0 && handle->mode == HANDLE_SAVE && handle->dirty) {
		r = handle->refused ? handle->refused : publish_stage(tree, handle);
		if (r < 0)
			return r;
		*published = true;
		if (tree->options.strict && inode_is_draft(inode))
			r = -EINVAL;
	}
	return r;
}

int handle_flush(struct tree *tree, struct handle *handle, pid_t pid)
{
	bool published = false;
	int r;

	if (!handle_writes(handle))
		return 0;
	r = TREE_RETRY(tree, flush_once(tree, handle, pid, &published));
	handle->failed = published ? 0 : r;
	if (published) {
		struct notes notes = { 0 };

		notes_content(&notes, handle->inode->ino, 0);
		notes_tell(&notes, tree, true);
	}
	return r;
}

int handle_sync(struct tree *tree, struct handle *handle)
{
	struct backend *backend = tree->backend;
	int r = handle ? handle_flush(tree, handle, 0) : 0;

	if (r < 0 || backend->read_only)
		return r;
	r = tree_write_times(tree);
	if (r == 0)
		r = backend->ops->sync(backend);
	return r;
}

static void handle_close(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	struct handle **link = &inode->open;

	{
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);

		while (*link != handle)
			link = &(*link)->next;
		*link = handle->next;
	}
	if (handle->is_saver) {
		pthread_mutex_lock(&tree->times_lock);
		*handle->saver_link = handle->saver_next;
		if (handle->saver_next)
			handle->saver_next->saver_link = handle->saver_link;
		pthread_mutex_unlock(&tree->times_lock);
	}
	stage_done(&handle->stage);
	stage_done(&handle->piece);
	stage_done(&handle->whole);
	free(handle);
	inode_forget(tree, inode, 1);
}

void handle_free(struct tree *tree, struct handle *handle)
{
	/* Who was told that it failed is not to be surprised by a later success. */
	int r = handle->failed ? handle->failed : handle_flush(tree, handle, 0);

	if (r < 0)
		log_error("the last content of inode %llu could not be saved: %s",
			  (unsigned long long)handle->inode->ino, strerror(-r));
	handle_close(tree, handle);
}

void handle_abandon(struct tree *tree, struct handle *handle)
{
	if (handle->mode == HANDLE_SAVE && handle->dirty) {
		log_warning("a save of inode %llu was not finished when the mount ended; the "
			    "previous content stays",
			    (unsigned long long)handle->inode->ino);
		handle->dirty = false;
	}
	handle_free(tree, handle);
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
	if (inode->node.kind != BACKEND_LIST && size > tree->backend->max_item)
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
	if (r == 0)
		r = save_publish(tree, inode, &stage, time_now());
	if (r == 0)
		notes_content(notes, inode->node.ino, 0);
	return r;
}

static int allocate_once(struct tree *tree, struct handle *handle, int mode, uint64_t offset,
			 uint64_t size)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	if (!inode_is_state(inode))
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

static int seek_once(struct tree *tree, struct handle *handle, uint64_t offset, int whence,
		     uint64_t *ret_offset)
{
	struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	uint64_t size;
	int r;

	if (!inode_is_state(inode))
		return file_seek(tree, inode, offset, whence, ret_offset);
	r = view_begin(tree, 0, &view);
	if (r == 0)
		r = content_size(tree, &view, inode, &size);
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
