/* SPDX-License-Identifier: MIT */
/* Names and texts of statements: SQL(name, text) for each.  sql.h makes the names of it, sql.c the
 * texts, and tells what stands in them. */

/* clang-format off */
#include "backend/texts.h"
SQL(SQL_BEGIN, "BEGIN")
SQL(SQL_BEGIN_IMMEDIATE, "BEGIN IMMEDIATE")
/* What was set apart has a negative stamp. */
/* 1: others' changes wait, behind stamp ?3; 2: so do commits of other mounts, or some have gone.
 * CASE, since AND asks for both of its sides. */
SQL(SQL_PENDING, "SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM sessfs_change WHERE stamp > 0) THEN 0 "
	"WHEN ?3 = 0 THEN 1 WHEN (SELECT value FROM sessfs_meta WHERE key = 'stamp') <= ?3 THEN 0 "
	"ELSE EXISTS (SELECT 1 FROM sessfs_change WHERE stamp > ?3) END + CASE "
	"WHEN (SELECT max(n) FROM sessfs_feed) > ?1 THEN 2 * (EXISTS (SELECT 1 FROM sessfs_feed "
	"WHERE n > ?1 AND mount <> ?2) OR (SELECT min(n) FROM sessfs_feed) > ?1 + 1) ELSE 0 END")
SQL(SQL_DATA_VERSION, "PRAGMA main.data_version")
SQL(SQL_META_GET, "SELECT value FROM sessfs_meta WHERE key = ?1")
SQL(SQL_DIGESTED, "SELECT value FROM sessfs_meta WHERE key = 'digested'")
SQL(SQL_TRIGGERS, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND "
	"tbl_name = {name} COLLATE NOCASE AND name IN ('sessfs_row_before', "
	"'sessfs_row_insert', 'sessfs_row_update', 'sessfs_row_delete', 'sessfs_row_replace')")

SQL(SQL_NODE_FIND_KEY, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.session_id = ?1 "
	"AND n.state_key = ?2 AND n.kind >= 2 AND n.nlink > 0")
SQL(SQL_NODE_FIND_SESSION, "SELECT " NODE_COLUMNS " FROM sessfs_node n "
	"WHERE n.session_id = ?1 AND n.kind = 1 AND n.nlink > 0")
