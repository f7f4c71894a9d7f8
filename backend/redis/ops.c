/* SPDX-License-Identifier: MIT */
#include "backend/redis/ops.h"

#include <errno.h>

#include "backend/redis/mounts.h"
#include "backend/redis/pack.h"
#include "backend/redis/read.h"
#include "backend/base/cleanup.h"

void ops_done(struct ops *ops)
{
	call_done(&ops->call);
}

static void add_group(struct ops *ops, struct bytes session, struct bytes key, const char *touches)
{
	call_number(&ops->call, (int64_t)call_group(&ops->call, session, key, touches));
}

/* Eight bytes as they stand in keys. */
static void add_ordered(struct ops *ops, int64_t number)
{
	struct key key = { 0 };

	key_add_number(&key, number);
	call_key(&ops->call, key);
}

static void add_hex(struct ops *ops, uint64_t number)
{
	char hex[17];

	pack_hex(number, hex);
	call_str(&ops->call, hex);
}

static void add_node_key(struct ops *ops, enum key_table table, uint64_t ino)
{
	call_key(&ops->call, key_of_node(table, ino));
}

static struct key numbered(enum key_table table, uint64_t ino, int64_t number)
{
	struct key key = key_of_node(table, ino);

	key_add_number(&key, number);
	return key;
}

static void add_put(struct ops *ops, struct key key, struct bytes value)
{
	call_request(&ops->call, "P");
	call_key(&ops->call, key);
	call_words(&ops->call, value);
}

static void add_delete(struct ops *ops, struct key key)
{
	call_request(&ops->call, "D");
	call_key(&ops->call, key);
}

/* Everything from one key on up to those that begin with another. */
static void add_range(struct ops *ops, struct key from, struct key to)
{
	call_request(&ops->call, "R");
	call_key(&ops->call, from);
	call_key(&ops->call, key_end(to));
}

static struct key text_key(struct key key, struct bytes text)
{
	key_add_text(&key, text);
	return key;
}

/* Rows. */

static void add_row(struct ops *ops, const struct backend_op *op)
{
	const bool behind = ops->append && op->type == BACKEND_ROW_INSERT;

	call_request(&ops->call, behind ? "a" : op->type == BACKEND_ROW_INSERT ? "i" : "p");
	add_group(ops, op->session, op->key, behind ? "a" : "r");
	call_number(&ops->call, op->at);
	call_words(&ops->call, op->data);
	if (!behind)
		call_number(&ops->call, op->version);
}

static void add_move(struct ops *ops, const struct backend_op *op)
{
	call_request(&ops->call, "m");
	if (op->type == BACKEND_KEY_SHOW)
		call_number(&ops->call, (int64_t)call_hidden(&ops->call, op->ino));
	else
		add_group(ops, op->session, op->key, "r");
	if (op->type == BACKEND_KEY_MOVE)
		add_group(ops, op->session_to, op->key_to, "r");
	else if (op->type == BACKEND_KEY_HIDE)
		call_number(&ops->call, (int64_t)call_hidden(&ops->call, op->ino));
	else
		add_group(ops, op->session, op->key, "r");
	call_number(&ops->call, op->type == BACKEND_KEY_HIDE ? 0 : op->version);
	call_str(&ops->call, op->type == BACKEND_KEY_MOVE ? "1" : "0");
}

static void add_shift(struct ops *ops, const struct backend_op *op)
{
	call_request(&ops->call, "s");
	add_group(ops, op->session, op->key, "r");
	call_number(&ops->call, op->at);
	call_number(&ops->call, op->to);
	if (op->ino)
		add_ordered(ops, (int64_t)op->ino);
	else
		call_str(&ops->call, "");
	add_ordered(ops, op->at);
	call_number(&ops->call, op->seq);
}

/* Nodes. */

static int add_node(struct ops *ops, const struct backend_op *op)
{
	const struct backend_node *node = op->node;
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = pack_node(node, &value);

	if (node->session.data && node->key.data && node->kind >= BACKEND_SINGLE)
		call_group(&ops->call, node->session, node->key, node->nlink ? "p" : "n");
	call_request(&ops->call, "n");
	add_ordered(ops, (int64_t)node->ino);
	add_hex(ops, node->ino);
	call_words(&ops->call, buf_bytes(&value));
	return r;
}

static void add_fields(struct ops *ops, const struct backend_op *op)
{
	struct pack_field fields[7];
	const size_t count = pack_fields(op->node, (unsigned)op->at, fields);

	call_request(&ops->call, "f");
	add_ordered(ops, (int64_t)op->node->ino);
	call_number(&ops->call, op->to);
	call_number(&ops->call, (int64_t)count);
	for (size_t i = 0; i < count; i++) {
		call_number(&ops->call, fields[i].place);
		call_words(&ops->call, bytes_make(fields[i].bytes, fields[i].size));
	}
}

