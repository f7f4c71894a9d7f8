/* SPDX-License-Identifier: MIT */

/*
 * A store is untrusted: arbitrary bytes as its file, real stores with some bytes changed in the
 * file or its WAL, and real stores whose tables say what no program of ours writes.  Opening it
 * fails with a sentence or succeeds, and what is done then comes to an end.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/xattr.h>

#include "tests/fuzz/place.h"

const char fuzz_name[] = "store";
const unsigned fuzz_runs = 150;
const struct bytes fuzz_words[] = {
	BYTES("SQLite format 3\0"), BYTES("sessfs_node"),
	BYTES("sessfs_meta"),	    BYTES("CREATE TABLE "),
	BYTES("schema_version"),    BYTES("agentscope_sessions"),
	BYTES("item_index"),	    { NULL, 0 },
};

/* A real store, as it is while it is mounted: part of it is in the WAL. */
static struct buf real_main;
static struct buf real_wal;
/* A small database with a table of rows and nothing of ours. */
static struct buf small;

static const struct caller caller = { .uid = 1000, .gid = 1000 };

static struct inode *make(struct tree *tree, struct inode *dir, const char *name, mode_t mode)
{
	const struct tree_new what = { .mode = mode, .target = BYTES("../target") };
	const struct tree_new file = { .mode = mode };
	struct inode *inode;

	fuzz_need(tree_make(tree, &caller, dir, bytes_str(name), S_ISLNK(mode) ? &what : &file,
			    &inode) == 0);
	return inode;
}

static void make_file(struct tree *tree, struct inode *dir, const char *name, struct bytes bytes)
{
	struct inode *inode = make(tree, dir, name, S_IFREG | 0644);

	fuzz_need(place_write(tree, inode, O_WRONLY, 0, bytes) == 0);
	inode_forget(tree, inode, 1);
}

/* Long enough for marks. */
static void make_long(struct tree *tree, struct inode *dir)
{
	_cleanup_(buf_done) struct buf lines = { 0 };

	for (unsigned i = 0; i < 600; i++)
		fuzz_need(buf_printf(&lines, i % 100 ? "%u\n" : "# %u\n", i) == 0);
	make_file(tree, dir, "long.jsonl", buf_bytes(&lines));
}

static void fill(struct tree *tree)
{
	struct inode *root = tree_inode(tree, BACKEND_ROOT);
	struct inode *session = make(tree, root, "s", S_IFDIR | 0755);
	struct inode *dir = make(tree, session, "d", S_IFDIR | 0755);

	make_file(tree, session, "a.json", BYTES("{\"a\": 1}"));
	make_file(tree, session, "a.hash", BYTES("0123abc"));
	make_file(tree, session, "draft.json", BYTES("{\"a\":"));
	make_file(tree, session, "l.jsonl", BYTES("1\n\n# no\n{\"b\": 2}\n3\n{\"torn"));
	make_file(tree, session, "a.txt", BYTES("some text\n"));
	make_long(tree, dir);
	make_file(tree, dir, "b.jsonl", BYTES("1\n2\n"));
	inode_forget(tree, make(tree, session, "link", S_IFLNK | 0777), 1);
	inode_forget(tree, make(tree, root, "t", S_IFDIR | 0755), 1);
	make_file(tree, root, "root.txt", BYTES("text"));
	fuzz_need(tree_set_xattr(tree, dir, BYTES("user.a"), BYTES("value"), 0) == 0);
	inode_forget(tree, dir, 1);
	inode_forget(tree, session, 1);
}

static void make_real(void)
{
	const struct backend_options options = { .create = true, .owner = "the target" };
	const struct tree_options tree_options = { .set_pause = true };
	struct tree *tree;
	int r;

	place_fresh();
	tree = place_open(&options, &tree_options, &r);
	fuzz_need(tree);
	fill(tree);
	place_settle(tree);
	place_get("", &real_main);
	place_get("-wal", &real_wal);
	tree_close(tree);
	fuzz_need(real_main.size && real_wal.size);
}

