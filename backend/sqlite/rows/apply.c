/* SPDX-License-Identifier: MIT */
/* Operations of a batch as SQL. */
#include <errno.h>

#include "backend/fields.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/feed.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/rows/past.h"
#include "backend/sqlite/rows/read.h"
#include "backend/sqlite/store/setting.h"
#include "backend/sqlite/rows/shift.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/rows/times.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/cleanup.h"

enum {
	ROW_LARGE = 1 << 20, /* bytes of a row that is not to be held many times */
	INOS_NOTED = 1024,   /* inode numbers that are noted as used at once */
};

typedef int apply_fn(struct sqlite_conn *conn, const struct backend_op *op, const char *now);

/* How an operation becomes SQL: the statements, and the fields that are their parameters from ?1
 * on. */
struct recipe {
	enum sqlite_sql statements[8]; /* ends with SQL_NONE */
	const char *fields;
	bool rows;	 /* changes the rows' table */
	apply_fn *apply; /* instead */
};

static apply_fn apply_row_put, apply_row_delete, apply_past, apply_shift, apply_node_put,
	apply_node_set, apply_change_done, apply_guard, apply_lease, apply_lock, apply_setting;

static const struct recipe recipes[BACKEND_OP_TYPES] = {
	[BACKEND_ROW_INSERT] = { { SQL_ROW_INSERT }, "sk@DCUv", true, NULL },
	[BACKEND_ROW_PUT] = { { SQL_ROW_PUT }, "sk@DCUv", true, apply_row_put },
	[BACKEND_ROW_DELETE] = { { SQL_ROW_DELETE }, "sk@t", true, apply_row_delete },
	[BACKEND_KEY_MOVE] = { { SQL_KEY_CLEAR_TARGET, SQL_KEY_MOVE }, "skSKv", true, NULL },
	[BACKEND_ROWS_SHIFT] = { { SQL_NONE }, "", true, apply_shift },
	[BACKEND_KEY_HIDE] = { { SQL_TRASH_MAKE, SQL_KEY_HIDE, SQL_KEY_HIDDEN },
			       "ski",
			       true,
			       NULL },
	[BACKEND_KEY_SHOW] = { { SQL_TRASH_MAKE, SQL_KEY_SHOW, SQL_KEY_SHOWN },
			       "skiv",
			       true,
			       NULL },
	[BACKEND_HIDDEN_DELETE] = { { SQL_TRASH_MAKE, SQL_HIDDEN_DELETE }, "i@t", true, NULL },
	[BACKEND_PAST_COPY] = { { SQL_NONE }, "", true, apply_past },
	[BACKEND_ROWS_COPY] = { { SQL_NONE }, "", true, apply_past },
	[BACKEND_PAST_NOTE] = { { SQL_NONE }, "", true, apply_past },
	[BACKEND_PAST_MERGE] = { { SQL_NONE }, "", true, apply_past },
	[BACKEND_PAST_SAME] = { { SQL_NONE }, "", true, apply_past },
	[BACKEND_PAST_FORGET] = { { SQL_NONE }, "", true, apply_past },
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

/* Tables without times or versions have no parameter for them; SQLite then says no, and we do not
 * mind. */
static void bind_time(sqlite3_stmt *statement, int index, int64_t time, const char *now)
{
	char stamp[SQLITE_STAMP];

	if (!time) {
		sqlite_bind_text(statement, index, bytes_str(now));
		return;
	}
	sqlite_stamp(time, stamp);
	sqlite3_bind_text(statement, index, stamp, -1, SQLITE_TRANSIENT);
}

static void bind_field(sqlite3_stmt *statement, int index, char letter, const struct backend_op *op,
		       const char *now)
{
	const struct op_field *field = op_fields;
	const void *at;

	while (field->letter != letter)
		field++;
	at = (const char *)op + field->offset;
	switch (field->as) {
	case AS_TEXT:
		sqlite_bind_text(statement, index, *(const struct bytes *)at);
		break;
	case AS_BLOB:
		sqlite_bind_blob(statement, index, *(const struct bytes *)at);
		break;
	case AS_TIME:
		bind_time(statement, index, *(const int64_t *)at, now);
		break;
	case AS_SIGNED:
		sqlite3_bind_int64(statement, index, *(const int64_t *)at);
		break;
	case AS_UNSIGNED:
		sqlite3_bind_int64(statement, index, sqlite_clip(*(const uint64_t *)at));
		break;
	}
}

static int apply_recipe(struct sqlite_conn *conn, const struct recipe *recipe,
			const struct backend_op *op, const char *now)
{
	int r = 0;

	for (const enum sqlite_sql *sql = recipe->statements; r == 0 && *sql != SQL_NONE; sql++) {
		sqlite3_stmt *statement = sqlite_conn_take(conn, *sql, &r);

		if (!statement)
			return r;
		for (int i = 0; recipe->fields[i]; i++)
			bind_field(statement, i + 1, recipe->fields[i], op, now);
		r = sqlite_conn_finish(conn, statement);
	}
	return r;
}

static int row_is_same(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r = 0, code;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_ROW_SAME, &r);

	if (!statement)
		return r;
	for (int i = 0; "sk@D"[i]; i++)
		bind_field(statement, i + 1, "sk@D"[i], op, NULL);
	code = sqlite3_step(statement);
	r = sqlite_result(conn, code);
	sqlite3_reset(statement);
	return r < 0 ? r : code == SQLITE_ROW;
}

