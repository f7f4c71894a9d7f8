/* SPDX-License-Identifier: MIT */
/* Operations of a batch as SQL. */
#include "backend/sql/apply.h"

#include <errno.h>
#include <string.h>

#include "backend/fields.h"
#include "backend/sql/mounts.h"
#include "backend/sql/past.h"
#include "backend/sql/read.h"
#include "backend/base/cleanup.h"

enum {
	ROWS_BYTES = 1 << 18, /* of rows that one statement inserts, about */
};

typedef int apply_fn(struct sql_packet *packet, const struct backend_op *op,
		     struct sql_applied *applied);

/* How an operation becomes SQL: the statements, and the fields that are their values from ?1 on. */
struct recipe {
	enum sql_text statements[7];
	unsigned count; /* of these */
	const char *fields;
	bool rows;	 /* changes the rows' table */
	apply_fn *apply; /* instead */
};

static apply_fn apply_shift, apply_node_put, apply_node_set, apply_guard, apply_lease, apply_lock,
	apply_setting;

#define ONE(text, fields, rows)                                                                    \
	{                                                                                          \
		{ text }, 1, fields, rows, NULL                                                    \
	}
#define CALL(rows, apply)                                                                          \
	{                                                                                          \
		{ SQL_TEXTS }, 0, "", rows, apply                                                  \
	}

static const struct recipe recipes[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = ONE(SQL_ROW_INSERT, "sk@DCU", true),
	[BACKEND_ROW_PUT] = ONE(SQL_ROW_PUT, "sk@DCU", true),
	[BACKEND_ROW_DELETE] = ONE(SQL_ROW_DELETE, "sk@t", true),
	[BACKEND_KEY_MOVE] = { { SQL_KEY_CLEAR, SQL_KEY_MOVE }, 2, "skSK", true, NULL },
	[BACKEND_ROWS_SHIFT] = CALL(true, apply_shift),
	[BACKEND_KEY_HIDE] = { { SQL_KEY_HIDE, SQL_KEY_HIDDEN }, 2, "ski", true, NULL },
	[BACKEND_KEY_SHOW] = { { SQL_KEY_SHOW, SQL_KEY_SHOWN }, 2, "ski", true, NULL },
	[BACKEND_HIDDEN_DELETE] = ONE(SQL_HIDDEN_DELETE, "i@t", true),
	[BACKEND_NODE_PUT] = CALL(false, apply_node_put),
	[BACKEND_NODE_SET] = CALL(false, apply_node_set),
	[BACKEND_NODE_DELETE] = { { SQL_NODE_DELETE, SQL_NODE_XATTRS_DELETE, SQL_NODE_CHUNKS_DELETE,
				    SQL_NODE_PIECES_DELETE, SQL_NODE_MARKS_DELETE,
				    SQL_NODE_LOCKS_DELETE },
				  6,
				  "i",
				  false,
				  NULL },
	[BACKEND_ENTRY_PUT] = ONE(SQL_ENTRY_PUT, "p@ni", false),
	[BACKEND_ENTRY_DELETE] = ONE(SQL_ENTRY_DELETE, "p@", false),
	[BACKEND_XATTR_PUT] = ONE(SQL_XATTR_PUT, "ind", false),
	[BACKEND_XATTR_DELETE] = ONE(SQL_XATTR_DELETE, "in", false),
	[BACKEND_CHUNK_PUT] = ONE(SQL_CHUNK_PUT, "i@d", false),
	[BACKEND_CHUNK_DELETE] = ONE(SQL_CHUNK_DELETE, "i@t", false),
	[BACKEND_PIECE_PUT] = ONE(SQL_PIECE_PUT, "i@qd", false),
	[BACKEND_PIECE_DELETE] = ONE(SQL_PIECE_DELETE, "i@tq", false),
	[BACKEND_MARK_PUT] = ONE(SQL_MARK_PUT, "io@", false),
	[BACKEND_MARK_DELETE] = ONE(SQL_MARK_DELETE, "iot", false),
	[BACKEND_CHANGE_DONE] = CALL(false, NULL),
	[BACKEND_CHANGE_APART] = CALL(false, NULL),
	[BACKEND_GUARD] = CALL(false, apply_guard),
	[BACKEND_LEASE] = CALL(false, apply_lease),
	[BACKEND_LOCK] = CALL(false, apply_lock),
	[BACKEND_SETTING] = CALL(false, apply_setting),
	[BACKEND_PAST_COPY] = CALL(true, sql_past_apply),
	[BACKEND_ROWS_COPY] = CALL(true, sql_past_apply),
	[BACKEND_PAST_NOTE] = CALL(true, sql_past_apply),
	[BACKEND_PAST_MERGE] = CALL(true, sql_past_apply),
	[BACKEND_PAST_SAME] = CALL(true, sql_past_apply),
	[BACKEND_PAST_FORGET] = CALL(true, sql_past_apply),
};