static void make_small(void)
{
	static const char text[] =
		"PRAGMA page_size = 512; CREATE TABLE agentscope_sessions (session_id TEXT, "
		"state_key TEXT, item_index INTEGER, state_data TEXT, "
		"PRIMARY KEY (session_id, state_key, item_index)) WITHOUT ROWID; "
		"INSERT INTO agentscope_sessions VALUES ('s', 'k', 0, '1'), ('s', 'l', 0, '2'), "
		"('s', 'l', 1, '{\"a\": 3}')";
	sqlite3 *db = NULL;

	place_clear();
	fuzz_need(sqlite3_open(place_store(), &db) == SQLITE_OK);
	fuzz_need(sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
	place_get("", &small);
}

static void make_stores(void)
{
	if (small.size)
		return;
	make_real();
	make_small();
}

enum damage {
	DAMAGE_BYTES,  /* the rest of the input is the file */
	DAMAGE_PATCH,  /* of the file or the WAL */
	DAMAGE_TABLES, /* values in our tables */
	DAMAGES,
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	uint8_t head[2] = { (uint8_t)(n % DAMAGES), (uint8_t)(n / DAMAGES) };

	if (n >= 20 * DAMAGES)
		return false;
	make_stores();
	fuzz_put(seed, head, sizeof(head));
	if (head[0] != DAMAGE_BYTES)
		fuzz_noise(n, 10 + 3 * (size_t)n, seed);
	else
		fuzz_put(seed, small.data, n < 10 * DAMAGES ? small.size : small.size / (n - 20));
	return true;
}

static void patch(struct fuzz_input *in)
{
	struct buf copies[2] = { { 0 }, { 0 } };

	fuzz_put(&copies[0], real_main.data, real_main.size);
	fuzz_put(&copies[1], real_wal.data, real_wal.size);
	while (fuzz_left(in)) {
		struct buf *copy = &copies[take_below(in, 2)];
		size_t page = take_byte(in), place = (size_t)take_byte(in) << 8 | take_byte(in);
		struct bytes by = take_bytes(in, 600);
		size_t at = (page * 4096 + place % 4096) % copy->size;

		if (place & 0x4000 && by.size < 4)
			copy->size = MAX(at, (size_t)1);
		else
			memcpy(copy->data + at, by.data ? by.data : "",
			       MIN(by.size, copy->size - at));
	}
	place_put("", buf_bytes(&copies[0]));
	place_put("-wal", buf_bytes(&copies[1]));
	buf_done(&copies[0]);
	buf_done(&copies[1]);
}

/* Our tables, with the columns that find a row. */
static const struct {
	const char *name;
	const char *key;
	const char *columns[20];
} tables[] = {
	{ "sessfs_node",
	  "ino",
	  { "ino", "parent", "entry", "kind", "flags", "mode", "nlink", "rdev", "size", "atime",
	    "mtime", "session_id", "state_key", "target", "uid", "kind", "mode", "size",
	    "generation" } },
	{ "sessfs_entry", "parent, id", { "parent", "id", "name", "ino", "name", "ino" } },
	{ "sessfs_piece", "ino, item_index, seq", { "ino", "item_index", "seq", "data" } },
	{ "sessfs_mark", "ino, byte_offset", { "ino", "byte_offset", "item_index" } },
	{ "sessfs_chunk", "ino, chunk", { "ino", "chunk", "data" } },
	{ "sessfs_xattr", "ino, name", { "ino", "name", "value" } },
	{ "sessfs_change",
	  "session_id, state_key",
	  { "session_id", "state_key", "first_index", "deleted_index", "stamp", "rewritten" } },
	{ "sessfs_meta", "key", { "value", "key" } },
	{ "agentscope_sessions",
	  "session_id, state_key, item_index",
	  { "session_id", "state_key", "item_index", "state_data", "created_at", "updated_at" } },
};

static const char *const statements[] = {
	"DROP TABLE sessfs_node",
	"DROP TABLE sessfs_entry",
	"DROP TABLE sessfs_change",
	"DROP TABLE agentscope_sessions",
	"DROP INDEX sessfs_node_key",
	"DROP INDEX sessfs_mark_index",
	"DROP TRIGGER sessfs_row_insert",
	"ALTER TABLE sessfs_node RENAME COLUMN size TO sized",
	"ALTER TABLE sessfs_piece ADD COLUMN more",
	"ALTER TABLE agentscope_sessions RENAME TO others",
	"DROP TABLE sessfs_mark; CREATE VIEW sessfs_mark AS SELECT 1 AS ino, 2 AS byte_offset, "
	"3 AS item_index",
	"DROP TABLE agentscope_sessions; CREATE VIEW agentscope_sessions AS SELECT 's' AS "
	"session_id, 'k' AS state_key, 0 AS item_index, '1' AS state_data",
	"CREATE TRIGGER x AFTER INSERT ON sessfs_entry BEGIN DELETE FROM sessfs_entry; END",
	"CREATE TRIGGER y AFTER UPDATE ON sessfs_node BEGIN SELECT raise(FAIL, 'no'); END",
	"PRAGMA user_version = 99",
	"PRAGMA application_id = 7",
	"INSERT INTO sessfs_change VALUES (x'', x'', 0, 0, 9, 1)",
	"INSERT INTO sessfs_change VALUES ('s', 'l', 0, 0, -1, 1)",
	"DELETE FROM sessfs_meta",
	"DELETE FROM sessfs_entry",
	"UPDATE sessfs_node SET nlink = 0",
	"UPDATE sessfs_node SET kind = 3 WHERE kind > 1",
	"UPDATE sessfs_node SET flags = flags | 1 WHERE kind > 1",
	"UPDATE sessfs_node SET parent = ino",
	"UPDATE sessfs_entry SET id = 9223372036854775807 - id",
	"UPDATE sessfs_entry SET id = -id",
	"UPDATE sessfs_node SET ino = -ino WHERE ino > 1",
	"UPDATE sessfs_mark SET byte_offset = 9223372036854775807 - byte_offset",
	"UPDATE sessfs_mark SET item_index = -item_index",
	"UPDATE agentscope_sessions SET item_index = 9223372036854775000 + item_index",
	"UPDATE agentscope_sessions SET item_index = -9223372036854775000 - item_index",
	"PRAGMA journal_mode = DELETE",
};

static void bind(struct fuzz_input *in, sqlite3_stmt *statement, int place)
{
	struct bytes bytes;

	switch (take_below(in, 6)) {
	case 0:
	case 1:
		sqlite3_bind_int64(statement, place, (int64_t)take_number(in));
		break;
	case 2:
		sqlite3_bind_int64(statement, place, take_byte(in) % 16);
		break;
	case 3:
		bytes = take_bytes(in, 300);
		sqlite3_bind_blob64(statement, place, bytes.data ? bytes.data : (char *)"",
				    bytes.size, SQLITE_TRANSIENT);
		break;
	case 4:
		bytes = take_bytes(in, 300);
		sqlite3_bind_text64(statement, place, bytes.data ? bytes.data : (char *)"",
				    bytes.size, SQLITE_TRANSIENT, SQLITE_UTF8);
		break;
	default:
		sqlite3_bind_text(statement, place, take_byte(in) & 1 ? ".." : "a/b", -1,
				  SQLITE_STATIC);
	}
}

static void change_value(struct fuzz_input *in, sqlite3 *db)
{
	size_t table = take_below(in, ARRAY_SIZE(tables)), columns = 0;
	sqlite3_stmt *statement = NULL;
	const char *column;
	char text[512];

	/* Nodes and entries are what all the rest hangs on. */
	if (take_byte(in) & 1)
		table &= 1;
	while (columns < ARRAY_SIZE(tables[table].columns) && tables[table].columns[columns])
		columns++;
	column = tables[table].columns[take_below(in, (unsigned)columns)];
	snprintf(text, sizeof(text),
		 "UPDATE OR REPLACE %s SET %s = ?1 WHERE (%s) IN (SELECT %s FROM %s LIMIT 1 "
		 "OFFSET ?2)",
		 tables[table].name, column, tables[table].key, tables[table].key,
		 tables[table].name);
	/* The table may be gone, or another one by now. */
	if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_int(statement, 2, take_byte(in) % 16);
	bind(in, statement, 1);
	sqlite3_step(statement);
	sqlite3_finalize(statement);
}

static void change_tables(struct fuzz_input *in)
{
	sqlite3 *db = NULL;

	place_put("", buf_bytes(&real_main));
	place_put("-wal", buf_bytes(&real_wal));
	fuzz_need(sqlite3_open(place_store(), &db) == SQLITE_OK);
	sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
	for (unsigned i = 0; i < 30 && fuzz_left(in); i++) {
		if (take_byte(in) < 230)
			change_value(in, db);
		else
			sqlite3_exec(db, take_of(in, statements), NULL, NULL, NULL);
	}
	sqlite3_close(db);
}

/* What an agent may do with a file. */
static void use_file(void *arg, struct tree *tree, struct inode *dir, struct bytes name,
		     struct inode *inode)
{
	const struct stat st = { .st_size = 3, .st_mode = 0600 };
	const struct set_attr set = { .pid = getpid(), .st = &st, .mask = TREE_SET_SIZE };
	struct stat now;
	bool own;

	switch (++*(unsigned *)arg % 7) {
	case 0:
		place_write(tree, inode, O_WRONLY | O_APPEND, 0, BYTES("{\"n\": 1}\n"));
		break;
	case 1:
		place_write(tree, inode, O_RDWR | O_TRUNC, 0, BYTES("1\n2\n\n3\n"));
		break;
	case 2:
		tree_set_attr(tree, inode, &set, &now, &own);
		break;
	case 3:
		place_write(tree, inode, O_RDWR, 5, BYTES("\n[0]\n"));
		break;
	case 4:
		tree_rename(tree, dir, name, dir, BYTES("new.jsonl"), 0);
		break;
	case 5:
		if (tree_unlink(tree, dir, name) < 0)
			tree_rmdir(tree, dir, name);
		break;
	default:
		tree_set_xattr(tree, inode, BYTES("user.a"), BYTES("b"), 0);
	}
}

static void use(struct tree *tree, unsigned choices)
{
	place_walk(tree, WALK_DAMAGED, NULL);
	place_violations(tree->backend, NULL);
	if (choices & 16)
		place_each(tree, WALK_DAMAGED, use_file, &choices);
	place_settle(tree);
	place_walk(tree, WALK_DAMAGED, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	enum damage damage = (enum damage)take_below(&in, DAMAGES);
	unsigned choices = take_byte(&in);
	const struct backend_options options = {
		.read_only = choices & 1,
		.create = choices & 2,
		.owner = choices & 4 ? NULL : "the target",
	};
	const struct tree_options tree_options = { .read_only = choices & 1, .set_pause = true };
	struct tree *tree;
	int r;

	make_stores();
	place_clear();
	if (damage == DAMAGE_BYTES)
		place_put("", bytes_make(in.at, fuzz_left(&in)));
	else if (damage == DAMAGE_PATCH)
		patch(&in);
	else
		change_tables(&in);
	tree = place_open(&options, &tree_options, &r);
	if (!tree)
		return 0;
	use(tree, choices);
	tree_close(tree);
	return 0;
}
