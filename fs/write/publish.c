/* SPDX-License-Identifier: MIT */

/* Publishing what a writer held back: at close, at fsync, when it pauses.
 *
 * A close does not end a save while another process has the same open file: one that has opened it,
 * or the one that has written last.  For "command > file" a shell opens the file, makes a duplicate
 * of the descriptor, closes the first one before anything is written, and waits for the command.
 * The kernel does not tell such a close from others, so the descriptors of these processes are
 * searched for the nodeid (where /proc/PID/fd cannot be read, each close publishes).  The last
 * close is answered when its save is published, so in doubt a close counts as the last.
 *
 * A large stage is checked and planned with writing.lock alone, and its commit holds tree.turn, so
 * that other threads find the tree free. */

#include <errno.h>
#include <string.h>

#include "fs/base/lines.h"
#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/write/handle.h"
#include "fs/write/temporary.h"
#include "backend/base/log.h"

/* The unfinished line joins the list. */
static int join_piece(struct tree *tree, struct handle *handle, struct notes *notes)
{
	struct inode *inode = handle->inode;
	struct bytes piece;
	int r;

	if (inode->node.kind != BACKEND_LIST || inode->orphaned) {
		/* The file was renamed or unlinked meanwhile and is not a list any more. */
		handle_wrote(handle);
		r = handle_begin_save(tree, handle, true);
		if (r == 0)
			handle_staged(tree, handle);
		return r;
	}
	r = stage_map(&handle->writing->piece, &piece);
	if (r == 0)
		r = append_lines(tree, inode, piece, handle_append_how(tree, handle),
				 handle->writing->times_set ? inode->node.mtime :
							      handle->writing->written,
				 NULL, notes);
	stage_unmap(&handle->writing->piece);
	if (r < 0)
		return r;
	stage_done(&handle->writing->piece);
	handle->writing->owns_tail =
		handle_content_end(tree, inode, &handle->writing->tail_end) == 0;
	return 0;
}

enum { STAGE_LARGE = 1 << 20 };

static int publish_stage(struct tree *tree, struct writing *writing, struct save_ahead *ahead,
			 struct notes *notes)
{
	_cleanup_(stage_done) struct stage stage = { 0 };
	struct inode *inode = writing->inode;
	const uint64_t before = inode->version;
	/* A larger size that was set comes between what was there and what others have added. */
	const bool grows = writing->only_cut && writing->stage.size > writing->seen;
	const bool apart = writing->apart && inode->node.kind == BACKEND_ORDINARY;
	enum newer newer;
	bool adds;
	int r = newer_find(tree, writing, &newer);

	if (r == 0 && apart && newer != NEWER_NOTHING_TO_DO)
		r = temporary_meets(tree, inode);
	if (r == 0 && newer > NEWER_NOTHING_TO_DO)
		r = newer_meet(tree, writing, newer, &stage);
	if (r == 0 && newer != NEWER_NOTHING_TO_DO)
		r = save_publish(tree, inode, writing,
				 newer == NEWER_NONE ? &writing->stage : &stage,
				 writing->times_set ? inode->node.mtime : writing->written,
				 newer == NEWER_NONE ? ahead : NULL, notes);
	if (r < 0)
		return r;
	adds = writing->only_adds && writing->kept == writing->seen &&
	       !(grows && newer == NEWER_EXTENDED);
	writing->dirty = writing->only_cut = writing->only_adds = false;
	if (adds)
		inode_extended(inode, before);
	if (apart && newer != NEWER_NOTHING_TO_DO) {
		temporary_replaced(tree, inode, writing->owner ? writing->owner : -1);
		writing->saved_at = inode->saved_at;
	}
	/* Until its writer reads the new content, it goes on with its own stage. */
	writing->version = newer == NEWER_NONE ? inode->version : inode->version - 1;
	/* The published size then differs from what the writer sees. */
	if (newer != NEWER_NONE && writing->face)
		writing->face->traced = false;
	face_published(writing);
	return 0;
}

