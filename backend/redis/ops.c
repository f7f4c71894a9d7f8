/* SPDX-License-Identifier: MIT */
#include "backend/redis/ops.h"

#include <errno.h>

#include "backend/redis/mounts.h"
#include "backend/redis/pack.h"
#include "backend/base/cleanup.h"

/* As store.lua reads them (apply()). */
static const char *const forms[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = "i @r #a $d #v",
	[BACKEND_ROW_PUT] = "p @r #a $d #v",
	[BACKEND_ROW_DELETE] = "x @r #a #t",
	[BACKEND_HIDDEN_DELETE] = "x ! #a #t",
	[BACKEND_KEY_MOVE] = "m @r &r #v 1",
	[BACKEND_KEY_HIDE] = "m @r ! 0 0",
	[BACKEND_KEY_SHOW] = "m ! @r #v 0",
	[BACKEND_ROWS_SHIFT] = "s @r #a #t #i =i =a #s",
	[BACKEND_NODE_DELETE] = "d =i",
	[BACKEND_ENTRY_DELETE] = "E [Epa] [Lp]",
	[BACKEND_XATTR_PUT] = "P [Xin] $d",
	[BACKEND_XATTR_DELETE] = "D [Xin]",
	[BACKEND_CHUNK_PUT] = "P [Cia] $d",
	[BACKEND_CHUNK_DELETE] = "R [Cia] [Cit>",
	[BACKEND_PIECE_PUT] = "P [Pias] $d",
	[BACKEND_PIECE_DELETE] = "R [Pias] [Pit>",
	[BACKEND_MARK_PUT] = "b =i =o =a",
	[BACKEND_MARK_DELETE] = "B =i =o [Mit]",
	[BACKEND_CHANGE_DONE] = "z @n #a",
	[BACKEND_CHANGE_APART] = "y @n #a #t",
	[BACKEND_LEASE] = "l =i =a",
	[BACKEND_SETTING] = "t [Tn] $d",
};

/* Deletes from at to to: nothing, if that is before it. */
static bool is_empty(const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_ROW_DELETE:
	case BACKEND_HIDDEN_DELETE:
	case BACKEND_CHUNK_DELETE:
	case BACKEND_PIECE_DELETE:
		return op->at > op->to;
	/* There is no history. */
	case BACKEND_PAST_NOTE:
	case BACKEND_PAST_FORGET:
		return true;
	default:
		return false;
	}
}

static int add_node(struct ops *ops, const struct backend_node *node)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = pack_node(node, &value);

	if (node->session.data && node->key.data && node->kind >= BACKEND_SINGLE)
		call_group(&ops->call, node->session, node->key, node->nlink ? 'p' : 'n');
	call_say(&ops->call, "n [Ni] $d", OP(.ino = node->ino, .data = buf_bytes(&value)));
	return r;
}

static void add_fields(struct ops *ops, const struct backend_op *op)
{
	struct pack_field fields[7];
	const size_t count = pack_fields(op->node, (unsigned)op->at, fields);

	call_say(&ops->call, "f =i #t #a",
		 OP(.ino = op->node->ino, .to = op->to, .at = (int64_t)count));
	for (size_t i = 0; i < count; i++)
		call_words(&ops->call, "#a $d",
			   OP(.at = fields[i].place,
			      .data = bytes_make(fields[i].bytes, fields[i].size)));
}

/* Its key, that of its name, and its value: the inode's number and the name. */
static int add_entry(struct ops *ops, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	char ino[8];
	int r;

	pack_number(op->ino, ino);
	r = buf_append(&value, ino, sizeof(ino));
	if (r == 0)
		r = buf_append_bytes(&value, op->name);
	call_say(&ops->call, "e [Epa] [Lpn] $d",
		 OP(.parent = op->parent, .at = op->at, .name = op->name,
		    .data = buf_bytes(&value)));
	return r;
}

static int add_guard(struct ops *ops, const struct backend_op *op)
{
	if (op->session.data) {
		call_group(&ops->call, op->session, op->key, 'n');
		if (op->at)
			call_say(&ops->call, "q [Qk] [Qk>", op);
	} else if (!op->ino)
		call_say(&ops->call, "j", op);
	else if (op->at == BACKEND_UNUSED) {
		if (redis_uses_here(ops->call.store, op->ino))
			return -EBUSY;
		call_say(&ops->call, "u [Ui] [Ui>", op);
	}
	return 0;
}

static int add_lock(struct ops *ops, const struct backend_op *op)
{
	_cleanup_(buf_done) struct buf others = { 0 };
	int r = buf_append_byte(&others, 'x');

	if (r == 0 && op->at)
		r = redis_locks_judge(ops->call.store, op->ino, op->data, &others);
	call_say(&ops->call, "k [Bim] $d [Bi] [Bi>", op);
	call_words(&ops->call, "$d", OP(.data = op->at ? buf_bytes(&others) : BYTES("-")));
	return r;
}

/* What readers depend on beside the gates of commits: fields of nodes alone do not matter, and of
 * rows the script knows whether they were only added. */
static void stamp_reads(struct ops *ops, const struct backend_op *op)
{
	const uint64_t ino = before_needs(op);

	if (ino)
		ops->reads[feed_gate_of_node(ino)] = 1;
	if (op->type == BACKEND_NODE_PUT && op->node->session.data)
		ops->reads[feed_gate_of_key(op->node->session, op->node->key)] = 1;
	if (op->type == BACKEND_ENTRY_PUT || op->type == BACKEND_ENTRY_DELETE)
		ops->reads[feed_gate_of_node(op->parent)] = 1;
}

static int add_op(struct ops *ops, const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_NODE_PUT:
		return add_node(ops, op->node);
	case BACKEND_NODE_SET:
		add_fields(ops, op);
		return 0;
	case BACKEND_ENTRY_PUT:
		return add_entry(ops, op);
	case BACKEND_GUARD:
		return add_guard(ops, op);
	case BACKEND_LOCK:
		return add_lock(ops, op);
	case BACKEND_ROW_INSERT:
		call_say(&ops->call, ops->append ? "a @a #a $d" : forms[op->type], op);
		return 0;
	case BACKEND_MARK_DELETE:
		call_say(&ops->call, op->to ? forms[op->type] : "B =i =o [Mi>", op);
		return 0;
	case BACKEND_CHANGE_DONE:
		call_say(&ops->call, op->session.data ? forms[op->type] : "Z #a", op);
		return 0;
	case BACKEND_LEASE:
		call_say(&ops->call, forms[op->type], op);
		call_words(&ops->call, "=i =a",
			   OP(.ino = op->ino + (uint64_t)op->to, .at = op->at + op->to));
		return 0;
	default:
		if (is_empty(op))
			return 0;
		if (!forms[op->type])
			return -EINVAL;
		call_say(&ops->call, forms[op->type], op);
		return 0;
	}
}

int ops_add(struct ops *ops, const struct backend_op *op)
{
	const struct backend *backend = &ops->call.store->backend;
	int r;

	if ((unsigned)op->type >= BACKEND_OP_TYPES ||
	    (op->type == BACKEND_CHUNK_PUT && op->data.size > BACKEND_CHUNK))
		return -EINVAL;
	if (op->type <= BACKEND_HIDDEN_DELETE && backend->read_only)
		return -EROFS;
	if (op->data.size > backend->max_item)
		return -EFBIG;
	stamp_reads(ops, op);
	r = add_op(ops, op);
	return r < 0 ? r : ops->call.error;
}
