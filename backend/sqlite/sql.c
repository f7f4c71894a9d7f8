/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/sqlite/internal.h"
#include "src/base/cleanup.h"

#define NODE_COLUMNS                                                                               \
	"n.ino, n.parent, n.entry, n.kind, n.flags, n.mode, n.uid, n.gid, n.nlink, n.rdev, "       \
	"n.size, n.atime, n.mtime, n.ctime, n.btime, n.session_id, n.state_key, n.target "

/* Rows of which ids and index are of the types that we know. */
#define SHOWN_ROWS                                                                                 \
	"session_id < x'' AND session_id >= '' AND state_key < x'' AND state_key >= '' AND "       \
	"typeof(item_index) = 'integer' "

/* One of several rows that are inserted: its place behind the first, and the parameter that has its
 * data. */
#define NEXT_ROW(place, data) ", (?1, ?2, ?3 + " #place ", ?" #data "{time_values})"

/*
 * Words in braces differ from store to store; sqlite_sql_expand() puts them in.  Ids in the rows'
 * table may be of any type when another program wrote them: text alone is an id to us, and
 * "< x''" bounds a range to text, as every text sorts before every blob (and behind every number).
 * For the same reason "the next id" is written as "id >= previous || NUL": the caller appends the
 * NUL, and '' is before the first.
 */