/* A pause of the writer must not publish a half-written line or document. */
static bool stage_is_whole(const struct tree *tree, struct writing *writing, uint32_t kind)
{
	struct bytes bytes;
	bool whole;

	if (stage_map(&writing->stage, &bytes) < 0)
		return false;
	whole = kind == BACKEND_SINGLE ? stage_is_json(&writing->stage, bytes, NULL) :
					 content_is_whole(tree, kind, bytes);
	stage_unmap(&writing->stage);
	return whole;
}

/* All under writing.lock. */

static bool has_save(const struct writing *writing)
{
	return writing->mode == HANDLE_SAVE && writing->dirty && !writing->refused &&
	       !writing->away_name;
}

static bool is_large(const struct writing *writing)
{
	return writing->mode == HANDLE_SAVE && writing->stage.size >= STAGE_LARGE;
}

static uint32_t kind_now(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return inode->node.kind;
}

/* Plan the stage, if it is large; nothing when the file is gone. */
static int plan_ahead(struct tree *tree, struct writing *writing, struct save_ahead *ahead)
{
	struct inode *inode = writing->inode;

	if (!is_large(writing))
		return 0;
	{
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);
		int r = inode->gone ? 1 : save_ahead_begin(tree, inode, ahead);

		if (r != 0)
			return MIN(r, 0);
	}
	return save_ahead_plan(tree, ahead, &writing->stage);
}

static int publish_save(struct tree *tree, struct writing *writing, struct notes *notes)
{
	_cleanup_(save_ahead_done) struct save_ahead ahead = { 0 };
	int r = writing_lost_lock(tree, writing);

	if (r == 0)
		r = plan_ahead(tree, writing, &ahead);
	if (r < 0)
		return r;
	{
		WITH_TURN(tree, is_large(writing));
		WITH_CHANGE_LOCK(tree, writing->inode);
		WITH_INODE_LOCK(writing->inode);

		return publish_stage(tree, writing, &ahead, notes);
	}
}

/* The next saver behind one, which this unlocks, or the first (NULL); locked; skips those that a
 * thread is using. */
static struct writing *saver_next(struct tree *tree, struct writing *after)
{
	struct writing *writing;

	pthread_mutex_lock(&tree->times_lock);
	writing = after ? after->saver_next : tree->savers;
	while (writing && pthread_mutex_trylock(&writing->lock) != 0)
		writing = writing->saver_next;
	pthread_mutex_unlock(&tree->times_lock);
	if (after)
		pthread_mutex_unlock(&after->lock);
	return writing;
}

void handles_publish_paused(struct tree *tree, int64_t now)
{
	const int64_t pause = tree->pause ? (int64_t)tree->pause * 1000000000 : INT64_MAX;
	struct notes notes = { 0 };

	for (struct writing *writing = NULL; (writing = saver_next(tree, writing));)
		if (has_save(writing) && now - writing->busy >= pause &&
		    writing->paused_at != writing->busy) {
			writing->paused_at = writing->busy;
			/* A writer that has truncated and written nothing is about to write.
			 * Changes of others come first: it is tried again behind them. */
			if (writing->stage.size &&
			    stage_is_whole(tree, writing, kind_now(tree, writing->inode)) &&
			    publish_save(tree, writing, &notes) == -ESTALE)
				writing->paused_at = 0;
		}
	notes_send(&notes, tree, NOTIFY_LATER);
}

/* The close of a reader does not end a save that others go on to write, nor does that of a child
 * that has only inherited the descriptor.  A document that is whole may be published.  A large one
 * is parsed only if need be. */
static bool flush_is_due(struct tree *tree, struct handle *handle, pid_t pid, bool closes)
{
	struct writing *writing = handle->writing;
	bool single = handle->inode->node.kind == BACKEND_SINGLE && writing->mode == HANDLE_SAVE;

	if (!handle_holds_back(handle) || !closes)
		return handle_holds_back(handle);
	if (!handle_writes(handle))
		return !writing->writers;
	if (!handle_is_written_by(handle, pid) && !handle_is_opened_by(handle, pid))
		return false;
	if (single && !is_large(writing) && stage_is_whole(tree, writing, BACKEND_SINGLE))
		return true;
	/* We cannot tell which of its saves a process has a descriptor of. */
	if (writing->apart && handle_has_sibling(handle))
		return true;
	return !handle_goes_on(tree, handle, pid) ||
	       (single && is_large(writing) && stage_is_whole(tree, writing, BACKEND_SINGLE));
}

