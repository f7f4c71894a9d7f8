/* SPDX-License-Identifier: MIT */
#include "tests/contract/contract.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/scratch.h"

const struct bytes S = { "sess", 4 }, K = { "messages", 8 };

/* Stores and files of a case. */

static struct backend *opened[8];
static char scratch[256];

static void forget(struct backend *backend)
{
	for (size_t i = 0; i < ARRAY_SIZE(opened); i++)
		if (opened[i] == backend)
			opened[i] = NULL;
}

struct backend *remember(struct backend *backend)
{
	for (size_t i = 0; i < ARRAY_SIZE(opened); i++)
		if (!opened[i])
			return opened[i] = backend;
	cr_assert_fail("too many stores in one case");
	return NULL;
}

void shut(struct backend *backend)
{
	forget(backend);
	backend_close(backend);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void (*after_stores)(void);

void close_stores(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(opened); i++)
		if (opened[i])
			shut(opened[i]);
	if (after_stores)
		after_stores();
	if (*scratch)
		nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	*scratch = '\0';
}

const char *scratch_path(const char *name)
{
	static char paths[16][512];
	static unsigned next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	if (!*scratch) {
		scratch_template(scratch, sizeof(scratch), "contract");
		cr_assert_not_null(mkdtemp(scratch));
	}
	snprintf(path, sizeof(paths[0]), "%s/%s", scratch, name);
	return path;
}

struct backend *open_at(const char *path, const struct backend_options *options)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;
	int r = backend_open(path, options, &backend, &why);

	cr_assert_eq(r, 0, "%s: %s", path, why ? why : strerror(-r));
	return remember(backend);
}

int refused_at(const char *path, const struct backend_options *options, char **ret_why)
{
	struct backend *backend = NULL;
	int r = backend_open(path, options, &backend, ret_why);

	cr_assert_lt(r, 0, "%s was opened", path);
	cr_assert_null(backend);
	cr_assert_not_null(*ret_why, "%s was refused without a sentence", path);
	return r;
}

struct backend *wrap(struct backend *inner, int (*wrapper)(struct backend *, struct backend **))
{
	struct backend *backend = NULL;

	forget(inner);
	cr_assert_eq(wrapper(inner, &backend), 0);
	return remember(backend);
}

/* The other program. */

sqlite3 *other_open(const char *path)
{
	sqlite3 *db = NULL;

	cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK, "%s", path);
	sqlite3_busy_timeout(db, 600000);
	return db;
}

void other_close(sqlite3 *db)
{
	cr_assert_eq(sqlite3_close(db), SQLITE_OK);
}

