/* SPDX-License-Identifier: MIT */
/* Nodes, what belongs to them, and the rows of a key. */
#include <errno.h>

#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/rows/read.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/rows/times.h"
#include "backend/base/cleanup.h"

enum { COLUMNS_OF_NODE = 19 }; /* in front of what else a statement returns */

/* Borrows from the statement. */
static struct backend_node node_at(struct cursor *cursor)
{
	return (struct backend_node){
		.ino = (uint64_t)cursor_number(cursor, 0),
		.parent = (uint64_t)cursor_number(cursor, 1),
		.entry = (uint64_t)cursor_number(cursor, 2),
		.kind = (uint32_t)cursor_number(cursor, 3),
		.flags = (uint32_t)cursor_number(cursor, 4),
		.mode = (uint32_t)cursor_number(cursor, 5),
		.uid = (uint32_t)cursor_number(cursor, 6),
		.gid = (uint32_t)cursor_number(cursor, 7),
		.nlink = (uint32_t)cursor_number(cursor, 8),
		.rdev = (uint64_t)cursor_number(cursor, 9),
		.size = (uint64_t)cursor_number(cursor, 10),
		.atime = cursor_number(cursor, 11),
		.mtime = cursor_number(cursor, 12),
		.ctime = cursor_number(cursor, 13),
		.btime = cursor_number(cursor, 14),
		.session = cursor_bytes(cursor, 15),
		.key = cursor_bytes(cursor, 16),
		.target = cursor_bytes(cursor, 17),
		.generation = (uint64_t)cursor_number(cursor, 18),
	};
}

/* The one node that the cursor leads to; id too, if asked for. */
static int one_node(struct cursor *cursor, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct backend_node node;

	if (cursor_only(cursor, -ENOENT)) {
		node = node_at(cursor);
		cursor->r = backend_node_copy(&node, ret_node);
		if (cursor->r == 0 && ret_id)
			*ret_id = (uint64_t)cursor_number(cursor, COLUMNS_OF_NODE);
	}
	return cursor_end(cursor);
}

int sqlite_read_node(struct sqlite_conn *conn, uint64_t ino, struct backend_node *ret_node)
{
	struct cursor cursor = cursor_open(conn, SQL_NODE_GET, SQL_VALUES(sql_id(ino)));

	return one_node(&cursor, NULL, ret_node);
}

int sqlite_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct backend_node *ret_node)
{
	return sqlite_read_node(&snapshot->conn, ino, ret_node);
}

int sqlite_read_orphan(struct sqlite_conn *conn, struct bytes session, struct bytes key,
		       struct backend_node *ret_node)
{
	struct cursor cursor =
		cursor_open(conn, SQL_ORPHAN_FIND, SQL_VALUES(sql_given(session), sql_given(key)));

	return one_node(&cursor, NULL, ret_node);
}

int sqlite_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, key.data ? SQL_NODE_FIND_KEY : SQL_NODE_FIND_SESSION,
			    SQL_VALUES(sql_given(session), sql_given(key)));

	return one_node(&cursor, NULL, ret_node);
}

int sqlite_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		     bool orphans_only, backend_node_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, orphans_only ? SQL_NODE_LIST_ORPHANS : SQL_NODE_LIST,
			    SQL_VALUES(sql_id(after)));

	cursor.least = sql_behind(after);
	while (cursor_next(&cursor)) {
		struct backend_node node = node_at(&cursor);

		if (cursor_in_order(&cursor, (int64_t)node.ino))
			cursor.r = fn(arg, &node);
	}
	return cursor_end(&cursor);
}

int sqlite_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_ENTRY_FIND,
					   SQL_VALUES(sql_id(parent), sql_blob(bytes_given(name))));

	return one_node(&cursor, ret_id, ret_node);
}

int sqlite_read_entry(struct sqlite_conn *conn, uint64_t parent, uint64_t id, struct buf *name,
		      uint64_t *ret_node)
{
	struct cursor cursor =
		cursor_open(conn, SQL_ENTRY_NAME, SQL_VALUES(sql_id(parent), sql_id(id)));

	if (cursor_only(&cursor, -ENOENT)) {
		cursor.r = buf_append_bytes(name, cursor_bytes(&cursor, 0));
		*ret_node = (uint64_t)cursor_number(&cursor, 1);
	}
	return cursor_end(&cursor);
}