static void add_node_delete(struct ops *ops, uint64_t ino)
{
	static const enum key_table tables[] = { KEY_XATTR,	 KEY_CHUNK, KEY_PIECE, KEY_MARK,
						 KEY_MARK_INDEX, KEY_CLAIM, KEY_LOCK };

	call_request(&ops->call, "d");
	add_ordered(ops, (int64_t)ino);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		add_range(ops, key_of_node(tables[i], ino), key_of_node(tables[i], ino));
}

static void add_entry(struct ops *ops, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	char ino[8];
	int r;

	pack_number(op->ino, ino);
	r = buf_append(&value, ino, sizeof(ino));
	if (r == 0)
		r = buf_append_bytes(&value, op->name);
	call_request(&ops->call, "e");
	call_key(&ops->call, numbered(KEY_ENTRY, op->parent, op->at));
	call_key(&ops->call, text_key(key_of_node(KEY_NAME, op->parent), op->name));
	call_words(&ops->call, buf_bytes(&value));
	add_ordered(ops, op->at);
	add_hex(ops, (uint64_t)op->at);
	ops->call.error = r < 0 ? r : ops->call.error;
}

static void add_entry_delete(struct ops *ops, const struct backend_op *op)
{
	call_request(&ops->call, "E");
	call_key(&ops->call, numbered(KEY_ENTRY, op->parent, op->at));
	add_node_key(ops, KEY_NAME, op->parent);
}

static void add_piece(struct ops *ops, const struct backend_op *op)
{
	struct key key = numbered(KEY_PIECE, op->ino, op->at);

	key_add_number(&key, op->seq);
	if (op->type == BACKEND_PIECE_PUT)
		add_put(ops, key, op->data);
	else if (op->at <= op->to)
		add_range(ops, key, numbered(KEY_PIECE, op->ino, op->to));
	else
		key_done(&key);
}

static void add_mark(struct ops *ops, const struct backend_op *op)
{
	const int64_t offset = (int64_t)MIN(op->offset, (uint64_t)INT64_MAX);

	if (op->type == BACKEND_MARK_PUT) {
		call_request(&ops->call, "b");
		add_ordered(ops, (int64_t)op->ino);
		add_ordered(ops, offset);
		add_ordered(ops, op->at);
		return;
	}
	call_request(&ops->call, "B");
	add_ordered(ops, (int64_t)op->ino);
	add_ordered(ops, offset);
	call_key(&ops->call, op->to ? numbered(KEY_MARK, op->ino, op->to) :
				      key_end(key_of_node(KEY_MARK, op->ino)));
}

/* Mounts. */

static int add_guard(struct ops *ops, const struct backend_op *op)
{
	if (op->session.data) {
		call_group(&ops->call, op->session, op->key, "n");
		if (!op->at)
			return 0;
		call_request(&ops->call, "q");
		call_key(&ops->call, key_of_state(KEY_ORPHAN_FILE, op->session, op->key));
		call_key(&ops->call, key_end(key_of_state(KEY_ORPHAN_FILE, op->session, op->key)));
		return 0;
	}
	if (!op->ino) {
		call_request(&ops->call, "j");
		return 0;
	}
	if (op->at != BACKEND_UNUSED)
		return 0;
	if (redis_uses_here(ops->store, op->ino))
		return -EBUSY;
	call_request(&ops->call, "u");
	add_node_key(ops, KEY_USE, op->ino);
	call_key(&ops->call, key_end(key_of_node(KEY_USE, op->ino)));
	return 0;
}

static void add_claim(struct ops *ops, const struct backend_op *op)
{
	struct key claim = numbered(KEY_CLAIM, op->ino, (int64_t)ops->store->number);

	if (op->type == BACKEND_UNCLAIM) {
		add_delete(ops, claim);
		return;
	}
	call_request(&ops->call, "c");
	add_node_key(ops, KEY_NODE, op->ino);
	call_key(&ops->call, claim);
}

static void add_lease(struct ops *ops, const struct backend_op *op)
{
	call_request(&ops->call, "l");
	add_hex(ops, op->ino);
	add_hex(ops, (uint64_t)op->at);
	add_hex(ops, op->ino + (uint64_t)op->to);
	add_hex(ops, (uint64_t)(op->at + op->to));
}

static int add_lock(struct ops *ops, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf others = { 0 };
	int r = buf_append_byte(&others, 'x');

	if (r == 0 && op->at)
		r = redis_locks_judge(ops->store, op->ino, op->data, &others);
	call_request(&ops->call, "k");
	call_key(&ops->call, numbered(KEY_LOCK, op->ino, (int64_t)ops->store->number));
	call_words(&ops->call, op->data);
	add_node_key(ops, KEY_LOCK, op->ino);
	call_key(&ops->call, key_end(key_of_node(KEY_LOCK, op->ino)));
	call_words(&ops->call, op->at ? buf_bytes(&others) : BYTES("-"));
	return r;
}

