/* SPDX-License-Identifier: MIT */
/* Statements of notes, by which mounts tell each other what they have changed; as texts.h, which
 * has this one. */

/* clang-format off */
/* Notes.  Values as feed_put() has them (feed.c). */
#define FEED_COLUMNS "number, mount, what, ino, flags, first_index, session_id, state_key, name, " \
	"pid, at, " \
	"row_count, deleted_index, end_index, node, parent, path"
/* Where the file lies is said of a name alone, and asked for otherwise (fs/events/others.c). */
#define FEED_PUT "INSERT INTO sessfs_feed (" FEED_COLUMNS ") " \
	"SELECT ?1, (SELECT number FROM sessfs_mount WHERE number = ?2), ?3, ?4, ?5, ?6, ?7, ?8, " \
	"?9, ?10, ?11, ?12, ?13, "
SQL(SQL_FEED_PUT_NODE, FEED_PUT "NULL, ?4, NULL, NULL")
SQL(SQL_FEED_PUT_ROWS, FEED_PUT "CASE WHEN ?18 <> 0 THEN ?18 ELSE (SELECT item_index + 1 FROM "
	"{rows} WHERE {is 16 17} AND item_index < 9223372036854775807 ORDER BY item_index DESC "
	"LIMIT 1) END, CASE WHEN ?14 <> 0 THEN ?14 ELSE (SELECT ino FROM sessfs_node WHERE "
	"session_id = ?7 AND slot = ?15) END, NULL, NULL")
SQL(SQL_FEED_PUT_ENTRY, "INSERT INTO sessfs_feed (" FEED_COLUMNS ") "
	"WITH RECURSIVE above (ino, path, depth) AS (SELECT ino, {wide}, 64 FROM sessfs_node "
	"WHERE 1 = 0 UNION ALL SELECT ?4, ?9, 1 UNION ALL "
	"SELECT u.parent, {path u.name a.path}, a.depth + 1 FROM above a "
	"JOIN sessfs_node d ON d.ino = a.ino JOIN sessfs_entry u ON u.parent = d.parent AND "
	"u.id = d.entry WHERE a.ino <> 1 AND a.depth < 64) "
	"SELECT ?1, (SELECT number FROM sessfs_mount WHERE number = ?2), ?3, ?4, ?5, ?6, ?7, ?8, "
	"?9, ?10, ?11, ?12, ?13, NULL, ?14, ?4, (SELECT path FROM above WHERE ino = 1 LIMIT 1)")
/* ?1: which were not read.  Ids rise from a transaction to those that depend on it; of two that do
 * not they may be mixed. */
SQL(SQL_FEED_LIST, "SELECT number, what, ino, flags, first_index, session_id, state_key, name, "
	"mount, pid, "
	"at, row_count, deleted_index, end_index, node, parent, path FROM sessfs_feed "
	"WHERE ?1 AND mount <> ?2 ORDER BY MIN(id) OVER (PARTITION BY mount, number), id")
/* The newest mount, and whether the mount ?1 is there. */
SQL(SQL_FEED_ENDS, "SELECT epoch, COALESCE((SELECT lane FROM sessfs_mount WHERE number = turn), 0),"
	" turn, 0, 0, 0, 0, mount, (SELECT COUNT(*) FROM sessfs_mount WHERE number = ?1) "
	"FROM sessfs_store WHERE id = 1")
/* Of each mount that has left notes, or is there, so far. */
#define LANES "(SELECT mount, number FROM sessfs_feed UNION ALL SELECT lane, n FROM sessfs_claim " \
	"WHERE mount = 0 UNION ALL SELECT number, 0 FROM sessfs_mount WHERE guest = 0) x"
SQL(SQL_LANES, "SELECT mount, MAX(number) FROM " LANES " GROUP BY mount")
/* What mounts have digested, so that others know. */
SQL(SQL_KNOWN, "INSERT INTO sessfs_known (mount, lane, number) VALUES (?1, ?2, ?3)")
SQL(SQL_KNOWN_NEXT, ", (?1, ?2, ?3)")
SQL(SQL_KNOWN_END, " {conflict mount, lane} number = {new number}")
SQL(SQL_MOUNT_KNOWN, "DELETE FROM sessfs_known WHERE mount = ?1")
/* Whether a mount of those that are there has not digested something of a lane. */
#define KNOWN_BY(lane) "FROM sessfs_mount m LEFT JOIN sessfs_known k ON k.mount = m.number AND " \
	"k.lane = " lane " WHERE m.guest = 0 AND m.number <> " lane
SQL(SQL_FEED_TRIM, "DELETE FROM sessfs_feed WHERE number <= COALESCE((SELECT "
	"MIN(COALESCE(k.number, 0)) " KNOWN_BY("sessfs_feed.mount") "), number)")
SQL(SQL_KNOWN_TRIM, "DELETE FROM sessfs_known WHERE mount NOT IN (SELECT number FROM sessfs_mount) "
	"OR lane NOT IN (SELECT mount FROM " LANES ")")
SQL(SQL_ENTRIES_BEFORE, "SELECT parent, id, name, ino FROM sessfs_entry WHERE (parent, id) IN (")
SQL(SQL_NODES_BEFORE, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.ino IN (")
/* clang-format on */