int sqlite_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t id, struct buf *name)
{
	uint64_t node;

	return sqlite_read_entry(&snapshot->conn, parent, id, name, &node);
}

int sqlite_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t after, backend_entry_fn *fn, void *arg)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_ENTRY_LIST,
					   SQL_VALUES(sql_id(parent), sql_id(after)));

	cursor.least = sql_behind(after);
	while (cursor_next(&cursor)) {
		struct backend_node node = node_at(&cursor);
		struct backend_entry entry = {
			.parent = parent,
			.id = (uint64_t)cursor_number(&cursor, COLUMNS_OF_NODE),
			.name = cursor_bytes(&cursor, COLUMNS_OF_NODE + 1),
			.ino = node.ino,
		};

		if (cursor_in_order(&cursor, (int64_t)entry.id))
			cursor.r = fn(arg, &entry, &node);
	}
	return cursor_end(&cursor);
}

int sqlite_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     struct bytes name, struct buf *value)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_XATTR_GET,
					   SQL_VALUES(sql_id(ino), sql_blob(bytes_given(name))));

	if (cursor_only(&cursor, -ENODATA))
		cursor.r = buf_append_bytes(value, cursor_bytes(&cursor, 0));
	return cursor_end(&cursor);
}

int sqlite_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      backend_name_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, SQL_XATTR_LIST, SQL_VALUES(sql_id(ino)));

	while (cursor_next(&cursor))
		cursor.r = fn(arg, cursor_bytes(&cursor, 0));
	return cursor_end(&cursor);
}

int sqlite_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, SQL_CHUNK_READ,
			    SQL_VALUES(sql_id(ino), sql_number(first), sql_number(last)));

	cursor.least = first;
	while (cursor_next(&cursor))
		if (cursor_in_order(&cursor, cursor_number(&cursor, 0)))
			cursor.r = fn(arg, cursor_number(&cursor, 0), cursor_bytes(&cursor, 1));
	return cursor_end(&cursor);
}

int sqlite_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_CHUNK_LIST,
					   SQL_VALUES(sql_id(ino), sql_number(first)));

	cursor.least = first;
	while (cursor_next(&cursor)) {
		int64_t chunk = cursor_number(&cursor, 0);

		if (cursor_number(&cursor, 2) != sqlite_clip(ino) || chunk > last)
			break;
		if (cursor_in_order(&cursor, chunk))
			cursor.r = fn(arg, chunk, (size_t)cursor_number(&cursor, 1));
	}
	return cursor_end(&cursor);
}

int sqlite_row_read(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		    void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, SQL_ROW_READ,
			    SQL_VALUES(sql_given(session), sql_given(key), sql_number(first)));

	cursor.least = first;
	while (cursor_next(&cursor)) {
		/* Another program can put 1.5 or 'x' there; check() tells of it. */
		if (sqlite3_column_type(cursor.statement, 0) != SQLITE_INTEGER)
			continue;
		if (cursor_in_order(&cursor, cursor_number(&cursor, 0)))
			cursor.r = fn(arg, cursor_number(&cursor, 0), cursor_bytes(&cursor, 1));
	}
	return cursor_end(&cursor);
}

/* The order is that of the numbers with all bits turned. */
int sqlite_row_read_back(struct backend *backend, struct backend_snapshot *snapshot,
			 struct bytes session, struct bytes key, int64_t last, uint64_t most,
			 backend_row_fn *fn, void *arg)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_ROW_READ_BACK,
					   SQL_VALUES(sql_given(session), sql_given(key),
						      sql_number(last), sql_id(most)));

	cursor.least = ~last;
	while (cursor_next(&cursor))
		if (cursor_in_order(&cursor, ~cursor_number(&cursor, 0)))
			cursor.r = fn(arg, cursor_number(&cursor, 0), cursor_bytes(&cursor, 1));
	return cursor_end(&cursor);
}

