/* SPDX-License-Identifier: MIT */

/* Opening and closing files.  handle.c has the states of what is written, fs/cache/cache.h says
 * what a face is. */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/inode/waiting.h"
#include "fs/inode/window.h"
#include "fs/write/handle.h"
#include "fs/write/temporary.h"
#include "backend/base/chain.h"
#include "backend/base/log.h"

struct inode *handle_inode(struct handle *handle)
{
	return handle->through ? handle->through->inode->window->of : handle->inode;
}

struct inode *handle_opened(struct handle *handle)
{
	return handle->through ? handle->through->inode : handle->inode;
}

uint64_t handle_nodeid(const struct handle *handle)
{
	return inode_nodeid(handle->inode, handle->face->number);
}

bool handle_is_direct(const struct handle *handle)
{
	return handle->direct;
}

/* Mostly the size is known; a snapshot would take longer than all the rest of an open. */
static int open_size(struct tree *tree, struct inode *inode, uint64_t *ret_size)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = inode->loaded ? 0 : inode_view_begin(tree, inode, &view);

	return r < 0 ? r : content_size(tree, &view, inode, ret_size);
}

static bool is_being_written(const struct inode *inode)
{
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->kind == FACE_WRITE)
			return true;
	return false;
}

/* Readers of a large list have the page cache; a reader of something small sees one version, from
 * a read at its start on.
 *
 * A list that is being written is read past the cache, also if it is large.  A read through the
 * cache takes hold of a page and then asks for the size (Linux, filemap_read()): when the list
 * grows in between, it copies the zeros behind the old end out of a page that was forgotten just
 * now. */
static int open_direct(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	uint64_t size;
	int r;

	handle->direct = true;
	if (handle->kind == FACE_WRITE || inode->node.kind != BACKEND_LIST || inode->orphaned)
		return 0;
	r = open_size(tree, inode, &size);
	if (r == 0)
		handle->direct =
			tree->direct_mmap && (size < CONTENT_CACHED || is_being_written(inode));
	return r;
}

/* A list that is empty is streamed. */
static int open_streams(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	uint64_t size = 0;
	int r;

	if (inode->node.kind != BACKEND_LIST || inode_is_draft(inode) || inode->orphaned)
		return 0;
	r = open_size(tree, inode, &size);
	handle->writing->streams = r == 0 && size == 0;
	return r;
}

static int open_state(struct tree *tree, struct handle *handle, struct notes *notes)
{
	struct inode *inode = handle->inode;
	int r;

	r = open_direct(tree, handle);
	/* A handle that may not write publishes nothing later: this is truncate(2), then
	 * open(2). */
	if (r == 0 && !handle_writes(handle) && (handle->flags & O_TRUNC))
		r = handle_truncate(tree, inode, NULL, 0, notes);
	if (r < 0 || !handle_writes(handle))
		return r;
	/* Unlink and write again is a save: others see the previous content until then. */
	if (!inode->inherited) {
		r = open_streams(tree, handle);
		if (r < 0 || !(handle->flags & O_TRUNC) || handle->writing->streams)
			return r;
	}
	inode->inherited = false;
	r = handle_begin_save(tree, handle, false);
	if (r == 0)
		handle_staged(tree, handle);
	return r;
}

static int open_empty(struct tree *tree, struct inode *inode, const struct face *face,
		      struct notes *notes)
{
	uint64_t before = file_size(inode);
	int r = file_truncate(tree, inode, 0);

	if (r == 0)
		notes_plain(notes, tree, inode, before, 0, face);
	if (r == 0 && before)
		notes_happened(notes, tree,
			       &(struct happened){ .what = EVENT_SAVE, .inode = inode });
	return r;
}

/* An open shows the newest content of its file, even while changes of other files wait. */
static int open_heed(struct tree *tree, const struct inode *inode)
{
	_cleanup_(view_end) struct view view = { 0 };

	return tree->taker.late ? inode_view_begin(tree, inode, &view) : 0;
}

