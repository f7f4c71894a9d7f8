/* SPDX-License-Identifier: MIT */
/* Nodes, what belongs to them, and the rows of a key. */
#include "backend/sql/mounts.h"
#include "backend/sql/read.h"

#include <errno.h>

#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"

struct backend_node sql_node_at(const struct bytes *columns)
{
	return (struct backend_node){
		.ino = (uint64_t)sql_int(columns[0]),
		.parent = (uint64_t)sql_int(columns[1]),
		.entry = (uint64_t)sql_int(columns[2]),
		.kind = (uint32_t)sql_int(columns[3]),
		.flags = (uint32_t)sql_int(columns[4]),
		.mode = (uint32_t)sql_int(columns[5]),
		.uid = (uint32_t)sql_int(columns[6]),
		.gid = (uint32_t)sql_int(columns[7]),
		.nlink = (uint32_t)sql_int(columns[8]),
		.rdev = (uint64_t)sql_int(columns[9]),
		.size = (uint64_t)sql_int(columns[10]),
		.atime = sql_int(columns[11]),
		.mtime = sql_int(columns[12]),
		.ctime = sql_int(columns[13]),
		.btime = sql_int(columns[14]),
		.session = columns[15],
		.key = columns[16],
		.target = columns[17],
		.generation = (uint64_t)sql_int(columns[18]),
	};
}

struct bytes sql_present(const struct buf *buf)
{
	return bytes_make(buf->data ? buf->data : "", buf->size);
}

int sql_slot(const struct backend_node *node, struct buf *slot)
{
	int r;

	buf_clear(slot);
	if (!node->nlink || !node->session.data)
		return 0;
	if (node->kind == BACKEND_SESSION)
		return buf_append_byte(slot, 's');
	if (node->kind < BACKEND_SINGLE || !node->key.data)
		return 0;
	r = buf_append_byte(slot, 'k');
	return r < 0 ? r : buf_append_bytes(slot, node->key);
}

/* The one node that the cursor leads to; id too, if asked for. */
static int one_node(struct sql_cursor *cursor, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct backend_node node;

	if (sql_cursor_only(cursor, -ENOENT)) {
		node = sql_node_at(cursor->columns);
		cursor->r = backend_node_copy(&node, ret_node);
		if (cursor->r == 0 && ret_id)
			*ret_id = (uint64_t)sql_cursor_number(cursor, SQL_NODE_COLUMNS);
	}
	return sql_cursor_end(cursor);
}

int sql_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		 struct backend_node *ret_node)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_NODE_GET, SQL_VALUES(sql_id(ino)));

	return one_node(&cursor, NULL, ret_node);
}

int sql_node_find(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		  struct bytes key, struct backend_node *ret_node)
{
	const struct backend_node wanted = {
		.kind = key.data ? BACKEND_LIST : BACKEND_SESSION,
		.nlink = 1,
		.session = session,
		.key = key,
	};
	_cleanup_(buf_done) struct buf slot = { 0 };
	struct sql_cursor cursor;
	int r = sql_slot(&wanted, &slot);

	if (r < 0)
		return r;
	cursor = sql_cursor_open(snapshot, SQL_NODE_FIND,
				 SQL_VALUES(sql_blob(session), sql_blob(buf_bytes(&slot))));
	return one_node(&cursor, NULL, ret_node);
}

int sql_orphan_find(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_ORPHAN_FIND,
						   SQL_VALUES(sql_blob(session), sql_blob(key)));

	return one_node(&cursor, NULL, ret_node);
}

int sql_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		   struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_ENTRY_FIND,
						   SQL_VALUES(sql_id(parent), sql_blob(name)));

	return one_node(&cursor, ret_id, ret_node);
}

int sql_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		   uint64_t id, struct buf *name)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_ENTRY_NAME, SQL_VALUES(sql_id(parent), sql_id(id)));

	if (sql_cursor_only(&cursor, -ENOENT))
		cursor.r = buf_append_bytes(name, cursor.columns[0]);
	return sql_cursor_end(&cursor);
}

int sql_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		  struct bytes name, struct buf *value)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_XATTR_GET, SQL_VALUES(sql_id(ino), sql_blob(name)));

	if (sql_cursor_only(&cursor, -ENODATA))
		cursor.r = buf_append_bytes(value, cursor.columns[0]);
	return sql_cursor_end(&cursor);
}