static const char *const texts[SQL_COUNT] = {
	[SQL_BEGIN] = "BEGIN",
	[SQL_BEGIN_IMMEDIATE] = "BEGIN IMMEDIATE",
	[SQL_COMMIT] = "COMMIT",
	[SQL_PENDING] = "SELECT EXISTS (SELECT 1 FROM sessfs_change)",
	[SQL_DATA_VERSION] = "PRAGMA main.data_version",
	[SQL_DIGESTED] = "SELECT value FROM sessfs_meta WHERE key = 'digested'",
	[SQL_TRIGGERS] = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND "
			 "tbl_name = {name} COLLATE NOCASE AND name IN ('sessfs_row_insert', "
			 "'sessfs_row_update', 'sessfs_row_delete')",

	[SQL_NODE_GET] = "SELECT " NODE_COLUMNS "FROM sessfs_node n WHERE n.ino = ?1",
	[SQL_NODE_FIND_KEY] = "SELECT " NODE_COLUMNS "FROM sessfs_node n WHERE n.session_id = ?1 "
			      "AND n.state_key = ?2 AND n.kind >= 2 AND n.nlink > 0",
	[SQL_NODE_FIND_SESSION] = "SELECT " NODE_COLUMNS "FROM sessfs_node n "
				  "WHERE n.session_id = ?1 AND n.kind = 1 AND n.nlink > 0",
	[SQL_NODE_LIST] = "SELECT " NODE_COLUMNS "FROM sessfs_node n WHERE n.ino > ?1 "
			  "ORDER BY n.ino",
	[SQL_NODE_LIST_ORPHANS] = "SELECT " NODE_COLUMNS "FROM sessfs_node n WHERE n.ino > ?1 "
				  "AND n.nlink = 0 ORDER BY n.ino",

	[SQL_ENTRY_FIND] = "SELECT " NODE_COLUMNS ", e.id FROM sessfs_entry e CROSS JOIN "
			   "sessfs_node n ON n.ino = e.ino WHERE e.parent = ?1 AND e.name = ?2",
	[SQL_ENTRY_NAME] = "SELECT name FROM sessfs_entry WHERE parent = ?1 AND id = ?2",
	[SQL_ENTRY_LIST] = "SELECT " NODE_COLUMNS ", e.id, e.name FROM sessfs_entry e CROSS JOIN "
			   "sessfs_node n ON n.ino = e.ino WHERE e.parent = ?1 AND e.id > ?2 "
			   "ORDER BY e.id",

	[SQL_XATTR_GET] = "SELECT value FROM sessfs_xattr WHERE ino = ?1 AND name = ?2",
	[SQL_XATTR_LIST] = "SELECT name FROM sessfs_xattr WHERE ino = ?1 ORDER BY name",
	[SQL_CHUNK_READ] = "SELECT chunk, data FROM sessfs_chunk WHERE ino = ?1 AND "
			   "chunk BETWEEN ?2 AND ?3 ORDER BY chunk",
	/* length() of a blob reads none of it; but to see whether the end of a range has come, the
	 * whole record would be read. */
	[SQL_CHUNK_LIST] = "SELECT chunk, length(data), ino FROM sessfs_chunk WHERE "
			   "(ino, chunk) >= (?1, ?2) ORDER BY ino, chunk",

	[SQL_ROW_READ] = "SELECT item_index, state_data FROM {rows} WHERE session_id = ?1 AND "
			 "state_key = ?2 AND item_index >= ?3 ORDER BY item_index",
	[SQL_KEY_FIRST] = "SELECT item_index FROM {rows} WHERE session_id = ?1 AND "
			  "state_key = ?2 AND typeof(item_index) = 'integer' "
			  "ORDER BY item_index LIMIT 1",
	[SQL_KEY_LAST] = "SELECT item_index, {created}, {updated} FROM {rows} WHERE "
			 "session_id = ?1 AND state_key = ?2 AND typeof(item_index) = 'integer' "
			 "ORDER BY item_index DESC LIMIT 1",
	[SQL_NEXT_SESSION] = "SELECT session_id FROM {rows} WHERE session_id >= ?1 AND "
			     "session_id < x'' ORDER BY session_id LIMIT 1",
	[SQL_NEXT_KEY] = "SELECT state_key FROM {rows} WHERE session_id = ?1 AND "
			 "state_key >= ?2 AND state_key < x'' ORDER BY state_key LIMIT 1",
	/* In the order of the primary key, so nothing is sorted. */
	[SQL_SESSION_ROWS] =
		"SELECT session_id, count(*), sum({octets}), min({created}), "
		"max({updated}) FROM {rows} WHERE " SHOWN_ROWS "GROUP BY session_id, state_key",
	[SQL_SESSION_EMPTY] = "SELECT session_id, mtime FROM sessfs_node n WHERE kind = 1 AND "
			      "nlink > 0 AND NOT EXISTS (SELECT 1 FROM {rows} WHERE "
			      "session_id = n.session_id AND state_key < x'' AND state_key >= '' "
			      "AND typeof(item_index) = 'integer') ORDER BY session_id",
	[SQL_SESSION_STAT] = "SELECT session_id, count(*), sum({octets}), min({created}), "
			     "max({updated}) FROM {rows} WHERE session_id = ?1 AND " SHOWN_ROWS
			     "GROUP BY session_id, state_key",
	[SQL_DAY_LIST] = "SELECT {created}, {octets} FROM {rows} WHERE " SHOWN_ROWS,

	[SQL_PIECE_READ] = "SELECT item_index, seq, data FROM sessfs_piece WHERE ino = ?1 AND "
			   "(item_index, seq) >= (?2, ?3) ORDER BY item_index, seq",
	[SQL_MARK_FIND] = "SELECT byte_offset, item_index FROM sessfs_mark WHERE ino = ?1 AND "
			  "byte_offset <= ?2 ORDER BY byte_offset DESC LIMIT 1",
	[SQL_MARK_FIND_INDEX] = "SELECT byte_offset, item_index FROM sessfs_mark WHERE ino = ?1 "
				"AND item_index <= ?2 ORDER BY item_index DESC, "
				"byte_offset DESC LIMIT 1",
	[SQL_LAST_INO] = "SELECT max(ino) FROM sessfs_node",
	/* One seek a directory: there is no index over the ids of all directories. */
	[SQL_LAST_ENTRY] =
		"WITH RECURSIVE directory (ino) AS (SELECT min(parent) FROM sessfs_entry UNION ALL "
		"SELECT (SELECT min(parent) FROM sessfs_entry WHERE parent > directory.ino) "
		"FROM directory WHERE directory.ino NOT NULL) "
		"SELECT max((SELECT max(id) FROM sessfs_entry WHERE parent = directory.ino)) "
		"FROM directory",
	[SQL_PAGE_COUNT] = "PRAGMA main.page_count",
	[SQL_CHANGE_LIST] = "SELECT session_id, state_key, first_index, deleted_index, stamp "
			    "FROM sessfs_change",
	/* The stamp of the newest change, if "anything may have changed" is among them. */
	[SQL_CHANGE_EVERYTHING] =
		"SELECT (SELECT max(stamp) FROM sessfs_change) FROM sessfs_change "
		"WHERE session_id = x'' AND state_key = x''",

	[SQL_ROW_INSERT] = "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
			   "{time_columns}) VALUES (?1, ?2, ?3, ?4{time_values})",
	[SQL_ROWS_INSERT] =
		"INSERT INTO {rows} (session_id, state_key, item_index, state_data"
		"{time_columns}) VALUES (?1, ?2, ?3, ?4{time_values})" NEXT_ROW(1, 6) NEXT_ROW(2, 7)
			NEXT_ROW(3, 8) NEXT_ROW(4, 9) NEXT_ROW(5, 10) NEXT_ROW(6, 11)
				NEXT_ROW(7, 12) NEXT_ROW(8, 13) NEXT_ROW(9, 14) NEXT_ROW(10, 15)
					NEXT_ROW(11, 16) NEXT_ROW(12, 17) NEXT_ROW(13, 18)
						NEXT_ROW(14, 19) NEXT_ROW(15, 20),
	[SQL_ROW_PUT] = "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
			"{time_columns}) VALUES (?1, ?2, ?3, ?4{time_values}) "
			"ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET "
			"state_data = excluded.state_data{set_updated} "
			"WHERE state_data IS NOT excluded.state_data",
	[SQL_ROW_UPDATE] =
		"UPDATE {rows} SET state_data = ?4{set_updated_to} WHERE session_id = ?1 "
		"AND state_key = ?2 AND item_index = ?3",
	[SQL_ROW_SAME] = "SELECT 1 FROM {rows} WHERE session_id = ?1 AND state_key = ?2 "
			 "AND item_index = ?3 AND state_data IS ?4",
	[SQL_ROW_ENSURE] = "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
			   "{time_columns}) VALUES (?1, ?2, ?3, ?4{time_values}) "
			   "ON CONFLICT (session_id, state_key, item_index) DO NOTHING",
	[SQL_ROW_DELETE] = "DELETE FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
			   "item_index BETWEEN ?3 AND ?4",
	[SQL_KEY_CLEAR_TARGET] = "DELETE FROM {rows} WHERE session_id = ?3 AND state_key = ?4 "
				 "AND (?1 IS NOT ?3 OR ?2 IS NOT ?4)",
	[SQL_KEY_MOVE] = "UPDATE {rows} SET session_id = ?3, state_key = ?4 "
			 "WHERE session_id = ?1 AND state_key = ?2",

	/* Made when it is first needed: a store from which nothing was ever removed has none.  Of
	 * any type are what other programs have put into the rows. */
	[SQL_TRASH_MAKE] = "CREATE TABLE IF NOT EXISTS main.sessfs_trash (\n"
			   "  -- Rows of files in the trash, until they come back or go.\n"
			   "  ino        INTEGER NOT NULL, -- of the file\n"
			   "  item_index INTEGER NOT NULL,\n"
			   "  state_data,\n"
			   "  created_at,\n"
			   "  updated_at,\n"
			   "  PRIMARY KEY (ino, item_index)\n"
			   ")",
	[SQL_KEY_HIDE] = "INSERT INTO sessfs_trash (ino, item_index, state_data, created_at, "
			 "updated_at) SELECT ?3, item_index, state_data, {created}, {updated} "
			 "FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
			 "typeof(item_index) = 'integer'",
	[SQL_KEY_HIDDEN] = "DELETE FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
			   "typeof(item_index) = 'integer'",
	[SQL_KEY_SHOW] = "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
			 "{time_columns}) SELECT ?1, ?2, item_index, state_data{time_columns} "
			 "FROM sessfs_trash WHERE ino = ?3",
	[SQL_KEY_SHOWN] = "DELETE FROM sessfs_trash WHERE ino = ?3",
	[SQL_HIDDEN_DELETE] = "DELETE FROM sessfs_trash WHERE ino = ?1 AND item_index BETWEEN ?2 "
			      "AND ?3",

	/* Most changes of a node touch no column that an index covers; naming those columns in the
	 * SET would rewrite the index entries each time. */
	[SQL_NODE_TOUCH] = "UPDATE sessfs_node SET parent = ?2, entry = ?3, flags = ?5, mode = ?6, "
			   "uid = ?7, gid = ?8, rdev = ?10, size = ?11, atime = ?12, mtime = ?13, "
			   "ctime = ?14, btime = ?15, target = ?18 WHERE ino = ?1 AND kind = ?4 "
			   "AND nlink = ?9 AND session_id IS ?16 AND state_key IS ?17",
	[SQL_NODE_PUT] =
		"INSERT INTO sessfs_node (ino, parent, entry, kind, flags, mode, uid, gid, "
		"nlink, rdev, size, atime, mtime, ctime, btime, session_id, state_key, "
		"target) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
		"?14, ?15, ?16, ?17, ?18) ON CONFLICT (ino) DO UPDATE SET parent = ?2, "
		"entry = ?3, kind = ?4, flags = ?5, mode = ?6, uid = ?7, gid = ?8, "
		"nlink = ?9, rdev = ?10, size = ?11, atime = ?12, mtime = ?13, "
		"ctime = ?14, btime = ?15, session_id = ?16, state_key = ?17, "
		"target = ?18",
	[SQL_NODE_DELETE] = "DELETE FROM sessfs_node WHERE ino = ?1",
	[SQL_NODE_XATTRS_DELETE] = "DELETE FROM sessfs_xattr WHERE ino = ?1",
	[SQL_NODE_CHUNKS_DELETE] = "DELETE FROM sessfs_chunk WHERE ino = ?1",
	[SQL_NODE_PIECES_DELETE] = "DELETE FROM sessfs_piece WHERE ino = ?1",
	[SQL_NODE_MARKS_DELETE] = "DELETE FROM sessfs_mark WHERE ino = ?1",
	[SQL_ENTRY_PUT] = "INSERT INTO sessfs_entry (parent, id, name, ino) "
			  "VALUES (?1, ?2, ?3, ?4)",
	[SQL_ENTRY_DELETE] = "DELETE FROM sessfs_entry WHERE parent = ?1 AND id = ?2",
	[SQL_XATTR_PUT] = "INSERT OR REPLACE INTO sessfs_xattr (ino, name, value) "
			  "VALUES (?1, ?2, ?3)",
	[SQL_XATTR_DELETE] = "DELETE FROM sessfs_xattr WHERE ino = ?1 AND name = ?2",
	[SQL_CHUNK_PUT] = "INSERT OR REPLACE INTO sessfs_chunk (ino, chunk, data) "
			  "VALUES (?1, ?2, ?3)",
	[SQL_CHUNK_DELETE] = "DELETE FROM sessfs_chunk WHERE ino = ?1 AND chunk BETWEEN ?2 AND ?3",
	[SQL_PIECE_PUT] = "INSERT OR REPLACE INTO sessfs_piece (ino, item_index, seq, data) "
			  "VALUES (?1, ?2, ?3, ?4)",
	[SQL_PIECE_DELETE] =
		"DELETE FROM sessfs_piece WHERE ino = ?1 AND item_index BETWEEN ?2 AND "
		"?3 AND (item_index > ?2 OR seq >= ?4)",
	[SQL_MARK_PUT] = "INSERT OR REPLACE INTO sessfs_mark (ino, byte_offset, item_index) "
			 "VALUES (?1, ?2, ?3)",
	[SQL_MARK_DELETE] = "DELETE FROM sessfs_mark WHERE ino = ?1 AND byte_offset >= ?2",
	[SQL_CHANGE_DONE] = "DELETE FROM sessfs_change WHERE session_id = ?1 AND state_key = ?2 "
			    "AND stamp = ?3",
	[SQL_EVERYTHING_DONE] = "DELETE FROM sessfs_change WHERE stamp <= ?1",
	[SQL_DIGESTED_SET] = "UPDATE sessfs_meta SET value = ?1 WHERE key = 'digested'",
};

