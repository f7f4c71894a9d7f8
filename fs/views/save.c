/* SPDX-License-Identifier: MIT */

/*
 * Saves through a window (open.c says which handles may).
 *
 *   The bytes go to a stage, which is published when its writer closes or syncs (compact.c).  A
 *   save replaces only what its writer knows: it must name the version of the list (if=), or have
 *   read all of the window by its descriptor before it writes.
 *
 *   After a failed write bytes are missing, and nothing is published until the writer begins anew.
 *   The published lines become those that the window stands for, so its writer may go on and save
 *   again.
 */

#include <errno.h>

#include "backend/base/log.h"
#include "fs/views/windows.h"

int saving_refuse(const struct window *window)
{
	log_warning("inode %llu: the save through %s fails: the writer may not know what it "
		    "replaces; add if=VERSION, or first read all of it by the same descriptor",
		    (unsigned long long)window->of->ino, window->asked->text);
	return -EINVAL;
}

static void join(struct window *window)
{
	struct window_saving *saving = &window->saving;
	const struct window_rows *rows = &window->rows;
	const int64_t items_from = window->asked->question->items_from;

	if (saving->writers++ || window->generation != rows->generation)
		return;
	saving->first = rows->from;
	saving->last = rows->to;
	/* A window without rows stands where they would be in its list. */
	if (rows->from > rows->to) {
		saving->first = items_from == INT64_MIN ? 0 : MIN(items_from, rows->end);
		saving->last = saving->first - 1;
	}
}

static int stage_begin(struct window *window, bool keep)
{
	struct window_saving *saving = &window->saving;
	struct stage stage = { 0 };
	struct bytes bytes;
	int r = 0;

	if (saving->stages)
		return 0;
	if (keep)
		r = stage_map(&window->content->stage, &bytes);
	if (r == 0 && keep) {
		r = stage_write(&stage, 0, bytes);
		stage_unmap(&window->content->stage);
	}
	if (r < 0) {
		stage_done(&stage);
		return r;
	}
	saving->stage = stage;
	saving->stages = true;
	return 0;
}

/* The stage was changed. */
static void staged(struct window *window)
{
	struct window_saving *saving = &window->saving;

	saving->dirty = true;
	saving->failed = 0;
	saving->time = time_now();
	window->size = saving->stage.size;
}

static int cut(struct window *window, uint64_t size)
{
	struct window_saving *saving = &window->saving;
	int r = stage_begin(window, size);

	if (r == 0 && size > saving->stage.size)
		r = -EINVAL;
	if (r == 0)
		r = stage_truncate(&saving->stage, size);
	if (r == 0)
		staged(window);
	if (r == 0 && !size)
		saving->refused = 0;
	return r;
}

int saving_begin(struct through *through, bool joins, bool cuts, pid_t pid)
{
	struct window *window = through->inode->window;
	int r;

	WITH_MUTEX(&window->lock);
	/* Readers must not see what it writes. */
	r = !joins && (window->saving.writers || window->open > through->reads) ? -ESTALE : 0;
	if (r == 0 && cuts)
		r = cut(window, 0);
	if (r == 0) {
		join(window);
		through_opened_by(through, pid);
	}
	return r;
}

int saving_cut(const struct through *through, pid_t pid, uint64_t size)
{
	struct window *window = through->inode->window;

	WITH_MUTEX(&window->lock);
	through_written_by(through, pid);
	return cut(window, size);
}

ssize_t saving_write(const struct through *through, pid_t pid, uint64_t offset, struct bytes data)
{
	struct window *window = through->inode->window;
	struct window_saving *saving = &window->saving;
	int r;

	WITH_MUTEX(&window->lock);
	through_written_by(through, pid);
	r = stage_begin(window, true);
	if (r == 0 && offset > saving->stage.size)
		r = -EINVAL;
	if (r == 0)
		r = stage_write(&saving->stage, offset, data);
	if (r == 0)
		staged(window);
	else
		saving->refused = r;
	return r < 0 ? r : (ssize_t)data.size;
}

int saving_read(const struct through *through, uint64_t offset, size_t size, struct buf *out)
{
	struct window *window = through->inode->window;
	struct window_saving *saving = &window->saving;
	size_t before = out->size;
	int r = window_read(window, offset, size, out);

	if (r < 0)
		return r;
	WITH_MUTEX(&window->lock);
	if (!saving->stages && offset <= saving->read)
		saving->read = MAX(saving->read, offset + (out->size - before));
	return 0;
}

/* Under window.lock. */
static int publish(struct tree *tree, struct window *window, enum notify_how how)
{
	struct window_saving *saving = &window->saving;
	bool knows = window->asked->question->if_version.data || saving->read >= window->rows.size;
	int r = saving->refused;

	if (r == 0)
		r = knows ? compact_publish(tree, window, how) : saving_refuse(window);

	saving->failed = r;
	saving->dirty = r < 0;
	return r;
}

int saving_flush(struct tree *tree, const struct through *through, pid_t pid, bool closes,
		 enum notify_how how)
{
	struct window *window = through->inode->window;

	WITH_MUTEX(&window->lock);
	if (!window->saving.dirty)
		return 0;
	/* A list never returns to an earlier generation. */
	if (window->saving.failed == -ESTALE)
		return -ESTALE;
	return closes && through_goes_on(tree, through, pid) ? 0 : publish(tree, window, how);
}

void saving_abandon(const struct through *through)
{
	struct window *window = through->inode->window;

	WITH_MUTEX(&window->lock);
	window->saving.dirty = false;
}

/* After a writer got an error, a later success would surprise it. */
void saving_end(struct tree *tree, const struct through *through)
{
	struct window *window = through->inode->window;
	struct window_saving *saving = &window->saving;

	WITH_MUTEX(&window->lock);
	if (saving->writers == 1 && saving->dirty && !saving->failed)
		(void)publish(tree, window, NOTIFY_LATER);
	if (--saving->writers == 0) {
		saving->dirty = false;
		window_unstage(window);
	}
}
