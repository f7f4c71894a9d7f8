/* SPDX-License-Identifier: MIT */
#include "fs/base/batch.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

#include <errno.h>
#include <stdlib.h>

struct backend_op *batch_add(struct batch *batch, enum backend_op_type type)
{
	if (batch->error)
		return NULL;
	if (ARRAY_ROOM(batch->ops, batch->count, batch->room) < 0) {
		batch->error = -ENOMEM;
		return NULL;
	}
	batch->ops[batch->count] = (struct backend_op){ .type = type, .behind = batch->behind };
	return &batch->ops[batch->count++];
}

static int batch_own(struct batch *batch, void *memory)
{
	if (ARRAY_ROOM(batch->owned, batch->owned_count, batch->owned_room) < 0) {
		free(memory);
		batch->error = -ENOMEM;
		return -ENOMEM;
	}
	batch->owned[batch->owned_count++] = memory;
	return 0;
}

struct bytes batch_keep(struct batch *batch, struct bytes bytes)
{
	char *copy;

	if (batch->error)
		return (struct bytes){ 0 };
	copy = bytes_dup(bytes);
	if (!copy) {
		batch->error = -ENOMEM;
		return (struct bytes){ 0 };
	}
	if (batch_own(batch, copy) < 0)
		return (struct bytes){ 0 };
	return bytes_make(copy, bytes.size);
}

static void batch_row(struct batch *batch, enum backend_op_type type, struct bytes session,
		      struct bytes key, int64_t index, struct bytes data)
{
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return;
	op->session = session;
	op->key = key;
	op->at = index;
	op->data = data;
}

void batch_row_put(struct batch *batch, struct bytes session, struct bytes key, int64_t index,
		   struct bytes data)
{
	batch_row(batch, BACKEND_ROW_PUT, session, key, index, data);
}

void batch_row_insert(struct batch *batch, struct bytes session, struct bytes key, int64_t index,
		      struct bytes data)
{
	batch_row(batch, BACKEND_ROW_INSERT, session, key, index, data);
}

void batch_row_delete(struct batch *batch, struct bytes session, struct bytes key, int64_t first,
		      int64_t last)
{
	struct backend_op *op = batch_add(batch, BACKEND_ROW_DELETE);

	if (!op)
		return;
	op->session = session;
	op->key = key;
	op->at = first;
	op->to = last;
}

/* Versions are counted up from 1 or from the time of then: in microseconds, which a double still
 * tells apart. */
int64_t batch_version_above_all(void)
{
	return time_now() / 1000;
}

static bool removes(const struct backend_op *op, const struct backend_op *row)
{
	return op->type == BACKEND_ROW_DELETE && bytes_equal(op->session, row->session) &&
	       bytes_equal(op->key, row->key);
}

void batch_row_kind(struct batch *batch, uint32_t kind)
{
	struct backend_op *op = batch_last(batch);

	if (!op || kind != BACKEND_SINGLE)
		return;
	op->version = 1;
	/* That is no new one: two files change places. */
	for (const struct backend_op *before = batch->ops; before < op; before++)
		if (removes(before, op))
			op->version = batch_version_above_all();
}

/* What a service has read of a key is not what another file brings there. */
static void key_kind(struct backend_op *op, const struct backend_node *node)
{
	if (node->kind == BACKEND_SINGLE)
		op->version = batch_version_above_all();
}

void batch_key_move(struct batch *batch, const struct backend_node *from,
		    const struct backend_node *to)
{
	struct backend_op *op = batch_add(batch, BACKEND_KEY_MOVE);

	if (!op)
		return;
	op->session = from->session;
	op->key = from->key;
	op->session_to = to->session;
	op->key_to = to->key;
	key_kind(op, from);
}

static void batch_key(struct batch *batch, enum backend_op_type type,
		      const struct backend_node *node)
{
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return;
	op->session = node->session;
	op->key = node->key;
	op->ino = node->ino;
	key_kind(op, node);
}

void batch_key_hide(struct batch *batch, const struct backend_node *node)
{
	batch_key(batch, BACKEND_KEY_HIDE, node);
}

void batch_key_show(struct batch *batch, const struct backend_node *node)
{
	batch_key(batch, BACKEND_KEY_SHOW, node);
}

void batch_hidden_delete(struct batch *batch, uint64_t ino, int64_t first)
{
	struct backend_op *op = batch_add(batch, BACKEND_HIDDEN_DELETE);

	if (!op)
		return;
	op->ino = ino;
	op->at = first;
	op->to = INT64_MAX;
}

