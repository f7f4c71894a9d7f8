/* SPDX-License-Identifier: MIT */
/* Statements by which mounts of one store and other programs go along with each other; as
 * texts.h, which has this one. */

/* clang-format off */
/* The head of each transaction of a mount that is alone: ?1 epoch, which moves when a mount comes
 * or goes, ?2 this mount. */
SQL(SQL_HEAD, "UPDATE sessfs_store SET guard = CASE WHEN epoch = ?1 AND turn IN (0, ?2) "
	"THEN 0 END WHERE id = 1")
/* And of one that is not (gates.c): ?1 gates, ?2 what is noted there, ?3 that something has changed
 * that this mount has not read. */
SQL(SQL_GATES_LOCK, "SELECT gate FROM sessfs_gate WHERE gate IN (?1) ORDER BY gate {locked}")
SQL(SQL_GATES_AT_ONCE, "SELECT gate FROM sessfs_gate WHERE gate IN (?1) ORDER BY gate {at_once}")
SQL(SQL_GATES_ENTER, "UPDATE sessfs_gate SET guard = CASE WHEN ?3 THEN NULL ELSE 0 END?2 "
	"WHERE gate IN (?1){in_order}")
SQL(SQL_GATES_STAMP, "UPDATE sessfs_gate SET guard = 0?2 WHERE gate IN (?1){in_order}")
/* The end of one that leaves no notes: ?2 its number.  The mount has been heard of then, too. */
SQL(SQL_LANE, "UPDATE sessfs_mount SET lane = CASE WHEN lane < ?2 THEN ?2 END, "
	"seen_at = {heard} WHERE number = ?1")
SQL(SQL_LANE_HERE, "{fail_if (SELECT 1 AS one) x WHERE NOT EXISTS (SELECT 1 FROM sessfs_mount "
	"WHERE number = ?1)}")
/* The highest ids that are used, of those that were not leased. */
SQL(SQL_TAKEN, "UPDATE sessfs_store SET last_ino = GREATEST(last_ino, ?1), "
	"last_entry = GREATEST(last_entry, ?2) WHERE id = 1")
SQL(SQL_LANE_ASK, "SELECT lane FROM sessfs_mount WHERE number = ?1 {locked}")
SQL(SQL_LANE_NOTES, "SELECT COUNT(*) FROM sessfs_feed WHERE mount = ?1 AND number = ?2")
SQL(SQL_LANE_SET, "UPDATE sessfs_mount SET lane = ?2 WHERE number = ?1")
/* A statement that fails if there is one. */
#define FAIL_IF(one) "{fail_if " one "}"
SQL(SQL_GUARD_ORPHAN, FAIL_IF("sessfs_node WHERE nlink = 0 AND session_id = ?1 AND state_key = ?2"))
/* One that was ended may have said so before it knew. */
SQL(SQL_GUARD_USED, FAIL_IF("sessfs_use WHERE ino = ?1 AND mount IN (SELECT number FROM "
	"sessfs_mount WHERE number <> ?2)"))
SQL(SQL_GUARD_TOLD_USES, FAIL_IF("sessfs_mount WHERE untold_uses <> 0 AND number <> ?1"))
SQL(SQL_GUARD_TOLD_LOCKS, FAIL_IF("sessfs_mount WHERE untold_locks <> 0 AND number <> ?1"))
SQL(SQL_GUARD_LOCK, FAIL_IF("sessfs_lock WHERE ino = ?1 AND mount <> ?2 AND "
	"whole IN (?3, 2) AND (exclusive <> 0 OR ?4 <> 0) AND "
	"(?3 <> 0 OR (first_byte <= ?6 AND last_byte >= ?5))"))
/* Of several keys, each said with an OR in front. */
SQL(SQL_GUARD_CHANGED, FAIL_IF("sessfs_change WHERE session_id IS NULL?1"))
SQL(SQL_GUARD_CHANGED_KEY, " OR (session_id = ?1 AND state_key = ?2)")
SQL(SQL_LOCK_FIND, "SELECT first_byte, last_byte, pid, whole, exclusive FROM sessfs_lock WHERE "
	"ino = ?1 AND mount <> ?2 AND whole IN (?3, 2) AND (exclusive <> 0 OR ?4 <> 0) AND "
	"(?3 <> 0 OR (first_byte <= ?6 AND last_byte >= ?5)) LIMIT 1")
SQL(SQL_LOCKS_DELETE, "DELETE FROM sessfs_lock WHERE ino = ?1 AND mount = ?2")
SQL(SQL_LOCK_PUT, "INSERT INTO sessfs_lock (ino, mount, item, first_byte, last_byte, pid, whole, "
	"exclusive) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")

/* Mounts. */
SQL(SQL_MOUNT_JOIN, "INSERT INTO sessfs_mount (number, guest, owner, seen_at, format) "
	"SELECT mount + 1, ?1, ?2, {heard}, ?3 FROM sessfs_store WHERE id = 1")