void other_runs(sqlite3 *db, const char *sql)
{
	int code = sqlite3_exec(db, sql, NULL, NULL, NULL);

	cr_assert_eq(code, SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
}

static struct buf *next_shown(void)
{
	static struct buf shown[5];
	static unsigned next;
	struct buf *buf = &shown[next++ % ARRAY_SIZE(shown)];

	buf_clear(buf);
	return buf;
}

static const char *finish(struct buf *shown)
{
	cr_assert_eq(buf_append_byte(shown, '\0'), 0);
	return shown->data;
}

const char *other_asks(sqlite3 *db, const char *sql)
{
	struct buf *shown = next_shown();
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	cr_assert_eq(code, SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	code = sqlite3_step(statement);
	if (code == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		cr_assert_eq(buf_append_str(shown, text ? text : "NULL"), 0);
	} else {
		cr_assert_eq(code, SQLITE_DONE, "%s: %s", sql, sqlite3_errmsg(db));
	}
	sqlite3_finalize(statement);
	return finish(shown);
}

/* Operations. */

struct backend_op row_insert(struct bytes session, struct bytes key, int64_t at, struct bytes data)
{
	return (struct backend_op){
		.type = BACKEND_ROW_INSERT, .session = session, .key = key, .at = at, .data = data
	};
}

struct backend_op row_put(struct bytes session, struct bytes key, int64_t at, struct bytes data)
{
	struct backend_op op = row_insert(session, key, at, data);

	op.type = BACKEND_ROW_PUT;
	return op;
}

struct backend_op row_delete(struct bytes session, struct bytes key, int64_t at, int64_t to)
{
	return (struct backend_op){
		.type = BACKEND_ROW_DELETE, .session = session, .key = key, .at = at, .to = to
	};
}

struct backend_op node_put(const struct backend_node *node)
{
	return (struct backend_op){ .type = BACKEND_NODE_PUT, .node = node };
}

struct backend_op node_set(const struct backend_node *node, unsigned fields, int64_t links)
{
	return (struct backend_op){
		.type = BACKEND_NODE_SET, .node = node, .at = fields, .to = links
	};
}

struct backend_op node_delete(uint64_t ino)
{
	return (struct backend_op){ .type = BACKEND_NODE_DELETE, .ino = ino };
}

struct backend_op entry_put(uint64_t parent, int64_t id, struct bytes name, uint64_t ino)
{
	return (struct backend_op){
		.type = BACKEND_ENTRY_PUT, .parent = parent, .at = id, .name = name, .ino = ino
	};
}

struct backend_op xattr_put(uint64_t ino, struct bytes name, struct bytes data)
{
	return (struct backend_op){
		.type = BACKEND_XATTR_PUT, .ino = ino, .name = name, .data = data
	};
}

struct backend_op chunk_put(uint64_t ino, int64_t at, struct bytes data)
{
	return (struct backend_op){ .type = BACKEND_CHUNK_PUT, .ino = ino, .at = at, .data = data };
}

struct backend_op piece_put(uint64_t ino, int64_t at, int64_t seq, struct bytes data)
{
	return (struct backend_op){
		.type = BACKEND_PIECE_PUT, .ino = ino, .at = at, .seq = seq, .data = data
	};
}

struct backend_op mark_put(uint64_t ino, uint64_t offset, int64_t at)
{
	return (struct backend_op){
		.type = BACKEND_MARK_PUT, .ino = ino, .offset = offset, .at = at
	};
}

struct backend_op setting(struct bytes name, struct bytes data)
{
	return (struct backend_op){ .type = BACKEND_SETTING, .name = name, .data = data };
}

struct backend_node plain_node(uint64_t ino)
{
	return (struct backend_node){ .ino = ino, .parent = 1, .mode = 0100644, .nlink = 1 };
}

struct backend_node state_node(uint64_t ino, struct bytes session, struct bytes key)
{
	struct backend_node node = plain_node(ino);

	node.kind = key.data ? BACKEND_LIST : BACKEND_SESSION;
	node.session = session;
	node.key = key;
	return node;
}

/* What a store holds. */

struct backend_snapshot *look(struct backend *backend)
{
	struct backend_snapshot *snapshot = NULL;
	int r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY | BACKEND_BEGUN, &snapshot);

	cr_assert_eq(r, 0, "snapshot_begin: %d", r);
	return snapshot;
}

int snapshot_error(struct backend *backend)
{
	struct backend_snapshot *snapshot = NULL;
	int r = backend->ops->snapshot_begin(backend, BACKEND_BEGUN, &snapshot);

	if (r == 0)
		unlook(backend, snapshot);
	return r;
}

void unlook(struct backend *backend, struct backend_snapshot *snapshot)
{
	backend->ops->snapshot_end(backend, snapshot);
}

static void show(struct buf *shown, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void show(struct buf *shown, const char *format, ...)
{
	char text[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (shown->size)
		cr_assert_eq(buf_append_byte(shown, ' '), 0);
	cr_assert_eq(buf_append_str(shown, text), 0);
}

/* Bytes with NULs as "\0". */
static const char *plain(struct bytes bytes)
{
	static char texts[3][1024];
	static unsigned next;
	char *text = texts[next++ % ARRAY_SIZE(texts)];
	size_t used = 0;

	for (size_t i = 0; i < bytes.size && used < sizeof(texts[0]) - 3; i++) {
		if (!bytes.data[i])
			text[used++] = '\\';
		text[used++] = bytes.data[i] ? bytes.data[i] : '0';
	}
	text[used] = '\0';
	return text;
}

static int show_row(void *arg, int64_t index, struct bytes data)
{
	show(arg, "%" PRId64 "=%s", index, plain(data));
	return 0;
}

const char *rows_seen(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, int64_t first)
{
	struct buf *shown = next_shown();
	int r = backend->ops->row_read(backend, snapshot, session, key, first, show_row, shown);

	cr_assert_eq(r, 0, "row_read: %d", r);
	return finish(shown);
}

const char *rows_back(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, int64_t last, uint64_t most)
{
	struct buf *shown = next_shown();
	int r = backend->ops->row_read_back(backend, snapshot, session, key, last, most, show_row,
					    shown);

	cr_assert_eq(r, 0, "row_read_back: %d", r);
	return finish(shown);
}

static int show_timed(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	show(arg, "%" PRId64 "@%" PRId64 "=%s", index, times.created / 1000000000, plain(data));
	return 0;
}

const char *rows_timed(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, int64_t from, bool back,
		       uint64_t most)
{
	struct buf *shown = next_shown();
	int r = backend_row_read_times(backend, snapshot, session, key, from, back, most,
				       show_timed, shown);

	cr_assert_eq(r, 0, "row_read_times: %d", r);
	return finish(shown);
}

const char *rows_of(struct backend *backend, struct bytes session, struct bytes key)
{
	struct backend_snapshot *snapshot = look(backend);
	const char *rows = rows_seen(backend, snapshot, session, key, INT64_MIN);

	unlook(backend, snapshot);
	return rows;
}

static int show_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	cr_assert_not_null(session.data);
	cr_assert_not_null(key.data);
	show(arg, "%s/%s[%" PRId64 "-%" PRId64 "]", plain(session), plain(key), stat->first,
	     stat->last);
	return 0;
}

const char *keys_after(struct backend *backend, struct bytes session, struct bytes key)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend->ops->key_list(backend, snapshot, session, key, show_key, shown);

	cr_assert_eq(r, 0, "key_list: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

const char *keys_of(struct backend *backend)
{
	return keys_after(backend, (struct bytes){ 0 }, (struct bytes){ 0 });
}

static int show_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	cr_assert_eq(entry->ino, node->ino);
	show(arg, "%" PRIu64 ":%s=%" PRIu64, entry->id, plain(entry->name), node->ino);
	return 0;
}

const char *entries_of(struct backend *backend, uint64_t parent, uint64_t after)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend->ops->entry_list(backend, snapshot, parent, after, show_entry, shown);

	cr_assert_eq(r, 0, "entry_list: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

static int show_node(void *arg, const struct backend_node *node)
{
	show(arg, "%" PRIu64, node->ino);
	return 0;
}

const char *nodes_of(struct backend *backend, uint64_t after, bool orphans_only)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend->ops->node_list(backend, snapshot, after, orphans_only, show_node, shown);

	cr_assert_eq(r, 0, "node_list: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

static int show_name(void *arg, struct bytes name)
{
	show(arg, "%s", plain(name));
	return 0;
}

const char *xattrs_of(struct backend *backend, uint64_t ino)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend->ops->xattr_list(backend, snapshot, ino, show_name, shown);

	cr_assert_eq(r, 0, "xattr_list: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

static int show_setting(void *arg, struct bytes name, struct bytes data)
{
	if (!bytes_equal(name, BYTES("table")))
		show(arg, "%.*s=%.*s", (int)name.size, name.data, (int)data.size, data.data);
	return 0;
}

const char *settings_seen(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct buf *shown = next_shown();
	int r = backend->ops->setting_list(backend, snapshot, show_setting, shown);

	cr_assert_eq(r, 0, "setting_list: %d", r);
	return finish(shown);
}

const char *settings_of(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	const char *shown = settings_seen(backend, snapshot);

	unlook(backend, snapshot);
	return shown;
}

const char *chunks_of(struct backend *backend, uint64_t ino, int64_t first, int64_t last)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend->ops->chunk_read(backend, snapshot, ino, first, last, show_row, shown);

	cr_assert_eq(r, 0, "chunk_read: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

static int show_size(void *arg, int64_t chunk, size_t size)
{
	show(arg, "%" PRId64 "=%zu", chunk, size);
	return 0;
}

const char *chunk_sizes_of(struct backend *backend, uint64_t ino, int64_t first, int64_t last)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend_chunk_list(backend, snapshot, ino, first, last, show_size, shown);

	cr_assert_eq(r, 0, "chunk_list: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

static int show_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	show(arg, "%" PRId64 ".%" PRId64 "=%s", index, seq, plain(data));
	return 0;
}

const char *pieces_from(struct backend *backend, uint64_t ino, int64_t first, int64_t first_seq)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend->ops->piece_read(backend, snapshot, ino, first, first_seq, show_piece,
					 shown);

	cr_assert_eq(r, 0, "piece_read: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}

const char *pieces_of(struct backend *backend, uint64_t ino, int64_t first)
{
	return pieces_from(backend, ino, first, INT64_MIN);
}

static int show_change(void *arg, const struct backend_change *change)
{
	const char *apart = change->apart ? " apart" : "";

	if (!change->session.data)
		show(arg, "everything");
	else if (change->deleted == INT64_MAX || change->apart)
		show(arg, "%s/%s from %" PRId64 "%s", plain(change->session), plain(change->key),
		     change->first, apart);
	else
		show(arg, "%s/%s from %" PRId64 " deleted %" PRId64, plain(change->session),
		     plain(change->key), change->first, change->deleted);
	return 0;
}

const char *changes_of(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	struct buf *shown = next_shown();
	int r = backend_change_list(backend, snapshot, show_change, shown);

	cr_assert_eq(r, 0, "change_list: %d", r);
	unlook(backend, snapshot);
	return finish(shown);
}
