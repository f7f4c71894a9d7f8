/* SPDX-License-Identifier: MIT */
/*
 * The tables of store.c, and how it runs statements on them.  The parameters of a statement are the
 * fields of an operation (:at) and of the node in it (@mode), by their names.
 */
#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/base/log.h"

/* clang-format off */
/* Rows with a holder are hidden, and are those of the node with this number; -1: they move. */
#define TABLE "CREATE TABLE IF NOT EXISTS "
#define INDEX "CREATE UNIQUE INDEX IF NOT EXISTS "
static const char schema[] =
	"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
	TABLE "rows(holder INT, session BLOB, key BLOB, at INT, data BLOB, created INT,"
	" updated INT, PRIMARY KEY(holder, session, key, at)) STRICT, WITHOUT ROWID;"
	TABLE "nodes(ino INTEGER PRIMARY KEY AUTOINCREMENT, parent INT, entry INT, kind INT,"
	" flags INT, mode INT, uid INT, gid INT, nlink INT, rdev INT, size INT, atime INT,"
	" mtime INT, ctime INT, btime INT, generation INT, session BLOB, key BLOB, target BLOB);"
	INDEX "sessions ON nodes(session, ino);"
	INDEX "dirs ON nodes(session) WHERE nlink>0 AND kind=1;"
	INDEX "files ON nodes(session, key) WHERE nlink>0 AND kind>1;"
	TABLE "entries(parent INT, id INT, name BLOB, ino INT, UNIQUE(parent, id),"
	" UNIQUE(parent, name));"
	TABLE "xattrs(ino INT, name BLOB, data BLOB, UNIQUE(ino, name));"
	TABLE "chunks(ino INT, at INT, data BLOB, UNIQUE(ino, at));"
	TABLE "pieces(ino INT, at INT NOT NULL, seq INT, data BLOB, UNIQUE(ino, at, seq));"
	TABLE "marks(ino INT, offset INT NOT NULL, at INT NOT NULL, UNIQUE(ino, offset));"
	TABLE "settings(name BLOB UNIQUE, data BLOB);"
	"INSERT OR IGNORE INTO nodes VALUES(@ino,@parent,0,0,0,@mode,@uid,@gid,@nlink,0,0,"
	"@atime,@mtime,@ctime,@btime,0,NULL,NULL,NULL)";

struct field {
	const char *name;
	size_t offset, size;
};
#define OP(field) { ":" #field, offsetof(struct backend_op, field), \
		    sizeof(((struct backend_op *)0)->field) }
#define NODE(field) { "@" #field, offsetof(struct backend_node, field), \
		      sizeof(((struct backend_node *)0)->field) }
/* Those of a node first, as the columns of its table. */
static const struct field fields[] = {
	NODE(ino), NODE(parent), NODE(entry), NODE(kind), NODE(flags), NODE(mode), NODE(uid),
	NODE(gid), NODE(nlink), NODE(rdev), NODE(size), NODE(atime), NODE(mtime), NODE(ctime),
	NODE(btime), NODE(generation), NODE(session), NODE(key), NODE(target),
	OP(ino), OP(parent), OP(offset), OP(at), OP(to), OP(seq), OP(created), OP(updated),
	OP(session), OP(key), OP(session_to), OP(key_to), OP(name), OP(data),
};
enum { COLUMNS = 19 }; /* of a node */
/* clang-format on */

static int error_of(sqlite3 *db, int code)
{
	if (code == SQLITE_OK || code == SQLITE_DONE)
		return 0;
	if (code == SQLITE_CONSTRAINT_NOTNULL || code == SQLITE_TOOBIG)
		return -EFBIG;
	if ((code & 0xff) == SQLITE_CONSTRAINT)
		return -EEXIST;
	if (code == SQLITE_NOMEM)
		return -ENOMEM;
	log_error("the store: %s", sqlite3_errmsg(db));
	return code == SQLITE_FULL ? -ENOSPC : (code & 0xff) == SQLITE_BUSY ? -EBUSY : -EIO;
}

