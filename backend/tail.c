/* SPDX-License-Identifier: MIT */
/* Tails of state files, of a store that does not join these reads with others by itself. */

#include <errno.h>

#include "backend/backend.h"
#include "src/base/cleanup.h"

struct measuring {
	struct backend_tail tail;
	bool first_only;
};

static int measure_row(void *arg, int64_t index, struct bytes data)
{
	struct measuring *measuring = arg;
	struct backend_tail *tail = &measuring->tail;

	tail->rows++;
	tail->bytes += data.size;
	tail->last_bytes = data.size;
	tail->last = index;
	return measuring->first_only;
}

static int any_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct measuring *measuring = arg;

	(void)index, (void)seq, (void)data;
	measuring->tail.pieces = true;
	return 1;
}

int backend_tail_get(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct backend_node *node, struct backend_tail *ret_tail)
{
	struct measuring measuring = {
		.tail = { .known = true, .mark = { .index = INT64_MIN } },
		.first_only = node->kind != BACKEND_LIST,
	};
	struct backend_mark *mark = &measuring.tail.mark;
	int r = 0;

	if (backend->ops->tail_get)
		return backend->ops->tail_get(backend, snapshot, node, ret_tail);
	if (node->kind == BACKEND_LIST)
		r = backend->ops->mark_find(backend, snapshot, node->ino, INT64_MAX, mark);
	if (r == 0 || r == -ENOENT)
		r = backend->ops->row_read(backend, snapshot, node->session, node->key, mark->index,
					   measure_row, &measuring);
	if (r == 0 && node->kind == BACKEND_LIST)
		r = backend->ops->piece_read(backend, snapshot, node->ino, mark->index, INT64_MIN,
					     any_piece, &measuring);
	if (r == 0)
		*ret_tail = measuring.tail;
	return r;
}

static int tail_if_wanted(struct backend *backend, struct backend_snapshot *snapshot,
			  const struct backend_node *node, backend_wanted_fn *wanted, void *arg,
			  struct backend_tail *ret_tail)
{
	*ret_tail = (struct backend_tail){ 0 };
	return wanted(arg, node) ? backend_tail_get(backend, snapshot, node, ret_tail) : 0;
}

int backend_entry_find_tail(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, struct bytes name, backend_wanted_fn *wanted,
			    void *arg, uint64_t *ret_id, struct backend_node *ret_node,
			    struct backend_tail *ret_tail)
{
	struct backend_node node;
	int r;

	if (backend->ops->entry_find_tail)
		return backend->ops->entry_find_tail(backend, snapshot, parent, name, wanted, arg,
						     ret_id, ret_node, ret_tail);
	r = backend->ops->entry_find(backend, snapshot, parent, name, ret_id, &node);
	if (r < 0)
		return r;
	r = tail_if_wanted(backend, snapshot, &node, wanted, arg, ret_tail);
	if (r < 0)
		backend_node_done(&node);
	else
		*ret_node = node;
	return r;
}

struct listing {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	backend_wanted_fn *wanted;
	backend_tail_fn *fn;
	void *arg;
};

static int list_one(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	const struct listing *listing = arg;
	struct backend_tail tail;
	int r = tail_if_wanted(listing->backend, listing->snapshot, node, listing->wanted,
			       listing->arg, &tail);

	return r < 0 ? r : listing->fn(listing->arg, entry, node, &tail);
}

int backend_entry_list_tails(struct backend *backend, struct backend_snapshot *snapshot,
			     uint64_t parent, uint64_t after, backend_wanted_fn *wanted,
			     backend_tail_fn *fn, void *arg)
{
	struct listing listing = { backend, snapshot, wanted, fn, arg };

	return backend->ops->entry_list_tails ?
		       backend->ops->entry_list_tails(backend, snapshot, parent, after, wanted, fn,
						      arg) :
		       backend->ops->entry_list(backend, snapshot, parent, after, list_one,
						&listing);
}
