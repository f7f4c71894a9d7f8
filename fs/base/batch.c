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

struct backend_op *batch_put(struct batch *batch, const struct backend_op *op)
{
	struct backend_op *added = batch_add(batch, op->type);

	if (added) {
		*added = *op;
		added->behind = batch->behind;
	}
	return added;
}

void batch_row_put(struct batch *batch, struct bytes session, struct bytes key, int64_t index,
		   struct bytes data)
{
	BATCH_PUT(batch, BACKEND_ROW_PUT, .session = session, .key = key, .at = index,
		  .data = data);
}

void batch_row_insert(struct batch *batch, struct bytes session, struct bytes key, int64_t index,
		      struct bytes data)
{
	BATCH_PUT(batch, BACKEND_ROW_INSERT, .session = session, .key = key, .at = index,
		  .data = data);
}

void batch_row_delete(struct batch *batch, struct bytes session, struct bytes key, int64_t first,
		      int64_t last)
{
	BATCH_PUT(batch, BACKEND_ROW_DELETE, .session = session, .key = key, .at = first,
		  .to = last);
}

/* Versions are counted up from 1 or from the time of then: in microseconds, which a double still
 * tells apart. */
int64_t batch_version_above_all(void)
{
	return time_now() / 1000;
}

void batch_row_kind(struct batch *batch, uint32_t kind)
{
	struct backend_op *op = batch_last(batch);

	if (!op || kind != BACKEND_SINGLE)
		return;
	op->version = 1;
	/* Not a new row if this batch removes one there: two files change places. */
	for (const struct backend_op *before = batch->ops; before < op; before++)
		if (before->type == BACKEND_ROW_DELETE &&
		    bytes_equal(before->session, op->session) && bytes_equal(before->key, op->key))
			op->version = batch_version_above_all();
}

/* A file that comes to a key gets a version that no service has read of that key. */
static int64_t version_of(const struct backend_node *node)
{
	return node->kind == BACKEND_SINGLE ? batch_version_above_all() : 0;
}

void batch_key_move(struct batch *batch, const struct backend_node *from,
		    const struct backend_node *to)
{
	BATCH_PUT(batch, BACKEND_KEY_MOVE, .session = from->session, .key = from->key,
		  .session_to = to->session, .key_to = to->key, .version = version_of(from));
}

void batch_key(struct batch *batch, enum backend_op_type type, const struct backend_node *node)
{
	BATCH_PUT(batch, type, .session = node->session, .key = node->key, .ino = node->ino,
		  .version = version_of(node));
}

void batch_past_forget(struct batch *batch, const struct backend_node *node)
{
	BATCH_PUT(batch, BACKEND_PAST_FORGET, .session = node->session, .key = node->key,
		  .at = INT64_MAX);
}

void batch_past_none(struct batch *batch, struct bytes session, struct bytes key)
{
	BATCH_PUT(batch, BACKEND_PAST_NOTE, .session = session, .key = key, .parent = PAST_NONE,
		  .at = INT64_MIN, .to = INT64_MAX);
}

void batch_past_anew(struct batch *batch, const struct backend_node *node)
{
	batch_past_forget(batch, node);
	batch_past_none(batch, node->session, node->key);
}

