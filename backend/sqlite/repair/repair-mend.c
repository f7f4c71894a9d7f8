/* SPDX-License-Identifier: MIT */
/*
 * What was brought into the new store is made to fit together: backend.h says how.
 *
 * All of it is done in SQL, in the order of keys, so that it needs little memory.
 */
#include <inttypes.h>
#include <string.h>

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/repair/repair.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/base/cleanup.h"

enum { RANGES_TOLD = 20 }; /* of one key or file */

/* What a question answers, row by row. */
static struct cursor ask_once(struct repairing *repairing, const char *text,
			      const struct sql_value *values, size_t count)
{
	return cursor_open_text(&repairing->store->writer, text, values, count);
}

static int run(struct repairing *repairing, const char *text, const struct sql_value *values,
	       size_t count)
{
	struct cursor cursor = ask_once(repairing, text, values, count);

	cursor_next(&cursor);
	return cursor_end(&cursor);
}

#define TOLD(bytes) (int)MIN((bytes).size, 500), (bytes).data

/* Nodes of which only references are left. */

/* First what refers to them; a directory is what has entries, or is a node's parent. */
static const char stand_ins[] =
	"CREATE TEMP TABLE referred AS SELECT ino, max(is_dir) AS is_dir FROM ("
	"SELECT ino, 0 AS is_dir FROM sessfs_entry UNION ALL "
	"SELECT parent, 1 FROM sessfs_entry UNION ALL "
	"SELECT parent, 1 FROM sessfs_node WHERE parent > 0 UNION ALL "
	"SELECT DISTINCT ino, 0 FROM sessfs_xattr UNION ALL "
	"SELECT DISTINCT ino, 0 FROM sessfs_chunk UNION ALL "
	"SELECT DISTINCT ino, 0 FROM sessfs_piece) "
	"WHERE ino NOT IN (SELECT ino FROM sessfs_node) GROUP BY ino;"
	"INSERT INTO sessfs_node (ino, parent, entry, kind, flags, mode, uid, gid, nlink, rdev, "
	"size, atime, mtime, ctime, btime) "
	"SELECT r.ino, coalesce((SELECT parent FROM sessfs_entry e WHERE e.ino = r.ino), 0), "
	"coalesce((SELECT id FROM sessfs_entry e WHERE e.ino = r.ino), 0), 0, 0, "
	"CASE is_dir WHEN 1 THEN 16832 ELSE 33152 END, 0, 0, 1 + is_dir, 0, 0, 0, 0, 0, 0 "
	"FROM temp.referred r;"
	"DROP TABLE temp.referred";

#define NOW "CAST(strftime('%s', 'now') AS INTEGER) * 1000000000"

/* They get the owner of the root and its time, and the size of what is there of them. */
static const char dress[] =
	"UPDATE sessfs_node SET uid = (SELECT uid FROM sessfs_node WHERE ino = 1), "
	"gid = (SELECT gid FROM sessfs_node WHERE ino = 1), "
	"atime = " NOW ", mtime = " NOW ", ctime = " NOW ", btime = " NOW ", "
	"size = coalesce((SELECT chunk * 32768 + length(data) FROM sessfs_chunk c "
	"WHERE c.ino = sessfs_node.ino ORDER BY chunk DESC LIMIT 1), 0) "
	"WHERE kind = 0 AND ctime = 0 AND btime = 0";

static int tell_stand_ins(struct repairing *repairing)
{
	static const char text[] =
		"SELECT n.ino, (n.mode & 61440) = 16384, n.session_id, n.state_key, "
		"(SELECT name FROM sessfs_entry e WHERE e.ino = n.ino) FROM sessfs_node n "
		"WHERE n.kind = 0 AND n.ctime = 0 AND n.btime = 0";
	struct cursor node = ask_once(repairing, text, SQL_NO_VALUES);

	while (cursor_next(&node)) {
		struct bytes session = cursor_bytes(&node, 2), key = cursor_bytes(&node, 3);
		struct bytes name = cursor_bytes(&node, 4);

		if (sqlite3_column_type(node.statement, 2) == SQLITE_TEXT)
			repair_tell(repairing,
				    "session %.*s, key %.*s: the mode and the times are lost",
				    TOLD(session), TOLD(key));
		else
			repair_tell(repairing,
				    "%s %.*s (inode %lld): the mode and the times%s "
				    "are lost",
				    cursor_number(&node, 1) ? "the directory" : "the file",
				    TOLD(name), (long long)cursor_number(&node, 0),
				    name.size ? "" : " and the name");
	}
	return cursor_end(&node);
}