void batch_rows_shift(struct batch *batch, const struct backend_node *node, int64_t first,
		      int64_t by, int64_t bytes)
{
	struct backend_op *op = batch_add(batch, BACKEND_ROWS_SHIFT);

	if (!op)
		return;
	op->session = node->session;
	op->key = node->key;
	op->ino = node->ino;
	op->at = first;
	op->to = by;
	op->seq = bytes;
}

static struct backend_op *batch_node(struct batch *batch, enum backend_op_type type,
				     const struct backend_node *node)
{
	struct backend_node *copy;
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return NULL;
	copy = malloc(sizeof(*copy));
	if (!copy) {
		batch->error = -ENOMEM;
		return NULL;
	}
	*copy = *node;
	copy->owned = NULL;
	op->ino = node->ino;
	op->node = copy;
	return batch_own(batch, copy) < 0 ? NULL : op;
}

void batch_node_put(struct batch *batch, const struct backend_node *node)
{
	batch_node(batch, BACKEND_NODE_PUT, node);
}

void batch_node_set(struct batch *batch, const struct backend_node *node, unsigned fields,
		    int64_t links)
{
	struct backend_op *op = batch_node(batch, BACKEND_NODE_SET, node);

	if (!op)
		return;
	op->at = fields;
	op->to = links;
}

static void batch_numbered(struct batch *batch, enum backend_op_type type, uint64_t ino,
			   uint64_t offset, int64_t at, int64_t seq, struct bytes data)
{
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return;
	op->ino = ino;
	op->offset = offset;
	op->at = at;
	op->to = INT64_MAX;
	op->seq = seq;
	op->data = data;
}

void batch_node_delete(struct batch *batch, uint64_t ino)
{
	batch_numbered(batch, BACKEND_NODE_DELETE, ino, 0, 0, 0, (struct bytes){ 0 });
}

void batch_entry_put(struct batch *batch, uint64_t parent, uint64_t id, struct bytes name,
		     uint64_t ino)
{
	struct backend_op *op = batch_add(batch, BACKEND_ENTRY_PUT);

	if (!op)
		return;
	op->parent = parent;
	op->at = (int64_t)id;
	op->name = name;
	op->ino = ino;
}

void batch_entry_delete(struct batch *batch, uint64_t parent, uint64_t id)
{
	struct backend_op *op = batch_add(batch, BACKEND_ENTRY_DELETE);

	if (!op)
		return;
	op->parent = parent;
	op->at = (int64_t)id;
}

void batch_xattr_put(struct batch *batch, uint64_t ino, struct bytes name, struct bytes value)
{
	struct backend_op *op = batch_add(batch, BACKEND_XATTR_PUT);

	if (!op)
		return;
	op->ino = ino;
	op->name = name;
	op->data = value;
}

void batch_xattr_delete(struct batch *batch, uint64_t ino, struct bytes name)
{
	struct backend_op *op = batch_add(batch, BACKEND_XATTR_DELETE);

	if (!op)
		return;
	op->ino = ino;
	op->name = name;
}

void batch_chunk_put(struct batch *batch, uint64_t ino, int64_t chunk, struct bytes data)
{
	batch_numbered(batch, BACKEND_CHUNK_PUT, ino, 0, chunk, 0, data);
}

void batch_chunk_delete(struct batch *batch, uint64_t ino, int64_t first, int64_t last)
{
	struct backend_op *op = batch_add(batch, BACKEND_CHUNK_DELETE);

	if (!op)
		return;
	op->ino = ino;
	op->at = first;
	op->to = last;
}

void batch_piece_put(struct batch *batch, uint64_t ino, int64_t index, int64_t seq,
		     struct bytes data)
{
	batch_numbered(batch, BACKEND_PIECE_PUT, ino, 0, index, seq, data);
}

void batch_piece_delete(struct batch *batch, uint64_t ino, int64_t index, int64_t seq)
{
	batch_numbered(batch, BACKEND_PIECE_DELETE, ino, 0, index, seq, (struct bytes){ 0 });
}

void batch_piece_delete_until(struct batch *batch, uint64_t ino, int64_t first, int64_t last)
{
	batch_piece_delete(batch, ino, first, INT64_MIN);
	if (batch_last(batch))
		batch_last(batch)->to = last;
}

