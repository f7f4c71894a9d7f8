/* SPDX-License-Identifier: MIT */
/* Operations of a batch as statements (apply.c); as texts.h, which has this one. */

/* clang-format off */
SQL(SQL_ROW_INSERT, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}) VALUES (?1, ?2, ?3, ?4{time_values 5 6})")
/* Rows that come behind those that are there, of a batch with the number ?4 (?7): first, where that
 * is, and the bytes of the rows from ?3 on, each with a newline. */
SQL(SQL_APPEND_FIND, "SELECT {first ?4} := COALESCE(MAX(item_index) + 1, ?3), "
	"COALESCE(SUM(OCTET_LENGTH(state_data) + 1), 0) FROM {rows} WHERE {is 1 2} AND "
	"item_index >= ?3")
SQL(SQL_APPEND, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}) VALUES (?1, ?2, {first ?7} + ?3, ?4{time_values 5 6})")
SQL(SQL_APPEND_NEXT, ", (?1, ?2, {first ?7} + ?3, ?4{time_values 5 6})")
/* Its offset is of where it was expected to come. */
SQL(SQL_APPEND_MARK, "INSERT INTO sessfs_mark (ino, byte_offset, item_index) SELECT ?1, ?2, ?3 "
	"FROM (SELECT 1 AS one) x WHERE {first ?4} = ?5 "
	"{conflict ino, byte_offset} item_index = {new item_index}")
SQL(SQL_ROW_NEXT, ", (?1, ?2, ?3, ?4{time_values 5 6})")
SQL(SQL_ROW_PUT, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}) VALUES (?1, ?2, ?3, ?4{time_values 5 6}) "
	"{conflict session_id, state_key, item_index} {set_updated}"
	"{several item_index = {same item_index}, }state_data = {new state_data}")
/* The same of a single state where the table has AgentScope's column, which rises: from what it has
 * by one, if that is not below its least nor above the highest that can rise, or else to its least.
 */
#define RISEN(version, least, most) "CASE WHEN " version " BETWEEN " least " AND " most " THEN " \
	version " + 1 ELSE " least " END"
SQL(SQL_SINGLE_INSERT, "INSERT INTO {rows} (session_id, state_key, item_index, state_data, version"
	"{time_columns}) VALUES (?1, ?2, ?3, ?4, ?7{time_values 5 6})")
SQL(SQL_SINGLE_PUT, "INSERT INTO {rows} (session_id, state_key, item_index, state_data, version"
	"{time_columns}) VALUES (?1, ?2, ?3, ?4, ?7{time_values 5 6}) "
	"{conflict session_id, state_key, item_index} version = CASE WHEN {exactly "
	"{rows}.state_data} = {new state_data} THEN {rows}.version ELSE "
	RISEN("{rows}.version", "?7", "?8") " END, {set_updated}"
	"{several item_index = {same item_index}, }state_data = {new state_data}")
SQL(SQL_SINGLE_MOVE, "UPDATE {rows} SET session_id = ?3, state_key = ?4, version = "
	RISEN("version", "?5", "?6") "{keep_updated} WHERE {is 1 2}")
SQL(SQL_SINGLE_HIDE, "INSERT INTO sessfs_trash (ino, item_index, state_data, version{time_columns})"
	" SELECT ?3, item_index, state_data, version{time_columns} FROM {rows} WHERE {is 1 2}")
SQL(SQL_SINGLE_SHOW, "INSERT INTO {rows} (session_id, state_key, item_index, state_data, version"
	"{time_columns}) SELECT ?1, ?2, item_index, state_data, " RISEN("version", "?4", "?5")
	"{time_columns} FROM sessfs_trash WHERE ino = ?3")
/* Two tables have it if the rows' table does: that fails then, before the transaction has written
 * a single, and none can be given to the table until its end. */
SQL(SQL_VERSION_NONE, "SELECT version FROM {rows}, sessfs_store WHERE 1 = 0")
SQL(SQL_ROW_DELETE, "DELETE FROM {rows} WHERE {is 1 2} AND item_index BETWEEN ?3 AND ?4")
SQL(SQL_KEY_CLEAR, "DELETE FROM {rows} WHERE {is 3 4} AND NOT ({is 1 2})")
SQL(SQL_KEY_MOVE, "UPDATE {rows} SET session_id = ?3, state_key = ?4{keep_updated} WHERE {is 1 2}")
SQL(SQL_ROWS_UP, "UPDATE {rows} SET item_index = item_index + ?4{keep_updated} WHERE {is 1 2} AND "
	"item_index >= ?3 ORDER BY item_index DESC")
SQL(SQL_ROWS_DOWN, "UPDATE {rows} SET item_index = item_index + ?4{keep_updated} WHERE {is 1 2} "
	"AND item_index >= ?3 ORDER BY item_index")
