/* SPDX-License-Identifier: MIT */
/* Statements about kept rows (rows/past.c); as sql-texts.h, which has this one. */

/* clang-format off */
#define PAST_COLUMNS "session_id, state_key, until, what, item_index, last_index, pid, bytes, " \
	"created_at, updated_at, version, state_data"
/* A row of a key that is kept, until ?1, by ?2. */
#define PAST_OF_ROW "session_id, state_key, ?1, 0, item_index, item_index, ?2, " \
	"coalesce({octets}, 0), {created}, {updated}, {version_now}, state_data"
/* With an id that becomes another one, if it has one. */
#define REWRITTEN "CASE WHEN ?10 = '' THEN state_data ELSE replace(state_data, ?10, ?11) END"

SQL(SQL_PAST_KEEP, "INSERT INTO sessfs_past (" PAST_COLUMNS ") SELECT " PAST_OF_ROW " FROM {rows} "
	"WHERE session_id = ?3 AND state_key = ?4 AND item_index BETWEEN ?5 AND ?6 AND " IS_INTEGER)
SQL(SQL_PAST_KEEP_OTHER, "INSERT INTO sessfs_past (" PAST_COLUMNS ") SELECT " PAST_OF_ROW " FROM "
	"{rows} WHERE session_id = ?3 AND state_key = ?4 AND item_index = ?5 AND state_data IS "
	"NOT ?6")
