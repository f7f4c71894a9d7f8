/* SPDX-License-Identifier: MIT */
/* Statements about what changes of rows take away (past.c); as texts.h, which has this one. */

/* clang-format off */
#define PAST_ROW_COLUMNS "(session_id, state_key, until, what, item_index, last_index, pid, " \
	"bytes, state_data{time_columns})"
/* Of our tables, which have them even where that of the rows has not. */
#define KEPT(column) "COALESCE({seconds " column "}, 0)"
#define KEPT_TIMES KEPT("created_at") ", " KEPT("updated_at")
/* ?1 ?2 a key of the rows' table, ?5 ?6 the same as bytes, ?7 the process. */
#define PAST_KEEPS "INSERT INTO sessfs_past " PAST_ROW_COLUMNS " SELECT ?5, ?6, {ns}, 0, " \
	"item_index, item_index, ?7, COALESCE(OCTET_LENGTH(state_data), 0), " \
	"state_data{time_columns} FROM {rows} WHERE "
SQL(SQL_PAST_KEEP, PAST_KEEPS "{is 1 2} AND item_index BETWEEN ?3 AND ?4 ORDER BY item_index "
	"{locked}")
SQL(SQL_PAST_KEEP_LATER, PAST_KEEPS "{is 1 2} AND item_index BETWEEN ?3 AND ?4 AND {created} * "
	"1000000 > ?8 ORDER BY item_index {locked}")
SQL(SQL_ROW_DELETE_LATER, "DELETE FROM {rows} WHERE {is 1 2} AND item_index BETWEEN ?3 AND ?4 AND "
	"{created} * 1000000 > ?8")
SQL(SQL_PAST_NOTE, "INSERT INTO sessfs_past (ino, session_id, state_key, until, what, item_index, "
	"last_index, pid, bytes) VALUES (?1, ?2, ?3, {ns}, ?4, ?5, ?6, ?7, 0)")
/* A row with times of its own; unless it is there. */
SQL(SQL_PAST_CAME, "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
	"last_index, pid, bytes) SELECT ?5, ?6, {ns}, 1, ?3, ?3, ?7, 0 FROM (SELECT COUNT(*) AS "
	"rows_there FROM {rows} WHERE {is 1 2} AND item_index = ?3) x WHERE rows_there = 0")
/* From the key ?2 ?3 to ?4 ?5. */
#define PAST_KNOWN "(SELECT COUNT(*) AS known FROM sessfs_past WHERE ino = 0 AND " \
	"session_id = ?4 AND state_key = ?5) x"
SQL(SQL_PAST_COMES, "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
	"last_index, pid, bytes) SELECT ?4, ?5, {ns}, 1, {lowest}, 9223372036854775807, ?6, 0 FROM "
	PAST_KNOWN " WHERE known > 0")
SQL(SQL_PAST_MOVE, "UPDATE sessfs_past SET session_id = ?4, state_key = ?5 WHERE " PAST_OF " AND "
	"(SELECT known FROM " PAST_KNOWN ") = 0")
SQL(SQL_PAST_HIDE, "UPDATE sessfs_past SET ino = ?4 WHERE " PAST_OF)
SQL(SQL_PAST_SHOW, "UPDATE sessfs_past SET ino = 0, session_id = ?2, state_key = ?3 WHERE ino = ?1")
/* Of the key ?6 ?7, as bytes, to ?1 ?2. */
SQL(SQL_PAST_COPY, "INSERT INTO {rows} (session_id, state_key, item_index, "
	"state_data{time_columns}) SELECT ?1, ?2, n - ?3 + ?5, REPLACE(state_data, ?9, "
	"?10){time_columns} FROM sessfs_past WHERE n BETWEEN ?3 AND ?4 AND what = 0 AND session_id "
	"= ?6 AND state_key = ?7 AND (?8 = 0 OR " KEPT("created_at") " * 1000000 <= ?8)")
/* As the triggers would tell of them. */
SQL(SQL_PAST_TOLD, "INSERT INTO sessfs_change (session_id, state_key, item_index, what) SELECT "
	"?6, ?7, n - ?3 + ?5, 'i' FROM sessfs_past WHERE n BETWEEN ?3 AND ?4 AND what = 0 AND "
	"session_id = ?6 AND state_key = ?7")
SQL(SQL_PAST_COPIED, "UPDATE {rows} SET version = ?3 WHERE {is 1 2} AND item_index = 0")
SQL(SQL_PAST_NONE, "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
	"last_index, pid, bytes) VALUES (?6, ?7, {ns}, 1, ?5, ?4 - ?3 + ?5, ?8, 0)")