/* Numbers that leave none for what is made next get others, everywhere. */
#define MOST "4611686018427387903"
#define RENUMBER(table, column)                                                                    \
	"UPDATE " table " SET " column " = (SELECT new FROM temp.number WHERE old = " column       \
	") WHERE " column " IN (SELECT old FROM temp.number);"

static const char renumber[] =
	"CREATE TEMP TABLE number AS SELECT ino AS old, (SELECT coalesce(max(ino), 1) FROM "
	"sessfs_node WHERE ino BETWEEN 1 AND " MOST ") + row_number() OVER (ORDER BY ino) AS new "
	"FROM sessfs_node WHERE ino NOT BETWEEN 0 AND " MOST
	";" RENUMBER("sessfs_node", "ino") RENUMBER("sessfs_node",
						    "parent") RENUMBER("sessfs_entry", "ino")
		RENUMBER("sessfs_entry", "parent") RENUMBER("sessfs_xattr",
							    "ino") RENUMBER("sessfs_chunk", "ino")
			RENUMBER("sessfs_piece", "ino") RENUMBER("sessfs_mark", "ino") RENUMBER(
				"sessfs_trash",
				"ino") "DROP TABLE temp.number;"
				       "CREATE TEMP TABLE number AS SELECT parent, id AS old, "
				       "(SELECT coalesce(max(id), 0) FROM "
				       "sessfs_entry WHERE id BETWEEN 1 AND " MOST
				       ") + row_number() OVER (ORDER BY parent, id) "
				       "AS new FROM sessfs_entry WHERE id NOT BETWEEN 1 AND " MOST
				       ";"
				       "UPDATE sessfs_node SET entry = coalesce((SELECT new FROM "
				       "temp.number n WHERE n.parent = "
				       "sessfs_node.parent AND n.old = sessfs_node.entry), 0) "
				       "WHERE entry NOT BETWEEN 0 AND " MOST ";"
				       "UPDATE sessfs_entry SET id = (SELECT new FROM temp.number "
				       "n WHERE n.parent = "
				       "sessfs_entry.parent AND n.old = sessfs_entry.id) WHERE id "
				       "NOT BETWEEN 1 AND " MOST ";"
				       "DROP TABLE temp.number";