/* The same of single states where the rows' table has versions: to what that of the row rises at
 * least, and the highest that can rise, stand behind the fields. */
static const struct recipe singles[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = ONE(SQL_SINGLE_INSERT, "sk@DCU", true),
	[BACKEND_ROW_PUT] = ONE(SQL_SINGLE_PUT, "sk@DCU", true),
	[BACKEND_KEY_MOVE] = { { SQL_KEY_CLEAR, SQL_SINGLE_MOVE }, 2, "skSK", true, NULL },
	[BACKEND_KEY_HIDE] = { { SQL_SINGLE_HIDE, SQL_KEY_HIDDEN }, 2, "ski", true, NULL },
	[BACKEND_KEY_SHOW] = { { SQL_SINGLE_SHOW, SQL_KEY_SHOWN }, 2, "ski", true, NULL },
};

/* Rows that are added now come with what the transaction keeps. */
static size_t values_of(const struct sql_packet *packet, const char *fields,
			const struct backend_op *op, struct sql_value *values)
{
	const size_t count = op_values(fields, op, values);

	for (size_t i = 0; packet->moment && i < count; i++)
		if (values[i].is == SQL_TIME && !values[i].number)
			values[i] = sql_kept_at();
	return count;
}

static void apply_recipe(struct sql_packet *packet, const struct recipe *recipe,
			 const struct backend_op *op)
{
	const int64_t most = packet->store->version_most - 1;
	struct sql_value values[10];
	size_t count = values_of(packet, recipe->fields, op, values);

	values[count++] = sql_number(op->version > most ? 1 : op->version);
	values[count++] = sql_number(most);
	for (unsigned i = 0; i < recipe->count; i++)
		packet_say(packet, -EEXIST, recipe->statements[i], values, count);
}

static int apply_shift(struct sql_packet *packet, const struct backend_op *op,
		       struct sql_applied *applied)
{
	static const char fields[] = "sk@tiq";

	if (op->to)
		packet_say_op(packet, -EFBIG, op->to > 0 ? SQL_ROWS_UP : SQL_ROWS_DOWN, fields, op);
	if (op->to && op->ino)
		packet_say_op(packet, -EFBIG, op->to > 0 ? SQL_PIECES_UP : SQL_PIECES_DOWN, fields,
			      op);
	if (op->ino)
		packet_say_op(packet, -EFBIG, op->seq > 0 ? SQL_MARKS_UP : SQL_MARKS_DOWN, fields,
			      op);
	return 0;
}

static int apply_node_put(struct sql_packet *packet, const struct backend_op *op,
			  struct sql_applied *applied)
{
	const struct backend_node *node = op->node;
	_cleanup_(buf_done) struct buf slot = { 0 };
	int r = sql_slot(node, &slot);

	applied->ino = MAX(applied->ino, node->ino);
	packet_say(packet, -EEXIST, SQL_NODE_PUT,
		   SQL_VALUES(sql_id(node->ino), sql_id(node->parent), sql_id(node->entry),
			      sql_number(node->kind), sql_number(node->flags),
			      sql_number(node->mode), sql_number(node->uid), sql_number(node->gid),
			      sql_number(node->nlink), sql_id(node->rdev), sql_id(node->size),
			      sql_number(node->atime), sql_number(node->mtime),
			      sql_number(node->ctime), sql_number(node->btime),
			      sql_blob(node->session), sql_blob(node->key), sql_blob(node->target),
			      sql_id(node->generation),
			      sql_blob(slot.size ? buf_bytes(&slot) : (struct bytes){ 0 })));
	return r;
}

