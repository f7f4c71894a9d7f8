/* SPDX-License-Identifier: MIT */
/* Reads that join others, of a store that does not by itself. */

#include <errno.h>

#include "backend/base/cleanup.h"
#include "backend/defaults.h"

struct measuring {
	struct backend_tail tail;
	struct backend_looked *whole; /* called with the row of a document, or NULL */
	bool first_only;
};

static int measure_row(void *arg, int64_t index, struct bytes data)
{
	struct measuring *measuring = arg;
	struct backend_tail *tail = &measuring->tail;
	struct backend_looked *whole = measuring->whole;
	int r = 0;

	tail->rows++;
	tail->bytes += data.size;
	tail->last_bytes = data.size;
	tail->last = index;
	if (whole && data.size <= BACKEND_ITEM_LEAST) {
		r = buf_append_bytes(&whole->bytes, data);
		whole->whole = r == 0;
	}
	return r < 0 ? r : measuring->first_only;
}

static int any_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct measuring *measuring = arg;

	(void)index, (void)seq, (void)data;
	measuring->tail.pieces = true;
	return 1;
}

static int measure(struct backend *backend, struct backend_snapshot *snapshot,
		   const struct backend_node *node, struct backend_looked *whole,
		   struct backend_tail *ret_tail)
{
	struct measuring measuring = {
		.tail = { .known = true, .mark = { .index = INT64_MIN } },
		.whole = whole,
		.first_only = node->kind != BACKEND_LIST,
	};
	struct backend_mark *mark = &measuring.tail.mark;
	int r = 0;

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

static int tail_get(struct backend *backend, struct backend_snapshot *snapshot,
		    const struct backend_node *node, struct backend_tail *ret_tail)
{
	return measure(backend, snapshot, node, NULL, ret_tail);
}

static int keep_chunk(void *arg, int64_t chunk, struct bytes data)
{
	(void)chunk;
	return buf_append_bytes(arg, data);
}

static int look_into(struct backend *backend, struct backend_snapshot *snapshot,
		     struct backend_looked *looked)
{
	const struct backend_node *node = &looked->node;
	unsigned wanted = looked->wanted ? looked->wanted(looked->arg, node) : 0;
	bool one_row = node->kind == BACKEND_SINGLE || node->kind == BACKEND_HASH;
	int r = 0;

	if ((wanted & BACKEND_WHOLE) && one_row)
		return measure(backend, snapshot, node, looked, &looked->tail);
	if (wanted & BACKEND_TAIL)
		r = backend_tail_get(backend, snapshot, node, &looked->tail);
	if (r < 0 || !(wanted & BACKEND_WHOLE) || node->kind != BACKEND_ORDINARY ||
	    node->size > BACKEND_CHUNK)
		return r;
	r = backend->ops->chunk_read(backend, snapshot, node->ino, 0, 0, keep_chunk,
				     &looked->bytes);
	looked->whole = r == 0;
	return r;
}

void backend_looked_done(struct backend_looked *looked, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		backend_node_done(&looked[i].node);
		buf_done(&looked[i].bytes);
		looked[i].tail = (struct backend_tail){ 0 };
		looked[i].whole = false;
	}
}

static int entry_look(struct backend *backend, struct backend_snapshot *snapshot,
		      struct backend_looked *looked, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct backend_looked *one = &looked[i];

		one->error = backend->ops->entry_find(backend, snapshot, one->parent, one->name,
						      &one->id, &one->node);
		if (one->error == 0)
			r = look_into(backend, snapshot, one);
		else if (one->error != -ENOENT)
			r = one->error;
	}
	if (r < 0)
		backend_looked_done(looked, count);
	return r;
}

struct of_session {
	struct bytes session;
	backend_key_fn *fn;
	void *arg;
};

static int tell_of_session(void *arg, struct bytes session, struct bytes key,
			   const struct backend_key_stat *stat)
{
	const struct of_session *of = arg;

	return bytes_equal(session, of->session) ? of->fn(of->arg, session, key, stat) : 1;
}

static int session_keys(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes after_key, backend_key_fn *fn, void *arg)
{
	struct of_session of = { session, fn, arg };
	struct backend_key_stat stat;
	int r = 0;

	/* The key of no bytes comes first. */
	if (!after_key.data) {
		after_key = BYTES("");
		r = backend->ops->key_stat(backend, snapshot, session, after_key, &stat);
		r = r == -ENOENT ? 0 : r < 0 ? r : fn(arg, session, after_key, &stat);
	}
	if (r == 0)
		r = backend->ops->key_list(backend, snapshot, session, after_key, tell_of_session,
					   &of);
	return MIN(r, 0);
}

static int look_at_key(struct backend *backend, struct backend_snapshot *snapshot,
		       const struct backend_key_looked *looked, unsigned wanted,
		       struct backend_key_stat *ret_stat)
{
	struct backend_node node;
	int r;

	if (wanted == BACKEND_KEY_ROWS)
		return backend->ops->key_stat(backend, snapshot, looked->session, looked->key,
					      ret_stat);
	if (wanted == BACKEND_KEY_NODE)
		r = backend->ops->node_find(backend, snapshot, looked->session, looked->key, &node);
	else
		r = backend_orphan_find(backend, snapshot, looked->session, looked->key, &node);
	if (r == 0)
		backend_node_done(&node);
	return r;
}

static int key_look(struct backend *backend, struct backend_snapshot *snapshot,
		    struct backend_key_looked *looked, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		looked[i].found = 0;
		for (unsigned bit = 1; r == 0 && bit <= BACKEND_KEY_ORPHAN; bit <<= 1) {
			if (!(looked[i].wanted & bit))
				continue;
			r = look_at_key(backend, snapshot, &looked[i], bit, &looked[i].stat);
			looked[i].found |= r == 0 ? bit : 0;
			r = r == -ENOENT ? 0 : r;
		}
	}
	return r;
}

struct listing {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	uint64_t left; /* that are still wanted */
	backend_wanted_fn *wanted;
	backend_tail_fn *fn;
	void *arg;
};

static int list_one(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct listing *listing = arg;
	struct backend_tail tail = { 0 };
	int r = 0;

	if (listing->wanted(listing->arg, node) & BACKEND_TAIL)
		r = backend_tail_get(listing->backend, listing->snapshot, node, &tail);
	if (r == 0)
		r = listing->fn(listing->arg, entry, node, &tail);
	return r != 0 ? r : --listing->left == 0;
}

static int entry_list_tails(struct backend *backend, struct backend_snapshot *snapshot,
			    uint64_t parent, uint64_t after, uint64_t most,
			    backend_wanted_fn *wanted, backend_tail_fn *fn, void *arg)
{
	struct listing listing = { backend, snapshot, most, wanted, fn, arg };

	return most ? backend->ops->entry_list(backend, snapshot, parent, after, list_one,
					       &listing) :
		      0;
}

const struct backend_joined default_joined = {
	.tail_get = tail_get,
	.entry_look = entry_look,
	.session_keys = session_keys,
	.key_look = key_look,
	.entry_list_tails = entry_list_tails,
};