/* As open_once(), for a file that is marked as in use. */
static int open_used(struct tree *tree, struct handle *handle, unsigned number, pid_t pid,
		     bool *ret_changed, struct notes *notes)
{
	struct inode *inode = handle->inode;
	struct face *face;
	int r = open_heed(tree, inode);

	if (r < 0)
		return r;
	face = number == FACE_ANY ? face_for_create(tree, inode, handle->kind) :
				    face_for_open(tree, inode, number, handle->kind, pid);
	if (!face)
		return 1;
	handle->keeps = handle->kind == FACE_READ && inode_is_state(inode) && !inode->orphaned;
	if (handle->keeps)
		r = reader_snapshot_begin(tree, inode);
	if (r == 0)
		r = temporary_open(tree, handle, pid);
	if (r < 0)
		return r;
	if (r > 0)
		r = 0;
	else if (handle->writing->count > 1) {
		/* Opened through an open file, whose writing it joins. */
		handle->direct = true;
		if (handle->flags & O_TRUNC) {
			handle_written_by(handle, pid);
			r = handle_cut(tree, handle, 0, notes);
		}
	} else if (inode_is_state(inode))
		r = open_state(tree, handle, notes);
	else if ((handle->flags & O_TRUNC) && S_ISREG(inode->node.mode))
		r = open_empty(tree, inode, face, notes);
	if (r == 0)
		r = handle_keep(tree, handle);
	if (r < 0)
		return r;
	*ret_changed = face_opened(face, handle, pid);
	/* The kernel does not know the name yet of a file that it creates. */
	if (number != FACE_ANY && handle->writing->dirty)
		face_take(notes, tree, handle->writing);
	/* A writer is shown the size of what it has written, which must not cut pages that readers
	 * have left.  A handle that only appends is not, and leaves them to later readers. */
	if (inode_is_state(inode) && handle_writes(handle) && !(handle->flags & O_APPEND) &&
	    face->filled && !face_is_read(inode, face))
		notes_forget(notes, tree, inode, face);
	/* What is added through the page cache the kernel sends in parts, between which other
	 * mounts may add: each part ends with a page of which it has not read the rest. */
	handle->direct |= (handle->flags & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND) &&
			  S_ISREG(inode->node.mode) && backend_is_shared(tree->backend);
	if (!handle->direct)
		face->filled = handle->fills = true;
	if (handle->keeps)
		reader_snapshot_opened(tree);
	CHAIN_ENTER(inode->open, handle, next, link);
	/* It is in use by the handle, too. */
	inode->uses -= inode->opening;
	inode->opening = false;
	return 0;
}

/* 1 when the name must be looked up again: the file was replaced or removed since and its bytes are
 * gone, or another face must be opened. */
static int open_once(struct tree *tree, struct handle *handle, unsigned number, pid_t pid,
		     bool *ret_changed, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_HANDLE_LOCK(handle); /* once it is staged, the tree's own thread may look at it */
	bool cuts = handle->flags & (O_TRUNC | O_CREAT); /* temporary_open() */
	WITH_CHANGE(cuts ? tree : NULL, cuts ? inode : NULL);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	int r;

	if (inode_is_leaving(tree, inode))
		return -ESTALE;
	/* The bytes of a file without a name may be gone. */
	if (inode_is_state(inode) || inode->gone ?
		    inode->gone && (!inode->orphaned || inode->lost) :
		    !inode->node.nlink && !inode->uses)
		return 1;
	if (inode->apart && !inode->orphaned)
		return -EIO;
	r = inode_use_begin(tree, inode);
	if (r < 0)
		return r;
	r = open_used(tree, handle, number, pid, ret_changed, notes);
	if (r != 0)
		inode_use_end(tree, inode);
	return r;
}

static void writing_free(struct tree *tree, struct writing *writing)
{
	temporary_left(tree, writing);
	stage_done(&writing->stage);
	stage_done(&writing->piece);
	pthread_mutex_destroy(&writing->lock);
	free(writing);
}

/* The writing of a handle, also of one that only reads: a new one, or that of the open file through
 * which it is opened. */