SQL(SQL_NODE_LIST, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.ino > ?1 ORDER BY n.ino")
SQL(SQL_NODE_LIST_ORPHANS, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.ino > ?1 "
	"AND n.nlink = 0 ORDER BY n.ino")

SQL(SQL_ENTRY_FIND, "SELECT " NODE_COLUMNS ", e.id FROM sessfs_entry e CROSS JOIN "
	"sessfs_node n ON n.ino = e.ino WHERE e.parent = ?1 AND e.name = ?2")
/* No lookup finds a name of another type, so no listing may show it. */
SQL(SQL_ENTRY_LIST, "SELECT " NODE_COLUMNS ", e.id, CASE typeof(e.name) WHEN 'blob' THEN e.name "
	"END FROM sessfs_entry e CROSS JOIN sessfs_node n ON n.ino = e.ino "
	"WHERE e.parent = ?1 AND e.id > ?2 ORDER BY e.id")

SQL(SQL_CHUNK_READ, "SELECT chunk, data FROM sessfs_chunk WHERE ino = ?1 AND "
	"chunk BETWEEN ?2 AND ?3 ORDER BY chunk")
/* length() of a blob reads none of it; but to see whether the end of a range has come, the
 * whole record would be read. */
SQL(SQL_CHUNK_LIST, "SELECT chunk, length(data), ino FROM sessfs_chunk WHERE "
	"(ino, chunk) >= (?1, ?2) ORDER BY ino, chunk")

SQL(SQL_PIECE_READ, "SELECT item_index, seq, data FROM sessfs_piece WHERE ino = ?1 AND "
	"(item_index, seq) >= (?2, ?3) ORDER BY item_index, seq")
SQL(SQL_LAST_INO, "SELECT max(coalesce((SELECT max(ino) FROM sessfs_node), 0), "
	"coalesce((SELECT CAST(value AS INTEGER) FROM sessfs_meta WHERE "
	"key = 'last_ino'), 0))")
SQL(SQL_INO_NOTE, "INSERT INTO sessfs_meta (key, value) VALUES ('last_ino', ?1) "
	"ON CONFLICT (key) DO UPDATE SET value = "
	"max(CAST(value AS INTEGER), excluded.value)")
/* One seek a directory: there is no index over the ids of all directories. */
SQL(SQL_LAST_ENTRY,
	"WITH RECURSIVE directory (ino) AS (SELECT min(parent) FROM sessfs_entry UNION ALL "
	"SELECT (SELECT min(parent) FROM sessfs_entry WHERE parent > directory.ino) "
	"FROM directory WHERE directory.ino NOT NULL) "
	"SELECT max((SELECT max(id) FROM sessfs_entry WHERE parent = directory.ino)) "
	"FROM directory")
SQL(SQL_PAGE_COUNT, "PRAGMA main.page_count")
SQL(SQL_CHANGE_LIST, "SELECT session_id, state_key, first_index, deleted_index, stamp, "
	"rewritten FROM sessfs_change WHERE stamp > ?1 OR stamp <= 0")
/* The stamp of the newest change, if "anything may have changed" is among them. */
SQL(SQL_CHANGE_EVERYTHING,
	"SELECT (SELECT max(stamp) FROM sessfs_change) FROM sessfs_change "
	"WHERE session_id = x'' AND state_key = x''")

/* Most changes of a node touch no column that an index covers; naming those columns in the
 * SET would rewrite the index entries each time. */
SQL(SQL_NODE_TOUCH, "UPDATE sessfs_node SET parent = ?2, entry = ?3, flags = ?5, mode = ?6, "
	"uid = ?7, gid = ?8, rdev = ?10, size = ?11, atime = ?12, mtime = ?13, "
	"ctime = ?14, btime = ?15, target = ?18, generation = ?19 WHERE ino = ?1 AND kind = ?4 "
	"AND nlink = ?9 AND session_id IS ?16 AND state_key IS ?17")
SQL(SQL_NODE_PUT, "INSERT INTO sessfs_node (ino, parent, entry, kind, flags, mode, uid, gid, "
	"nlink, rdev, size, atime, mtime, ctime, btime, session_id, state_key, target, "
	"generation) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, "
	"?16, ?17, ?18, ?19) ON "
	"CONFLICT (ino) DO UPDATE SET parent = ?2, entry = ?3, kind = ?4, flags = ?5, mode = "
	"?6, uid = ?7, gid = ?8, nlink = ?9, rdev = ?10, size = ?11, atime = ?12, mtime = ?13, "
	"ctime = ?14, btime = ?15, session_id = ?16, state_key = ?17, target = ?18, "
	"generation = ?19")
SQL(SQL_NODE_SET, "UPDATE sessfs_node SET atime = iif(?2 & 1, ?3, atime), mtime = iif(?2 & 2, "
	"?4, mtime), ctime = iif(?2 & 4, ?5, ctime), mode = iif(?2 & 8, ?6, mode), uid = iif(?2 "
	"& 16, ?7, uid), gid = iif(?2 & 32, ?8, gid), generation = iif(?2 & 64, ?9, generation) "
	"WHERE ino = ?1")
SQL(SQL_NODE_LINKS, "UPDATE sessfs_node SET nlink = nlink + ?2 WHERE ino = ?1")
SQL(SQL_XATTR_PUT, "INSERT OR REPLACE INTO sessfs_xattr (ino, name, value) "
	"VALUES (?1, ?2, ?3)")
SQL(SQL_CHUNK_PUT, "INSERT OR REPLACE INTO sessfs_chunk (ino, chunk, data) "
	"VALUES (?1, ?2, ?3)")
SQL(SQL_PIECE_PUT, "INSERT OR REPLACE INTO sessfs_piece (ino, item_index, seq, data) "
	"VALUES (?1, ?2, ?3, ?4)")
SQL(SQL_MARK_PUT, "INSERT OR REPLACE INTO sessfs_mark (ino, byte_offset, item_index) "
	"VALUES (?1, ?2, ?3)")
SQL(SQL_PIECES_LOWEST, "SELECT item_index FROM sessfs_piece WHERE ino = ?3 AND item_index "
	"BETWEEN ?4 AND ?5 ORDER BY item_index LIMIT 1")
SQL(SQL_PIECES_HIGHEST, "SELECT item_index FROM sessfs_piece WHERE ino = ?3 AND item_index "
	"BETWEEN ?4 AND ?5 ORDER BY item_index DESC LIMIT 1")
SQL(SQL_PIECES_SHIFT, "UPDATE OR FAIL sessfs_piece SET item_index = item_index + ?6 WHERE "
	"ino = ?3 AND item_index BETWEEN ?4 AND ?5")
SQL(SQL_MARKS_LOWEST, "SELECT byte_offset FROM sessfs_mark WHERE ino = ?3 AND byte_offset "
	"BETWEEN ?4 AND ?5 AND item_index >= ?7 ORDER BY byte_offset LIMIT 1")
SQL(SQL_MARKS_HIGHEST, "SELECT byte_offset FROM sessfs_mark WHERE ino = ?3 AND byte_offset "
	"BETWEEN ?4 AND ?5 AND item_index >= ?7 ORDER BY byte_offset DESC LIMIT 1")
SQL(SQL_MARKS_SHIFT, "UPDATE OR FAIL sessfs_mark SET byte_offset = byte_offset + ?6, item_index = "
	"item_index + ?8 WHERE ino = ?3 AND byte_offset BETWEEN ?4 AND ?5 AND item_index >= ?7")
SQL(SQL_CHANGE_DONE, "DELETE FROM sessfs_change WHERE session_id = ?1 AND state_key = ?2 "
	"AND (stamp = ?3 OR ?3 = 0 AND stamp < 0)")
SQL(SQL_CHANGE_APART, "INSERT INTO sessfs_change (session_id, state_key, first_index, "
	"deleted_index, stamp) VALUES (?1, ?2, ?4, ?4, -?3) ON CONFLICT "
	"(session_id, state_key) DO UPDATE SET stamp = -?3 WHERE stamp <= ?3")
SQL(SQL_EVERYTHING_DONE, "DELETE FROM sessfs_change WHERE stamp BETWEEN 1 AND ?1")
SQL(SQL_DIGESTED_SET, "UPDATE sessfs_meta SET value = ?1 WHERE key = 'digested'")
#include "backend/sqlite/owner/sql-mounts.h"
#include "backend/sqlite/store/sql-rows.h"
#include "backend/sqlite/store/sql-past.h"
/* clang-format on */
