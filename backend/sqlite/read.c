/* SPDX-License-Identifier: MIT */
/*
 * Reads.  A snapshot is a reader's connection with a read transaction: its first statement asks
 * whether others' changes wait and thereby fixes what all later ones see.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/days.h"
#include "backend/sqlite/internal.h"
#include "src/base/cleanup.h"

/*
 * MODE_ASIDE: the rows are in one file, what we know of them in another, and no transaction spans
 * both.  Our file holds the number that the watcher's data_version had before the rows were read
 * that it describes.  Our file is fixed first, then the rows, then the watcher is asked: if
 * its number is still the one in our file, the rows did not change in between.
 */
static int begin_aside(struct backend_snapshot *snapshot, bool *ret_pending)
{
	struct sqlite *store = snapshot->conn.store;
	int64_t digested = -1, ignored = 0, version = 0;
	int r = sqlite_version(store, &snapshot->version);

	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_DIGESTED, &digested);
	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_DATA_VERSION, &ignored);
	if (r == 0)
		r = sqlite_version(store, &version);
	if (r < 0)
		return r;
	snapshot->everything = *ret_pending = version != digested;
	return 0;
}

/* Nothing can be digested, so nobody is made to; change_list() tells once that something moved. */
static int begin_frozen(struct backend_snapshot *snapshot, bool *ret_pending)
{
	int64_t ignored = 0;
	int r = sqlite_version(snapshot->conn.store, &snapshot->version);

	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_DATA_VERSION, &ignored);
	if (r == 0)
		*ret_pending = false;
	return r;
}

static int begin(struct backend_snapshot *snapshot, bool *ret_pending, bool *ret_cut)
{
	int r = sqlite_conn_begin(&snapshot->conn, SQL_BEGIN);

	if (r < 0)
		return r;
	switch (snapshot->conn.store->mode) {
	case MODE_ASIDE:
		r = begin_aside(snapshot, ret_pending);
		break;
	case MODE_FROZEN:
		r = begin_frozen(snapshot, ret_pending);
		break;
	default:
		r = sqlite_conn_pending(&snapshot->conn, ret_pending, ret_cut);
	}
	if (r < 0)
		sqlite_conn_rollback(&snapshot->conn);
	return r;
}

static void end(struct backend_snapshot *snapshot)
{
	if (sqlite_conn_run(&snapshot->conn, SQL_COMMIT) < 0)
		sqlite_conn_rollback(&snapshot->conn);
}

int sqlite_snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot)
{
	struct sqlite *store = sqlite_of(backend);
	struct backend_snapshot *snapshot;
	bool pending = false, cut = false;
	int r = sqlite_pool_get(store, &snapshot);

	if (r < 0)
		return r;
	r = begin(snapshot, &pending, &cut);
	if (r == 0 && cut) {
		end(snapshot);
		r = sqlite_writer_mend(store);
		if (r == 0)
			r = begin(snapshot, &pending, &cut);
	}
	/* In a damaged store nothing can be taken in any more. */
	if (r == 0 && pending && !(flags & BACKEND_ANYWAY) && !store->damaged) {
		end(snapshot);
		r = -ESTALE;
	}
	if (r < 0) {
		sqlite_pool_put(store, snapshot);
		return r;
	}
	*ret_snapshot = snapshot;
	return 0;
}

void sqlite_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	end(snapshot);
	sqlite_pool_put(sqlite_of(backend), snapshot);
}

/* A statement under way; reading it to the end or not, finish() puts it back. */
struct cursor {
	struct sqlite_conn *conn;
	sqlite3_stmt *statement;
};

static int cursor_open(struct backend_snapshot *snapshot, enum sqlite_sql sql,
		       struct cursor *cursor)
{
	int r = 0;

	cursor->conn = &snapshot->conn;
	cursor->statement = sqlite_conn_take(cursor->conn, sql, &r);
	return r;
}

/* 1 with a row, 0 at the end. */
static int cursor_next(struct cursor *cursor)
{
	int code = sqlite3_step(cursor->statement);
	int r = sqlite_result(cursor->conn, code);

	return r < 0 ? r : code == SQLITE_ROW;
}

static void cursor_finish(struct cursor *cursor)
{
	if (cursor->statement)
		sqlite3_reset(cursor->statement);
}

/* The keys of a tree are in order, unless it is damaged: then who asks for what is behind the last
 * answer could ask for ever.  *least is the least that a key may be. */
static int in_order(struct cursor *cursor, int64_t key, int64_t *least)
{
	if (key < *least)
		return sqlite_result(cursor->conn, SQLITE_CORRUPT);
	*least = key;
	return 0;
}