/* Values that no file can have: each with what is said of how many. */
static const struct {
	const char *sql;
	const char *sentence;
} impossible[] = {
	{ "UPDATE sessfs_node SET mode = (mode & 511) | 16384 WHERE (mode & 61440) NOT IN (4096, "
	  "8192, 16384, 24576, 32768, 40960, 49152) AND ino IN (SELECT parent FROM sessfs_entry)",
	  "directories had lost their type" },
	{ "DELETE FROM sessfs_entry WHERE parent IN (SELECT ino FROM sessfs_node WHERE "
	  "(mode & 61440) <> 16384)",
	  "names were not in a directory" },
	{ "UPDATE sessfs_node SET size = 0 WHERE size < 0",
	  "files had a negative size and are empty" },
	{ "UPDATE sessfs_node SET mode = (mode & 511) | 32768, target = NULL WHERE (mode & 61440) "
	  "= "
	  "40960 AND (target IS NULL OR length(target) NOT BETWEEN 1 AND 4095 OR "
	  "instr(target, x'00'))",
	  "symbolic links have lost their targets and are empty files" },
	{ "UPDATE sessfs_node SET flags = flags & 15, mode = mode & 65535, nlink = "
	  "min(max(nlink, 0), 4294967295), uid = uid & 4294967295, gid = gid & 4294967295, "
	  "rdev = max(rdev, 0) WHERE flags NOT BETWEEN 0 AND 15 OR mode NOT BETWEEN 0 AND 65535 OR "
	  "nlink NOT BETWEEN 0 AND 4294967295 OR uid NOT BETWEEN 0 AND 4294967295 OR gid NOT "
	  "BETWEEN 0 AND 4294967295 OR rdev < 0",
	  "files had numbers out of range in their modes or owners" },
	{ "DELETE FROM sessfs_xattr WHERE length(name) NOT BETWEEN 1 AND 255 OR instr(name, x'00') "
	  "OR length(value) > 65536",
	  "attributes had names or values that no attribute can have, and are lost" },
	{ "DELETE FROM sessfs_chunk WHERE chunk NOT BETWEEN 0 AND 281474976710655",
	  "pieces of 32 KiB had numbers out of range, and are lost" },
	{ "UPDATE sessfs_chunk SET data = substr(data, 1, 32768) WHERE length(data) > 32768",
	  "pieces of 32 KiB were larger, and the rest of them is lost" },
};

static int mend_values(struct repairing *repairing)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	int r = sqlite_conn_exec(conn, renumber);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(impossible); i++) {
		r = sqlite_conn_exec(conn, impossible[i].sql);
		if (r == 0 && sqlite3_changes(conn->db) > 0)
			repair_tell(repairing, "%d %s", sqlite3_changes(conn->db),
				    impossible[i].sentence);
	}
	return r;
}

/* What was known of a list may be true no longer. */
static const char move_generations[] =
	"UPDATE sessfs_node SET generation = max(" NOW ", iif(generation BETWEEN 0 AND " MOST
	", generation, 0) + 1)";

static int mend_nodes(struct repairing *repairing)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	int r = mend_values(repairing);

	if (r == 0)
		r = sqlite_conn_exec(conn, stand_ins);
	if (r == 0)
		r = tell_stand_ins(repairing);
	if (r == 0)
		r = sqlite_conn_exec(conn, dress);
	return r < 0 ? r : sqlite_conn_exec(conn, move_generations);
}

/* Bytes of files. */

struct gaps {
	struct repairing *repairing;
	struct bytes what; /* whose */
	int64_t ino;
	int64_t expected; /* the next chunk */
	unsigned told;
};

static void tell_gap(struct gaps *gaps, int64_t end, int64_t size)
{
	if (gaps->expected < end && ++gaps->told <= RANGES_TOLD)
		repair_tell(gaps->repairing,
			    "the file %.*s (inode %" PRId64 "): bytes %" PRId64 " to %" PRId64
			    " are lost and read as zeros",
			    TOLD(gaps->what), gaps->ino, gaps->expected * BACKEND_CHUNK,
			    MIN(end * BACKEND_CHUNK, size) - 1);
}

static int find_gaps(struct gaps *gaps, int64_t size)
{
	struct cursor chunks =
		ask_once(gaps->repairing,
			 "SELECT chunk FROM sessfs_chunk WHERE ino = ?1 ORDER BY chunk",
			 SQL_VALUES(sql_number(gaps->ino)));
	int64_t count = (size + BACKEND_CHUNK - 1) / BACKEND_CHUNK;
	int r;

	gaps->expected = 0;
	gaps->told = 0;
	while (cursor_next(&chunks)) {
		int64_t chunk = cursor_number(&chunks, 0);

		tell_gap(gaps, MIN(chunk, count), size);
		gaps->expected = chunk + 1;
	}
	r = cursor_end(&chunks);
	if (r == 0)
		tell_gap(gaps, count, size);
	return r;
}

