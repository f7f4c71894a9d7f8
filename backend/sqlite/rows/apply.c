/* SPDX-License-Identifier: MIT */
/* Operations of a batch as SQL. */
#include <errno.h>

#include "backend/fields.h"
#include "backend/sqlite/store/feed.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/rows/past.h"
#include "backend/sqlite/rows/read.h"
#include "backend/sqlite/store/setting.h"
#include "backend/sqlite/rows/shift.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/cleanup.h"

enum {
	ROW_LARGE = 1 << 20, /* bytes of a row that is not to be held many times */
	INOS_NOTED = 1024,   /* inode numbers that are noted as used at once */
};

typedef int apply_fn(struct sqlite_conn *conn, const struct backend_op *op);

/* How an operation becomes SQL: the statements, and the fields that are their parameters from ?1
 * on. */
struct recipe {
	enum sqlite_sql statements[8]; /* ends with SQL_NONE */
	const char *fields;
	bool rows;	 /* changes the rows' table */
	apply_fn *apply; /* instead */
};

static apply_fn apply_row_put, apply_row_delete, apply_node_put, apply_node_set, apply_change_done,
	apply_guard, apply_lease, apply_lock, apply_setting;

static const struct recipe recipes[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = { { SQL_ROW_INSERT }, "sk@DCUv", true, NULL },
	[BACKEND_ROW_PUT] = { { SQL_ROW_PUT }, "sk@DCUv", true, apply_row_put },
	[BACKEND_ROW_DELETE] = { { SQL_ROW_DELETE }, "sk@t", true, apply_row_delete },
	[BACKEND_KEY_MOVE] = { { SQL_KEY_CLEAR_TARGET, SQL_KEY_MOVE }, "skSKv", true, NULL },
	[BACKEND_ROWS_SHIFT] = { { SQL_NONE }, "", true, sqlite_shift },
	[BACKEND_KEY_HIDE] = { { SQL_TRASH_MAKE, SQL_KEY_HIDE, SQL_KEY_HIDDEN },
			       "ski",
			       true,
			       NULL },
	[BACKEND_KEY_SHOW] = { { SQL_TRASH_MAKE, SQL_KEY_SHOW, SQL_KEY_SHOWN },
			       "skiv",
			       true,
			       NULL },
	[BACKEND_HIDDEN_DELETE] = { { SQL_TRASH_MAKE, SQL_HIDDEN_DELETE }, "i@t", true, NULL },
	[BACKEND_PAST_COPY] = { { SQL_NONE }, "", true, sqlite_past_apply },
	[BACKEND_ROWS_COPY] = { { SQL_NONE }, "", true, sqlite_past_apply },
	[BACKEND_PAST_NOTE] = { { SQL_NONE }, "", true, sqlite_past_apply },
	[BACKEND_PAST_MERGE] = { { SQL_NONE }, "", true, sqlite_past_apply },
	[BACKEND_PAST_SAME] = { { SQL_NONE }, "", true, sqlite_past_apply },
	[BACKEND_PAST_FORGET] = { { SQL_NONE }, "", true, sqlite_past_apply },
	[BACKEND_NODE_PUT] = { { SQL_NONE }, "", false, apply_node_put },
	[BACKEND_NODE_SET] = { { SQL_NONE }, "", false, apply_node_set },
	[BACKEND_NODE_DELETE] = { { SQL_NODE_DELETE, SQL_NODE_XATTRS_DELETE, SQL_NODE_CHUNKS_DELETE,
				    SQL_NODE_PIECES_DELETE, SQL_NODE_MARKS_DELETE,
				    SQL_NODE_LOCKS_DELETE },
				  "i",
				  false,
				  NULL },
	[BACKEND_ENTRY_PUT] = { { SQL_ENTRY_PUT }, "p@ni", false, NULL },
	[BACKEND_ENTRY_DELETE] = { { SQL_ENTRY_DELETE }, "p@", false, NULL },
	[BACKEND_XATTR_PUT] = { { SQL_XATTR_PUT }, "ind", false, NULL },
	[BACKEND_XATTR_DELETE] = { { SQL_XATTR_DELETE }, "in", false, NULL },
	[BACKEND_CHUNK_PUT] = { { SQL_CHUNK_PUT }, "i@d", false, NULL },
	[BACKEND_CHUNK_DELETE] = { { SQL_CHUNK_DELETE }, "i@t", false, NULL },
	[BACKEND_PIECE_PUT] = { { SQL_PIECE_PUT }, "i@qd", false, NULL },
	[BACKEND_PIECE_DELETE] = { { SQL_PIECE_DELETE }, "i@tq", false, NULL },
	[BACKEND_MARK_PUT] = { { SQL_MARK_PUT }, "io@", false, NULL },
	[BACKEND_MARK_DELETE] = { { SQL_MARK_DELETE }, "iot", false, NULL },
	[BACKEND_CHANGE_DONE] = { { SQL_NONE }, "", false, apply_change_done },
	[BACKEND_CHANGE_APART] = { { SQL_CHANGE_APART }, "sk@t", false, NULL },
	[BACKEND_GUARD] = { { SQL_NONE }, "", false, apply_guard },
	[BACKEND_LEASE] = { { SQL_NONE }, "", false, apply_lease },
	[BACKEND_LOCK] = { { SQL_NONE }, "", false, apply_lock },
	[BACKEND_SETTING] = { { SQL_SETTING_DELETE, SQL_SETTING_PUT, SQL_SETTING_COUNT },
			      "nD",
			      false,
			      apply_setting },
};