static void bind_number(struct cursor *cursor, int index, int64_t number)
{
	sqlite3_bind_int64(cursor->statement, index, number);
}

static int64_t number_at(struct cursor *cursor, int index)
{
	return sqlite3_column_int64(cursor->statement, index);
}

static struct bytes bytes_at(struct cursor *cursor, int index)
{
	return sqlite_column_bytes(cursor->conn->store, cursor->statement, index);
}

/* SQLite's integers are signed; nothing of ours is above the highest of them. */
static int64_t clip(uint64_t number)
{
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

enum { NODE_COLUMNS = 18 }; /* in front of what else a statement returns */

/* Borrows from the statement. */
static struct backend_node node_at(struct cursor *cursor)
{
	return (struct backend_node){
		.ino = (uint64_t)number_at(cursor, 0),
		.parent = (uint64_t)number_at(cursor, 1),
		.entry = (uint64_t)number_at(cursor, 2),
		.kind = (uint32_t)number_at(cursor, 3),
		.flags = (uint32_t)number_at(cursor, 4),
		.mode = (uint32_t)number_at(cursor, 5),
		.uid = (uint32_t)number_at(cursor, 6),
		.gid = (uint32_t)number_at(cursor, 7),
		.nlink = (uint32_t)number_at(cursor, 8),
		.rdev = (uint64_t)number_at(cursor, 9),
		.size = (uint64_t)number_at(cursor, 10),
		.atime = number_at(cursor, 11),
		.mtime = number_at(cursor, 12),
		.ctime = number_at(cursor, 13),
		.btime = number_at(cursor, 14),
		.session = bytes_at(cursor, 15),
		.key = bytes_at(cursor, 16),
		.target = bytes_at(cursor, 17),
	};
}

/* The one node that the cursor leads to; id too, if asked for. */
static int one_node(struct cursor *cursor, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct backend_node node;
	uint64_t id = 0;
	int r = cursor_next(cursor);

	if (r > 0) {
		node = node_at(cursor);
		if (ret_id)
			id = (uint64_t)number_at(cursor, NODE_COLUMNS);
		r = backend_node_copy(&node, ret_node);
		if (r == 0 && ret_id)
			*ret_id = id;
	} else if (r == 0) {
		r = -ENOENT;
	}
	cursor_finish(cursor);
	return r;
}

int sqlite_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct backend_node *ret_node)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, SQL_NODE_GET, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	return one_node(&cursor, NULL, ret_node);
}

int sqlite_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, key.data ? SQL_NODE_FIND_KEY : SQL_NODE_FIND_SESSION,
			    &cursor);

	(void)backend;
	if (r < 0)
		return r;
	sqlite_bind_text(cursor.statement, 1, session);
	if (key.data)
		sqlite_bind_text(cursor.statement, 2, key);
	return one_node(&cursor, NULL, ret_node);
}

int sqlite_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		     bool orphans_only, backend_node_fn *fn, void *arg)
{
	struct cursor cursor = { 0 };
	int64_t least = clip(after);
	int r = cursor_open(snapshot, orphans_only ? SQL_NODE_LIST_ORPHANS : SQL_NODE_LIST,
			    &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(after));
	while ((r = cursor_next(&cursor)) > 0) {
		struct backend_node node = node_at(&cursor);

		r = in_order(&cursor, clip(node.ino), &least);
		if (r == 0)
			r = fn(arg, &node);
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

int sqlite_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, SQL_ENTRY_FIND, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(parent));
	sqlite_bind_blob(cursor.statement, 2, name);
	return one_node(&cursor, ret_id, ret_node);
}

/* Append the one value that the cursor leads to. */
static int one_value(struct cursor *cursor, int missing, struct buf *value)
{
	int r = cursor_next(cursor);

	if (r > 0)
		r = buf_append_bytes(value, bytes_at(cursor, 0));
	else if (r == 0)
		r = missing;
	cursor_finish(cursor);
	return r;
}

int sqlite_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t id, struct buf *name)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, SQL_ENTRY_NAME, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(parent));
	bind_number(&cursor, 2, clip(id));
	return one_value(&cursor, -ENOENT, name);
}

