/* SPDX-License-Identifier: MIT */

/*
 * Open windows (fs/inode/window.h).
 *
 *   The rows that a window shows are read once, at its open, into a version that all its handles
 *   share: later changes of the list do not change it.  Appends go to the list itself, by a handle
 *   of that.  A window of anything but a list is read by such a handle, too.
 *
 *   A handle that opens a window of only items= for writing, and not for appending, saves through
 *   it (save.c).  It has the window alone then.  Another thread that comes to it either came by the
 *   same open file (/dev/stdout), and joins it; or it has looked the name up a moment before, and
 *   gets ESTALE.  Its second lookup gives it a window of its own, since the kernel looks a name up
 *   again only once.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "fs/api/events.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/views/past.h"

/* 1: the list has changed since, and the name must be looked up again. */
static int fill_once(struct tree *tree, struct window *window)
{
	_cleanup_(window_view_end) struct window_view view = {
		.question = window->asked->question,
		.rows.now = window->rows.now,
		.rows.removed = window->rows.removed,
	};
	int r = past_begin(tree, window->of, &view);

	if (r != 0)
		return r;
	return past_fill_again(&view, &window->rows, &window->content);
}

static int reading_begin(struct tree *tree, struct inode *inode, bool joins)
{
	struct window *window = inode->window;
	int r = 0;

	WITH_MUTEX(&window->lock);
	/* A writer has come a moment ago. */
	if (!joins && window->saving.writers)
		return -ESTALE;
	if (!window->open)
		window->content = document_of_window(tree, inode);
	if (!window->content && !window->saving.stages)
		r = TREE_RETRY(tree, fill_once(tree, window));
	window->open += r == 0;
	return r > 0 ? -ESTALE : r;
}

/* Shared mappings of a handle that may also write change the kernel's pages of the window: so hide
 * the window from lookups.  If it is open already, the name is looked up again, but only once. */
static int reading_alone(struct tree *tree, struct inode *inode, pid_t pid)
{
	struct window *window = inode->window;
	bool open;

	window_hide(tree, inode);
	pthread_mutex_lock(&window->lock);
	open = window->open;
	pthread_mutex_unlock(&window->lock);
	return open && !tree_opens_again(tree, pid, inode->ino) ? -ESTALE : 0;
}

/* 1: the list is of another version than the question says (if=). */
static int judge_once(struct tree *tree, const struct window *window)
{
	_cleanup_(window_view_end) struct window_view now = {
		.question = window->asked->question,
	};
	char word[VERSION_WORD];
	int r = window_view_begin(tree, window->of, &now);

	if (r != 0)
		return r;
	version_word(window->of->ino, now.rows.generation, word);
	return now.rows.generation != window->rows.generation ||
	       !bytes_equal(bytes_str(word), window->asked->question->if_version);
}

static int judge_version(struct tree *tree, const struct window *window)
{
	int r;

	if (!window->rows.list || !window->asked->question->if_version.data)
		return 0;
	r = TREE_RETRY(tree, judge_once(tree, window));
	return r > 0 ? -ESTALE : r;
}

static int open_stream(struct tree *tree, struct through *through, int flags)
{
	const struct window *window = through->inode->window;
	struct event_reader *reader;
	int r;

	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
		return -EROFS;
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	r = following_begin(tree, window->of, window->asked->question->since_event, reader);
	if (r < 0)
		free(reader);
	else
		through->events = reader;
	return r;
}

/* Whether the thread joins a writer that saves through the window, having come by the same open
 * file; -ESTALE: it came by the name, which must be looked up again. */
static int meet_writer(struct tree *tree, struct inode *inode, pid_t pid)
{
	struct window *window = inode->window;
	bool taken;

	pthread_mutex_lock(&window->lock);
	taken = window->saving.writers;
	pthread_mutex_unlock(&window->lock);
	if (!taken)
		return false;
	return again_is(tree, pid, inode->ino) ? true : -ESTALE;
}