int sql_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		   backend_name_fn *fn, void *arg)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_XATTR_LIST, SQL_VALUES(sql_id(ino)));

	while (sql_cursor_next(&cursor))
		cursor.r = fn(arg, cursor.columns[0]);
	return sql_cursor_end(&cursor);
}

int sql_setting_list(struct backend *backend, struct backend_snapshot *snapshot,
		     backend_setting_fn *fn, void *arg)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_SETTING_LIST, SQL_NO_VALUES);

	while (sql_cursor_next(&cursor))
		cursor.r = fn(arg, cursor.columns[0], cursor.columns[1]);
	return sql_cursor_end(&cursor);
}

int sql_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		 uint64_t *ret_entry)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_LAST_IDS, SQL_NO_VALUES);

	if (sql_cursor_only(&cursor, -EIO)) {
		*ret_ino = (uint64_t)sql_cursor_number(&cursor, 0);
		*ret_entry = (uint64_t)sql_cursor_number(&cursor, 1);
	}
	return sql_cursor_end(&cursor);
}

static int find_mark(struct backend_snapshot *snapshot, enum sql_text text, uint64_t ino,
		     int64_t position, struct backend_mark *ret_mark)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, text, SQL_VALUES(sql_id(ino), sql_number(position)));

	if (sql_cursor_only(&cursor, -ENOENT))
		*ret_mark =
			(struct backend_mark){ .offset = (uint64_t)sql_cursor_number(&cursor, 0),
					       .index = sql_cursor_number(&cursor, 1) };
	return sql_cursor_end(&cursor);
}

int sql_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		  uint64_t offset, struct backend_mark *ret_mark)
{
	return find_mark(snapshot, SQL_MARK_FIND, ino, (int64_t)MIN(offset, (uint64_t)INT64_MAX),
			 ret_mark);
}

int sql_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			int64_t index, struct backend_mark *ret_mark)
{
	return find_mark(snapshot, SQL_MARK_FIND_INDEX, ino, index, ret_mark);
}

/* What is read in pages. */

static int tell_node(const struct sql_pages *pages, const struct bytes *columns)
{
	const struct backend_node node = sql_node_at(columns);

	return pages->node(pages->arg, &node);
}

int sql_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		  bool orphans_only, backend_node_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = orphans_only ? SQL_NODE_LIST_ORPHANS : SQL_NODE_LIST,
		.row = tell_node,
		.node = fn,
		.arg = arg,
	};

	return sql_pages_read(snapshot, &pages, SQL_VALUES(SQL_PAGE(sql_behind(after), 0)));
}

static int tell_unused(const struct sql_pages *pages, const struct bytes *columns)
{
	const struct backend_node node = sql_node_at(columns);

	return sql_uses_guard(pages->store, node.ino) < 0 ? 0 : pages->node(pages->arg, &node);
}

int sql_orphan_list(struct backend *backend, struct backend_snapshot *snapshot, backend_node_fn *fn,
		    void *arg)
{
	struct sql *store = sql_of(backend);
	const struct sql_pages pages = {
		.text = SQL_ORPHAN_LIST,
		.row = tell_unused,
		.node = fn,
		.arg = arg,
		.store = store,
	};

	return sql_pages_read(snapshot, &pages, SQL_VALUES(SQL_PAGE(0, (int64_t)store->number)));
}

static bool next_entry(const struct bytes *columns, struct sql_value *values)
{
	return sql_pages_rising(&columns[SQL_NODE_COLUMNS], values);
}

static int tell_entry(const struct sql_pages *pages, const struct bytes *columns)
{
	const struct backend_node node = sql_node_at(columns);
	const struct backend_entry entry = {
		.parent = pages->parent,
		.id = (uint64_t)sql_int(columns[SQL_NODE_COLUMNS]),
		.name = columns[SQL_NODE_COLUMNS + 1],
		.ino = node.ino,
	};

	return pages->entry(pages->arg, &entry, &node);
}

