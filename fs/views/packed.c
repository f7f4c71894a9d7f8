/* SPDX-License-Identifier: MIT */

/*
 * Packed transcripts (fs/base/packed.h) as lists: they are unpacked once for a window, into a
 * stage, since a question may read their lines from the end.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs/base/packed.h"
#include "fs/inode/inodes.h"
#include "fs/views/windows.h"
#include "backend/base/array.h"
#include "backend/base/log.h"

struct unpacked {
	struct stage stage;
	uint64_t *ends; /* of the lines, in the stage */
	size_t count, room;
};

static int unpacked_judge(struct tree *tree, struct view *view, struct inode *of)
{
	struct inode *dir;
	int r;

	if (!packed_layouts(tree->layout) || !packed_can_read() || !of->node.entry)
		return 0;
	r = inode_get_dir(tree, view, of->node.parent, &dir);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = inode_is_packed(tree, view, of, dir);
	inode_forget(tree, dir, 1);
	return r == -ENOENT ? 0 : r;
}

int unpacked_view_begin(struct tree *tree, struct inode *of, struct window_view *ret)
{
	int r;

	ret->view.inode = of;
	r = view_begin(tree, BACKEND_BEGUN, &ret->view);
	if (r == 0)
		r = unpacked_judge(tree, &ret->view, of);
	if (r <= 0)
		return r;
	ret->ino = of->ino;
	ret->changed = of->changed;
	ret->rows.list = ret->rows.packed = true;
	ret->rows.version = of->node.generation;
	ret->rows.generation = of->node.generation;
	ret->rows.end = (int64_t)of->node.size;
	return 0;
}

static int on_line(void *arg, int64_t index, struct bytes line)
{
	struct unpacked *unpacked = arg;
	int r = stage_write(&unpacked->stage, unpacked->stage.size, line);

	(void)index;
	if (r == 0)
		r = ARRAY_ROOM(unpacked->ends, unpacked->count, unpacked->room);
	if (r == 0)
		unpacked->ends[unpacked->count++] = unpacked->stage.size;
	return r < 0 ? r : check_patience(line.size);
}

int unpacked_begin(struct window_view *view)
{
	const struct backend_node node = { .ino = view->ino };
	int r;

	if (view->unpacked)
		return 0;
	view->unpacked = calloc(1, sizeof(*view->unpacked));
	if (!view->unpacked)
		return -ENOMEM;
	r = packed_read(view->view.backend, view->view.snapshot, &node, on_line, view->unpacked);
	if (r == -EBADMSG) {
		log_warning("inode %" PRIu64 " is a packed transcript that is damaged, or needs "
			    "more memory than is given: only its first %zu lines are read",
			    view->ino, view->unpacked->count);
		r = 0;
	}
	return r;
}

int64_t unpacked_count(const struct window_view *view)
{
	return (int64_t)view->unpacked->count;
}

int unpacked_look(struct window_view *view, int64_t start, bool back, backend_row_time_fn *fn,
		  void *arg)
{
	_cleanup_(buf_done) struct buf line = { 0 };
	struct unpacked *unpacked;
	int64_t count, at;
	int r = unpacked_begin(view);

	if (r < 0)
		return r;
	unpacked = view->unpacked;
	count = unpacked_count(view);
	for (at = back ? MIN(start, count - 1) : MAX(start, 0); r == 0 && at >= 0 && at < count;
	     at += back ? -1 : 1) {
		uint64_t from = at ? unpacked->ends[at - 1] : 0;

		buf_clear(&line);
		r = stage_read(&unpacked->stage, from, unpacked->ends[at] - from, &line);
		if (r == 0)
			r = fn(arg, at, (struct backend_times){ 0 }, buf_bytes(&line));
	}
	return MIN(r, 0);
}

void unpacked_free(struct unpacked *unpacked)
{
	if (!unpacked)
		return;
	stage_done(&unpacked->stage);
	free(unpacked->ends);
	free(unpacked);
}
