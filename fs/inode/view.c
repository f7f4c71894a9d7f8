/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "fs/base/batch.h"
#include "fs/inode/commit.h"
#include "fs/inode/locks.h"

/* Do not read what memory does not have yet. */
static int view_begun(void *arg)
{
	const struct view *view = arg;
	bool fits = view->flags & BACKEND_ANYWAY || !view->tree->applying.pending;

	return fits && !(view->inode && view->inode->unapplied) ? 0 : -ESTALE;
}

int view_begin_whole(struct tree *tree, unsigned flags, struct view *view)
{
	struct backend *backend = tree->backend;
	uint64_t changes = tree->changes;
	int r = backend->ops->snapshot_begin(backend, flags, &view->snapshot);

	view->tree = tree;
	view->flags = flags;
	view->changes = changes;
	view->past = flags & BACKEND_PAST;
	view->backend = r < 0 ? NULL : backend;
	if (r == 0)
		r = backend_snapshot_begun(backend, view->snapshot, view_begun, view);
	if (r < 0)
		view_end(view);
	return r;
}

int view_begin(struct tree *tree, unsigned flags, struct view *view)
{
	const struct inode *inode = view->inode;
	bool late = tree->taker.late;
	int r = view_begin_whole(tree, late ? flags | BACKEND_BEGUN : flags, view);

	if (r != -ESTALE || !late)
		return r;
	/* It has ended, and is one of the same file again. */
	view->inode = inode;
	return view_begin_whole(tree, flags | BACKEND_PAST, view);
}

int view_begin_plain(struct backend *backend, struct view *view)
{
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &view->snapshot);

	view->backend = r < 0 ? NULL : backend;
	return r;
}

void view_end(struct view *view)
{
	if (view->backend)
		ASK(view, snapshot_end);
	view->backend = NULL;
	view->inode = NULL;
	for (int i = 0; i < VIEW_WHOLE; i++) {
		buf_done(&view->whole[i].bytes);
		view->whole[i].ino = 0;
	}
}

const struct buf *view_whole(const struct view *view, uint64_t ino)
{
	for (int i = 0; i < VIEW_WHOLE; i++)
		if (view->whole[i].ino == ino)
			return &view->whole[i].bytes;
	return NULL;
}

static int look_once(struct tree *tree)
{
	_cleanup_(view_end) struct view view = { 0 };
	/* Wait for a thread that takes something in now: after this it has notified the kernel, or
	 * is about to. */
	WITH_READ_LOCK(tree);

	return view_begin(tree, BACKEND_BEGUN, &view);
}

int tree_take_in(struct tree *tree)
{
	return TREE_RETRY(tree, look_once(tree));
}

static int keep_name(void *arg, struct bytes name)
{
	return buf_join(arg, name, BYTES("\0"));
}

int view_xattr_names(const struct view *view, uint64_t ino, struct buf *names)
{
	return ASK(view, xattr_list, ino, keep_name, names);
}

int tree_tell_locks(struct tree *tree, uint64_t ino, struct bytes locks, bool checked)
{
	_cleanup_(batch_done) struct batch batch = { 0 };

	BATCH_PUT(&batch, BACKEND_LOCK, .ino = ino, .data = locks, .at = checked);
	return tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
}

int tree_find_lock(struct tree *tree, uint64_t ino, const struct backend_lock *lock,
		   struct backend_lock *ret_lock)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	return r < 0 ? r : backend_lock_find(view.backend, view.snapshot, ino, lock, ret_lock);
}

int tree_hold_locks(struct tree *tree, bool pending)
{
	return backend_hold(tree->backend, pending);
}

uint64_t tree_lease(struct tree *tree)
{
	return backend_lease(tree->backend);
}

bool tree_is_shared(struct tree *tree)
{
	return backend_is_shared(tree->backend);
}

bool tree_is_read_only(const struct tree *tree)
{
	return tree->options.read_only;
}

void tree_set_direct_mmap(struct tree *tree, bool can)
{
	tree->direct_mmap = can;
}