int sqlite_tell_times(struct cursor *cursor, int64_t from, bool back, backend_row_time_fn *fn,
		      void *arg)
{
	cursor->least = back ? ~from : from;
	while (cursor_next(cursor)) {
		int64_t at = cursor_number(cursor, 0);

		if (cursor_in_order(cursor, back ? ~at : at))
			cursor->r = fn(arg, at,
				       (struct backend_times){
					       sqlite_stamp_read(cursor->statement, 2),
					       sqlite_stamp_read(cursor->statement, 3) },
				       cursor_bytes(cursor, 1));
	}
	return cursor_end(cursor);
}

int sqlite_row_read_times(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, int64_t from, bool back,
			  uint64_t most, backend_row_time_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, back ? SQL_ROW_TIMES_BACK : SQL_ROW_TIMES,
			    SQL_VALUES(sql_given(session), sql_given(key), sql_number(from),
				       sql_id(most)));

	return sqlite_tell_times(&cursor, from, back, fn, arg);
}

int sqlite_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	struct cursor cursor = cursor_open(&snapshot->conn, SQL_KEY_FIRST,
					   SQL_VALUES(sql_given(session), sql_given(key)));
	int64_t first = 0;
	int r;

	if (cursor_only(&cursor, -ENOENT))
		first = cursor_number(&cursor, 0);
	r = cursor_end(&cursor);
	if (r < 0)
		return r;
	cursor = cursor_open(&snapshot->conn, SQL_KEY_LAST,
			     SQL_VALUES(sql_given(session), sql_given(key)));
	if (cursor_only(&cursor, -ENOENT))
		*ret_stat = (struct backend_key_stat){
			.first = first,
			.last = cursor_number(&cursor, 0),
			.created = sqlite_stamp_read(cursor.statement, 1),
			.updated = sqlite_stamp_read(cursor.statement, 2),
		};
	return cursor_end(&cursor);
}

int sqlite_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, SQL_PIECE_READ,
			    SQL_VALUES(sql_id(ino), sql_number(first), sql_number(first_seq)));

	cursor.least = first;
	while (cursor_next(&cursor))
		if (cursor_in_order(&cursor, cursor_number(&cursor, 0)))
			cursor.r = fn(arg, cursor_number(&cursor, 0), cursor_number(&cursor, 1),
				      cursor_bytes(&cursor, 2));
	return cursor_end(&cursor);
}

static int find_mark(struct backend_snapshot *snapshot, enum sqlite_sql sql, uint64_t ino,
		     int64_t position, struct backend_mark *ret_mark)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, sql, SQL_VALUES(sql_id(ino), sql_number(position)));
	struct backend_mark mark;

	if (cursor_only(&cursor, -ENOENT)) {
		mark = (struct backend_mark){ .offset = (uint64_t)cursor_number(&cursor, 0),
					      .index = cursor_number(&cursor, 1) };
		/* As in cursor_in_order(); and an offset below 0 would be one behind all others. */
		if (mark.offset > INT64_MAX ||
		    (sql == SQL_MARK_FIND ? (int64_t)mark.offset : mark.index) > position)
			cursor.r = sqlite_result(cursor.conn, SQLITE_CORRUPT);
		else
			*ret_mark = mark;
	}
	return cursor_end(&cursor);
}

int sqlite_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     uint64_t offset, struct backend_mark *ret_mark)
{
	return find_mark(snapshot, SQL_MARK_FIND, ino, sqlite_clip(offset), ret_mark);
}

int sqlite_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t index, struct backend_mark *ret_mark)
{
	return find_mark(snapshot, SQL_MARK_FIND_INDEX, ino, index, ret_mark);
}

int sqlite_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		    uint64_t *ret_entry)
{
	int64_t ino = 0, entry = 0, leased = 0;
	int r = sqlite_conn_number(&snapshot->conn, SQL_LAST_INO, &ino);

	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_LAST_ENTRY, &entry);
	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_LEASED_ENTRY, &leased);
	if (r < 0)
		return r;
	*ret_ino = (uint64_t)ino;
	*ret_entry = (uint64_t)MAX(entry, leased);
	return 0;
}