SQL(SQL_PIECES_UP, "UPDATE sessfs_piece SET item_index = item_index + ?4 WHERE ino = ?5 AND "
	"item_index >= ?3 ORDER BY item_index DESC, seq DESC")
SQL(SQL_PIECES_DOWN, "UPDATE sessfs_piece SET item_index = item_index + ?4 WHERE ino = ?5 AND "
	"item_index >= ?3 ORDER BY item_index, seq")
SQL(SQL_MARKS_UP, "UPDATE sessfs_mark SET byte_offset = CASE WHEN byte_offset + ?6 >= 0 THEN "
	"byte_offset + ?6 END, item_index = item_index + ?4 WHERE ino = ?5 AND item_index >= ?3 "
	"ORDER BY byte_offset DESC")
SQL(SQL_MARKS_DOWN, "UPDATE sessfs_mark SET byte_offset = CASE WHEN byte_offset + ?6 >= 0 THEN "
	"byte_offset + ?6 END, item_index = item_index + ?4 WHERE ino = ?5 AND item_index >= ?3 "
	"ORDER BY byte_offset")
SQL(SQL_KEY_HIDE, "INSERT INTO sessfs_trash (ino, item_index, state_data{time_columns}) "
	"SELECT ?3, item_index, state_data{time_columns} FROM {rows} WHERE {is 1 2}")
SQL(SQL_KEY_HIDDEN, "DELETE FROM {rows} WHERE {is 1 2}")
SQL(SQL_KEY_SHOW, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}) SELECT ?1, ?2, item_index, state_data{time_columns} FROM sessfs_trash "
	"WHERE ino = ?3")
#define KEEP(column) column " = {new " column "}, "
/* Where another node has the slot, kind would be NULL. */
SQL(SQL_NODE_PUT, "INSERT INTO sessfs_node (ino, parent, entry, kind, flags, mode, uid, "
	"gid, nlink, "
	"rdev, size, atime, mtime, ctime, btime, session_id, state_key, target, generation, slot) "
	"VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
	"?19, ?20) {conflict ino} "
	"kind = CASE WHEN sessfs_node.ino = {new ino} THEN {new kind} END, "
	KEEP("parent") KEEP("entry") KEEP("flags") KEEP("mode") KEEP("uid") KEEP("gid")
	KEEP("nlink") KEEP("rdev") KEEP("size")
	KEEP("atime") KEEP("mtime") KEEP("ctime") KEEP("btime")
	KEEP("session_id") KEEP("state_key") KEEP("target") KEEP("generation") "slot = {new slot}")
SQL(SQL_NODE_SET, "UPDATE sessfs_node SET "
	"atime = CASE WHEN (?2 & 1) > 0 THEN ?3 ELSE atime END, "
	"mtime = CASE WHEN (?2 & 2) > 0 THEN ?4 ELSE mtime END, "
	"ctime = CASE WHEN (?2 & 4) > 0 THEN ?5 ELSE ctime END, "
	"mode = CASE WHEN (?2 & 8) > 0 THEN ?6 ELSE mode END, "
	"uid = CASE WHEN (?2 & 16) > 0 THEN ?7 ELSE uid END, "
	"gid = CASE WHEN (?2 & 32) > 0 THEN ?8 ELSE gid END, "
	"generation = CASE WHEN (?2 & 64) > 0 THEN ?9 ELSE generation END, "
	"nlink = nlink + ?10 WHERE ino = ?1")
SQL(SQL_XATTR_PUT, "INSERT INTO sessfs_xattr (ino, name, value) VALUES (?1, ?2, ?3) "
	"{conflict ino, name} value = {new value}")
SQL(SQL_CHUNK_PUT, "INSERT INTO sessfs_chunk (ino, chunk, data) VALUES (?1, ?2, ?3) "
	"{conflict ino, chunk} data = {new data}")
SQL(SQL_PIECE_PUT, "INSERT INTO sessfs_piece (ino, item_index, seq, data) VALUES (?1, ?2, ?3, ?4) "
	"{conflict ino, item_index, seq} data = {new data}")
SQL(SQL_MARK_PUT, "INSERT INTO sessfs_mark (ino, byte_offset, item_index) VALUES (?1, ?2, ?3) "
	"{conflict ino, byte_offset} item_index = {new item_index}")
SQL(SQL_SETTING_DELETE, "DELETE FROM sessfs_setting WHERE name = ?1")
SQL(SQL_SETTING_PUT, "INSERT INTO sessfs_setting (name, value) VALUES (?1, ?2)")
SQL(SQL_SETTING_COUNT, "UPDATE sessfs_store SET settings = settings + 1")
SQL(SQL_LEASE, "UPDATE sessfs_store SET guard = CASE WHEN last_ino <= ?1 AND last_entry <= "
	"?2 THEN 0 "
	"END, last_ino = ?3, last_entry = ?4")
/* clang-format on */