SQL(SQL_PAST_BYTES, "SELECT bytes FROM sessfs_past WHERE n = ?1")
SQL(SQL_PAST_NOTE, "INSERT INTO sessfs_past (ino, session_id, state_key, until, what, item_index, "
	"last_index, pid) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
/* One more row that comes with times of its own, behind others. */
SQL(SQL_PAST_EXTEND, "UPDATE sessfs_past SET last_index = ?3 WHERE n = (SELECT max(n) FROM "
	"sessfs_past) AND ino = 0 AND what = 1 AND session_id = ?1 AND state_key = ?2 AND "
	"last_index = ?3 - 1 AND until = ?4")
SQL(SQL_ROW_THERE, "SELECT count(*) FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index = ?3")
/* Whether a key has, or had, anything. */
SQL(SQL_PAST_KNOWN, "SELECT EXISTS (SELECT 1 FROM {rows} WHERE session_id = ?1 AND state_key = "
	"?2) OR EXISTS (SELECT 1 FROM sessfs_past WHERE ino = 0 AND session_id = ?1 AND state_key "
	"= ?2)")
SQL(SQL_PAST_MOVE, "UPDATE sessfs_past SET session_id = ?3, state_key = ?4 WHERE ino = 0 AND "
	"session_id = ?1 AND state_key = ?2")
SQL(SQL_PAST_HIDE, "UPDATE sessfs_past SET ino = ?3 WHERE ino = 0 AND session_id = ?1 AND "
	"state_key = ?2")
SQL(SQL_PAST_SHOW, "UPDATE sessfs_past SET ino = 0, session_id = ?1, state_key = ?2 WHERE ino = ?3")
SQL(SQL_PAST_COPY, "INSERT INTO {rows} (session_id, state_key, item_index, "
	"state_data{time_columns}{version_column}) SELECT ?6, ?7, n - ?3 + ?5, " REWRITTEN
	"{time_columns}{version_past} FROM sessfs_past WHERE n BETWEEN ?3 AND ?4 AND what = 0 AND "
	"session_id = ?1 AND state_key = ?2 AND (?8 = 0 OR coalesce(sessfs_time(created_at), 0) "
	"<= ?8)")
SQL(SQL_PAST_NONE, "INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, "
	"last_index, pid) VALUES (?1, ?2, ?6, 1, ?5, ?4 - ?3 + ?5, ?7)")
SQL(SQL_ROWS_COPY, "INSERT INTO {rows} (session_id, state_key, item_index, "
	"state_data{time_columns}{version_column}) SELECT ?6, ?7, item_index + ?5, " REWRITTEN
	"{time_columns}{version_past} FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index BETWEEN ?3 AND ?4 AND " IS_INTEGER " AND (?8 = 0 OR "
	"coalesce(sessfs_time({created}), 0) <= ?8)")
/* Those that were made later than ?5, and what is kept of them. */
#define LATER " AND sessfs_time({created}) > ?5"
SQL(SQL_ROW_DELETE_LATER, "DELETE FROM {rows} WHERE session_id = ?1 AND state_key = ?2 AND "
	"item_index BETWEEN ?3 AND ?4" LATER)
SQL(SQL_PAST_KEEP_LATER, "INSERT INTO sessfs_past (" PAST_COLUMNS ") SELECT " PAST_OF_ROW " FROM "
	"{rows} WHERE session_id = ?3 AND state_key = ?4 AND item_index BETWEEN ?6 AND ?7 AND "
	IS_INTEGER LATER)
SQL(SQL_PAST_MOMENT, "INSERT OR REPLACE INTO sessfs_meta (key, value) VALUES ('moment', ?1), "
	"('moment_pid', ?2)")
SQL(SQL_PAST_MOMENT_OVER, "DELETE FROM sessfs_meta WHERE key IN ('moment', 'moment_pid')")
SQL(SQL_PAST_MERGE, "UPDATE sessfs_past SET until = ?5 WHERE " PAST_OF " AND until >= ?4 AND until "
	"< ?5")
/* Of what counts as one change, the oldest row of an index is what was there before. */
SQL(SQL_PAST_DOUBLES, "DELETE FROM sessfs_past WHERE n IN (SELECT n FROM (SELECT n, row_number() "
	"OVER (PARTITION BY item_index ORDER BY n) AS place FROM sessfs_past WHERE " PAST_OF " AND "
	"until BETWEEN ?4 AND ?5 AND what = 0) WHERE place > 1) AND NOT EXISTS (SELECT 1 FROM "
	"sessfs_past WHERE " PAST_OF " AND until BETWEEN ?4 AND ?5 AND what = 2)")
/* What is merged already; not where the history begins. */
#define MERGED "what = 3 AND item_index > -9223372036854775808"
SQL(SQL_PAST_MERGED, "SELECT coalesce(first, ?4) FROM (SELECT min(CASE WHEN " MERGED " THEN "
	"item_index END) AS first, count(*) AS known FROM sessfs_past WHERE " PAST_OF " AND until "
	"BETWEEN ?4 AND ?5) WHERE known > 0")
SQL(SQL_PAST_UNMERGED, "DELETE FROM sessfs_past WHERE " PAST_OF " AND until BETWEEN ?4 AND ?5 AND "
	MERGED)
SQL(SQL_PAST_SAME, "SELECT 1 FROM (SELECT count(*) AS records, coalesce(max(n), 0) AS newest FROM "
	"sessfs_past WHERE " PAST_OF " AND until > ?4) WHERE records = ?5 AND newest = ?6")
SQL(SQL_PAST_SHED, "DELETE FROM sessfs_past WHERE n IN (SELECT n FROM sessfs_past WHERE " PAST_OF
	" ORDER BY n LIMIT -1 OFFSET ?4)")

SQL(SQL_PAST_LIST, "SELECT n, what, item_index, last_index, until, pid, bytes, created_at FROM "
	"sessfs_past WHERE " PAST_OF " AND until > ?4 ORDER BY n DESC")
/* By their numbers, not by the index of the key. */
#define PAST_SEEN "+ino = ?1 AND +session_id = ?2 AND +state_key = ?3"
SQL(SQL_PAST_READ, "SELECT n, state_data, created_at, updated_at FROM sessfs_past WHERE n BETWEEN "
	"?4 AND ?5 AND " PAST_SEEN " AND what = 0 ORDER BY n")
SQL(SQL_PAST_READ_BACK, "SELECT n, state_data, created_at, updated_at FROM sessfs_past WHERE n "
	"BETWEEN ?4 AND ?5 AND " PAST_SEEN " AND what = 0 ORDER BY n DESC")
/* A seek a key. */
SQL(SQL_PAST_NEXT, "SELECT ino, session_id, state_key FROM sessfs_past WHERE (ino, session_id, "
	"state_key) > (?1, ?2, ?3) ORDER BY ino, session_id, state_key LIMIT 1")
SQL(SQL_HIDDEN_READ, "SELECT item_index, state_data, created_at, updated_at FROM sessfs_trash "
	"WHERE ino = ?1 AND item_index >= ?2 ORDER BY item_index")
SQL(SQL_HIDDEN_READ_BACK, "SELECT item_index, state_data, created_at, updated_at FROM "
	"sessfs_trash WHERE ino = ?1 AND item_index <= ?2 ORDER BY item_index DESC")
/* clang-format on */