int sqlite_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t after, backend_entry_fn *fn, void *arg)
{
	struct cursor cursor = { 0 };
	int64_t least = clip(after);
	int r = cursor_open(snapshot, SQL_ENTRY_LIST, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(parent));
	bind_number(&cursor, 2, clip(after));
	while ((r = cursor_next(&cursor)) > 0) {
		struct backend_node node = node_at(&cursor);
		struct backend_entry entry = {
			.parent = parent,
			.id = (uint64_t)number_at(&cursor, NODE_COLUMNS),
			.name = bytes_at(&cursor, NODE_COLUMNS + 1),
			.ino = node.ino,
		};

		r = in_order(&cursor, clip(entry.id), &least);
		if (r == 0)
			r = fn(arg, &entry, &node);
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

int sqlite_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     struct bytes name, struct buf *value)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, SQL_XATTR_GET, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	sqlite_bind_blob(cursor.statement, 2, name);
	return one_value(&cursor, -ENODATA, value);
}

int sqlite_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      backend_name_fn *fn, void *arg)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, SQL_XATTR_LIST, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	while ((r = cursor_next(&cursor)) > 0) {
		r = fn(arg, bytes_at(&cursor, 0));
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

int sqlite_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	struct cursor cursor = { 0 };
	int64_t least = first;
	int r = cursor_open(snapshot, SQL_CHUNK_READ, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	bind_number(&cursor, 2, first);
	bind_number(&cursor, 3, last);
	while ((r = cursor_next(&cursor)) > 0) {
		r = in_order(&cursor, number_at(&cursor, 0), &least);
		if (r == 0)
			r = fn(arg, number_at(&cursor, 0), bytes_at(&cursor, 1));
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

int sqlite_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg)
{
	struct cursor cursor = { 0 };
	int64_t least = first;
	int r = cursor_open(snapshot, SQL_CHUNK_LIST, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	bind_number(&cursor, 2, first);
	while ((r = cursor_next(&cursor)) > 0) {
		int64_t chunk = number_at(&cursor, 0);

		if (number_at(&cursor, 2) != clip(ino) || chunk > last)
			break;
		r = in_order(&cursor, chunk, &least);
		if (r == 0)
			r = fn(arg, chunk, (size_t)number_at(&cursor, 1));
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

int sqlite_row_read(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		    void *arg)
{
	struct cursor cursor = { 0 };
	int64_t least = first;
	int r = cursor_open(snapshot, SQL_ROW_READ, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	sqlite_bind_text(cursor.statement, 1, session);
	sqlite_bind_text(cursor.statement, 2, key);
	bind_number(&cursor, 3, first);
	while ((r = cursor_next(&cursor)) > 0) {
		/* Another program can put 1.5 or 'x' there; check() tells of it. */
		if (sqlite3_column_type(cursor.statement, 0) != SQLITE_INTEGER)
			continue;
		r = in_order(&cursor, number_at(&cursor, 0), &least);
		if (r == 0)
			r = fn(arg, number_at(&cursor, 0), bytes_at(&cursor, 1));
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

int sqlite_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	struct backend_key_stat stat = { 0 };
	struct cursor first = { 0 }, last = { 0 };
	int r = cursor_open(snapshot, SQL_KEY_FIRST, &first);

	(void)backend;
	if (r == 0)
		r = cursor_open(snapshot, SQL_KEY_LAST, &last);
	if (r < 0)
		return r;
	sqlite_bind_text(first.statement, 1, session);
	sqlite_bind_text(first.statement, 2, key);
	r = cursor_next(&first);
	if (r > 0)
		stat.first = number_at(&first, 0);
	cursor_finish(&first);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;

	sqlite_bind_text(last.statement, 1, session);
	sqlite_bind_text(last.statement, 2, key);
	r = cursor_next(&last);
	if (r > 0) {
		stat.last = number_at(&last, 0);
		stat.created = sqlite_stamp_read(last.statement, 1);
		stat.updated = sqlite_stamp_read(last.statement, 2);
		*ret_stat = stat;
	}
	cursor_finish(&last);
	return MIN(r, 0);
}

/* Seek the next id into id, which holds the previous one: 1, or 0 when there is none behind it. */
static int seek_id(struct cursor *cursor, struct buf *id)
{
	int r = cursor_next(cursor);

	if (r > 0) {
		buf_clear(id);
		r = buf_append_bytes(id, bytes_at(cursor, 0));
		if (r == 0)
			r = 1;
	}
	cursor_finish(cursor);
	return r;
}

struct walk {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	backend_key_fn *fn;
	void *arg;
	struct buf session;
	struct buf key;
};

static int next_session(struct walk *walk)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(walk->snapshot, SQL_NEXT_SESSION, &cursor);

	if (r < 0)
		return r;
	sqlite_bind_text(cursor.statement, 1, buf_bytes(&walk->session));
	return seek_id(&cursor, &walk->session);
}

static int next_key(struct walk *walk)
{
	struct cursor cursor = { 0 };
	int r = cursor_open(walk->snapshot, SQL_NEXT_KEY, &cursor);

	if (r < 0)
		return r;
	sqlite_bind_text(cursor.statement, 1, buf_bytes(&walk->session));
	sqlite_bind_text(cursor.statement, 2, buf_bytes(&walk->key));
	return seek_id(&cursor, &walk->key);
}

/* The bytes of a buffer, of which an empty one may have none. */
static struct bytes present(const struct buf *buf)
{
	return bytes_make(buf->data ? buf->data : "", buf->size);
}

/* The keys from walk->key on.  1 at the session's end, 0 when fn wants no more. */
static int walk_keys(struct walk *walk)
{
	struct backend_key_stat stat;
	int r;

	while ((r = next_key(walk)) > 0) {
		r = sqlite_key_stat(walk->backend, walk->snapshot, present(&walk->session),
				    present(&walk->key), &stat);
		if (r == 0) {
			r = walk->fn(walk->arg, present(&walk->session), present(&walk->key),
				     &stat);
			if (r)
				return MIN(r, 0);
		} else if (r != -ENOENT) {
			return r;
		}
		r = buf_append_byte(&walk->key, '\0');
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 1;
}

static int walk_sessions(struct walk *walk, struct bytes after_session, struct bytes after_key)
{
	int r = 0;

	if (after_session.data) {
		r = buf_append_bytes(&walk->session, after_session);
		if (r == 0)
			r = buf_append_bytes(&walk->key, after_key);
		if (r == 0)
			r = buf_append_byte(&walk->key, '\0');
		if (r == 0)
			r = walk_keys(walk);
		if (r > 0)
			r = buf_append_byte(&walk->session, '\0');
		else
			return r;
	}
	while (r == 0 && (r = next_session(walk)) > 0) {
		buf_clear(&walk->key);
		r = walk_keys(walk);
		if (r <= 0)
			break;
		r = buf_append_byte(&walk->session, '\0');
	}
	return r;
}

int sqlite_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg)
{
	struct walk walk = { backend, snapshot, fn, arg, { 0 }, { 0 } };
	int r = walk_sessions(&walk, after_session, after_key);

	buf_done(&walk.session);
	buf_done(&walk.key);
	return r;
}

/* Sessions that have rows, and those that have none, each in the order of their ids: what comes
 * next of both, and the session that is being added up. */
struct sessions {
	struct cursor rows;
	struct cursor empty;
	struct buf session;
	struct backend_session_stat stat;
};

static void add_key(struct sessions *sessions)
{
	struct backend_session_stat *stat = &sessions->stat;
	struct cursor *rows = &sessions->rows;
	int64_t created = sqlite_stamp_read(rows->statement, 3);
	int64_t updated = sqlite_stamp_read(rows->statement, 4);

	stat->created = stat->keys && stat->created < created ? stat->created : created;
	stat->updated = MAX(stat->updated, updated);
	stat->keys++;
	stat->items += (uint64_t)number_at(rows, 1);
	stat->bytes += (uint64_t)number_at(rows, 2);
}

/* Add up the keys of the session that the cursor is at; 1 when it is at the next one then. */
static int add_session(struct sessions *sessions)
{
	int r;

	buf_clear(&sessions->session);
	sessions->stat = (struct backend_session_stat){ 0 };
	r = buf_append_bytes(&sessions->session, bytes_at(&sessions->rows, 0));
	if (r < 0)
		return r;
	do {
		add_key(sessions);
		r = cursor_next(&sessions->rows);
	} while (r > 0 && bytes_equal(bytes_at(&sessions->rows, 0), present(&sessions->session)));
	return r;
}

static bool empty_is_next(struct sessions *sessions, bool more_rows, bool more_empty)
{
	return more_empty && (!more_rows || bytes_compare(bytes_at(&sessions->empty, 0),
							  bytes_at(&sessions->rows, 0)) < 0);
}

static int tell_empty(struct sessions *sessions, backend_session_fn *fn, void *arg)
{
	const struct backend_session_stat stat = { .updated = number_at(&sessions->empty, 1) };

	return fn(arg, bytes_at(&sessions->empty, 0), &stat);
}

static int tell_sessions(struct sessions *sessions, backend_session_fn *fn, void *arg)
{
	int rows = cursor_next(&sessions->rows);
	int empty = cursor_next(&sessions->empty);
	int r = 0;

	while (r == 0 && rows >= 0 && empty >= 0 && (rows || empty)) {
		if (empty_is_next(sessions, rows, empty)) {
			r = tell_empty(sessions, fn, arg);
			empty = r ? empty : cursor_next(&sessions->empty);
		} else {
			rows = add_session(sessions);
			if (rows >= 0)
				r = fn(arg, present(&sessions->session), &sessions->stat);
		}
	}
	return rows < 0 ? rows : empty < 0 ? empty : MIN(r, 0);
}

int sqlite_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg)
{
	struct sessions sessions = { 0 };
	int r = cursor_open(snapshot, SQL_SESSION_ROWS, &sessions.rows);

	(void)backend;
	if (r == 0)
		r = cursor_open(snapshot, SQL_SESSION_EMPTY, &sessions.empty);
	if (r == 0)
		r = tell_sessions(&sessions, fn, arg);
	cursor_finish(&sessions.rows);
	cursor_finish(&sessions.empty);
	buf_done(&sessions.session);
	return r;
}

int sqlite_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat)
{
	struct sessions sessions = { 0 };
	int r = cursor_open(snapshot, SQL_SESSION_STAT, &sessions.rows);

	(void)backend;
	if (r == 0) {
		sqlite_bind_text(sessions.rows.statement, 1, session);
		r = cursor_next(&sessions.rows);
	}
	if (r > 0)
		r = add_session(&sessions);
	else if (r == 0)
		r = -ENOENT;
	cursor_finish(&sessions.rows);
	buf_done(&sessions.session);
	if (r >= 0)
		*ret_stat = sessions.stat;
	return MIN(r, 0);
}

int sqlite_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg)
{
	_cleanup_(backend_days_done) struct backend_days days = { 0 };
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, SQL_DAY_LIST, &cursor);

	(void)backend;
	while (r >= 0 && (r = cursor_next(&cursor)) > 0)
		r = backend_days_add(&days, sqlite_stamp_read(cursor.statement, 0),
				     (uint64_t)number_at(&cursor, 1));
	cursor_finish(&cursor);
	return r < 0 ? r : backend_days_tell(&days, fn, arg);
}

int sqlite_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	struct cursor cursor = { 0 };
	int64_t least = first;
	int r = cursor_open(snapshot, SQL_PIECE_READ, &cursor);

	(void)backend;
	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	bind_number(&cursor, 2, first);
	bind_number(&cursor, 3, first_seq);
	while ((r = cursor_next(&cursor)) > 0) {
		r = in_order(&cursor, number_at(&cursor, 0), &least);
		if (r == 0)
			r = fn(arg, number_at(&cursor, 0), number_at(&cursor, 1),
			       bytes_at(&cursor, 2));
		if (r)
			break;
	}
	cursor_finish(&cursor);
	return MIN(r, 0);
}

static int find_mark(struct backend_snapshot *snapshot, enum sqlite_sql sql, uint64_t ino,
		     int64_t position, struct backend_mark *ret_mark)
{
	int column = sql == SQL_MARK_FIND ? 0 : 1;
	struct cursor cursor = { 0 };
	int r = cursor_open(snapshot, sql, &cursor);

	if (r < 0)
		return r;
	bind_number(&cursor, 1, clip(ino));
	bind_number(&cursor, 2, position);
	r = cursor_next(&cursor);
	/* As in in_order(); and an offset below 0 would be one behind all others. */
	if (r > 0 && (number_at(&cursor, column) > position || number_at(&cursor, 0) < 0))
		r = sqlite_result(cursor.conn, SQLITE_CORRUPT);
	if (r > 0)
		*ret_mark = (struct backend_mark){ .offset = (uint64_t)number_at(&cursor, 0),
						   .index = number_at(&cursor, 1) };
	cursor_finish(&cursor);
	if (r == 0)
		return -ENOENT;
	return MIN(r, 0);
}

int sqlite_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     uint64_t offset, struct backend_mark *ret_mark)
{
	(void)backend;
	return find_mark(snapshot, SQL_MARK_FIND, ino, clip(offset), ret_mark);
}

int sqlite_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t index, struct backend_mark *ret_mark)
{
	(void)backend;
	return find_mark(snapshot, SQL_MARK_FIND_INDEX, ino, index, ret_mark);
}

int sqlite_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		    uint64_t *ret_entry)
{
	int64_t ino = 0, entry = 0;
	int r = sqlite_conn_number(&snapshot->conn, SQL_LAST_INO, &ino);

	(void)backend;
	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_LAST_ENTRY, &entry);
	if (r < 0)
		return r;
	*ret_ino = (uint64_t)ino;
	*ret_entry = (uint64_t)entry;
	return 0;
}
