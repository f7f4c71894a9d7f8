/* SPDX-License-Identifier: MIT */

/*
 * Rows as another program may write them - any ids, any indexes, any types - before the mount and
 * beside it: what is shown can be listed, measured, read, appended to and saved, and is the same
 * after a remount.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#include "tests/fuzz/place.h"

const char fuzz_name[] = "rows";
const unsigned fuzz_runs = 80;
const struct bytes fuzz_words[] = {
	BYTES("a/b"),	 BYTES(".."),	     BYTES("%2F"),	     BYTES("k:_hash"),
	BYTES(":_hash"), BYTES("{\"a\":1}"), BYTES("{\n\"a\":\n1}"), BYTES("\n"),
	BYTES("\xff"),	 BYTES("\0"),	     BYTES("k.json"),	     BYTES("k.jsonl"),
	BYTES("[1]"),	 { NULL, 0 },
};

/* Tables that a store may have. */
static const char *const tables[] = {
	NULL, /* of our own */
	NULL,
	"CREATE TABLE agentscope_sessions (session_id, state_key, item_index, state_data, "
	"UNIQUE (session_id, state_key, item_index))",
	"CREATE TABLE agentscope_sessions (session_id TEXT NOT NULL, state_key TEXT NOT NULL, "
	"item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL, created_at DATETIME "
	"DEFAULT CURRENT_TIMESTAMP, updated_at DATETIME DEFAULT CURRENT_TIMESTAMP, "
	"PRIMARY KEY (session_id, state_key, item_index))",
	"CREATE TABLE agentscope_sessions (id INTEGER PRIMARY KEY, state_data LONGTEXT, "
	"item_index NUMERIC, updated_at TEXT, state_key VARCHAR(9), session_id VARCHAR(9)); "
	"CREATE UNIQUE INDEX k ON agentscope_sessions (session_id, state_key, item_index)",
	"CREATE TABLE agentscope_sessions (session_id BLOB, state_key BLOB, item_index BLOB, "
	"state_data BLOB, created_at INTEGER, updated_at REAL, "
	"PRIMARY KEY (item_index, state_key, session_id)) WITHOUT ROWID",
	"PRAGMA encoding = 'UTF-16le'; CREATE TABLE agentscope_sessions (session_id TEXT, "
	"state_key TEXT, item_index INTEGER, state_data TEXT, "
	"PRIMARY KEY (session_id, state_key, item_index))",
};

/* An id, or a value; with its type in SQLite. */
struct value {
	int type;
	struct bytes bytes;
	int64_t number;
};

#define TEXT(literal)                                                                              \
	{                                                                                          \
		.type = SQLITE_TEXT, .bytes = BYTES(literal)                                       \
	}
#define BLOB(literal)                                                                              \
	{                                                                                          \
		.type = SQLITE_BLOB, .bytes = BYTES(literal)                                       \
	}
static const struct value ids[] = {
	TEXT("s"),	 TEXT("s"),	 TEXT("t"),
	TEXT("k"),	 TEXT("k"),	 TEXT("a/b"),
	TEXT("a"),	 TEXT("a/"),	 TEXT("/"),
	TEXT(""),	 TEXT("."),	 TEXT(".."),
	TEXT("../../x"), TEXT("%2F"),	 TEXT("k:_hash"),
	TEXT(":_hash"),	 TEXT("k.json"), TEXT("k.jsonl"),
	TEXT("k\n"),	 TEXT("k\0l"),	 TEXT("\xff\xfe"),
	BLOB("k"),	 BLOB(""),	 TEXT("a//b"),
	TEXT("%"),	 TEXT("k%~1"),	 TEXT("k:_hash.json"),
};
static const struct value datas[] = {
	TEXT("{\"a\": 1}"),
	TEXT("1"),
	TEXT("{\n\"a\":\n[1,\r\n2]\n}"),
	TEXT("\"\xc3\xa9\""),
	TEXT(""),
	TEXT("\n"),
	TEXT("no json"),
	TEXT("1\0"),
	TEXT("\"\xff\""),
	BLOB("1"),
	BLOB("\xff\0\n"),
	BLOB(""),
	TEXT("{\"a\": 1}\n"),
	TEXT("[1,"),
	{ .type = SQLITE_NULL },
	{ .type = SQLITE_INTEGER, .number = 42 },
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	uint8_t table = (uint8_t)(n % ARRAY_SIZE(tables));

	if (n >= 5 * ARRAY_SIZE(tables))
		return false;
	fuzz_put(seed, &table, 1);
	fuzz_noise(n, 60 + 40 * (size_t)n, seed);
	return true;
}

