/* SPDX-License-Identifier: MIT */

/* Opening and closing files.  handle.c has the states of a handle, face.h says what a face is. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/model/handle.h"
#include "src/base/log.h"

struct inode *handle_inode(struct handle *handle)
{
	return handle->inode;
}

uint64_t handle_nodeid(const struct handle *handle)
{
	return inode_nodeid(handle->inode, handle->face->number);
}

bool handle_is_direct(const struct handle *handle)
{
	return handle->direct;
}

/* Mostly it is known: a snapshot would take longer than all the rest of an open. */
static int open_size(struct tree *tree, struct inode *inode, uint64_t *ret_size)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = inode->loaded ? 0 : view_begin(tree, 0, &view);

	return r < 0 ? r : content_size(tree, &view, inode, ret_size);
}

static bool is_being_written(const struct inode *inode)
{
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->kind == FACE_WRITE)
			return true;
	return false;
}

/* Readers of a large list have the page cache; who reads something small sees one version, from a
 * read at its start on.
 *
 * A list that somebody is writing is read past the cache, however large it is.  A read through the
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
			tree->direct_mmap && (size < FACE_CACHED || is_being_written(inode));
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
	handle->streams = r == 0 && size == 0;
	return r;
}

static int open_state(struct tree *tree, struct handle *handle, struct notes *notes)
{
	struct inode *inode = handle->inode;
	int r;

	r = open_direct(tree, handle);
	/* Who may not write has nothing to publish later: it is truncate(2), then open(2). */
	if (r == 0 && !handle_writes(handle) && (handle->flags & O_TRUNC))
		r = handle_truncate(tree, inode, NULL, 0, notes);
	if (r < 0 || !handle_writes(handle))
		return r;
	/* Unlink and write again is a save: others see the previous content until then. */
	if (!inode->inherited) {
		r = open_streams(tree, handle);
		if (r < 0 || !(handle->flags & O_TRUNC) || handle->streams)
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
	return r;
}

static struct face *open_face(struct tree *tree, struct handle *handle, unsigned face, pid_t pid)
{
	if (face == FACE_ANY)
		return face_for_create(handle->inode, handle->kind);
	return face_for_open(tree, handle->inode, face, handle->kind, pid);
}

/* A writer is shown the size of what it has written, which must not cut pages that readers have
 * left.  Who only appends is not, and leaves them to later readers. */
static bool face_is_written(const struct inode *inode, const struct face *face,
			    const struct handle *handle)
{
	return inode_is_state(inode) && handle_writes(handle) && !(handle->flags & O_APPEND) &&
	       face->filled && !face_is_read(inode, face);
}

/* 1 when the name is to be looked up again: the file was replaced or removed since and nobody kept
 * its bytes, or another face is to be opened. */
static int open_once(struct tree *tree, struct handle *handle, unsigned number, pid_t pid,
		     bool *ret_changed, struct notes *notes)
{
	struct inode *inode = handle->inode;
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);
	struct face *face;
	int r = 0;

	if (inode->gone && !inode->orphaned)
		return 1;
	face = open_face(tree, handle, number, pid);
	if (!face)
		return 1;
	if (inode_is_state(inode))
		r = open_state(tree, handle, notes);
	else if ((handle->flags & O_TRUNC) && S_ISREG(inode->node.mode))
		r = open_empty(tree, inode, face, notes);
	if (r < 0)
		return r;
	*ret_changed = face_opened(face, handle, pid);
	if (face_is_written(inode, face, handle))
		notes_forget(notes, tree, inode, face);
	if (!handle->direct)
		face->filled = handle->fills = true;
	handle->next = inode->open;
	inode->open = handle;
	return 0;
}

int tree_open_file(struct tree *tree, struct inode *inode, unsigned face, int flags, pid_t pid,
		   struct handle **ret_handle)
{
	struct notes notes = { 0 };
	struct handle *handle;
	bool changed = false;
	int r;

	if (tree->options.read_only && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)))
		return -EROFS;
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return -ENOMEM;
	handle->inode = inode;
	handle->flags = flags;
	handle->kind = handle_writes(handle) || (flags & O_TRUNC) ? FACE_WRITE : FACE_READ;
	if (inode_is_state(inode) && handle_writes(handle))
		handle_written_by(handle, pid);
	r = TREE_RETRY(tree, open_once(tree, handle, face, pid, &changed, &notes));
	notes_tell(&notes, tree, true);
	if (r > 0)
		again_add(tree, pid, handle->kind);
	else
		again_end(tree, pid);
	if (r != 0) {
		stage_done(&handle->stage);
		free(handle);
		return r < 0 ? r : -ESTALE;
	}
	inode_ref(tree, inode);
	if (changed)
		tell_attr(tree, inode, handle->face->number);
	*ret_handle = handle;
	return 0;
}

static void saver_unlink(struct tree *tree, struct handle *handle)
{
	pthread_mutex_lock(&tree->times_lock);
	*handle->saver_link = handle->saver_next;
	if (handle->saver_next)
		handle->saver_next->saver_link = handle->saver_link;
	pthread_mutex_unlock(&tree->times_lock);
}

static void handle_close(struct tree *tree, struct handle *handle)
{
	struct inode *inode = handle->inode;
	struct notes notes = { 0 };

	{
		/* The list of savers is walked with the lock for writing. */
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);
		struct handle **link = &inode->open;

		while (*link != handle)
			link = &(*link)->next;
		*link = handle->next;
		if (face_closed(handle))
			notes_renew(&notes, tree, inode, handle->face);
		version_drop(&handle->old);
		if (handle->is_saver)
			saver_unlink(tree, handle);
	}
	notes_tell(&notes, tree, false);
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
