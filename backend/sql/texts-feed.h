/* SPDX-License-Identifier: MIT */
/* Statements of notes, by which mounts tell each other what they have changed; as texts.h, which
 * has this one. */

/* clang-format off */
/* Notes.  Values as feed_put() has them (feed.c). */
#define FEED_COLUMNS "number, mount, what, ino, flags, first_index, session_id, state_key, name, " \
	"pid, at, " \
	"row_count, deleted_index, end_index, node, parent, path"
#define FEED_VALUES "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17"
SQL(SQL_FEED_PUT, "INSERT INTO sessfs_feed (" FEED_COLUMNS ") VALUES (" FEED_VALUES ")")
SQL(SQL_FEED_NEXT, ", (" FEED_VALUES ")")
/* Instead of the mount ?1: of one that has ended there is none, nor if a transaction with the
 * number ?2 is known to have failed. */
SQL(SQL_FEED_MOUNT, "(SELECT number FROM sessfs_mount WHERE number = ?1 AND lane < ?2 {held})")
/* Instead of what a note is about, ?1: if other programs have changed keys, ?2, there is none. */
SQL(SQL_FEED_UNCHANGED, "CASE WHEN EXISTS (SELECT 1 FROM sessfs_change WHERE session_id IS NULL?2) "
	"THEN NULL ELSE ?1 END")
SQL(SQL_FEED_END_OF, "(SELECT item_index + 1 FROM {rows} WHERE {is 1 2} AND "
	"item_index < 9223372036854775807 ORDER BY item_index DESC LIMIT 1)")
SQL(SQL_FEED_NODE_OF, "(SELECT ino FROM sessfs_node WHERE session_id = ?1 AND slot = ?2)")
/* Where a file with the name ?2 in the directory ?1 lies.  It is said of a name alone, and asked
 * for otherwise (fs/events/others.c). */
SQL(SQL_FEED_PATH_OF, "(WITH RECURSIVE above (ino, path, depth) AS (SELECT ino, {wide}, 64 FROM "
	"sessfs_node WHERE 1 = 0 UNION ALL SELECT ?1, ?2, 1 UNION ALL "
	"SELECT u.parent, {path u.name a.path}, a.depth + 1 FROM above a "
	"JOIN sessfs_node d ON d.ino = a.ino JOIN sessfs_entry u ON u.parent = d.parent AND "
	"u.id = d.entry WHERE a.ino <> 1 AND a.depth < 64) "
	"SELECT path FROM above WHERE ino = 1 LIMIT 1)")
/* ?1: which were not read.  Ids rise from a transaction to those that depend on it; of two that do
 * not they may be mixed. */
SQL(SQL_FEED_LIST, "SELECT number, what, ino, flags, first_index, session_id, state_key, name, "
	"mount, pid, "
	"at, row_count, deleted_index, end_index, node, parent, path FROM sessfs_feed "
	"WHERE ?1 AND mount <> ?2 ORDER BY MIN(id) OVER (PARTITION BY mount, number), id")
/* The newest mount, and whether the mount ?1 is there. */
#define TURN_NUMBER "COALESCE((SELECT MAX(number) FROM sessfs_feed WHERE mount = turn), 0)"
SQL(SQL_FEED_ENDS, "SELECT epoch, " TURN_NUMBER ", turn, 0, 0, 0, 0, mount, "
	"(SELECT COUNT(*) FROM sessfs_mount WHERE number = ?1) FROM sessfs_store WHERE id = 1")
/* Of each mount that has left notes, or is there, so far. */
#define LANES "(SELECT mount, number FROM sessfs_feed UNION ALL SELECT number, 0 FROM " \
	"sessfs_mount WHERE guest = 0) x"
SQL(SQL_LANES, "SELECT mount, MAX(number) FROM " LANES " GROUP BY mount")
/* What mounts have digested, so that others know. */
SQL(SQL_KNOWN, "INSERT INTO sessfs_known (mount, lane, number) VALUES (?1, ?2, ?3)")
SQL(SQL_KNOWN_NEXT, ", (?1, ?2, ?3)")
SQL(SQL_KNOWN_END, " {conflict mount, lane} number = {new number}")
SQL(SQL_MOUNT_KNOWN, "DELETE FROM sessfs_known WHERE mount = ?1")
/* Whether a mount of those that are there has not digested something of a lane. */
#define KNOWN_BY(lane) "FROM sessfs_mount m LEFT JOIN sessfs_known k ON k.mount = m.number AND " \
	"k.lane = " lane " WHERE m.guest = 0 AND m.number <> " lane
/* Of the mount ?1 as far as ?2: what is known of its transactions does not follow from those notes
 * any more; and of mounts that have ended. */
SQL(SQL_FEED_TRIM, "DELETE FROM sessfs_feed WHERE ((mount = ?1 AND number <= ?2) OR "
	"mount NOT IN (SELECT number FROM sessfs_mount)) AND number <= COALESCE((SELECT "
	"MIN(COALESCE(k.number, 0)) " KNOWN_BY("sessfs_feed.mount") "), number)")
SQL(SQL_KNOWN_TRIM, "DELETE FROM sessfs_known WHERE mount NOT IN (SELECT number FROM sessfs_mount) "
	"OR lane NOT IN (SELECT mount FROM " LANES ")")
SQL(SQL_ENTRIES_BEFORE, "SELECT parent, id, name, ino FROM sessfs_entry WHERE (parent, id) IN (")
SQL(SQL_NODES_BEFORE, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.ino IN (")
/* clang-format on */