void batch_mark_put(struct batch *batch, uint64_t ino, uint64_t offset, int64_t index)
{
	batch_numbered(batch, BACKEND_MARK_PUT, ino, offset, index, 0, (struct bytes){ 0 });
}

void batch_mark_delete(struct batch *batch, uint64_t ino, uint64_t offset)
{
	batch_numbered(batch, BACKEND_MARK_DELETE, ino, offset, 0, 0, (struct bytes){ 0 });
}

void batch_mark_delete_until(struct batch *batch, uint64_t ino, uint64_t offset, uint64_t end)
{
	if (offset >= end)
		return;
	batch_mark_delete(batch, ino, offset);
	if (batch_last(batch))
		batch_last(batch)->to = (int64_t)end;
}

void batch_change_done(struct batch *batch, struct bytes session, struct bytes key, int64_t stamp)
{
	struct backend_op *op = batch_add(batch, BACKEND_CHANGE_DONE);

	if (!op)
		return;
	op->session = session;
	op->key = key;
	op->at = stamp;
}

void batch_change_apart(struct batch *batch, struct bytes session, struct bytes key, int64_t first,
			int64_t stamp)
{
	struct backend_op *op = batch_add(batch, BACKEND_CHANGE_APART);

	if (!op)
		return;
	op->session = session;
	op->key = key;
	op->at = stamp;
	op->to = first;
}

static void batch_of_node(struct batch *batch, enum backend_op_type type, uint64_t ino, int64_t at)
{
	struct backend_op *op = batch_add(batch, type);

	if (!op)
		return;
	op->ino = ino;
	op->at = at;
}

void batch_guard(struct batch *batch, uint64_t ino, bool all)
{
	batch_of_node(batch, BACKEND_GUARD, ino, all);
}

void batch_guard_unused(struct batch *batch, uint64_t ino)
{
	batch_of_node(batch, BACKEND_GUARD, ino, BACKEND_UNUSED);
}

static void guard_key(struct batch *batch, struct bytes session, struct bytes key, bool free)
{
	struct backend_op *op = batch_add(batch, BACKEND_GUARD);

	if (!op)
		return;
	op->session = session;
	op->key = key;
	op->at = free;
}

void batch_guard_rows(struct batch *batch, struct bytes session, struct bytes key)
{
	guard_key(batch, session, key, false);
}

void batch_guard_key(struct batch *batch, struct bytes session, struct bytes key)
{
	guard_key(batch, session, key, true);
}

void batch_guard_alone(struct batch *batch)
{
	batch_of_node(batch, BACKEND_GUARD, 0, 0);
}

void batch_claim(struct batch *batch, uint64_t ino)
{
	batch_of_node(batch, BACKEND_CLAIM, ino, 0);
}

void batch_unclaim(struct batch *batch, uint64_t ino)
{
	batch_of_node(batch, BACKEND_UNCLAIM, ino, 0);
}

void batch_lease(struct batch *batch, uint64_t ino, uint64_t entry, uint64_t count)
{
	struct backend_op *op = batch_add(batch, BACKEND_LEASE);

	if (!op)
		return;
	op->ino = ino;
	op->at = (int64_t)entry;
	op->to = (int64_t)count;
}

void batch_lock(struct batch *batch, uint64_t ino, struct bytes locks, bool checked)
{
	struct backend_op *op = batch_add(batch, BACKEND_LOCK);

	if (!op)
		return;
	op->ino = ino;
	op->data = locks;
	op->at = checked;
}

void batch_grows(struct batch *batch, uint64_t dir, int64_t by)
{
	if (!by || batch->growths == ARRAY_SIZE(batch->growth))
		return;
	batch->growth[batch->growths++] = (struct batch_growth){ .dir = dir, .by = by };
}

int batch_commit(struct batch *batch, struct backend *backend, unsigned flags)
{
	if (batch->error)
		return batch->error;
	if (!batch->count)
		return 0;
	return backend_commit(backend, batch->ops, batch->count, flags);
}

void batch_clear(struct batch *batch)
{
	for (size_t i = 0; i < batch->owned_count; i++)
		free(batch->owned[i]);
	batch->owned_count = 0;
	batch->count = 0;
	batch->growths = 0;
	batch->error = 0;
}

void batch_done(struct batch *batch)
{
	if (!batch)
		return;
	batch_clear(batch);
	free(batch->owned);
	free(batch->ops);
	*batch = (struct batch){ 0 };
}