static struct value take_value(struct fuzz_input *in, const struct value *likely, size_t count)
{
	uint8_t choice = take_byte(in);

	if (choice < 224)
		return likely[choice % count];
	if (choice < 240)
		return (struct value){ .type = SQLITE_TEXT, .bytes = take_bytes(in, 600) };
	if (choice < 248)
		return (struct value){ .type = SQLITE_BLOB, .bytes = take_bytes(in, 600) };
	if (choice < 252)
		return (struct value){ .type = SQLITE_NULL };
	return (struct value){ .type = choice < 254 ? SQLITE_INTEGER : SQLITE_FLOAT,
			       .number = (int64_t)take_number(in) };
}

static struct value take_index(struct fuzz_input *in)
{
	uint8_t choice = take_byte(in);

	if (choice < 160)
		return (struct value){ .type = SQLITE_INTEGER, .number = choice % 8 };
	if (choice < 248)
		return (struct value){ .type = SQLITE_INTEGER, .number = (int64_t)take_number(in) };
	return take_value(in, datas, ARRAY_SIZE(datas));
}

static void bind(sqlite3_stmt *statement, int place, const struct value *value)
{
	switch (value->type) {
	case SQLITE_TEXT:
		sqlite3_bind_text64(statement, place, value->bytes.data ? value->bytes.data : "",
				    value->bytes.size, SQLITE_TRANSIENT, SQLITE_UTF8);
		break;
	case SQLITE_BLOB:
		sqlite3_bind_blob64(statement, place, value->bytes.data ? value->bytes.data : "",
				    value->bytes.size, SQLITE_TRANSIENT);
		break;
	case SQLITE_INTEGER:
		sqlite3_bind_int64(statement, place, value->number);
		break;
	case SQLITE_FLOAT:
		sqlite3_bind_double(statement, place, (double)value->number / 3);
		break;
	default:
		sqlite3_bind_null(statement, place);
	}
}

static const char *const statements[] = {
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
	"VALUES (?1, ?2, ?3, ?4)",
	"INSERT OR REPLACE INTO agentscope_sessions (session_id, state_key, item_index, "
	"state_data) VALUES (?1, ?2, ?3, ?4)",
	"INSERT OR IGNORE INTO agentscope_sessions (session_id, state_key, item_index, "
	"state_data) VALUES (?1, ?2, (SELECT coalesce(max(item_index), -1) + 1 FROM "
	"agentscope_sessions WHERE session_id = ?1 AND state_key = ?2), ?4)",
	"UPDATE OR IGNORE agentscope_sessions SET state_data = ?4 WHERE session_id = ?1",
	"UPDATE OR IGNORE agentscope_sessions SET item_index = ?3 WHERE session_id = ?1 AND "
	"state_key = ?2",
	"UPDATE OR REPLACE agentscope_sessions SET state_key = ?2 WHERE item_index = ?3",
	"UPDATE OR REPLACE agentscope_sessions SET session_id = ?1 WHERE state_key = ?2",
	"DELETE FROM agentscope_sessions WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index >= ?3",
	"DELETE FROM agentscope_sessions WHERE state_key = ?2",
	"WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 700) "
	"INSERT OR IGNORE INTO agentscope_sessions (session_id, state_key, item_index, "
	"state_data) SELECT ?1, ?2, i, i FROM n",
};
static const uint8_t statement_of[] = { 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9 };

