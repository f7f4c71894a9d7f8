/* SPDX-License-Identifier: MIT */
#ifndef LIB_VIEW_H
#define LIB_VIEW_H

/*
 * What a call of the library reads: one committed state of the store.
 */

#include "backend/backend.h"
#include "src/lib/name.h"
#include "src/lib/sessfs.h"

struct sessfs {
	struct backend *backend;
};

/* A view.  A zeroed one that has not begun may be ended. */
struct view {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	bool changed;	    /* a callback has changed rows since it began */
	bool shared;	    /* the snapshot belongs to a view around it */
	struct view *outer; /* the view whose callback began this one */
};
/* Within a callback, a view is the same state as the view around it, with the changes that the
 * callback has made.  lib_view_begin_anew() reads what is committed by now, for calls that have no
 * callbacks. */
int lib_view_begin(struct sessfs *sessfs, struct view *view);
int lib_view_begin_anew(struct sessfs *sessfs, struct view *view);
void lib_view_end(struct view *view);

/* Of backend_ops, what reads. */
#define VIEW_ASK(view, call, ...)                                                                  \
	(view)->backend->ops->call((view)->backend, (view)->snapshot, __VA_ARGS__)
/* 1 when the key has rows, or 0. */
int lib_view_has(struct view *view, struct bytes session, struct bytes key);

/* Commit a batch; the views around it see it from then on. */
int lib_view_change(struct sessfs *sessfs, struct backend_batch *batch, unsigned flags);

#endif