static int open_saving(struct tree *tree, struct through *through, int flags, pid_t pid, bool joins)
{
	struct inode *inode = through->inode;
	struct window *window = inode->window;
	bool cuts = flags & O_TRUNC;
	int r = 0;

	if (tree->options.read_only || !window->rows.list || window->rows.packed ||
	    !question_only_items(window->asked->question))
		return -EROFS;
	if (!window->asked->question->if_version.data && (cuts || (flags & O_ACCMODE) == O_WRONLY))
		return saving_refuse(window);
	if (!joins)
		r = judge_version(tree, window);
	if (r == 0)
		window_hide(tree, inode);
	if (r == 0 && !cuts) {
		r = reading_begin(tree, inode, joins);
		through->reads = r == 0;
	}
	if (r < 0)
		return r;
	r = saving_begin(through, joins, cuts, pid);
	through->saves = r == 0;
	return r;
}

static int read_window(struct tree *tree, struct window *window, uint64_t offset, size_t size,
		       struct buf *out)
{
	bool past;
	int r = 0;

	pthread_mutex_lock(&window->lock);
	past = !window->saving.stages && window->content->past;
	if (past)
		r = past_read(tree, window, offset, size, out);
	pthread_mutex_unlock(&window->lock);
	return past ? r : window_read(window, offset, size, out);
}

int through_read(struct tree *tree, const struct through *through, uint64_t offset, size_t size,
		 bool page, struct buf *out)
{
	if (through->events)
		return -EINVAL; /* stream_read() */
	if (through->saves && !(page && through->reads))
		return saving_read(through, offset, size, out);
	return through->reads ? read_window(tree, through->inode->window, offset, size, out) :
				handle_read(tree, through->handle, offset, size, out);
}

static int open_parts(struct tree *tree, struct through *through, int flags, pid_t pid)
{
	struct inode *inode = through->inode;
	struct window *window = inode->window;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	int r = meet_writer(tree, inode, pid);
	bool joins = r > 0;

	if (r < 0)
		return r;
	if (asked_is_stream(window->asked))
		return open_stream(tree, through, flags);
	if (writes && !(flags & O_APPEND))
		return open_saving(tree, through, flags, pid, joins);
	if ((writes && !window_takes_lines(window)) || (flags & O_TRUNC))
		return -EROFS;
	r = joins ? 0 : judge_version(tree, window);
	if (r < 0)
		return r;
	if (window->rows.list && (flags & O_ACCMODE) != O_WRONLY) {
		r = writes ? reading_alone(tree, inode, pid) : 0;
		if (r == 0)
			r = reading_begin(tree, inode, joins);
		if (r < 0)
			return r;
		through->reads = true;
	}
	if (writes || !window->rows.list)
		r = tree_open_file(tree, window->of, FACE_ANY, flags, pid, &through->handle);
	if (r == 0 && through->handle)
		through->handle->window = inode->ino;
	return r;
}

void through_free(struct tree *tree, struct handle *handle)
{
	struct through *through = handle->through;

	if (through->handle)
		handle_free(tree, through->handle);
	if (through->saves)
		saving_end(tree, through);
	if (through->reads) {
		struct window *window = through->inode->window;

		pthread_mutex_lock(&window->lock);
		if (--window->open == 0)
			version_drop(&window->content);
		window_unstage(window);
		pthread_mutex_unlock(&window->lock);
	}
	if (through->events)
		following_end(tree, through->events);
	free(through->events);
	inode_forget(tree, through->inode, 1);
	free(through);
	free(handle);
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
	if (r == -ESTALE)
		again_add(tree, pid, FACE_WRITE, inode->ino);
	else
		again_end(tree, pid);
	if (r < 0) {
		through_free(tree, handle);
		return r;
	}
	handle->direct =
		handle->through->handle || handle->through->saves || handle->through->events;
	*ret_handle = handle;
	return 0;
}

int window_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    pid_t pid)
{
	struct handle *opened = NULL;
	int r = 0;

	if (!handle)
		r = through_open(tree, inode, O_WRONLY | (size ? 0 : O_TRUNC), pid, &opened);
	if (r < 0)
		return r;
	handle = handle ? handle : opened;
	if (!handle->through || !handle->through->saves)
		return -EROFS;
	r = saving_cut(handle->through, pid, size);
	if (!opened)
		return r;
	if (r == 0)
		r = saving_flush(tree, opened->through, 0, true, NOTIFY_CONTENT);
	through_free(tree, opened);
	return r;
}

bool handle_is_stream(const struct handle *handle)
{
	return handle->through && handle->through->events;
}

int stream_read(struct handle *handle, size_t size, struct buf *lines)
{
	return event_read(handle->through->events, size, lines);
}

bool stream_waits(struct handle *handle)
{
	return event_waits(handle->through->events);
}