static int apply_node_set(struct sql_packet *packet, const struct backend_op *op,
			  struct sql_applied *applied)
{
	const struct backend_node *node = op->node;

	packet_say(packet, -EIO, SQL_NODE_SET,
		   SQL_VALUES(sql_id(node->ino), sql_number(op->at), sql_number(node->atime),
			      sql_number(node->mtime), sql_number(node->ctime),
			      sql_number(node->mode), sql_number(node->uid), sql_number(node->gid),
			      sql_id(node->generation), sql_number(op->to)));
	return 0;
}

static int apply_guard(struct sql_packet *packet, const struct backend_op *op,
		       struct sql_applied *applied)
{
	struct sql *store = packet->store;

	if (op->session.data) {
		if (op->at)
			packet_say(packet, -EEXIST, SQL_GUARD_ORPHAN,
				   SQL_VALUES(sql_blob(op->session),
					      sql_blob(bytes_given(op->key))));
		return 0;
	}
	if (!op->ino)
		return applied->shared ? -ESTALE : 0;
	if (op->at != BACKEND_UNUSED)
		return 0;
	if (applied->shared) {
		/* Nobody comes to use a file meanwhile (uses.c). */
		packet_say(packet, -EIO, SQL_STATE_LOCK, SQL_NO_VALUES);
		packet_say(packet, -EBUSY, SQL_GUARD_USED,
			   SQL_VALUES(sql_id(op->ino), sql_id(store->number)));
		packet_say(packet, -EAGAIN, SQL_GUARD_TOLD_USES, SQL_VALUES(sql_id(store->number)));
	}
	return sql_uses_guard(store, op->ino);
}

static int apply_lease(struct sql_packet *packet, const struct backend_op *op,
		       struct sql_applied *applied)
{
	const uint64_t count = (uint64_t)op->to;

	applied->leased_ino = MAX(applied->leased_ino, op->ino + count);
	applied->leased_entry = MAX(applied->leased_entry, (uint64_t)op->at + count);
	packet_say(packet, -ESTALE, SQL_LEASE,
		   SQL_VALUES(sql_id(op->ino), sql_number(op->at), sql_id(op->ino + count),
			      sql_id((uint64_t)op->at + count)));
	return 0;
}

static int apply_lock(struct sql_packet *packet, const struct backend_op *op,
		      struct sql_applied *applied)
{
	const struct sql_value ino = sql_id(op->ino), mount = sql_id(packet->store->number);
	struct backend_lock lock;
	int64_t item = 0;

	if (op->at)
		packet_say(packet, -EAGAIN, SQL_GUARD_TOLD_LOCKS, SQL_VALUES(mount));
	packet_say(packet, -EIO, SQL_LOCKS_DELETE, SQL_VALUES(ino, mount));
	for (size_t i = 0; i + sizeof(lock) <= op->data.size; i += sizeof(lock)) {
		memcpy(&lock, op->data.data + i, sizeof(lock));
		if (op->at)
			packet_say(packet, -EAGAIN, SQL_GUARD_LOCK,
				   SQL_VALUES(ino, mount, sql_number(lock.whole),
					      sql_number(lock.exclusive), sql_id(lock.start),
					      sql_id(lock.end)));
		packet_say(packet, -EIO, SQL_LOCK_PUT,
			   SQL_VALUES(ino, mount, sql_number(item++), sql_id(lock.start),
				      sql_id(lock.end), sql_number(lock.pid),
				      sql_number(lock.whole), sql_number(lock.exclusive)));
	}
	return 0;
}