const char *sqlite_sql_text(enum sqlite_sql sql)
{
	return texts[sql];
}

struct word {
	const char *name;
	const char *format; /* of sqlite3_mprintf, with one argument */
	const char *argument;
};

/* The word that text begins with. */
static const struct word *word_at(const char *text, const struct word *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, words[i].name, strlen(words[i].name)) == 0)
			return &words[i];
	return NULL;
}

char *sqlite_sql_expand(const char *text, const struct sqlite_layout *layout, const char *schema)
{
	bool created = layout->has_created, updated = layout->has_updated;
	const struct word words[] = {
		{ "{rows}", "%s", layout->quoted },
		{ "{name}", "%Q", layout->name },
		{ "{schema}", "%s", schema },
		{ "{created}", "%s", created ? "created_at" : "NULL" },
		{ "{updated}", "%s", updated ? "updated_at" : "NULL" },
		/* The newer function does not read what is long. */
		{ "{octets}", "%s",
		  sqlite3_libversion_number() >= 3043000 ? "octet_length(state_data)" :
							   "length(CAST(state_data AS BLOB))" },
		{ "{time_columns}", ", %s",
		  created && updated ? "created_at, updated_at" :
				       (created ? "created_at" : "updated_at") },
		{ "{time_values}", ", %s", created && updated ? "?5, ?5" : "?5" },
		{ "{set_updated_to}", "%s", updated ? ", updated_at = ?5" : "" },
		{ "{set_updated}", "%s", updated ? ", updated_at = excluded.updated_at" : "" },
	};
	sqlite3_str *sql = sqlite3_str_new(NULL);
	const char *next;

	for (; (next = strchr(text, '{')); text = next) {
		const struct word *word = word_at(next, words, ARRAY_SIZE(words));

		sqlite3_str_append(sql, text, (int)(next - text));
		if (!word) {
			sqlite3_str_appendchar(sql, 1, '{');
			next++;
			continue;
		}
		next += strlen(word->name);
		if (!created && !updated && strncmp(word->name, "{time_", 6) == 0)
			continue;
		sqlite3_str_appendf(sql, word->format, word->argument);
	}
	sqlite3_str_appendall(sql, text);
	return sqlite3_str_finish(sql);
}
