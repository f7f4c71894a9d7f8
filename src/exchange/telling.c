/* SPDX-License-Identifier: MIT */
#include "src/exchange/telling.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fs/api/settings.h"
#include "fs/base/names.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "backend/base/log.h"
#include "src/user/say.h"
#include "src/user/stop.h"

enum {
	BATCH_OPS = 1000,
	BATCH_BYTES = 4 << 20,
};

/* ---- What is done with the operations ---- */

static int sum_bytes(struct buf *buf, struct bytes bytes)
{
	const uint64_t size = bytes.size;

	return buf_join(buf, bytes_make(&size, sizeof(size)), bytes);
}

static int sum_node(struct buf *buf, const struct backend_node *node)
{
	const int64_t fields[] = {
		(int64_t)node->ino,
		(int64_t)node->parent,
		(int64_t)node->entry,
		node->kind,
		node->flags,
		node->mode,
		node->uid,
		node->gid,
		node->nlink,
		(int64_t)node->rdev,
		(int64_t)node->size,
		node->atime,
		node->mtime,
		node->ctime,
		node->btime,
		(int64_t)node->generation,
		node->session.data != NULL,
		node->key.data != NULL,
	};
	int r = buf_append(buf, fields, sizeof(fields));

	if (r == 0)
		r = sum_bytes(buf, node->session);
	if (r == 0)
		r = sum_bytes(buf, node->key);
	return r < 0 ? r : sum_bytes(buf, node->target);
}

static int sum_op(struct telling *telling, const struct backend_op *op)
{
	static const uint8_t key[16];
	const struct bytes texts[] = { op->session, op->key, op->name, op->data };
	const int64_t fields[] = {
		op->type, (int64_t)op->ino, (int64_t)op->parent, (int64_t)op->offset, op->at,
		op->to,	  op->seq,
	};
	struct buf *buf = &telling->scratch;
	uint8_t digest[DIGEST_SIZE];
	uint64_t half[2];
	int r;

	buf_clear(buf);
	r = buf_append(buf, fields, sizeof(fields));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
		r = sum_bytes(buf, texts[i]);
	if (r == 0 && op->node)
		r = sum_node(buf, op->node);
	if (r < 0)
		return r;
	digest_make(key, buf_bytes(buf), digest);
	memcpy(half, digest, sizeof(half));
	telling->sum.high += half[0];
	telling->sum.low += half[1];
	telling->sum.count++;
	return 0;
}

/* To find the one that fails, commit them one by one. */
static int explain(const struct telling *telling, const struct backend_op *op, int error)
{
	const struct transfer *transfer = telling->transfer;
	const struct bytes session = op->node ? op->node->session : op->session;
	const struct bytes key = op->node ? op->node->key : op->key;
	const char *why = strerror(-error);

	if (error == -EFBIG)
		why = "it is larger than the target allows";
	else if (error == -ENAMETOOLONG)
		why = "its name, session or key is longer than the target allows";
	else if (error == -EEXIST)
		why = "the target cannot tell it from something that it already has";
	else if (error == -EILSEQ)
		why = "it is not UTF-8";
	if (op->name.data)
		log_error("cannot copy %s into %s: at '%.*s': %s", transfer->from, transfer->to,
			  (int)MIN(op->name.size, 255), op->name.data, why);
	else if (session.data)
		log_error("cannot copy %s into %s: in session %.*s, key %.*s, item %" PRId64 ": %s",
			  transfer->from, transfer->to, (int)MIN(session.size, 255), session.data,
			  (int)MIN(key.size, 255), key.data ? key.data : "", op->at, why);
	else
		log_error("cannot copy %s into %s: file %" PRIu64 ": %s", transfer->from,
			  transfer->to, op->ino, why);
	return error;
}

static int commit(const struct telling *telling)
{
	const struct batch *batch = &telling->batch;
	int r = backend_commit(telling->to, batch->ops, batch->count, BACKEND_ANYWAY), one = 0;

	if (r == 0)
		return 0;
	for (size_t i = 0; i < batch->count; i++) {
		one = backend_commit(telling->to, &batch->ops[i], 1, BACKEND_ANYWAY);
		if (one < 0)
			return explain(telling, &batch->ops[i], one);
	}
	return 0;
}