static int open_writing(struct tree *tree, struct handle *handle, unsigned face, pid_t pid,
			bool *ret_joined)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	handle->writing = face_writing(tree, inode, face,
				       handle_writes(handle) &&
					       (handle->flags & (O_APPEND | O_TRUNC)) == O_APPEND,
				       pid);
	*ret_joined = handle->writing;
	if (handle->writing) {
		handle->writing->count++;
	} else {
		handle->writing = calloc(1, sizeof(*handle->writing));
		if (!handle->writing)
			return -ENOMEM;
		pthread_mutex_init(&handle->writing->lock, NULL);
		handle->writing->inode = inode;
		handle->writing->count = 1;
	}
	handle->writing->writers += handle_writes(handle);
	return 0;
}

/* Under writing.lock and inode.lock.  Whether it was the last of its handles. */
static bool writing_drop(struct tree *tree, const struct handle *handle)
{
	struct writing *writing = handle->writing;

	if (--writing->count)
		return false;
	if (writing->is_saver) {
		pthread_mutex_lock(&tree->times_lock);
		CHAIN_LEAVE(writing, saver_next, saver_link);
		pthread_mutex_unlock(&tree->times_lock);
	}
	return true;
}

static bool writer_leaves(struct tree *tree, struct handle *handle)
{
	WITH_HANDLE_LOCK(handle);
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(handle->inode);

	handle->writing->writers -= handle_writes(handle);
	return !handle->writing->writers;
}

/* A handle ends writing; the last one of its writing publishes what is held back.  held: the kernel
 * holds the file. */
static void handle_end(struct tree *tree, struct handle *handle, bool held)
{
	int r;

	/* After a writer got an error, a later success would surprise it. */
	if (!writer_leaves(tree, handle) || handle->writing->failed)
		return;
	r = held ? handle_flush_held(tree, handle) : handle_flush(tree, handle, 0);
	if (r < 0)
		log_error("cannot save the last content of inode %llu: %s",
			  (unsigned long long)handle->inode->ino, strerror(-r));
}

static void open_failed(struct tree *tree, struct handle *handle, bool joined)
{
	struct writing *writing = handle->writing;
	bool last;

	/* Others may have left meanwhile. */
	if (joined)
		handle_end(tree, handle, true);
	{
		WITH_HANDLE_LOCK(handle);
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(handle->inode);

		last = writing_drop(tree, handle);
	}
	if (last)
		writing_free(tree, writing);
	version_drop(&handle->old);
	free(handle);
}

/* Whether only closed handles write there: the kernel has said so, and another thread is about to
 * release them.  in_vain: it does not, so they are open elsewhere. */
static bool is_being_released(struct tree *tree, struct inode *inode, unsigned number, bool in_vain)
{
	bool any = false;

	if (!inode_is_state(inode))
		return false;

	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	if (number == FACE_ANY)
		number = inode->led_to;
	for (struct handle *handle = inode->open; handle; handle = handle->next) {
		if (handle->kind != FACE_WRITE || handle->face->number != number)
			continue;
		handle->outlives |= in_vain;
		if (!handle->closed || handle->outlives)
			return false;
		any = true;
	}
	return any;
}

enum {
	BRIEF_TURNS = 100,    /* to let others have the processor */
	RELEASE_TURNS = 1000, /* with a short sleep each */
};

/* Waiting a moment is cheaper than leading the thread to another face, which takes four requests
 * more; and a watch of the file would not see what is written there. */
void wait_for_release(struct tree *tree, struct inode *inode, unsigned face)
{

	for (int i = 0; is_being_released(tree, inode, face, i == RELEASE_TURNS); i++)
		if (i < BRIEF_TURNS)
			sched_yield();
		else
			usleep(100);
}

static int open_handle(struct tree *tree, struct inode *inode, unsigned face, int flags, pid_t pid,
		       enum notify_how how, struct handle **ret_handle)
{
	struct handle *handle;
	bool changed = false, joined;
	int r;