void batch_hidden_delete(struct batch *batch, uint64_t ino, int64_t first)
{
	BATCH_PUT(batch, BACKEND_HIDDEN_DELETE, .ino = ino, .at = first, .to = INT64_MAX);
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

void batch_node_delete(struct batch *batch, uint64_t ino)
{
	BATCH_PUT(batch, BACKEND_NODE_DELETE, .ino = ino);
}

void batch_entry_put(struct batch *batch, uint64_t parent, uint64_t id, struct bytes name,
		     uint64_t ino)
{
	BATCH_PUT(batch, BACKEND_ENTRY_PUT, .parent = parent, .at = (int64_t)id, .name = name,
		  .ino = ino);
}

void batch_entry_delete(struct batch *batch, uint64_t parent, uint64_t id)
{
	BATCH_PUT(batch, BACKEND_ENTRY_DELETE, .parent = parent, .at = (int64_t)id);
}

void batch_xattr_put(struct batch *batch, uint64_t ino, struct bytes name, struct bytes value)
{
	BATCH_PUT(batch, BACKEND_XATTR_PUT, .ino = ino, .name = name, .data = value);
}

void batch_xattr_delete(struct batch *batch, uint64_t ino, struct bytes name)
{
	BATCH_PUT(batch, BACKEND_XATTR_DELETE, .ino = ino, .name = name);
}

void batch_chunk_put(struct batch *batch, uint64_t ino, int64_t chunk, struct bytes data)
{
	BATCH_PUT(batch, BACKEND_CHUNK_PUT, .ino = ino, .at = chunk, .data = data);
}

void batch_chunk_delete(struct batch *batch, uint64_t ino, int64_t first, int64_t last)
{
	BATCH_PUT(batch, BACKEND_CHUNK_DELETE, .ino = ino, .at = first, .to = last);
}

void batch_piece_put(struct batch *batch, uint64_t ino, int64_t index, int64_t seq,
		     struct bytes data)
{
	BATCH_PUT(batch, BACKEND_PIECE_PUT, .ino = ino, .at = index, .seq = seq, .data = data);
}

void batch_pieces_put(struct batch *batch, uint64_t ino, int64_t index, int64_t *seq,
		      struct bytes data)
{
	enum { MOST = 1 << 20 };

	for (size_t part; data.size; data = bytes_make(data.data + part, data.size - part)) {
		part = MIN(data.size, (size_t)MOST);
		batch_piece_put(batch, ino, index, (*seq)++, bytes_make(data.data, part));
	}
}

void batch_piece_delete(struct batch *batch, uint64_t ino, int64_t index, int64_t seq)
{
	BATCH_PUT(batch, BACKEND_PIECE_DELETE, .ino = ino, .at = index, .to = INT64_MAX,
		  .seq = seq);
}

void batch_mark_put(struct batch *batch, uint64_t ino, uint64_t offset, int64_t index)
{
	BATCH_PUT(batch, BACKEND_MARK_PUT, .ino = ino, .offset = offset, .at = index);
}

void batch_mark_delete(struct batch *batch, uint64_t ino, uint64_t offset)
{
	BATCH_PUT(batch, BACKEND_MARK_DELETE, .ino = ino, .offset = offset, .to = INT64_MAX);
}

void batch_change_done(struct batch *batch, struct bytes session, struct bytes key, int64_t stamp)
{
	BATCH_PUT(batch, BACKEND_CHANGE_DONE, .session = session, .key = key, .at = stamp);
}

void batch_change_apart(struct batch *batch, struct bytes session, struct bytes key, int64_t first,
			int64_t stamp)
{
	BATCH_PUT(batch, BACKEND_CHANGE_APART, .session = session, .key = key, .at = stamp,
		  .to = first);
}

void batch_guard(struct batch *batch, uint64_t ino, bool all)
{
	BATCH_PUT(batch, BACKEND_GUARD, .ino = ino, .at = all);
}

void batch_guard_unused(struct batch *batch, uint64_t ino)
{
	BATCH_PUT(batch, BACKEND_GUARD, .ino = ino, .at = BACKEND_UNUSED);
}

void batch_guard_rows(struct batch *batch, struct bytes session, struct bytes key)
{
	BATCH_PUT(batch, BACKEND_GUARD, .session = session, .key = key);
}

void batch_guard_key(struct batch *batch, struct bytes session, struct bytes key)
{
	BATCH_PUT(batch, BACKEND_GUARD, .session = session, .key = key, .at = true);
}

void batch_guard_past(struct batch *batch, const struct as_of *as_of)
{
	BATCH_PUT(batch, BACKEND_PAST_SAME, .session = as_of->key.session, .key = as_of->key.key,
		  .at = as_of->since, .to = as_of->records, .seq = as_of->newest);
}

void batch_guard_alone(struct batch *batch)
{
	BATCH_PUT(batch, BACKEND_GUARD);
}

void batch_lease(struct batch *batch, uint64_t ino, uint64_t entry, uint64_t count)
{
	BATCH_PUT(batch, BACKEND_LEASE, .ino = ino, .at = (int64_t)entry, .to = (int64_t)count);
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
