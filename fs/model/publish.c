/* SPDX-License-Identifier: MIT */

/* Publishing what a writer held back: at close, at fsync, when it pauses.
 *
 * A close that leaves another descriptor of the same open file to its process is no end of a save:
 * for "command > file" a shell opens the file, makes a duplicate of the descriptor, and closes the
 * first one before anything is written.  The kernel does not tell such a close from others, so the
 * descriptors of the process are counted (/proc/PID/fdinfo has the inode number since Linux 5.14;
 * where that is not to be read, each close publishes).  The last close is answered when its save is
 * published, so in doubt it is taken for the last one.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/model/handle.h"
#include "fs/model/lines.h"
#include "src/base/log.h"

/* The unfinished line joins the list. */
static int join_piece(struct tree *tree, struct handle *handle, struct notes *notes)
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
		r = append_lines(tree, inode, piece, handle_owns_tail(tree, handle),
				 handle->times_set ? inode->node.mtime : handle->written, NULL,
				 notes);
	if (r < 0)
		return r;
	stage_done(&handle->piece);
	handle->owns_tail = handle_list_end(tree, inode, &handle->tail_end) == 0;
	return 0;
}

static int publish_stage(struct tree *tree, struct handle *handle, struct notes *notes)
{
	struct inode *inode = handle->inode;
	int r = save_publish(tree, inode, handle, &handle->stage,
			     handle->times_set ? inode->node.mtime : handle->written, notes);

	if (r < 0)
		return r;
	handle->dirty = false;
	handle->version = inode->version;
	return 0;
}

/* With -o strict: whether a list holds a line that is refused. */
static bool has_bad_line(struct bytes lines)
{
	struct line line;

	while (lines_next(&lines, &line))
		if (!lines_is_blank(line.text) && !lines_is_row(line.text, NULL))
			return true;
	return false;
}

/* A half-written line or document is not published because its writer thinks. */
static bool stage_is_whole(struct tree *tree, struct handle *handle)
{
	struct bytes bytes, tail;

	if (stage_map(&handle->stage, &bytes) < 0)
		return false;
	if (handle->inode->node.kind == BACKEND_SINGLE)
		return json_valid(bytes, NULL);
	if (handle->inode->node.kind != BACKEND_LIST)
		return false;
	tail = whole_lines(bytes);
	tail = bytes_make(bytes.data + tail.size, bytes.size - tail.size);
	if (tail.size && !lines_is_row(tail, NULL))
		return false;
	return !tree->options.strict || !has_bad_line(bytes);
}

/* Nanoseconds without a write after which a writer has paused. */
static int64_t pause_time(const struct tree *tree)
{
	unsigned seconds = tree->options.set_pause ? tree->options.pause : 1;

	return seconds ? (int64_t)seconds * 1000000000 : INT64_MAX;
}

static bool tree_has_savers(struct tree *tree)
{
	bool any;

	pthread_mutex_lock(&tree->times_lock);
	any = tree->savers != NULL;
	pthread_mutex_unlock(&tree->times_lock);
	return any;
}

void handles_publish_paused(struct tree *tree)
{
	struct notes notes = { 0 };
	int64_t now = time_now();

	if (!tree_has_savers(tree))
		return;
	{
		/* Alone: no handle is used or closed meanwhile. */
		WITH_WRITE_LOCK(tree);
		for (struct handle *handle = tree->savers; handle; handle = handle->saver_next) {
			if (handle->mode != HANDLE_SAVE || !handle->dirty || handle->refused ||
			    now - handle->written < pause_time(tree) ||
			    handle->paused_at == handle->written)
				continue;
			handle->paused_at = handle->written;
			/* Who has truncated and written nothing is about to write; and changes of
			 * others come first: it is tried again behind them. */
			if (handle->stage.size && stage_is_whole(tree, handle) &&
			    publish_stage(tree, handle, &notes) == -ESTALE)
				handle->paused_at = 0;
		}
	}
	notes_tell(&notes, tree, false);
}

/* Whether the process that closes a descriptor of a handle has more of the same. */
static bool handle_stays_open(struct tree *tree, struct handle *handle, pid_t pid)
{
	const struct inode *inode = handle->inode;
	_cleanup_(view_end) struct view view = { 0 };
	_cleanup_(buf_done) struct buf name = { 0 };
	unsigned others = 0;

	/* Any close gives up the locks of a process, and what was written under them is seen. */
	if (!pid || !tree->options.count_descriptors || inode->locked || !inode->node.entry ||
	    view_begin(tree, BACKEND_ANYWAY, &view) < 0 ||
	    view.backend->ops->entry_name(view.backend, view.snapshot, inode->node.parent,
					  inode->node.entry, &name) < 0)
		return false;
	for (const struct handle *other = inode->open; other; other = other->next)
		others += other != handle && !((other->flags ^ handle->flags) & O_ACCMODE);
	return tree->options.count_descriptors(tree->options.arg, pid, inode->ino,
					       handle->flags & O_ACCMODE,
					       buf_bytes(&name)) > others;
}