/* Files without holes that have some now. */
static int mend_files(struct repairing *repairing)
{
	static const char files[] =
		"SELECT n.ino, n.size, coalesce((SELECT name FROM sessfs_entry e WHERE e.ino = "
		"n.ino), '') FROM sessfs_node n WHERE n.size > 0 AND (n.flags & 8) = 0 AND "
		"(n.mode & 61440) = 32768 AND (n.kind = 0 OR (n.flags & 1)) AND (SELECT count(*) "
		"FROM sessfs_chunk c WHERE c.ino = n.ino AND c.chunk * 32768 < n.size) < "
		"(n.size + 32767) / 32768";
	struct cursor file = ask_once(repairing, files, SQL_NO_VALUES);
	struct gaps gaps = { .repairing = repairing };

	while (cursor_next(&file)) {
		gaps.ino = cursor_number(&file, 0);
		gaps.what = cursor_bytes(&file, 2);
		file.r = find_gaps(&gaps, cursor_number(&file, 1));
		if (file.r == 0)
			file.r = run(repairing,
				     "UPDATE sessfs_node SET flags = flags | 8 WHERE ino = ?1",
				     SQL_VALUES(sql_number(gaps.ino)));
	}
	return cursor_end(&file);
}

/* Items of lists. */

/* Asked for each item, and so prepared once. */
enum {
	NEXT,  /* the row behind one */
	PRIOR, /* the row before one */
	MOVE,  /* a row to another index */
	NODE,  /* of the key */
	PIECE, /* the next piece */
	BELOW, /* rows before an index */
	SHIFT, /* a piece to another place */
	QUESTIONS,
};

static const char *const questions[QUESTIONS] = {
	[NEXT] = "SELECT item_index FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
		 "item_index > ?3 ORDER BY item_index LIMIT 1",
	[PRIOR] = "SELECT item_index FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
		  "item_index < ?3 ORDER BY item_index DESC LIMIT 1",
	[MOVE] = "UPDATE {rows} SET item_index = ?4 WHERE session_id = ?1 AND state_key = ?2 AND "
		 "item_index = ?3",
	[NODE] = "SELECT ino FROM sessfs_node WHERE session_id = ?1 AND state_key = ?2 AND "
		 "kind IN (0, 3) AND ino NOT IN (SELECT ino FROM sessfs_trash)",
	[PIECE] = "SELECT item_index, seq FROM sessfs_piece WHERE ino = ?1 AND "
		  "(item_index, seq) > (?2, ?3) ORDER BY item_index, seq LIMIT 1",
	[BELOW] = "SELECT count(*) FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
		  "item_index < ?3",
	[SHIFT] = "UPDATE sessfs_piece SET item_index = -1 - ?4, seq = ?5 WHERE ino = ?1 AND "
		  "item_index = ?2 AND seq = ?3",
};

struct key {
	struct repairing *repairing;
	struct bytes session;
	struct bytes key;
	sqlite3_stmt *statements[QUESTIONS];
};

static void key_done(struct key *key)
{
	for (size_t i = 0; i < QUESTIONS; i++)
		sqlite3_finalize(key->statements[i]);
}

/* 1, with the numbers of the first row, or 0: there is none. */
static int ask_item(struct key *key, int question, const struct sql_value *values, size_t count,
		    int64_t *ret_numbers)
{
	struct sqlite_conn *conn = &key->repairing->store->writer;
	sqlite3_stmt *statement = key->statements[question];
	int code, r;

	sqlite_conn_bind(conn, statement, values, count);
	code = sqlite3_step(statement);
	r = sqlite_result(conn, code);
	for (int i = 0; code == SQLITE_ROW && i < sqlite3_column_count(statement); i++)
		ret_numbers[i] = sqlite3_column_int64(statement, i);
	sqlite3_reset(statement);
	return r < 0 ? r : code == SQLITE_ROW;
}

#define OF_KEY(key) sql_given((key)->session), sql_given((key)->key)

/* The pieces of a list keep their places among the rows that are left.  They go to negative
 * indexes first, where none is in the way of another. */
