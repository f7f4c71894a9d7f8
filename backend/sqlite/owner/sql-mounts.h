/* SPDX-License-Identifier: MIT */
/* Statements by which mounts of one store go along with each other; as sql-texts.h, which has this
 * one. */

/* clang-format off */
SQL(SQL_ORPHAN_FIND, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.nlink = 0 AND "
	"n.session_id = ?1 AND n.state_key = ?2")
SQL(SQL_CHANGE_GET, "SELECT first_index, deleted_index, stamp, rewritten FROM sessfs_change WHERE "
	"session_id = ?1 AND state_key = ?2")
SQL(SQL_CHANGE_FIND, "SELECT 0, 0, stamp, 1, 1 FROM sessfs_change WHERE session_id = x'' AND "
	"state_key = x'' UNION ALL SELECT first_index, deleted_index, stamp, 0, rewritten "
	"FROM sessfs_change WHERE session_id = ?1 AND state_key = ?2 AND stamp > 0 LIMIT 1")
SQL(SQL_CHANGE_FIND_ANY, "SELECT 0, 0, stamp, 1, 1 FROM sessfs_change WHERE session_id = x'' AND "
	"state_key = x'' UNION ALL SELECT first_index, deleted_index, stamp, 0, rewritten "
	"FROM sessfs_change WHERE session_id = ?1 AND stamp > 0 LIMIT 1")
SQL(SQL_LEASED_INO, "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM sessfs_meta WHERE "
	"key = 'last_ino'), 0)")
SQL(SQL_LEASED_ENTRY, "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM sessfs_meta WHERE "
	"key = 'last_entry'), 0)")
SQL(SQL_ENTRY_NOTE, "INSERT OR REPLACE INTO sessfs_meta (key, value) VALUES ('last_entry', ?1)")
SQL(SQL_LOCK_PUT, "INSERT OR REPLACE INTO sessfs_lock (ino, mount, locks) "
	"VALUES (?1, ?2, ?3)")
SQL(SQL_LOCK_DELETE, "DELETE FROM sessfs_lock WHERE ino = ?1 AND mount = ?2")
SQL(SQL_LOCK_LIST, "SELECT mount, locks FROM sessfs_lock WHERE ino = ?1 AND mount <> ?2")
/* The settings, of which the rows' table is one, and how often one was changed. */
SQL(SQL_SETTING_LIST, "SELECT substr(key, 9), value FROM sessfs_meta WHERE "
	"key > 'setting:' AND key < 'setting;' UNION ALL "
	"SELECT key, value FROM sessfs_meta WHERE key = 'table'")
SQL(SQL_SETTING_DELETE, "DELETE FROM sessfs_meta WHERE key = 'setting:' || ?1")
SQL(SQL_SETTING_PUT, "INSERT INTO sessfs_meta (key, value) SELECT 'setting:' || ?1, ?2 "
	"WHERE ?2 <> ''")
SQL(SQL_SETTING_COUNT, "INSERT INTO sessfs_meta (key, value) VALUES ('settings', 1) "
	"ON CONFLICT (key) DO UPDATE SET value = value + 1")
SQL(SQL_SETTINGS, "SELECT coalesce((SELECT value FROM sessfs_meta WHERE key = 'settings'), 0)")
/* The file that a note is about; of a name, its path, too, unless it is deeper than files usually
 * are.  Names are blobs, since as text they would be converted in a database that is not UTF-8. */
SQL(SQL_FEED_PUT, "INSERT INTO sessfs_feed (n, mount, what, ino, flags, first_index, session_id, "
	"state_key, name, pid, at, row_count, deleted_index, end_index, node, parent, path) "
	"SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
	"iif(?3 = 2, (SELECT item_index + 1 FROM {rows} WHERE session_id = ?7 AND "
	"state_key = ?8 AND typeof(item_index) = 'integer' ORDER BY item_index DESC LIMIT 1), "
	"NULL), CASE WHEN ?3 = 0 THEN ?4 WHEN ?3 = 1 OR ?14 <> 0 THEN ?14 "
	"WHEN ?3 = 2 THEN (SELECT ino FROM sessfs_node WHERE session_id = ?7 AND state_key = ?8 "
	"AND kind >= 2 AND nlink > 0) END, iif(?3 = 1, ?4, NULL), "
	"CASE WHEN ?3 <> 1 OR NOT ?15 THEN NULL WHEN ?4 = 1 THEN CAST(?9 AS TEXT) "
	"ELSE (WITH RECURSIVE above(ino, path) AS (SELECT ?4, ?9 UNION ALL "
	"SELECT u.parent, u.name || '/' || above.path FROM above JOIN sessfs_node n "
	"ON n.ino = above.ino JOIN sessfs_entry u ON u.parent = n.parent AND u.id = n.entry "
	"LIMIT 64) SELECT path FROM above WHERE ino = 1) END")
SQL(SQL_FEED_LIST, "SELECT n, what, ino, flags, first_index, session_id, state_key, name, mount, "
	"pid, at, row_count, deleted_index, end_index, node, parent, path "
	"FROM sessfs_feed WHERE n > ?1 AND mount <> ?2 ORDER BY n")
SQL(SQL_FEED_FIRST, "SELECT coalesce(min(n), 0) FROM sessfs_feed")
SQL(SQL_FEED_LAST, "SELECT coalesce(max(n), 0) FROM sessfs_feed")
SQL(SQL_FEED_TRIM, "DELETE FROM sessfs_feed WHERE n <= ?1 AND n < "
	"(SELECT max(n) FROM sessfs_feed)")
/* clang-format on */