SQL(SQL_MOUNT_COUNT, "UPDATE sessfs_store SET mount = mount + 1, epoch = epoch + ?1 WHERE id = 1")
SQL(SQL_MOUNT_NUMBER, "SELECT epoch, 0, turn, settings, 0, 0, 0, last_ino, last_entry, mount FROM "
	"sessfs_store WHERE id = 1")
/* ?1: seconds that it may have been silent.  The mount ?2 asks, which was heard of just now: in the
 * last ?3 seconds. */
SQL(SQL_MOUNTS_SILENT, "SELECT number FROM sessfs_mount WHERE seen_at < {ago ?1} AND EXISTS "
	"(SELECT 1 FROM sessfs_mount m WHERE m.number = ?2 AND m.seen_at >= {ago ?3})")
/* Which database this was when a mount joined last: one that was copied has another name. */
SQL(SQL_PLACE_ASK, "SELECT CASE WHEN value = {place} THEN 1 ELSE 0 END FROM sessfs_setting "
	"WHERE name = {bytes 'place'}")
SQL(SQL_PLACE_FORGET, "DELETE FROM sessfs_setting WHERE name = {bytes 'place'}")
SQL(SQL_PLACE_NOTE, "INSERT INTO sessfs_setting (name, value) VALUES ({bytes 'place'}, {place})")
SQL(SQL_MOUNT_LEAVE, "DELETE FROM sessfs_mount WHERE number = ?1")
SQL(SQL_MOUNT_LOCKS, "DELETE FROM sessfs_lock WHERE mount = ?1")
SQL(SQL_MOUNT_USES, "DELETE FROM sessfs_use WHERE mount = ?1")
SQL(SQL_MOUNT_GONE, "UPDATE sessfs_store SET epoch = epoch + 1, turn = CASE WHEN turn = ?1 "
	"THEN 0 ELSE turn END WHERE id = 1")
SQL(SQL_MOUNT_LIST, "SELECT number, guest FROM sessfs_mount")
SQL(SQL_MOUNT_BEAT, "UPDATE sessfs_mount SET seen_at = {heard} WHERE number = ?1")
/* Those that are silent, or those that are not (?3). */
SQL(SQL_MOUNT_OWNERS, "SELECT owner FROM sessfs_mount WHERE guest = 0 AND number <> ?1 AND "
	"CASE WHEN seen_at < {ago ?2} THEN 1 ELSE 0 END = ?3 ORDER BY number")
SQL(SQL_MOUNT_HOLD, "UPDATE sessfs_mount SET untold_locks = ?2 WHERE number = ?1")
SQL(SQL_MOUNT_UNTOLD, "UPDATE sessfs_mount SET untold_uses = ?2 WHERE number = ?1")
SQL(SQL_TURN_TAKE, "UPDATE sessfs_store SET turn = ?1 WHERE id = 1 AND turn IN (0, ?1)")
SQL(SQL_TURN_ASK, "SELECT epoch, " TURN_NUMBER ", turn, 0, 0, 0, 0 FROM sessfs_store WHERE id = 1")
SQL(SQL_TURN_GIVE, "UPDATE sessfs_store SET turn = 0 WHERE id = 1 AND turn = ?1")
/* From nobody, or from one that was ended. */
SQL(SQL_DUTY_TAKE, "UPDATE sessfs_store SET duty = ?1 WHERE id = 1 AND duty NOT IN "
	"(SELECT number FROM sessfs_mount)")
SQL(SQL_DUTY_ASK, "SELECT duty FROM sessfs_store WHERE id = 1")
SQL(SQL_USE_PUT, "INSERT {unless} INTO sessfs_use (ino, mount) VALUES (?1, ?2) {there}")
SQL(SQL_USE_DELETE, "DELETE FROM sessfs_use WHERE ino = ?1 AND mount = ?2")
SQL(SQL_STATE_SHARE, "SELECT guard FROM sessfs_store WHERE id = 1 {shared}")
SQL(SQL_ORPHAN_LIST, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.nlink = 0 AND "
	"n.ino >= ?1 AND n.ino > 0 AND NOT EXISTS (SELECT 1 FROM sessfs_use u WHERE "
	"u.ino = n.ino AND u.mount IN (SELECT number FROM sessfs_mount WHERE number <> ?2)) "
	"ORDER BY n.ino LIMIT ?3")
SQL(SQL_ORPHAN_FIND, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.nlink = 0 AND "
	"n.session_id = ?1 AND n.state_key = ?2 LIMIT 1")

/* What other programs have changed. */
#define CHANGED_AGAIN "EXISTS (SELECT 1 FROM sessfs_change c WHERE c.session_id = " \
	"a.session_id AND " \
	"c.state_key = a.state_key) "
