/* SPDX-License-Identifier: MIT */

/*
 * Open windows (fs/inode/window.h).
 *
 *   What a window shows of a list is read once, when it is opened, into a version that all who have
 *   it open share: nothing that happens to the list later changes it.  What is appended goes to the
 *   list itself, by a handle of that.  A window of anything else is read by such a handle, too.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/content/content.h"
#include "fs/inode/inodes.h"
#include "fs/inode/window.h"
#include "fs/write/handle.h"

/* Nobody has seen what a window shows that was never opened: it may as well show what there is
 * now. */
static int choose_again(struct view *view, struct window *window, struct window_rows *rows)
{
	int r = window_choose(view, rows);

	if (r < 0)
		return r;
	window->version = rows->version;
	window->end = rows->end;
	window->now = rows->now;
	window->from = rows->from;
	window->to = rows->to;
	window->size = rows->size;
	return 0;
}

/* 1: the list has been changed since, and the name is to be looked up again. */
static int fill_once(struct tree *tree, struct window *window)
{
	_cleanup_(window_rows_done) struct window_rows rows = {
		.question = window->asked->question,
		.now = window->now,
	};
	_cleanup_(view_end) struct view view = { 0 };
	int r = window_begin(tree, &view, window->of, &rows);

	if (r == -ENOENT || (r == 0 && !rows.list))
		return 1;
	if (r == 0 && rows.version != window->version)
		r = window->opened ? 1 : choose_again(&view, window, &rows);
	if (r != 0)
		return r;
	rows.from = window->from;
	rows.to = window->to;
	rows.size = window->size;
	version_drop(&window->content);
	window->content = version_new();
	return window->content ? window_fill(&view, &rows, &window->content->stage) : -ENOMEM;
}

static int reading_begin(struct tree *tree, struct inode *inode)
{
	struct window *window = inode->window;
	int r = 0;

	pthread_mutex_lock(&window->lock);
	if (!window->open)
		window->content = document_of_window(tree, inode);
	if (!window->content)
		r = TREE_RETRY(tree, fill_once(tree, window));
	if (r == 0) {
		window->open++;
		window->opened = true;
	} else {
		version_drop(&window->content);
	}
	pthread_mutex_unlock(&window->lock);
	return r > 0 ? -ESTALE : r;
}

static void reading_end(struct inode *inode)
{
	struct window *window = inode->window;

	pthread_mutex_lock(&window->lock);
	if (--window->open == 0)
		version_drop(&window->content);
	pthread_mutex_unlock(&window->lock);
}

static int open_parts(struct tree *tree, struct through *through, int flags, pid_t pid)
{
	struct inode *inode = through->inode;
	struct window *window = inode->window;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	int r = 0;

	if ((writes && !(window->list && (flags & O_APPEND))) || (flags & O_TRUNC))
		return -EROFS;
	through->reads = window->list && (flags & O_ACCMODE) != O_WRONLY;
	if (through->reads)
		r = reading_begin(tree, inode);
	if (r < 0) {
		through->reads = false;
		return r;
	}
	return writes || !window->list ?
		       tree_open_file(tree, window->of, FACE_ANY, flags, pid, &through->handle) :
		       0;
}

int through_open(struct tree *tree, struct inode *inode, int flags, pid_t pid,
		 struct handle **ret_handle)
{
	struct handle *handle = calloc(1, sizeof(*handle));
	int r;

	if (handle)
		handle->through = calloc(1, sizeof(*handle->through));
	if (!handle || !handle->through) {
		free(handle);
		return -ENOMEM;
	}
	handle->through->inode = inode_ref(tree, inode);
	r = open_parts(tree, handle->through, flags, pid);
	if (r < 0) {
		through_free(tree, handle);
		return r;
	}
	handle->direct = handle->through->handle;
	*ret_handle = handle;
	return 0;
}

void through_free(struct tree *tree, struct handle *handle)
{
	struct through *through = handle->through;

	if (through->handle)
		handle_free(tree, through->handle);
	if (through->reads)
		reading_end(through->inode);
	inode_forget(tree, through->inode, 1);
	free(through);
	free(handle);
}