int telling_flush(struct telling *telling)
{
	struct batch *batch = &telling->batch;
	int r = batch->error;

	for (size_t i = 0; r == 0 && i < batch->count; i++)
		r = sum_op(telling, &batch->ops[i]);
	if (r < 0)
		return say_why(NULL, r);
	if (telling->to && batch->count)
		r = commit(telling);
	progress_add(telling->transfer->progress, batch->count, telling->bytes);
	batch_clear(batch);
	telling->bytes = 0;
	telling->kept = false;
	return r < 0 ? r : stop_wanted() ? -EINTR : 0;
}

int telling_told(struct telling *telling, size_t bytes)
{
	telling->bytes += bytes;
	return telling->bytes >= BATCH_BYTES || telling->batch.count >= BATCH_OPS ?
		       telling_flush(telling) :
		       0;
}

struct bytes telling_keep(struct telling *telling, struct bytes bytes)
{
	return bytes.data ? batch_keep(&telling->batch, bytes) : bytes;
}

/* ---- Of a file ---- */

static int tell_xattr(void *arg, struct bytes name)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct telling *telling = arg;
	int r = ASK(telling, xattr_get, telling->node.ino, name, &value);

	if (r < 0)
		return r;
	batch_xattr_put(&telling->batch, telling->node.ino, telling_keep(telling, name),
			telling_keep(telling, value.data ? buf_bytes(&value) : BYTES("")));
	return telling_told(telling, name.size + value.size);
}

static int tell_chunk(void *arg, int64_t chunk, struct bytes data)
{
	struct telling *telling = arg;

	batch_chunk_put(&telling->batch, telling->node.ino, chunk, telling_keep(telling, data));
	return telling_told(telling, data.size);
}

static int tell_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	struct telling *telling = arg;

	batch_piece_put(&telling->batch, telling->node.ino, index, seq,
			telling_keep(telling, data));
	return telling_told(telling, data.size);
}

static int tell_marks(struct telling *telling)
{
	uint64_t offset = INT64_MAX;
	struct backend_mark mark;
	int r;

	while ((r = ASK(telling, mark_find, telling->node.ino, offset, &mark)) == 0) {
		batch_mark_put(&telling->batch, telling->node.ino, mark.offset, mark.index);
		r = telling_told(telling, sizeof(mark));
		if (r < 0 || !mark.offset)
			return r;
		offset = mark.offset - 1;
	}
	return r == -ENOENT ? 0 : r;
}

static int tell_node(struct telling *telling, const struct backend_node *node)
{
	struct backend_node copy = *node;
	struct batch *batch = &telling->batch;
	int r;

	telling->node = *node;
	copy.session = telling_keep(telling, node->session);
	copy.key = telling_keep(telling, node->key);
	copy.target = telling_keep(telling, node->target);
	batch_node_put(batch, &copy);
	r = telling_told(telling, sizeof(copy) + copy.target.size);
	if (r == 0)
		r = ASK(telling, xattr_list, node->ino, tell_xattr, telling);
	if (r == 0 && S_ISREG(node->mode) &&
	    (node->kind == BACKEND_ORDINARY || (node->flags & BACKEND_DRAFT)))
		r = ASK(telling, chunk_read, node->ino, 0, INT64_MAX, tell_chunk, telling);
	if (r == 0 && node->kind == BACKEND_LIST)
		r = ASK(telling, piece_read, node->ino, INT64_MIN, INT64_MIN, tell_piece, telling);
	return r == 0 && node->kind == BACKEND_LIST ? tell_marks(telling) : r;
}

/* ---- Of the tree ---- */

/* One with several names is told at the first. */
static int tell_once(struct telling *telling, const struct backend_node *node)
{
	const struct stat st = { .st_ino = node->ino };
	int r = 0;

	if (S_ISDIR(node->mode)) {
		if (ARRAY_ROOM(telling->dirs, telling->dirs_count, telling->dirs_room) < 0)
			return -ENOMEM;
		telling->dirs[telling->dirs_count++] = node->ino;
	} else if (node->nlink > 1) {
		if (linked_find(&telling->linked, &st))
			return 0;
		r = linked_keep(&telling->linked, &st, "");
	}
	return r < 0 ? r : tell_node(telling, node);
}