/* An insert that turns into an update has the old row, the new one, and two records in memory: for
 * a large one it is better done in steps. */
static int apply_row_put(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	static const struct recipe update = { { SQL_ROW_UPDATE }, "sk@DCUv", true, NULL };
	static const struct recipe ensure = { { SQL_ROW_ENSURE }, "sk@DCUv", true, NULL };
	int r;

	if (op->data.size < ROW_LARGE)
		return apply_recipe(conn, &recipes[BACKEND_ROW_PUT], op, now);
	r = row_is_same(conn, op);
	if (r != 0)
		return MIN(r, 0);
	r = apply_recipe(conn, &update, op, now);
	if (r < 0 || sqlite3_changes(conn->db) > 0)
		return r;
	return apply_recipe(conn, &ensure, op, now);
}

static int apply_row_delete(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	return op->created ? sqlite_past_delete_later(conn, op) :
			     apply_recipe(conn, &recipes[BACKEND_ROW_DELETE], op, now);
}

static int apply_shift(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	(void)now;
	return sqlite_shift(conn, op);
}

static int apply_past(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	return sqlite_past_apply(conn, op, now);
}

static void bind_optional(sqlite3_stmt *statement, int index, struct bytes text, bool blob)
{
	if (!text.data)
		sqlite3_bind_null(statement, index);
	else if (blob)
		sqlite_bind_blob(statement, index, text);
	else
		sqlite_bind_text(statement, index, text);
}

static int put_node(struct sqlite_conn *conn, enum sqlite_sql sql, const struct backend_node *node)
{
	const int64_t numbers[] = {
		sqlite_clip(node->ino),
		sqlite_clip(node->parent),
		sqlite_clip(node->entry),
		node->kind,
		node->flags,
		node->mode,
		node->uid,
		node->gid,
		node->nlink,
		sqlite_clip(node->rdev),
		sqlite_clip(node->size),
		node->atime,
		node->mtime,
		node->ctime,
		node->btime,
	};
	int r = 0, index = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, sql, &r);

	if (!statement)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sqlite3_bind_int64(statement, ++index, numbers[i]);
	bind_optional(statement, ++index, node->session, false);
	bind_optional(statement, ++index, node->key, false);
	bind_optional(statement, ++index, node->target, true);
	sqlite3_bind_int64(statement, ++index, sqlite_clip(node->generation));
	return sqlite_conn_finish(conn, statement);
}

/* That a number is used stays in the store when its node does not: many are noted at once, in the
 * transaction that uses the first of them. */
static int note_ino(struct sqlite_conn *conn, uint64_t ino)
{
	const struct backend_op op = { .ino = MIN(ino, (uint64_t)INT64_MAX - INOS_NOTED) +
					      INOS_NOTED - 1 };
	static const struct recipe note = { { SQL_INO_NOTE }, "i", false, NULL };
	uint64_t *noted = &conn->store->ino_noted;
	int64_t leased = 0;
	int r = 0;

	if (ino > *noted)
		r = sqlite_conn_number(conn, SQL_LEASED_INO, &leased);
	*noted = MAX(*noted, (uint64_t)leased);
	if (r < 0 || ino <= *noted)
		return r;
	r = apply_recipe(conn, &note, &op, NULL);
	if (r == 0)
		*noted = op.ino;
	return r;
}

static int apply_guard(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	_cleanup_(backend_node_done) struct backend_node orphan = { 0 };
	int r;

	(void)now;
	if (!op->session.data && op->ino)
		return op->at == BACKEND_UNUSED ? sqlite_uses_exclude(conn->store, op->ino) : 0;
	if (!op->session.data)
		return sqlite_mounts_shared(conn->store) ? -ESTALE : 0;
	r = op->at ? sqlite_read_orphan(conn, op->session, op->key, &orphan) : -ENOENT;
	return r == -ENOENT ? 0 : r < 0 ? r : -EEXIST;
}

static int apply_lock(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	enum sqlite_sql sql = op->data.size ? SQL_LOCK_PUT : SQL_LOCK_DELETE;
	sqlite3_stmt *statement;
	int r = op->at ? sqlite_locks_judge(conn, op->ino, op->data) : 0;

	(void)now;
	if (r < 0)
		return r;
	statement = sqlite_conn_take(conn, sql, &r);
	if (!statement)
		return r;
	sqlite3_bind_int64(statement, 1, sqlite_clip(op->ino));
	sqlite3_bind_int64(statement, 2, (int64_t)conn->store->mounts.number);
	if (op->data.size)
		sqlite_bind_blob(statement, 3, op->data);
	return sqlite_conn_finish(conn, statement);
}