static int apply_recipe(struct sqlite_conn *conn, const struct recipe *recipe,
			const struct backend_op *op)
{
	int r = 0;

	for (const enum sqlite_sql *sql = recipe->statements; r == 0 && *sql != SQL_NONE; sql++)
		r = sqlite_conn_op(conn, *sql, recipe->fields, op, NULL);
	return r;
}

/* An insert that turns into an update has the old row, the new one, and two records in memory: for
 * a large one it is better done in steps. */
static int apply_row_put(struct sqlite_conn *conn, const struct backend_op *op)
{
	const char *fields = recipes[BACKEND_ROW_PUT].fields;
	int r;

	if (op->data.size < ROW_LARGE)
		return apply_recipe(conn, &recipes[BACKEND_ROW_PUT], op);
	r = sqlite_conn_op(conn, SQL_ROW_SAME, "sk@D", op, NULL);
	if (r != 0)
		return MIN(r, 0);
	r = sqlite_conn_op(conn, SQL_ROW_UPDATE, fields, op, NULL);
	return r < 0 || sqlite3_changes(conn->db) > 0 ?
		       r :
		       sqlite_conn_op(conn, SQL_ROW_ENSURE, fields, op, NULL);
}

static int apply_row_delete(struct sqlite_conn *conn, const struct backend_op *op)
{
	return op->created ? sqlite_conn_op(conn, SQL_ROW_DELETE_LATER, "sk@tc", op, NULL) :
			     apply_recipe(conn, &recipes[BACKEND_ROW_DELETE], op);
}

static int put_node(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_node *node)
{
	return sqlite_conn_ask(
		conn, sql,
		SQL_VALUES(sql_id(node->ino), sql_id(node->parent), sql_id(node->entry),
			   sql_number(node->kind), sql_number(node->flags), sql_number(node->mode),
			   sql_number(node->uid), sql_number(node->gid), sql_number(node->nlink),
			   sql_id(node->rdev), sql_id(node->size), sql_number(node->atime),
			   sql_number(node->mtime), sql_number(node->ctime),
			   sql_number(node->btime), sql_text(node->session), sql_text(node->key),
			   sql_blob(node->target), sql_id(node->generation)),
		NULL);
}

/* That a number is used stays in the store when its node does not: many are noted at once, in the
 * transaction that uses the first of them. */
static int note_ino(struct sqlite_conn *conn, uint64_t ino)
{
	const struct backend_op op = { .ino = MIN(ino, (uint64_t)INT64_MAX - INOS_NOTED) +
					      INOS_NOTED - 1 };
	uint64_t *noted = &conn->store->ino_noted;
	int64_t leased = 0;
	int r = 0;

	if (ino > *noted)
		r = sqlite_conn_number(conn, SQL_LEASED_INO, &leased);
	*noted = MAX(*noted, (uint64_t)leased);
	if (r < 0 || ino <= *noted)
		return r;
	r = sqlite_conn_op(conn, SQL_INO_NOTE, "i", &op, NULL);
	if (r == 0)
		*noted = op.ino;
	return r;
}

static int apply_guard(struct sqlite_conn *conn, const struct backend_op *op)
{
	_cleanup_(backend_node_done) struct backend_node orphan = { 0 };
	int r;

	if (!op->session.data && op->ino)
		return op->at == BACKEND_UNUSED ? sqlite_uses_exclude(conn->store, op->ino) : 0;
	if (!op->session.data)
		return sqlite_mounts_shared(conn->store) ? -ESTALE : 0;
	r = op->at ? sqlite_read_orphan(conn, op->session, op->key, &orphan) : -ENOENT;
	return r == -ENOENT ? 0 : r < 0 ? r : -EEXIST;
}

static int apply_lock(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r = op->at ? sqlite_locks_judge(conn, op->ino, op->data) : 0;

	return r < 0 ? r :
		       sqlite_conn_ask(conn, op->data.size ? SQL_LOCK_PUT : SQL_LOCK_DELETE,
				       SQL_VALUES(sql_id(op->ino),
						  sql_id(conn->store->mounts.number),
						  sql_blob(op->data)),
				       NULL);
}

