/* SPDX-License-Identifier: MIT */
/* Statements about the rows; as sql-texts.h, which has this one. */

/* clang-format off */
SQL(SQL_ROW_READ, "SELECT item_index, state_data FROM {rows} WHERE session_id = ?1 AND "
	"state_key = ?2 AND item_index >= ?3 ORDER BY item_index")
SQL(SQL_ROW_READ_BACK, "SELECT item_index, state_data FROM {rows} WHERE session_id = ?1 AND "
	"state_key = ?2 AND item_index <= ?3 AND typeof(item_index) = 'integer' "
	"ORDER BY item_index DESC LIMIT ?4")
SQL(SQL_ROW_TIMES, "SELECT item_index, state_data, {created}, {updated} FROM {rows} WHERE "
	"session_id = ?1 AND state_key = ?2 AND item_index >= ?3 AND "
	"typeof(item_index) = 'integer' ORDER BY item_index LIMIT ?4")
SQL(SQL_ROW_TIMES_BACK, "SELECT item_index, state_data, {created}, {updated} FROM {rows} WHERE "
	"session_id = ?1 AND state_key = ?2 AND item_index <= ?3 AND "
	"typeof(item_index) = 'integer' ORDER BY item_index DESC LIMIT ?4")
SQL(SQL_KEY_FIRST, "SELECT item_index FROM {rows} WHERE session_id = ?1 AND "
	"state_key = ?2 AND typeof(item_index) = 'integer' ORDER BY item_index LIMIT 1")
SQL(SQL_KEY_LAST, "SELECT item_index, {created}, {updated} FROM {rows} WHERE "
	"session_id = ?1 AND state_key = ?2 AND typeof(item_index) = 'integer' "
	"ORDER BY item_index DESC LIMIT 1")
/* The index behind the last row, and the bytes of the rows from ?3 on, each with a newline. */
SQL(SQL_KEY_BEHIND, "SELECT coalesce(max(item_index) + 1, ?3), coalesce(sum({octets} + 1), 0) FROM "
	"{rows} WHERE session_id = ?1 AND state_key = ?2 AND item_index >= ?3 AND "
	"typeof(item_index) = 'integer'")
SQL(SQL_NEXT_SESSION, "SELECT CAST(session_id AS BLOB), session_id FROM {rows} WHERE "
	"session_id >= ?1 AND session_id < x'' ORDER BY session_id LIMIT 1")
SQL(SQL_NEXT_KEY, "SELECT CAST(state_key AS BLOB), state_key FROM {rows} WHERE session_id = ?1 "
	"AND state_key >= ?2 AND state_key < x'' ORDER BY state_key LIMIT 1")
SQL(SQL_AS_STORED, "SELECT CAST(?1 AS BLOB)")
/* In the order of the primary key, so nothing is sorted. */
SQL(SQL_SESSION_ROWS,
	"SELECT session_id, count(*), sum({octets}), min(sessfs_time({created})), "
	"max(sessfs_time({updated})) FROM {rows} WHERE " SHOWN_ROWS
	"GROUP BY session_id, state_key")
SQL(SQL_SESSION_EMPTY, "SELECT session_id, mtime FROM sessfs_node n WHERE kind = 1 AND "
	"nlink > 0 AND NOT EXISTS (SELECT 1 FROM {rows} WHERE "
	"session_id = n.session_id AND state_key < x'' AND state_key >= '' "
	"AND typeof(item_index) = 'integer') ORDER BY session_id")
SQL(SQL_SESSION_STAT, "SELECT session_id, count(*), sum({octets}), min(sessfs_time({created})), "
	"max(sessfs_time({updated})) FROM {rows} WHERE session_id = ?1 AND " SHOWN_ROWS
	"GROUP BY session_id, state_key")
SQL(SQL_DAY_LIST, "SELECT {created}, {octets} FROM {rows} WHERE " SHOWN_ROWS)