/* What another program does. */
static void write_rows(struct fuzz_input *in, unsigned limit)
{
	sqlite3 *db = NULL;

	fuzz_need(sqlite3_open(place_store(), &db) == SQLITE_OK);
	sqlite3_busy_timeout(db, 600000);
	fuzz_need(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
	for (unsigned i = take_below(in, limit); i && fuzz_left(in); i--) {
		const char *text = statements[take_of(in, statement_of)];
		sqlite3_stmt *statement = NULL;
		struct value values[4];

		values[0] = take_value(in, ids, ARRAY_SIZE(ids));
		values[1] = take_value(in, ids, ARRAY_SIZE(ids));
		values[2] = take_index(in);
		values[3] = take_value(in, datas, ARRAY_SIZE(datas));
		fuzz_check(sqlite3_prepare_v2(db, text, -1, &statement, NULL) == SQLITE_OK,
			   "%s: %s", text, sqlite3_errmsg(db));
		for (int place = 0; place < 4; place++)
			bind(statement, place + 1, &values[place]);
		sqlite3_step(statement);
		sqlite3_finalize(statement);
	}
	fuzz_need(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

static void make_store(unsigned table)
{
	sqlite3 *db = NULL;

	if (!tables[table]) {
		place_fresh();
		return;
	}
	place_clear();
	fuzz_need(sqlite3_open(place_store(), &db) == SQLITE_OK);
	fuzz_need(sqlite3_exec(db, tables[table], NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

/* What an agent does with a file. */
static void use_file(void *arg, struct tree *tree, struct inode *dir, struct bytes name,
		     struct inode *inode)
{
	struct fuzz_input *in = arg;
	const struct stat st = { .st_size = (off_t)(take_byte(in) & 31) };
	const struct set_attr set = { .pid = getpid(), .st = &st, .mask = TREE_SET_SIZE };
	struct stat now;
	bool own;

	if (inode_is_dir(inode))
		return;
	switch (take_below(in, 10)) {
	case 0:
	case 1:
	case 2:
		place_write(tree, inode, O_WRONLY | O_APPEND, 0, BYTES("{\"n\": 1}\n"));
		break;
	case 3:
		place_write(tree, inode, O_WRONLY | O_APPEND, 0, BYTES("2\n{\"torn"));
		break;
	case 4:
		place_write(tree, inode, O_RDWR | O_TRUNC, 0, BYTES("1\n2\n\n3\n"));
		break;
	case 5:
		place_write(tree, inode, O_RDWR, (uint64_t)st.st_size, BYTES("\n[0]\n"));
		break;
	case 6:
		tree_set_attr(tree, inode, &set, &now, &own);
		break;
	case 7:
		tree_rename(tree, dir, name, dir,
			    take_byte(in) & 1 ? BYTES("new.jsonl") : BYTES("new.json"), 0);
		break;
	case 8:
		tree_unlink(tree, dir, name);
		break;
	default:
		break;
	}
}

static void check_store_of(struct tree *tree)
{
	_cleanup_(buf_done) struct buf said = { 0 };

	fuzz_check(place_violations(tree->backend, &said) >= 0, "check: %.*s", (int)said.size,
		   said.data);
}

static void mount(struct fuzz_input *in, const struct backend_options *options,
		  const struct tree_options *tree_options, struct buf *shown)
{
	struct tree *tree;
	int r;

	tree = place_open(options, tree_options, &r);
	if (!tree)
		return;
	place_walk(tree, WALK_WHOLE, NULL);
	write_rows(in, 24);
	place_walk(tree, WALK_WHOLE, NULL);
	if (!options->read_only)
		place_each(tree, WALK_WHOLE, use_file, in);
	write_rows(in, 8);
	if (!options->read_only)
		place_each(tree, WALK_WHOLE, use_file, in);
	place_settle(tree);
	place_walk(tree, WALK_WHOLE, shown);
	check_store_of(tree);
	place_check_inodes(tree);
	tree_close(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	unsigned table = take_below(&in, ARRAY_SIZE(tables));
	uint8_t choices = take_byte(&in);
	const struct backend_options options = {
		.read_only = (choices & 7) == 7,
		.owner = choices & 8 ? NULL : "the target",
	};
	const struct tree_options tree_options = {
		.read_only = options.read_only,
		.strict = choices & 16,
		.exact = choices & 32,
		.set_pause = true,
	};
	_cleanup_(buf_done) struct buf before = { 0 };
	_cleanup_(buf_done) struct buf after = { 0 };
	struct tree *tree;
	int r;

	if (size > 4096)
		return -1;
	make_store(table);
	write_rows(&in, 64);
	mount(&in, &options, &tree_options, &before);
	tree = place_open(&options, &tree_options, &r);
	if (!tree)
		return 0;
	place_walk(tree, WALK_WHOLE, &after);
	tree_close(tree);
	/* What has none of our tables gets them anew at each read-only mount. */
	if (tables[table] && options.read_only)
		return 0;
	fuzz_check(bytes_equal(buf_bytes(&before), buf_bytes(&after)),
		   "after a remount:\n%.*s--- before:\n%.*s", (int)after.size, after.data,
		   (int)before.size, before.data);
	return 0;
}