static int bind(sqlite3_stmt *statement, const struct backend_op *op)
{
	int code = SQLITE_OK, count = sqlite3_bind_parameter_count(statement);

	for (int n = 1; code == SQLITE_OK && n <= count; n++) {
		const char *name = sqlite3_bind_parameter_name(statement, n);
		const struct field *field = fields;
		const void *from;

		while (strcmp(field->name, name) != 0)
			field++;
		from = (*name == '@' ? (const char *)op->node : (const char *)op) + field->offset;
		if (field->size == sizeof(struct bytes))
			code = sqlite3_bind_blob64(statement, n, ((const struct bytes *)from)->data,
						   ((const struct bytes *)from)->size, NULL);
		else
			code = sqlite3_bind_int64(statement, n,
						  field->size == sizeof(uint32_t) ?
							  *(const uint32_t *)from :
							  *(const int64_t *)from);
	}
	return code;
}

/* The next row: 1; 0: there is none. */
static int step(sqlite3_stmt *row)
{
	int code = sqlite3_step(row);

	return code == SQLITE_ROW ? 1 : error_of(sqlite3_db_handle(row), code);
}

static int prepare(sqlite3 *db, const char **sql, const struct backend_op *op, sqlite3_stmt **ret)
{
	int code = sqlite3_prepare_v2(db, *sql, -1, ret, sql);

	return error_of(db, code == SQLITE_OK ? bind(*ret, op) : code);
}

static int run(sqlite3 *db, const char *sql, const struct backend_op *op)
{
	int r = 0;

	while (r == 0 && *sql) {
		sqlite3_stmt *statement = NULL;

		r = prepare(db, &sql, op, &statement);
		while (r == 0 && (r = step(statement)) == 1)
			r = 0;
		sqlite3_finalize(statement);
	}
	return r;
}

static int connect(const char *path, sqlite3 **ret_db)
{
	int code = sqlite3_open(path, ret_db);

	sqlite3_extended_result_codes(*ret_db, 1);
	sqlite3_busy_timeout(*ret_db, 10000);
	return error_of(*ret_db, code);
}

static struct bytes bytes_of(sqlite3_stmt *row, int column)
{
	const void *data = sqlite3_column_blob(row, column);

	return bytes_make(data ? data : "", (size_t)sqlite3_column_bytes(row, column));
}

/* Its bytes are the row's. */
static struct backend_node *node_of(sqlite3_stmt *row, struct backend_node *node)
{
	for (int n = 0; n < COLUMNS; n++) {
		void *to = (char *)node + fields[n].offset;

		if (fields[n].size == sizeof(uint32_t))
			*(uint32_t *)to = (uint32_t)sqlite3_column_int64(row, n);
		else if (fields[n].size == sizeof(int64_t))
			*(int64_t *)to = sqlite3_column_int64(row, n);
		else if (sqlite3_column_type(row, n) != SQLITE_NULL)
			*(struct bytes *)to = bytes_of(row, n);
	}
	return node;
}

/* clang-format off */
/* A slot: what it answers when there is no row, what becomes of each row, the statement, and the
 * fields of an operation that are its parameters. */
#define SLOT(slot, parameters, nothing, each, sql, ...)                                            \
	static int slot(struct backend *backend, struct backend_snapshot *snapshot                 \
			SLOTS_BEHIND parameters)                                                   \
	{                                                                                          \
		const struct backend_op op = { __VA_ARGS__ };                                      \
		const char *text = sql;                                                            \
		sqlite3_stmt *row = NULL;                                                          \
		int r = prepare((sqlite3 *)snapshot, &text, &op, &row), rows = 0;                  \
		for (; r == 0 && (r = step(row)) == 1; rows++)                                     \
			r = (each);                                                                \
		sqlite3_finalize(row);                                                             \
		return r < 0 ? r : rows ? 0 : (nothing);                                           \
	}
#define A_NODE node_of(row, &(struct backend_node){ 0 })
#define NUMBER(column) sqlite3_column_int64(row, column)
#define BLOB(column) bytes_of(row, column)
#define A_STAT ((struct backend_key_stat){ NUMBER(0), NUMBER(1), NUMBER(2), NUMBER(3), 0 })
#define A_MARK ((struct backend_mark){ (uint64_t)NUMBER(0), NUMBER(1) })
/* clang-format on */
