/* SPDX-License-Identifier: MIT */
#include "src/lib/view.h"

#include <errno.h>

/* The views of this thread, the innermost first. */
static _Thread_local struct view *innermost;

int lib_view_begin_anew(struct sessfs *sessfs, struct view *view)
{
	view->backend = sessfs->backend;
	return view->backend->ops->snapshot_begin(view->backend, BACKEND_ANYWAY, &view->snapshot);
}

int lib_view_begin(struct sessfs *sessfs, struct view *view)
{
	const struct view *around = innermost;
	int r = 0;

	while (around && around->backend != sessfs->backend)
		around = around->outer;
	view->backend = sessfs->backend;
	view->shared = around && !around->changed;
	if (view->shared)
		view->snapshot = around->snapshot;
	else
		r = lib_view_begin_anew(sessfs, view);
	if (r == 0) {
		view->outer = innermost;
		innermost = view;
	}
	return r;
}

void lib_view_end(struct view *view)
{
	if (innermost == view)
		innermost = view->outer;
	if (view->snapshot && !view->shared)
		view->backend->ops->snapshot_end(view->backend, view->snapshot);
}

int lib_view_change(struct sessfs *sessfs, struct backend_batch *batch, unsigned flags)
{
	for (struct view *view = innermost; view; view = view->outer)
		view->changed |= view->backend == sessfs->backend;
	return sessfs->backend->ops->commit(sessfs->backend, batch, flags | BACKEND_ANYWAY);
}

int lib_view_has(struct view *view, struct bytes session, struct bytes key)
{
	struct backend_key_stat stat;
	int r = VIEW_ASK(view, key_stat, session, key, &stat);

	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}