/* Of the key ?6 ?7, to ?1 ?2. */
SQL(SQL_ROWS_COPY, "INSERT INTO {rows} (session_id, state_key, item_index, "
	"state_data{time_columns}) SELECT ?1, ?2, item_index + ?5, REPLACE(state_data, ?9, "
	"?10){time_columns} FROM {rows} WHERE {is 6 7} AND item_index BETWEEN ?3 AND ?4 AND (?8 = "
	"0 OR {created} * 1000000 <= ?8)")
/* What is merged already; not where the history begins. */
#define MERGED "what = 3 AND item_index > {lowest}"
SQL(SQL_PAST_MERGED, "INSERT INTO sessfs_past (ino, session_id, state_key, until, what, "
	"item_index, last_index, pid, bytes) SELECT ?1, ?2, ?3, ?5, 3, CASE WHEN first < ?4 THEN "
	"first ELSE ?4 END, ?5, ?6, 0 FROM (SELECT MIN(CASE WHEN " MERGED " THEN item_index END) "
	"AS first, COUNT(*) AS known FROM sessfs_past WHERE " PAST_OF " AND until BETWEEN ?4 AND "
	"?5) x WHERE known > 0")
SQL(SQL_PAST_UNMERGED, "DELETE FROM sessfs_past WHERE " PAST_OF " AND until BETWEEN ?4 AND ?5 AND "
	MERGED " AND n < (SELECT newest FROM (SELECT MAX(n) AS newest FROM sessfs_past WHERE "
	PAST_OF " AND what = 3) x)")
SQL(SQL_PAST_MERGE, "UPDATE sessfs_past SET until = ?5 WHERE " PAST_OF " AND until >= ?4 AND until "
	"< ?5 AND NOT (" MERGED ")")
SQL(SQL_PAST_DOUBLES, "DELETE FROM sessfs_past WHERE n IN (SELECT n FROM (SELECT n, ROW_NUMBER() "
	"OVER (PARTITION BY item_index ORDER BY n) AS place FROM sessfs_past WHERE " PAST_OF " AND "
	"until BETWEEN ?4 AND ?5 AND what = 0) x WHERE place > 1) AND (SELECT moved FROM (SELECT "
	"COUNT(*) AS moved FROM sessfs_past WHERE " PAST_OF " AND until BETWEEN ?4 AND ?5 AND "
	"what = 2) y) = 0")
SQL(SQL_PAST_DROPPED, "INSERT INTO sessfs_past (ino, session_id, state_key, until, what, "
	"item_index, last_index, pid, bytes) SELECT ?1, ?2, ?3, ?4 + 1, 3, {lowest}, ?4, ?5, 0 "
	"FROM (SELECT COUNT(*) AS known FROM sessfs_past WHERE " PAST_OF " AND until <= ?4) x "
	"WHERE known > 0")

/* What takes rows away holds them until it is kept. */
SQL(SQL_PAST_HOLD, "SELECT COUNT(*) FROM (SELECT item_index FROM {rows} WHERE {is 1 2} {locked}) x")
SQL(SQL_PAST_SAME, FAIL_IF("(SELECT COUNT(*) AS records, COALESCE(MAX(n), 0) AS newest FROM "
	"sessfs_past WHERE " PAST_OF " AND until > ?4) x WHERE records <> ?5 OR newest <> ?6"))

SQL(SQL_PAST_LIST, "SELECT n, what, item_index, last_index, until, pid, bytes, " KEPT("created_at")
	" FROM sessfs_past WHERE " PAST_OF " AND until > ?4 ORDER BY n DESC")
SQL(SQL_PAST_READ, "SELECT n, state_data, " KEPT_TIMES " FROM sessfs_past WHERE n >= ?1 AND n <= "
	"?6 AND session_id = ?4 AND state_key = ?5 AND what = 0 ORDER BY n LIMIT ?3")
SQL(SQL_PAST_READ_BACK, "SELECT n, state_data, " KEPT_TIMES " FROM sessfs_past WHERE n <= ?1 AND "
	"n >= ?6 AND session_id = ?4 AND state_key = ?5 AND what = 0 ORDER BY n DESC LIMIT ?3")
SQL(SQL_PAST_NEXT, "SELECT ino, session_id, state_key FROM sessfs_past WHERE ino > ?1 OR (ino = "
	"?1 AND (session_id > ?2 OR (session_id = ?2 AND state_key > ?3))) ORDER BY ino, "
	"session_id, state_key LIMIT 1")
SQL(SQL_HIDDEN_READ, "SELECT item_index, state_data, " KEPT_TIMES " FROM sessfs_trash WHERE ino = "
	"?4 AND item_index >= ?1 ORDER BY item_index LIMIT ?3")
SQL(SQL_HIDDEN_READ_BACK, "SELECT item_index, state_data, " KEPT_TIMES " FROM sessfs_trash WHERE "
	"ino = ?4 AND item_index <= ?1 ORDER BY item_index DESC LIMIT ?3")