	if (tree->options.read_only && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)))
		return -EROFS;
	wait_for_release(tree, inode, face);
	faces_ask(tree, inode);
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return -ENOMEM;
	handle->inode = inode;
	handle->flags = flags;
	handle->reader = pid;
	handle->kind = handle_writes(handle) || (flags & O_TRUNC) ? FACE_WRITE : FACE_READ;
	handle->fresh = (flags & O_ACCMODE) != O_WRONLY;
	r = open_writing(tree, handle, face, pid, &joined);
	if (r < 0) {
		free(handle);
		return r;
	}
	if (inode_is_state(inode) && handle_writes(handle))
		handle_opened_by(handle, pid);
	r = TREE_RETRY_NOTING(tree, how, open_once(tree, handle, face, pid, &changed, &notes));
	if (r > 0)
		again_add(tree, pid, handle->kind, inode_nodeid(inode, face));
	else
		again_end(tree, pid);
	if (r != 0) {
		open_failed(tree, handle, joined);
		return r < 0 ? r : -ESTALE;
	}
	inode_ref(tree, inode);
	if (changed)
		notify_attr(tree, inode, handle->face->number);
	*ret_handle = handle;
	return 0;
}

int tree_open_file(struct tree *tree, struct inode *inode, unsigned face, int flags, pid_t pid,
		   struct handle **ret_handle)
{
	if (inode->window)
		return tree->views->open(tree, inode, flags, pid, ret_handle);
	return open_handle(tree, inode, face, flags, pid,
			   face == FACE_ANY ? NOTIFY_CONTENT : NOTIFY_ALL, ret_handle);
}

static bool is_joined(struct tree *tree, struct inode *inode, unsigned face, pid_t pid)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	return face_writing(tree, inode, face, false, pid) != NULL;
}

int handle_join(struct tree *tree, struct inode *inode, unsigned face, pid_t pid,
		struct handle **ret_handle)
{
	if (!is_joined(tree, inode, face, pid)) {
		*ret_handle = NULL;
		return 0;
	}
	return open_handle(tree, inode, face, O_WRONLY, pid, NOTIFY_CONTENT, ret_handle);
}

static void handle_close(struct tree *tree, struct handle *handle)
{
	struct writing *writing = handle->writing;
	struct inode *inode = handle->inode;
	struct notes notes = { 0 };
	bool last;

	{
		/* A walk along the list of savers holds the lock of the one where it is. */
		WITH_HANDLE_LOCK(handle);
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);

		CHAIN_LEAVE(handle, next, link);
		inode_use_end(tree, inode);
		if (handle->keeps)
			reader_snapshot_closed(tree);
		if (!inode_is_written(inode))
			inode_writers_gone(tree, inode);
		if (face_closed(handle))
			notes_renew(&notes, tree, inode, handle->face);
		face_settle(&notes, tree, inode, handle->face);
		version_drop(&handle->old);
		last = writing_drop(tree, handle);
	}
	notes_send(&notes, tree, NOTIFY_LATER);
	if (last)
		writing_free(tree, writing);
	stage_done(&handle->whole);
	free(handle);
	inode_forget(tree, inode, 1);
}

struct handle *handle_finish(struct tree *tree, struct handle *handle)
{
	if (handle->through) {
		tree->views->close(tree, handle);
		return NULL;
	}
	handle_end(tree, handle, false);
	handle->finished = true;
	return handle;
}

void handle_free(struct tree *tree, struct handle *handle)
{
	if (!handle->finished)
		handle = handle_finish(tree, handle);
	if (handle)
		handle_close(tree, handle);
}

void handle_leave(struct tree *tree, struct handle *handle)
{
	handle_end(tree, handle, true);
	handle_close(tree, handle);
}

void handle_abandon(struct tree *tree, struct handle *handle)
{
	struct through *through = handle->through;

	if (through) {
		if (through->saves)
			tree->views->abandon(through);
		if (through->handle)
			handle_abandon(tree, steal_ptr(through->handle));
		tree->views->close(tree, handle);
		return;
	}
	pthread_mutex_lock(&handle->writing->lock);
	if (handle->writing->mode == HANDLE_SAVE && handle->writing->dirty &&
	    !handle->writing->settled) {
		log_warning("a save of inode %llu was not finished when the mount ended; the "
			    "previous content stays",
			    (unsigned long long)handle->inode->ino);
		handle->writing->dirty = false;
	}
	pthread_mutex_unlock(&handle->writing->lock);
	handle_free(tree, handle);
}