static bool is_refused_draft(struct tree *tree, struct inode *inode)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return tree->options.strict && inode_is_draft(inode) && !inode->orphaned;
}

/* Whether the store has everything already: then a flush waits for nothing. */
static bool is_flushed(struct tree *tree, struct handle *handle)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(handle->inode);

	handle_part(tree, handle);
	if (handle->inode->buffered || handle_holds_back(handle))
		return false;
	handle->inode->written_chunk = -1; /* the next write is a first one */
	return true;
}

/* 1 when the stage must be published. */
static int flush_piece(struct tree *tree, struct handle *handle, pid_t pid, bool closes,
		       struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r = file_write_back(tree, inode);

	if (r < 0)
		return r;
	if (!flush_is_due(tree, handle, pid, closes))
		return 0;
	if (handle->writing->mode == HANDLE_APPEND)
		r = join_piece(tree, handle, notes);
	/* Joining may have entered HANDLE_SAVE. */
	return r == 0 && handle->writing->mode == HANDLE_SAVE && handle->writing->dirty ? 1 : r;
}

static int flush_once(struct tree *tree, struct handle *handle, pid_t pid, bool closes,
		      struct notes *notes)
{
	WITH_HANDLE_LOCK(handle);
	int r;

	if (is_flushed(tree, handle))
		return 0;
	r = handle_holds_back(handle) ? writing_lost_lock(tree, handle->writing) : 0;
	if (r < 0)
		return r;
	/* The save goes to the name from which the file was taken (tree_flush()). */
	if (r == 0 && handle->writing->away_name)
		return 0;
	r = flush_piece(tree, handle, pid, closes, notes);
	if (r <= 0)
		return r;
	r = handle->writing->refused ? handle->writing->refused :
				       publish_save(tree, handle->writing, notes);
	return r == 0 && is_refused_draft(tree, handle->inode) ? -EINVAL : r;
}

/* Each program that a writer starts closes what it has inherited: that ends no save. */
static bool is_inherited(const struct handle *handle, pid_t pid)
{
	return pid > 0 && handle->writing->owner > 0 &&
	       process_number(pid) != handle->writing->owner;
}

static void flushed(struct tree *tree, struct handle *handle, pid_t pid, bool closes, int error)
{
	WITH_HANDLE_LOCK(handle);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(handle->inode);

	/* A draft that -o strict refuses is published all the same. */
	handle->writing->failed = handle_holds_back(handle) ? error : 0;
	handle->closed = closes;
	handle->outlives = false;
	if (error == 0 && !(closes && is_inherited(handle, pid)))
		temporary_saved(tree, handle);
	if (closes && !handle_holds_back(handle))
		face_give_back(handle->writing);
}

static int flush(struct tree *tree, struct handle *handle, pid_t pid, bool closes,
		 enum notify_how how)
{
	struct notes notes = { 0 };
	int r;

	if (!handle_writes(handle) && !handle_holds_back(handle))
		return 0;
	r = TREE_RETRY(tree, flush_once(tree, handle, pid, closes, &notes));
	flushed(tree, handle, pid, closes, r);
	if (closes && file_write_times(tree, handle->inode) < 0)
		log_debug("times of inode %llu are sent later",
			  (unsigned long long)handle->inode->ino);
	notes_send(&notes, tree, how);
	return r;
}

/* The handle of the file itself, also through a window; NULL: there is none. */
static struct handle *handle_of_file(struct handle *handle)
{
	return handle && handle->through ? handle->through->handle : handle;
}