static int apply_lease(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct backend_op noted = { .ino = op->ino + (uint64_t)op->to,
					  .at = op->at + op->to };
	int64_t ino = 0, entry = 0;
	int r = sqlite_conn_number(conn, SQL_LEASED_INO, &ino);

	if (r == 0)
		r = sqlite_conn_number(conn, SQL_LEASED_ENTRY, &entry);
	if (r == 0 && ((uint64_t)ino > op->ino || entry > op->at))
		return -ESTALE;
	if (r == 0)
		r = sqlite_conn_op(conn, SQL_INO_NOTE, "i", &noted, NULL);
	if (r == 0)
		r = sqlite_conn_op(conn, SQL_ENTRY_NOTE, "@", &noted, NULL);
	return r;
}

static int apply_node_put(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r = put_node(conn, SQL_NODE_TOUCH, op->node);
	bool touched = r == 0 && sqlite3_changes(conn->db) > 0;

	if (r == 0 && !touched)
		r = note_ino(conn, op->node->ino);
	if (r == 0 && !touched)
		r = put_node(conn, SQL_NODE_PUT, op->node);
	return r;
}

static int apply_node_set(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct backend_node *node = op->node;
	const struct backend_op links = { .ino = node->ino, .to = op->to };
	int r = sqlite_conn_ask(conn, SQL_NODE_SET,
				SQL_VALUES(sql_id(node->ino), sql_number(op->at),
					   sql_number(node->atime), sql_number(node->mtime),
					   sql_number(node->ctime), sql_number(node->mode),
					   sql_number(node->uid), sql_number(node->gid),
					   sql_id(node->generation)),
				NULL);

	return r < 0 || !op->to ? r : sqlite_conn_op(conn, SQL_NODE_LINKS, "it", &links, NULL);
}

static int apply_change_done(struct sqlite_conn *conn, const struct backend_op *op)
{
	if (op->session.data)
		return sqlite_conn_op(conn, SQL_CHANGE_DONE, "sk@", op, NULL);
	return sqlite_conn_op(conn,
			      conn->store->mode == MODE_ASIDE ? SQL_DIGESTED_SET :
								SQL_EVERYTHING_DONE,
			      "@", op, NULL);
}

static int apply_setting(struct sqlite_conn *conn, const struct backend_op *op)
{
	return bytes_equal(op->name, BYTES("table")) ?
		       sqlite_setting_table(conn, op->data) :
		       apply_recipe(conn, &recipes[BACKEND_SETTING], op);
}

static int check_op(const struct sqlite *store, const struct backend_op *op)
{
	if ((unsigned)op->type >= BACKEND_OP_TYPES)
		return -EINVAL;
	if (recipes[op->type].rows ? store->mode != MODE_WHOLE : store->rows_only)
		return -EROFS;
	if (op->data.size > store->backend.max_item)
		return -EFBIG;
	if (op->type == BACKEND_CHUNK_PUT && op->data.size > BACKEND_CHUNK)
		return -EINVAL;
	return 0;
}

static int apply_op(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct recipe *recipe;
	int r = check_op(conn->store, op);

	if (r == 0)
		r = sqlite_past_keep(conn, op);
	if (r < 0)
		return r;
	recipe = &recipes[op->type];
	return recipe->apply ? recipe->apply(conn, op) : apply_recipe(conn, recipe, op);
}

/* Whether the next SQLITE_ROWS operations append to one list, at this time. */
static bool are_rows(const struct backend_op *ops, size_t count)
{
	for (size_t i = 0; i < SQLITE_ROWS; i++) {
		const struct backend_op *op = &ops[i];

		if (i == count || op->type != BACKEND_ROW_INSERT || op->created || op->updated ||
		    op->version || (uint64_t)op->at - (uint64_t)ops->at != i ||
		    !bytes_equal(op->session, ops->session) || !bytes_equal(op->key, ops->key))
			return false;
	}
	return true;
}

/* In one statement that takes half the time: the place in the tables is looked for once. */
static int apply_rows(struct sqlite_conn *conn, const struct backend_op *ops)
{
	struct sql_value values[SQLITE_ROWS + 5];
	size_t count = op_values("sk@DCU", ops, values); /* and then the data of the others */
	int r = 0;

	for (size_t i = 0; r == 0 && i < SQLITE_ROWS; i++)
		r = check_op(conn->store, &ops[i]);
	for (size_t i = 1; i < SQLITE_ROWS; i++)
		values[count++] = op_value('D', &ops[i]);
	return r < 0 ? r : sqlite_conn_ask(conn, SQL_ROWS_INSERT, values, count, NULL);
}

int sqlite_apply(struct sqlite_conn *conn, const struct backend_op *ops, size_t count)
{
	/* With triggers, SQLite would hold all of them at once. */
	bool rows = !conn->store->writer_triggers && conn->store->layout.has_created &&
		    are_rows(ops, count);
	int r = rows ? apply_rows(conn, ops) : apply_op(conn, ops);

	return r < 0 ? r : rows ? SQLITE_ROWS : 1;
}