static void add_change(struct ops *ops, const struct backend_op *op)
{
	if (!op->session.data) {
		call_request(&ops->call, "Z");
		call_number(&ops->call, op->at);
		return;
	}
	call_request(&ops->call, op->type == BACKEND_CHANGE_APART ? "y" : "z");
	add_group(ops, op->session, op->key, "n");
	call_number(&ops->call, op->at);
	if (op->type == BACKEND_CHANGE_APART)
		call_number(&ops->call, op->to);
}

/* What readers depend on beside the gates of commits: fields of nodes alone do not matter, and of
 * rows the script knows whether they were only added. */
static void stamp_reads(struct ops *ops, const struct backend_op *op)
{
	const uint64_t ino = before_needs(op);

	if (ino)
		ops->reads[feed_gate_of_node(ino)] = 1;
	switch (op->type) {
	case BACKEND_NODE_PUT:
		if (op->node->session.data)
			ops->reads[feed_gate_of_key(op->node->session, op->node->key)] = 1;
		return;
	case BACKEND_ENTRY_PUT:
	case BACKEND_ENTRY_DELETE:
		ops->reads[feed_gate_of_node(op->parent)] = 1;
		return;
	default:
		return;
	}
}

static bool is_of_rows(enum backend_op_type type)
{
	return type <= BACKEND_HIDDEN_DELETE;
}

static int add_op(struct ops *ops, const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_ROW_INSERT:
	case BACKEND_ROW_PUT:
		add_row(ops, op);
		return 0;
	case BACKEND_ROW_DELETE:
	case BACKEND_HIDDEN_DELETE:
		if (op->at > op->to)
			return 0;
		call_request(&ops->call, "x");
		if (op->type == BACKEND_ROW_DELETE)
			add_group(ops, op->session, op->key, "r");
		else
			call_number(&ops->call, (int64_t)call_hidden(&ops->call, op->ino));
		call_number(&ops->call, op->at);
		call_number(&ops->call, op->to);
		return 0;
	case BACKEND_KEY_MOVE:
	case BACKEND_KEY_HIDE:
	case BACKEND_KEY_SHOW:
		add_move(ops, op);
		return 0;
	case BACKEND_ROWS_SHIFT:
		add_shift(ops, op);
		return 0;
	case BACKEND_NODE_PUT:
		return add_node(ops, op);
	case BACKEND_NODE_SET:
		add_fields(ops, op);
		return 0;
	case BACKEND_NODE_DELETE:
		add_node_delete(ops, op->ino);
		return 0;
	case BACKEND_ENTRY_PUT:
		add_entry(ops, op);
		return 0;
	case BACKEND_ENTRY_DELETE:
		add_entry_delete(ops, op);
		return 0;
	case BACKEND_XATTR_PUT:
		add_put(ops, text_key(key_of_node(KEY_XATTR, op->ino), op->name), op->data);
		return 0;
	case BACKEND_XATTR_DELETE:
		add_delete(ops, text_key(key_of_node(KEY_XATTR, op->ino), op->name));
		return 0;
	case BACKEND_CHUNK_PUT:
		if (op->data.size > BACKEND_CHUNK)
			return -EINVAL;
		add_put(ops, numbered(KEY_CHUNK, op->ino, op->at), op->data);
		return 0;
	case BACKEND_CHUNK_DELETE:
		if (op->at <= op->to)
			add_range(ops, numbered(KEY_CHUNK, op->ino, op->at),
				  numbered(KEY_CHUNK, op->ino, op->to));
		return 0;
	case BACKEND_PIECE_PUT:
	case BACKEND_PIECE_DELETE:
		add_piece(ops, op);
		return 0;
	case BACKEND_MARK_PUT:
	case BACKEND_MARK_DELETE:
		add_mark(ops, op);
		return 0;
	case BACKEND_CHANGE_DONE:
	case BACKEND_CHANGE_APART:
		add_change(ops, op);
		return 0;
	case BACKEND_GUARD:
		return add_guard(ops, op);
	case BACKEND_CLAIM:
	case BACKEND_UNCLAIM:
		add_claim(ops, op);
		return 0;
	case BACKEND_LEASE:
		add_lease(ops, op);
		return 0;
	case BACKEND_LOCK:
		return add_lock(ops, op);
	case BACKEND_SETTING:
		call_request(&ops->call, "t");
		call_key(&ops->call, text_key(key_make(KEY_SETTING), op->name));
		call_words(&ops->call, op->data);
		return 0;
	case BACKEND_OP_TYPES:
		break;
	}
	return -EINVAL;
}

int ops_add(struct ops *ops, const struct backend_op *op)
{
	const struct redis *store = ops->store;
	int r;

	if ((unsigned)op->type >= BACKEND_OP_TYPES)
		return -EINVAL;
	if (is_of_rows(op->type) && store->backend.read_only)
		return -EROFS;
	if (op->data.size > store->backend.max_item)
		return -EFBIG;
	stamp_reads(ops, op);
	r = add_op(ops, op);
	return r < 0 ? r : ops->call.error;
}