/* A document that is whole may be seen. */
static bool flush_is_due(struct tree *tree, struct handle *handle, pid_t pid)
{
	if (handle->mode == HANDLE_APPEND)
		return handle->piece.size && !handle_stays_open(tree, handle, pid);
	if (handle->mode != HANDLE_SAVE || !handle->dirty)
		return false;
	return (handle->inode->node.kind == BACKEND_SINGLE && stage_is_whole(tree, handle)) ||
	       !handle_stays_open(tree, handle, pid);
}

static int flush_once(struct tree *tree, struct handle *handle, pid_t pid, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r = file_settle(tree, inode);

	if (r < 0)
		return r;
	if (!handle_is_written_by(handle, pid) || !flush_is_due(tree, handle, pid))
		return 0;
	if (handle->mode == HANDLE_APPEND)
		r = join_piece(tree, handle, notes);
	/* Joining may have made a save of it. */
	if (r == 0 && handle->mode == HANDLE_SAVE && handle->dirty) {
		r = handle->refused ? handle->refused : publish_stage(tree, handle, notes);
		if (r == 0 && tree->options.strict && inode_is_draft(inode) && !inode->orphaned)
			r = -EINVAL;
	}
	return r;
}

int handle_flush(struct tree *tree, struct handle *handle, pid_t pid)
{
	struct notes notes = { 0 };
	int r;

	if (!handle_writes(handle))
		return 0;
	r = TREE_RETRY(tree, flush_once(tree, handle, pid, &notes));
	/* A draft that strictness refuses is published all the same. */
	handle->failed = handle->dirty || handle->piece.size ? r : 0;
	notes_tell(&notes, tree, true);
	return r;
}

/* Locks. */

void handle_lock_granted(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	struct notes notes = { 0 };

	{
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);

		handle_drop_outdated(handle);
		handle_drop_old(handle);
		handle->middle = false;
		if (handle->face->old && handle->fills)
			notes_renew(&notes, tree, inode, handle->face);
	}
	notes_tell(&notes, tree, true);
}

/* Whether the next one that gets the lock may see the stage.  Where there is neither JSON nor
 * lines, the writer alone knows, and has just said so. */
static bool stage_is_done(struct tree *tree, struct handle *handle)
{
	uint32_t kind = handle->inode->node.kind;

	return (kind != BACKEND_SINGLE && kind != BACKEND_LIST) || stage_is_whole(tree, handle);
}

static int unlocking_once(struct tree *tree, struct handle *handle, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	if (handle->mode != HANDLE_SAVE || !handle->dirty || handle->refused ||
	    !stage_is_done(tree, handle))
		return 0;
	return publish_stage(tree, handle, notes);
}

int handle_unlocking(struct tree *tree, struct handle *handle)
{
	struct notes notes = { 0 };
	int r;

	if (!handle_writes(handle))
		return 0;
	r = TREE_RETRY(tree, unlocking_once(tree, handle, &notes));
	notes_tell(&notes, tree, true);
	if (r < 0)
		log_error("what was written to inode %llu could not be saved before it was "
			  "unlocked: %s",
			  (unsigned long long)handle->inode->ino, strerror(-r));
	return r;
}

static int sync_all(struct tree *tree, struct handle *handle, bool times)
{
	struct backend *backend = tree->backend;
	int r = handle ? handle_flush(tree, handle, 0) : 0;

	if (r < 0 || backend->read_only)
		return r;
	if (times)
		r = tree_write_times(tree);
	if (times && handle)
		handle->inode->synced = true;
	if (handle)
		handle->inode->sync_soon = true;
	if (r >= 0)
		r = tree_settle(tree);
	return r < 0 ? r : backend->ops->sync(backend);
}

int handle_sync(struct tree *tree, struct handle *handle)
{
	return sync_all(tree, handle, true);
}

int handle_sync_data(struct tree *tree, struct handle *handle)
{
	/* What others hold back goes with the times; who only reads may sync it. */
	return sync_all(tree, handle, !handle_writes(handle));
}