int sql_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		   uint64_t after, backend_entry_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = SQL_ENTRY_LIST,
		.next = next_entry,
		.row = tell_entry,
		.entry = fn,
		.arg = arg,
		.parent = parent,
	};

	return sql_pages_read(snapshot, &pages,
			      SQL_VALUES(SQL_PAGE(sql_behind(after), 0), sql_id(parent)));
}

/* Rows and chunks are alike here. */
static int tell_chunk(const struct sql_pages *pages, const struct bytes *columns)
{
	return pages->chunk(pages->arg, sql_int(columns[0]), columns[1]);
}

static int tell_size(const struct sql_pages *pages, const struct bytes *columns)
{
	return pages->size(pages->arg, sql_int(columns[0]), (size_t)sql_int(columns[1]));
}

int sql_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		   int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = SQL_CHUNK_READ,
		.row = tell_chunk,
		.chunk = fn,
		.arg = arg,
	};

	return sql_pages_read(snapshot, &pages,
			      SQL_VALUES(SQL_PAGE(first, 0), sql_id(ino), sql_number(last)));
}

int sql_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		   int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = SQL_CHUNK_LIST,
		.row = tell_size,
		.size = fn,
		.arg = arg,
	};

	return sql_pages_read(snapshot, &pages,
			      SQL_VALUES(SQL_PAGE(first, 0), sql_id(ino), sql_number(last)));
}

static bool next_piece(const struct bytes *columns, struct sql_value *values)
{
	int64_t index = sql_int(columns[0]), seq = sql_int(columns[1]);
	bool last = seq == INT64_MAX;

	values[0] = sql_number(index + (last && index < INT64_MAX));
	values[1] = sql_number(last ? INT64_MIN : seq + 1);
	return !last || index < INT64_MAX;
}

static int tell_piece(const struct sql_pages *pages, const struct bytes *columns)
{
	return pages->piece(pages->arg, sql_int(columns[0]), sql_int(columns[1]), columns[2]);
}

int sql_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		   int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = SQL_PIECE_READ,
		.next = next_piece,
		.row = tell_piece,
		.piece = fn,
		.arg = arg,
	};

	return sql_pages_read(snapshot, &pages,
			      SQL_VALUES(SQL_PAGE(first, first_seq), sql_id(ino)));
}

/* Rows. */

int sql_row_read(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		 struct bytes key, int64_t first, backend_row_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = SQL_ROW_READ,
		.row = tell_chunk,
		.chunk = fn,
		.arg = arg,
	};

	return sql_pages_read(snapshot, &pages,
			      SQL_VALUES(SQL_PAGE(first, 0), sql_text(session), sql_text(key)));
}

int sql_row_read_back(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, int64_t last, uint64_t most,
		      backend_row_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = SQL_ROW_READ_BACK,
		.most = most,
		.next = sql_pages_falling,
		.row = tell_chunk,
		.chunk = fn,
		.arg = arg,
	};

	return most ? sql_pages_read(snapshot, &pages,
				     SQL_VALUES(SQL_PAGE(last, 0), sql_text(session),
						sql_text(key))) :
		      0;
}

int sql_row_read_times(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, int64_t from, bool back,
		       uint64_t most, backend_row_time_fn *fn, void *arg)
{
	const struct sql_pages pages = {
		.text = back ? SQL_ROW_TIMES_BACK : SQL_ROW_TIMES,
		.most = most,
		.next = back ? sql_pages_falling : NULL,
		.row = sql_pages_timed,
		.timed = fn,
		.arg = arg,
	};

	return most ? sql_pages_read(snapshot, &pages,
				     SQL_VALUES(SQL_PAGE(from, 0), sql_text(session),
						sql_text(key))) :
		      0;
}

struct backend_key_stat sql_key_stat_at(const struct bytes *columns)
{
	return (struct backend_key_stat){
		.first = sql_int(columns[0]),
		.last = sql_int(columns[1]),
		.created = sql_moment(columns[2]),
		.updated = sql_moment(columns[3]),
	};
}

int sql_key_stat(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		 struct bytes key, struct backend_key_stat *ret_stat)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, SQL_KEY_STAT,
						   SQL_VALUES(sql_text(session), sql_text(key)));

	if (sql_cursor_only(&cursor, -ENOENT))
		*ret_stat = sql_key_stat_at(cursor.columns);
	return sql_cursor_end(&cursor);
}