static int apply_setting(struct sql_packet *packet, const struct backend_op *op,
			 struct sql_applied *applied)
{
	if (bytes_equal(op->name, BYTES("table")))
		return op->data.size && bytes_equal(op->data,
						    bytes_str(packet->store->texts.layout.name)) ?
			       0 :
			       -EBUSY;
	packet_say_op(packet, -EIO, SQL_SETTING_DELETE, "n", op);
	if (op->data.size)
		packet_say_op(packet, -EIO, SQL_SETTING_PUT, "nd", op);
	packet_say(packet, -EIO, SQL_SETTING_COUNT, SQL_NO_VALUES);
	return 0;
}

int sql_apply_check(const struct sql *store, const struct backend_op *op)
{
	if ((unsigned)op->type >= BACKEND_OP_TYPES)
		return -EINVAL;
	if (recipes[op->type].rows ? store->backend.read_only : store->rows_only)
		return -EROFS;
	if (op->data.size > store->backend.max_item)
		return -EFBIG;
	if (recipes[op->type].rows && op->data.size > store->texts.layout.most)
		return -EFBIG;
	if (op->type == BACKEND_CHUNK_PUT && op->data.size > BACKEND_CHUNK)
		return -EINVAL;
	return 0;
}

/* Whether a row may go with those of the last statement. */
static bool joins(const struct sql_packet *packet, const struct backend_op *op)
{
	return packet->count && packet->inserts == packet->count &&
	       packet->rows < SQL_ROWS_TOGETHER && packet->row_bytes + op->data.size <= ROWS_BYTES;
}

/* Rows that are inserted, one after the other in the transaction, go in one statement.  If one is
 * there already, each batch is tried by itself. */
static int apply_rows(struct sql_packet *packet, const struct backend_op *ops, size_t count)
{
	struct sql_value values[8];
	size_t done = 0;

	if (!joins(packet, ops)) {
		apply_recipe(packet, &recipes[BACKEND_ROW_INSERT], ops);
		packet->inserts = packet->count;
		packet->rows = done = 1;
		packet->row_bytes = ops->data.size;
	}
	for (; done < count; done++) {
		const struct backend_op *op = &ops[done];

		if (op->type != BACKEND_ROW_INSERT || op->version || op->created ||
		    !packet->store->texts.layout.has_created ||
		    packet->store->texts.layout.whole_seconds || !joins(packet, op) ||
		    sql_apply_check(packet->store, op) < 0)
			break;
		packet_say_on(packet, SQL_ROW_NEXT, values,
			      values_of(packet, "sk@DCU", op, values));
		packet->rows++;
		packet->row_bytes += op->data.size;
	}
	return (int)done;
}

/* Where the rows' table is not known to have versions, it is seen to once that it has none. */
static const struct recipe *choose_recipe(struct sql_packet *packet, const struct backend_op *op,
					  struct sql_applied *applied)
{
	const bool single = op->version && singles[op->type].count;

	if (single && packet->store->versions == SQL_VERSIONS_RISE)
		return &singles[op->type];
	if (single && packet->store->versions == SQL_VERSIONS_NONE && !applied->single) {
		packet_say(packet, -EIO, SQL_VERSION_NONE, SQL_NO_VALUES);
		applied->single = true;
	}
	return &recipes[op->type];
}

int sql_apply(struct sql_packet *packet, const struct backend_op *ops, size_t count,
	      const struct sql_digest *digest, struct sql_applied *applied)
{
	const struct recipe *recipe;
	int r = sql_apply_check(packet->store, ops);

	if (r < 0)
		return r;
	recipe = choose_recipe(packet, ops, applied);
	sql_past_keep(packet, ops, applied);
	if (ops->type == BACKEND_ROW_INSERT && recipe == &recipes[BACKEND_ROW_INSERT])
		return apply_rows(packet, ops, count);
	if (ops->type == BACKEND_ENTRY_PUT)
		applied->entry = MAX(applied->entry, (uint64_t)ops->at);
	if (digest)
		sql_digest_say(packet, ops, digest);
	else if (ops->type == BACKEND_ROW_DELETE && ops->created)
		r = sql_past_apply(packet, ops, applied);
	else if (recipe->apply)
		r = recipe->apply(packet, ops, applied);
	else
		apply_recipe(packet, recipe, ops);
	return r < 0 ? r : 1;
}