static int move_pieces(struct key *key)
{
	int64_t ino = 0, piece[2] = { INT64_MIN, 0 }, at = 0, last = -1, number = 0;
	int r = ask_item(key, NODE, SQL_VALUES(OF_KEY(key)), &ino);

	while (r > 0) {
		r = ask_item(key, PIECE,
			     SQL_VALUES(sql_number(ino), sql_number(MAX(piece[0], -1)),
					sql_number(piece[1])),
			     piece);
		if (r <= 0)
			break;
		r = ask_item(key, BELOW, SQL_VALUES(OF_KEY(key), sql_number(piece[0])), &at);
		if (r < 0)
			break;
		number = at == last ? number + 1 : 0;
		last = at;
		r = ask_item(key, SHIFT,
			     SQL_VALUES(sql_number(ino), sql_number(piece[0]), sql_number(piece[1]),
					sql_number(at), sql_number(number)),
			     NULL);
		r = r < 0 ? r : 1;
	}
	if (r < 0 || !ino)
		return r;
	return run(key->repairing,
		   "UPDATE sessfs_piece SET item_index = -1 - item_index WHERE ino = ?1 AND "
		   "item_index < 0",
		   SQL_VALUES(sql_number(ino)));
}

static int move_row(struct key *key, int64_t from, int64_t to)
{
	return ask_item(key, MOVE, SQL_VALUES(OF_KEY(key), sql_number(from), sql_number(to)), NULL);
}

/* Those that get a higher number, since some before them have one below 0: the last one first. */
static int move_up(struct key *key)
{
	int64_t next = INT64_MIN, end = INT64_MIN, number = 0;
	int r;

	for (;; number++, end = next + 1) {
		r = ask_item(key, NEXT, SQL_VALUES(OF_KEY(key), sql_number(next)), &next);
		if (r <= 0 || next >= number)
			break;
	}
	while (r >= 0 && number-- > 0) {
		r = ask_item(key, PRIOR, SQL_VALUES(OF_KEY(key), sql_number(end)), &end);
		if (r > 0)
			r = move_row(key, end, number);
	}
	return MIN(r, 0);
}

/* Number the rows anew, and tell which are missing. */
static int move_rows(struct key *key)
{
	int64_t old = -1, next = 0, expected = 0, number = 0;
	unsigned told = 0;
	int r = move_up(key);

	if (r < 0)
		return r;
	for (;; number++) {
		r = ask_item(key, NEXT, SQL_VALUES(OF_KEY(key), sql_number(old)), &next);
		if (r <= 0)
			break;
		if (next != expected && ++told <= RANGES_TOLD)
			repair_tell(key->repairing,
				    "session %.*s, key %.*s: items %" PRId64 " to %" PRId64
				    " are lost; later ones move up",
				    TOLD(key->session), TOLD(key->key), expected, next - 1);
		expected = next < INT64_MAX ? next + 1 : next;
		old = next;
		if (next == number)
			continue;
		r = move_row(key, next, number);
		if (r < 0)
			return r;
	}
	if (r == 0 && told > RANGES_TOLD)
		repair_tell(key->repairing, "session %.*s, key %.*s: and %u more ranges",
			    TOLD(key->session), TOLD(key->key), told - RANGES_TOLD);
	return r;
}

/* Keys whose items have gaps; they are kept while the rows are moved. */
static int mend_lists(struct repairing *repairing)
{
	static const char gaps[] =
		"CREATE TEMP TABLE gap AS SELECT session_id, state_key FROM {rows} "
		"GROUP BY session_id, state_key "
		"HAVING min(item_index) <> 0 OR max(item_index) <> count(*) - 1 UNION "
		"SELECT n.session_id, n.state_key FROM sessfs_piece p JOIN sessfs_node n ON "
		"n.ino = p.ino WHERE n.state_key IS NOT NULL AND n.ino NOT IN (SELECT ino FROM "
		"sessfs_trash) AND p.item_index > (SELECT count(*) FROM {rows} r WHERE "
		"r.session_id = n.session_id AND r.state_key = n.state_key)";
	_cleanup_(key_done) struct key key = { .repairing = repairing };
	struct sqlite_conn *conn = &repairing->store->writer;
	struct cursor gap;
	int r = run(repairing, gaps, SQL_NO_VALUES);

	for (size_t i = 0; r == 0 && i < QUESTIONS; i++)
		r = sqlite_conn_prepare(conn, questions[i], &key.statements[i]);
	if (r < 0)
		return r;
	gap = ask_once(repairing, "SELECT session_id, state_key FROM temp.gap", SQL_NO_VALUES);
	while (cursor_next(&gap)) {
		key.session = cursor_bytes(&gap, 0);
		key.key = cursor_bytes(&gap, 1);
		gap.r = move_pieces(&key);
		if (gap.r == 0)
			gap.r = move_rows(&key);
	}
	r = cursor_end(&gap);
	return r < 0 ? r : sqlite_conn_exec(conn, "DROP TABLE temp.gap");
}