int handle_flush(struct tree *tree, struct handle *handle, pid_t pid)
{
	if (handle->through && handle->through->saves)
		return tree->views->flush(tree, handle->through, pid, true, NOTIFY_ALL);
	handle = handle_of_file(handle);
	return handle ? flush(tree, handle, pid, true, NOTIFY_ALL) : 0;
}

int handle_flush_held(struct tree *tree, struct handle *handle)
{
	return flush(tree, handle, 0, true, NOTIFY_CONTENT);
}

/* Locks. */

void handle_lock_granted(struct tree *tree, struct handle *handle)
{
	struct notes notes = { 0 };

	handle = handle_of_file(handle);
	if (!handle)
		return;
	tree_tell_missed(tree, handle->inode->ino);
	{
		WITH_HANDLE_LOCK(handle);
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(handle->inode);

		if (!handle->writing->lease)
			handle->writing->lease = backend_lease(tree->backend);
		handle_drop_outdated(handle);
		handle_drop_old(handle);
		handle->middle = handle->fresh = false;
		handle->again = true;
		face_unless_needed(&notes, tree, handle->inode, handle->face);
	}
	notes_send(&notes, tree, NOTIFY_ALL);
}

uint64_t handle_lock_lease(struct handle *handle)
{
	handle = handle_of_file(handle);
	WITH_HANDLE_LOCK(handle);

	return handle ? handle->writing->lease : 0;
}

void handle_locks_over(struct tree *tree, struct handle *handle)
{
	handle = handle_of_file(handle);
	WITH_HANDLE_LOCK(handle);

	if (handle && handle->writing->lease == backend_lease(tree->backend))
		handle->writing->lease = 0;
}

static int unlocking_once(struct tree *tree, struct handle *handle, struct notes *notes)
{
	WITH_HANDLE_LOCK(handle);
	uint32_t kind;

	if (!has_save(handle->writing))
		return 0;
	/* The next holder of the lock may see no part of JSON or lines.  Of other content only the
	 * writer knows when it is done, and the unlock says so. */
	kind = kind_now(tree, handle->inode);
	if ((kind == BACKEND_SINGLE || kind == BACKEND_LIST) &&
	    !stage_is_whole(tree, handle->writing, kind))
		return 0;
	return publish_save(tree, handle->writing, notes);
}

int handle_unlocking(struct tree *tree, struct handle *handle)
{
	struct notes notes = { 0 };
	int r;

	if (handle->through && handle->through->saves)
		return tree->views->flush(tree, handle->through, 0, false, NOTIFY_ALL);
	handle = handle_of_file(handle);
	if (!handle || !handle_writes(handle))
		return 0;
	r = TREE_RETRY(tree, unlocking_once(tree, handle, &notes));
	if (r == 0)
		file_write_times(tree, handle->inode);
	notes_send(&notes, tree, NOTIFY_ALL);
	if (r < 0)
		log_error("cannot save what was written to inode %llu before it is unlocked: %s",
			  (unsigned long long)handle->inode->ino, strerror(-r));
	return r;
}

static int sync_all(struct tree *tree, struct handle *handle, bool times)
{
	struct backend *backend = tree->backend;
	int r = handle ? flush(tree, handle, 0, false, NOTIFY_CONTENT) : 0;

	if (r < 0 || backend->read_only)
		return r;
	if (times && (!handle || inode_has_times(tree, handle->inode)))
		r = tree_write_times(tree, true);
	if (times && handle)
		handle->inode->synced = true;
	if (handle)
		handle->inode->sync_soon = true;
	return r < 0 ? r : backend->ops->sync(backend);
}

int handle_sync(struct tree *tree, struct handle *handle)
{
	int r = 0;

	if (handle && handle->through && handle->through->saves)
		r = tree->views->flush(tree, handle->through, 0, false, NOTIFY_CONTENT);
	return r < 0 ? r : sync_all(tree, handle_of_file(handle), true);
}

int handle_sync_data(struct tree *tree, struct handle *handle)
{
	if (handle->through)
		return handle_sync(tree, handle);
	/* What others hold back is synced with the times, also by a reader. */
	return sync_all(tree, handle, !handle_writes(handle));
}