SQL(SQL_ROW_INSERT, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}{version_column}) VALUES (?1, ?2, ?3, ?4{time_values}{version_value})")
/* SQLITE_ROWS of them. */
SQL(SQL_ROWS_INSERT,
	"INSERT {or_fail}INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}{version_column}) VALUES (?1, ?2, ?3, ?4{time_values}{version_none})"
	NEXT_ROW(1, 7) NEXT_ROW(2, 8) NEXT_ROW(3, 9) NEXT_ROW(4, 10) NEXT_ROW(5, 11) NEXT_ROW(6, 12)
	NEXT_ROW(7, 13) NEXT_ROW(8, 14) NEXT_ROW(9, 15) NEXT_ROW(10, 16)
	NEXT_ROW(11, 17) NEXT_ROW(12, 18) NEXT_ROW(13, 19)
	NEXT_ROW(14, 20) NEXT_ROW(15, 21))
SQL(SQL_ROW_PUT, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}{version_column}) VALUES (?1, ?2, ?3, ?4{time_values}{version_value}) "
	"ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET "
	"state_data = excluded.state_data{set_updated}{set_version} "
	"WHERE state_data IS NOT excluded.state_data")
SQL(SQL_ROW_UPDATE,
	"UPDATE {rows} SET state_data = ?4{set_updated_to}{set_version} WHERE session_id = ?1 "
	"AND state_key = ?2 AND item_index = ?3")
SQL(SQL_ROW_SAME, "SELECT 1 FROM {rows} WHERE session_id = ?1 AND state_key = ?2 "
	"AND item_index = ?3 AND state_data IS ?4")
SQL(SQL_ROW_ENSURE, "INSERT INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}{version_column}) VALUES (?1, ?2, ?3, ?4{time_values}{version_value}) "
	"ON CONFLICT (session_id, state_key, item_index) DO NOTHING")
SQL(SQL_ROW_DELETE, "DELETE FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index BETWEEN ?3 AND ?4")
SQL(SQL_KEY_CLEAR_TARGET, "DELETE FROM {rows} WHERE session_id = ?3 AND state_key = ?4 "
	"AND (?1 IS NOT ?3 OR ?2 IS NOT ?4)")
/* As those of pieces and marks (sqlite/shift.c). */
SQL(SQL_ROWS_LOWEST, "SELECT item_index FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index BETWEEN ?4 AND ?5 AND typeof(item_index) = 'integer' "
	"ORDER BY item_index LIMIT 1")
SQL(SQL_ROWS_HIGHEST, "SELECT item_index FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index BETWEEN ?4 AND ?5 AND typeof(item_index) = 'integer' "
	"ORDER BY item_index DESC LIMIT 1")
SQL(SQL_ROWS_SHIFT, "UPDATE {or_fail}{rows} SET item_index = item_index + ?6 WHERE "
	"session_id = ?1 AND state_key = ?2 AND item_index BETWEEN ?4 AND ?5 AND " IS_INTEGER)
SQL(SQL_KEY_MOVE, "UPDATE {or_fail}{rows} SET session_id = ?3, state_key = ?4{move_version} "
	"WHERE session_id = ?1 AND state_key = ?2")

/* Made when it is first needed: a store from which nothing was ever removed has none.  Of
 * any type are what other programs have put into the rows. */
SQL(SQL_TRASH_MAKE, "CREATE TABLE IF NOT EXISTS main.sessfs_trash (\n"
	"  -- Rows of files in the trash, until they come back or go.\n"
	"  ino        INTEGER NOT NULL, -- of the file\n"
	"  item_index INTEGER NOT NULL,\n"
	"  state_data,\n"
	"  created_at,\n"
	"  updated_at,\n"
	"  version,\n"
	"  PRIMARY KEY (ino, item_index)\n"
	")")
SQL(SQL_KEY_HIDE, "INSERT {or_fail}INTO sessfs_trash (ino, item_index, state_data, created_at, "
	"updated_at, version) SELECT ?3, item_index, state_data, {created}, {updated}, "
	"{version_now} "
	"FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND " IS_INTEGER)
SQL(SQL_KEY_HIDDEN, "DELETE FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND " IS_INTEGER)
SQL(SQL_KEY_SHOW, "INSERT {or_fail}INTO {rows} (session_id, state_key, item_index, state_data"
	"{time_columns}{version_column}) SELECT ?1, ?2, item_index, state_data{time_columns}"
	"{version_shown} FROM sessfs_trash WHERE ino = ?3")
/* clang-format on */