/* A list is at least as long as its marks say. */
static int tell_short_lists(struct repairing *repairing)
{
	static const char text[] =
		"SELECT n.session_id, n.state_key, max(m.item_index), coalesce((SELECT "
		"max(r.item_index) + 1 FROM {rows} r WHERE r.session_id = n.session_id AND "
		"r.state_key = n.state_key), 0) AS count FROM sessfs_node n JOIN sessfs_mark m ON "
		"m.ino = n.ino WHERE n.kind = 3 AND (n.flags & 1) = 0 GROUP BY n.ino "
		"HAVING max(m.item_index) > count";
	struct cursor list = ask_once(repairing, text, SQL_NO_VALUES);

	while (cursor_next(&list)) {
		struct bytes session = cursor_bytes(&list, 0), key = cursor_bytes(&list, 1);

		repair_tell(repairing,
			    "session %.*s, key %.*s: of at least %lld items %lld are left",
			    TOLD(session), TOLD(key), (long long)cursor_number(&list, 2),
			    (long long)cursor_number(&list, 3));
	}
	return cursor_end(&list);
}

/* A torn line that was closed off must not run into the next row now. */
static const char seal[] =
	"INSERT INTO sessfs_piece (ino, item_index, seq, data) "
	"SELECT p.ino, p.item_index, p.seq + 1, x'0a' FROM sessfs_piece p JOIN sessfs_node n ON "
	"n.ino = p.ino WHERE length(p.data) > 0 AND substr(p.data, -1) <> x'0a' AND NOT EXISTS "
	"(SELECT 1 FROM sessfs_piece q WHERE q.ino = p.ino AND q.item_index = p.item_index AND "
	"q.seq > p.seq) AND n.ino NOT IN (SELECT ino FROM sessfs_trash) AND "
	"EXISTS (SELECT 1 FROM {rows} r WHERE r.session_id = n.session_id AND "
	"r.state_key = n.state_key AND r.item_index >= p.item_index)";

/* A store from which nothing was ever removed has no such table. */
static int mend_trash(struct repairing *repairing)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	int64_t rows = 0;
	int r = sqlite_conn_exec(conn, "DELETE FROM sessfs_trash WHERE ino NOT IN "
				       "(SELECT ino FROM sessfs_node)");

	if (r == 0)
		r = sqlite_conn_query(conn, "SELECT count(*) FROM sessfs_trash", 0, &rows);
	return r < 0 || rows ? r : sqlite_conn_exec(conn, "DROP TABLE sessfs_trash");
}

int repair_mend(struct repairing *repairing)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	int r = mend_nodes(repairing);

	if (r == 0)
		r = mend_files(repairing);
	if (r == 0)
		r = tell_short_lists(repairing);
	if (r == 0)
		r = sqlite_conn_exec(conn, "DELETE FROM sessfs_mark");
	if (r == 0)
		r = mend_lists(repairing);
	if (r == 0)
		r = run(repairing, seal, SQL_NO_VALUES);
	if (r == 0)
		r = run(repairing, SQLITE_VERSIONS_BEGIN, SQL_NO_VALUES);
	return r < 0 ? r : mend_trash(repairing);
}