SQL(SQL_CHANGE_ANYTHING, "SELECT id FROM sessfs_change WHERE session_id IS NULL LIMIT 1")
SQL(SQL_CHANGE_IDS, "SELECT id FROM sessfs_change")
/* ?3 keys behind (?1, ?2), or with NULL the first. */
#define CHANGED_KEYS "WITH k AS (SELECT DISTINCT session_id, state_key FROM sessfs_change " \
	"WHERE session_id IS NOT NULL AND (?1 IS NULL OR session_id > ?1 OR " \
	"(session_id = ?1 AND state_key > ?2)) ORDER BY session_id, state_key LIMIT ?3) "
#define OF_KEY(table) table ".session_id = k.session_id AND " table ".state_key = k.state_key"
/* With a key that was set apart before, if it has changed since: what is 'a', without a number. */
SQL(SQL_CHANGE_PAGE, CHANGED_KEYS "SELECT c.id, k.session_id, k.state_key, c.item_index, c.what "
	"FROM k JOIN sessfs_change c ON " OF_KEY("c") " UNION ALL SELECT 0, k.session_id, "
	"k.state_key, a.first_index, 'a' FROM k JOIN sessfs_apart a ON " OF_KEY("a")
	" ORDER BY 2, 3, 1")
/* Of the keys for which there is nothing but inserted rows: how many there are from the first. */
SQL(SQL_CHANGE_COUNTS, CHANGED_KEYS "SELECT k.session_id, k.state_key, (SELECT COUNT(*) FROM "
	"{rows} r WHERE r.session_id = {text k.session_id} AND r.state_key = {text k.state_key}"
	"{spelled r.session_id k.session_id}{spelled r.state_key k.state_key} AND r.item_index >= "
	"(SELECT MIN(item_index) FROM sessfs_change c WHERE " OF_KEY("c") ")) FROM k WHERE "
	"NOT EXISTS (SELECT 1 FROM sessfs_change c WHERE " OF_KEY("c") " AND c.what <> 'i') AND "
	"NOT EXISTS (SELECT 1 FROM sessfs_apart a WHERE " OF_KEY("a") ") ORDER BY 1, 2")
/* The same of one key in one statement, which sees one state of it; and where its rows end. */
#define LAST_OF_KEY "SELECT item_index + 1 FROM {rows} WHERE {is 3 4} AND " \
	"item_index < 9223372036854775807 ORDER BY item_index DESC LIMIT 1"
SQL(SQL_CHANGE_OF, "SELECT id, session_id, state_key, item_index, what, (SELECT COUNT(*) FROM "
	"{rows} WHERE {is 3 4} AND item_index >= (SELECT MIN(item_index) FROM sessfs_change WHERE "
	"session_id = ?1 AND state_key = ?2) AND NOT EXISTS (SELECT 1 FROM sessfs_change WHERE "
	"session_id = ?1 AND state_key = ?2 AND what <> 'i')), (" LAST_OF_KEY ") FROM "
	"sessfs_change WHERE session_id = ?1 AND state_key = ?2 UNION ALL SELECT 0, session_id, "
	"state_key, first_index, 'a', 0, (" LAST_OF_KEY ") FROM sessfs_apart a WHERE "
	"session_id = ?1 AND state_key = ?2 AND " CHANGED_AGAIN)
SQL(SQL_CHANGE_FIND, "SELECT id, session_id, state_key, item_index, what FROM sessfs_change "
	"WHERE session_id = ?1 OR session_id IS NULL")
SQL(SQL_APART_LIST, "SELECT session_id, state_key, first_index, stamp FROM sessfs_apart a "
	"WHERE NOT "
	CHANGED_AGAIN)
SQL(SQL_CHANGE_ENDS, "SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM sessfs_change")
SQL(SQL_CHANGES_DELETE, "DELETE FROM sessfs_change WHERE ")
SQL(SQL_APART_DELETE, "DELETE FROM sessfs_apart WHERE session_id = ?1 AND state_key = ?2 AND "
	"(stamp = ?3 OR ?3 = 0 OR ?4 <> 0)")
SQL(SQL_APART_PUT, "INSERT INTO sessfs_apart (session_id, state_key, first_index, stamp) "
	"VALUES (?1, ?2, ?3, ?4) {conflict session_id, state_key} stamp = {new stamp}")

#define OF_NO_FILE(table) "SELECT COUNT(*) FROM " table " x WHERE NOT EXISTS " \
	"(SELECT 1 FROM sessfs_node n WHERE n.ino = x.ino)"
SQL(SQL_CHECK_ENTRIES, OF_NO_FILE("sessfs_entry"))
SQL(SQL_CHECK_XATTRS, OF_NO_FILE("sessfs_xattr"))
SQL(SQL_CHECK_CHUNKS, OF_NO_FILE("sessfs_chunk"))
SQL(SQL_CHECK_PIECES, OF_NO_FILE("sessfs_piece"))
SQL(SQL_CHECK_MARKS, OF_NO_FILE("sessfs_mark"))
SQL(SQL_CHECK_HIDDEN, OF_NO_FILE("sessfs_trash"))
SQL(SQL_CHECK_ROOT, "SELECT 1 - COUNT(*) FROM sessfs_node WHERE ino = 1")
/* clang-format on */