static int apply_lease(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	static const struct recipe note_ino = { { SQL_INO_NOTE }, "i", false, NULL };
	static const struct recipe note_entry = { { SQL_ENTRY_NOTE }, "@", false, NULL };
	const struct backend_op noted = { .ino = op->ino + (uint64_t)op->to,
					  .at = op->at + op->to };
	int64_t ino = 0, entry = 0;
	int r = sqlite_conn_number(conn, SQL_LEASED_INO, &ino);

	if (r == 0)
		r = sqlite_conn_number(conn, SQL_LEASED_ENTRY, &entry);
	if (r == 0 && ((uint64_t)ino > op->ino || entry > op->at))
		return -ESTALE;
	if (r == 0)
		r = apply_recipe(conn, &note_ino, &noted, now);
	if (r == 0)
		r = apply_recipe(conn, &note_entry, &noted, now);
	return r;
}

static int apply_node_put(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	int r = put_node(conn, SQL_NODE_TOUCH, op->node);
	bool touched = r == 0 && sqlite3_changes(conn->db) > 0;

	(void)now;
	if (r == 0 && !touched)
		r = note_ino(conn, op->node->ino);
	if (r == 0 && !touched)
		r = put_node(conn, SQL_NODE_PUT, op->node);
	return r;
}

static int apply_node_set(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	const struct backend_node *node = op->node;
	const int64_t numbers[] = {
		sqlite_clip(node->ino),
		op->at,
		node->atime,
		node->mtime,
		node->ctime,
		node->mode,
		node->uid,
		node->gid,
		sqlite_clip(node->generation),
	};
	static const struct recipe recipe = { { SQL_NODE_LINKS }, "it", false, NULL };
	const struct backend_op links = { .ino = node->ino, .to = op->to };
	int r = 0;
	sqlite3_stmt *statement = sqlite_conn_take(conn, SQL_NODE_SET, &r);

	if (!statement)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sqlite3_bind_int64(statement, (int)i + 1, numbers[i]);
	r = sqlite_conn_finish(conn, statement);
	return r < 0 || !op->to ? r : apply_recipe(conn, &recipe, &links, now);
}

static int apply_change_done(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	static const struct recipe one = { { SQL_CHANGE_DONE }, "sk@", false, NULL };
	static const struct recipe everything = { { SQL_EVERYTHING_DONE }, "@", false, NULL };
	static const struct recipe aside = { { SQL_DIGESTED_SET }, "@", false, NULL };

	if (op->session.data)
		return apply_recipe(conn, &one, op, now);
	if (conn->store->mode == MODE_ASIDE)
		return apply_recipe(conn, &aside, op, now);
	return apply_recipe(conn, &everything, op, now);
}

static int apply_setting(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	return bytes_equal(op->name, BYTES("table")) ?
		       sqlite_setting_table(conn, op->data) :
		       apply_recipe(conn, &recipes[BACKEND_SETTING], op, now);
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

static int apply_op(struct sqlite_conn *conn, const struct backend_op *op, const char *now)
{
	const struct recipe *recipe;
	int r = check_op(conn->store, op);

	if (r == 0)
		r = sqlite_past_keep(conn, op, now);
	if (r < 0)
		return r;
	recipe = &recipes[op->type];
	return recipe->apply ? recipe->apply(conn, op, now) : apply_recipe(conn, recipe, op, now);
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
static int apply_rows(struct sqlite_conn *conn, const struct backend_op *ops, const char *now)
{
	static const char first[] = "sk@DCU"; /* and then the data of the others */
	const int count = sizeof(first) - 1;
	sqlite3_stmt *statement;
	int r = 0;

	for (size_t i = 0; r == 0 && i < SQLITE_ROWS; i++)
		r = check_op(conn->store, &ops[i]);
	if (r < 0)
		return r;
	statement = sqlite_conn_take(conn, SQL_ROWS_INSERT, &r);
	if (!statement)
		return r;
	for (int i = 0; i < count; i++)
		bind_field(statement, i + 1, first[i], ops, now);
	for (int i = 1; i < SQLITE_ROWS; i++)
		bind_field(statement, count + i, 'D', &ops[i], now);
	return sqlite_conn_finish(conn, statement);
}

int sqlite_apply(struct sqlite_conn *conn, const struct backend_op *ops, size_t count,
		 const char *now)
{
	/* With triggers, SQLite would hold all of them at once. */
	bool rows = !conn->store->writer_triggers && conn->store->layout.has_created &&
		    are_rows(ops, count);
	int r = rows ? apply_rows(conn, ops, now) : apply_op(conn, ops, now);

	return r < 0 ? r : rows ? SQLITE_ROWS : 1;
}