static int tell_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	struct telling *telling = arg;
	int r;

	batch_entry_put(&telling->batch, entry->parent, entry->id,
			telling_keep(telling, entry->name), entry->ino);
	r = telling_told(telling, entry->name.size);
	return r < 0 ? r : tell_once(telling, node);
}

static int tell_tree(struct telling *telling)
{
	struct backend_node root;
	uint64_t ino;
	int r = ASK(telling, node_get, BACKEND_ROOT, &root);

	if (r < 0)
		return r;
	r = tell_once(telling, &root);
	backend_node_done(&root);
	while (r == 0 && telling->dirs_count) {
		ino = telling->dirs[--telling->dirs_count];
		r = ASK(telling, entry_list, ino, 0, tell_entry, telling);
	}
	return r;
}

/* ---- Of the rows, and the store ---- */

static int tell_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct telling *telling = arg;
	struct backend_op *op;

	if (!telling->kept) {
		telling->kept_session = telling_keep(telling, telling->session);
		telling->kept_key = telling_keep(telling, telling->key);
		telling->kept = true;
	}
	batch_row_insert(&telling->batch, telling->kept_session, telling->kept_key, index,
			 telling_keep(telling, data));
	op = batch_last(&telling->batch);
	if (op) {
		op->created = times.created;
		op->updated = times.updated;
		op->version = telling->version;
	}
	return telling_told(telling, data.size);
}

static int note_orphan(void *arg, const struct backend_node *node)
{
	struct telling *telling = arg;

	telling->orphans |= node->key.data != NULL;
	return telling->orphans;
}

/* A file that was unlinked a moment ago may have left its rows. */
static int is_left(struct telling *telling, struct bytes session, struct bytes key)
{
	struct backend_node node;
	int r = telling->orphans ?
			backend_orphan_find(telling->from, telling->snapshot, session, key, &node) :
			-ENOENT;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	backend_node_done(&node);
	r = ASK(telling, node_find, session, key, &node);
	if (r == 0)
		backend_node_done(&node);
	return r == -ENOENT ? 1 : r;
}

/* Rows without a file are those of a single state if the key has no row above 0 and is not a hash.
 */
static int is_single(struct telling *telling, struct bytes session, struct bytes key,
		     const struct backend_key_stat *stat)
{
	struct backend_node node;
	bool single;
	int r;

	if (stat->last != 0 || bytes_ends_with(key, names_hash_suffix))
		return 0;
	r = ASK(telling, node_find, session, key, &node);
	if (r < 0)
		return r == -ENOENT ? 1 : r;
	single = node.kind == BACKEND_SINGLE;
	backend_node_done(&node);
	return single;
}

static int tell_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	struct telling *telling = arg;
	int r = is_left(telling, session, key);

	if (r != 0)
		return MIN(r, 0);
	r = is_single(telling, session, key, stat);
	if (r < 0)
		return r;
	telling->version = r ? batch_version_above_all() : 0;
	telling->session = session;
	telling->key = key;
	telling->kept = false;
	return backend_row_read_times(telling->from, telling->snapshot, session, key, INT64_MIN,
				      false, UINT64_MAX, tell_row, telling);
}

static int tell_setting(void *arg, struct bytes name, struct bytes data)
{
	struct telling *telling = arg;

	if (bytes_equal(name, BYTES("table")) || bytes_equal(name, bytes_str(setting_incomplete)))
		return 0;
	BATCH_PUT(&telling->batch, BACKEND_SETTING, .name = telling_keep(telling, name),
		  .data = telling_keep(telling, data));
	return telling_told(telling, name.size + data.size);
}

int telling_all(struct telling *telling)
{
	const struct bytes none = { 0 };
	int r = ASK(telling, setting_list, tell_setting, telling);

	if (r == 0)
		r = tell_tree(telling);
	if (r == 0)
		r = ASK(telling, node_list, 0, true, note_orphan, telling);
	if (r == 0)
		r = ASK(telling, key_list, none, none, tell_key, telling);
	return r < 0 ? r : telling_flush(telling);
}

void telling_end(struct telling *telling)
{
	if (telling->snapshot)
		telling->from->ops->snapshot_end(telling->from, telling->snapshot);
	batch_done(&telling->batch);
	buf_done(&telling->scratch);
	linked_done(&telling->linked);
	free(telling->dirs);
}
