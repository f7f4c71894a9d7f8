/* SPDX-License-Identifier: MIT */
/* Statements that are the same in a file and on a server, as backend/sqlite/store/sql-texts.h and
 * backend/sql/texts.h, which have this one. */

/* clang-format off */
#define NODE_COLUMNS "n.ino, n.parent, n.entry, n.kind, n.flags, n.mode, n.uid, n.gid, n.nlink, " \
	"n.rdev, n.size, n.atime, n.mtime, n.ctime, n.btime, n.session_id, n.state_key, " \
	"n.target, n.generation"
SQL(SQL_COMMIT, "COMMIT")
SQL(SQL_NODE_GET, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.ino = ?1")
SQL(SQL_ENTRY_NAME, "SELECT name, ino FROM sessfs_entry WHERE parent = ?1 AND id = ?2")
SQL(SQL_XATTR_GET, "SELECT value FROM sessfs_xattr WHERE ino = ?1 AND name = ?2")
SQL(SQL_XATTR_LIST, "SELECT name FROM sessfs_xattr WHERE ino = ?1 ORDER BY name")
SQL(SQL_MARK_FIND, "SELECT byte_offset, item_index FROM sessfs_mark WHERE ino = ?1 AND "
	"byte_offset <= ?2 ORDER BY byte_offset DESC LIMIT 1")
SQL(SQL_MARK_FIND_INDEX, "SELECT byte_offset, item_index FROM sessfs_mark WHERE ino = ?1 AND "
	"item_index <= ?2 ORDER BY item_index DESC, byte_offset DESC LIMIT 1")
SQL(SQL_KEY_SHOWN, "DELETE FROM sessfs_trash WHERE ino = ?3")
SQL(SQL_HIDDEN_DELETE, "DELETE FROM sessfs_trash WHERE ino = ?1 AND item_index BETWEEN ?2 AND ?3")
SQL(SQL_NODE_DELETE, "DELETE FROM sessfs_node WHERE ino = ?1")
SQL(SQL_NODE_XATTRS_DELETE, "DELETE FROM sessfs_xattr WHERE ino = ?1")
SQL(SQL_NODE_CHUNKS_DELETE, "DELETE FROM sessfs_chunk WHERE ino = ?1")
SQL(SQL_NODE_PIECES_DELETE, "DELETE FROM sessfs_piece WHERE ino = ?1")
SQL(SQL_NODE_MARKS_DELETE, "DELETE FROM sessfs_mark WHERE ino = ?1")
SQL(SQL_NODE_LOCKS_DELETE, "DELETE FROM sessfs_lock WHERE ino = ?1")
SQL(SQL_ENTRY_PUT, "INSERT INTO sessfs_entry (parent, id, name, ino) VALUES (?1, ?2, ?3, ?4)")
SQL(SQL_ENTRY_DELETE, "DELETE FROM sessfs_entry WHERE parent = ?1 AND id = ?2")
SQL(SQL_XATTR_DELETE, "DELETE FROM sessfs_xattr WHERE ino = ?1 AND name = ?2")
SQL(SQL_CHUNK_DELETE, "DELETE FROM sessfs_chunk WHERE ino = ?1 AND chunk BETWEEN ?2 AND ?3")
SQL(SQL_PIECE_DELETE, "DELETE FROM sessfs_piece WHERE ino = ?1 AND item_index BETWEEN ?2 "
	"AND ?3 AND (item_index > ?2 OR seq >= ?4)")
SQL(SQL_MARK_DELETE, "DELETE FROM sessfs_mark WHERE ino = ?1 AND byte_offset >= ?2 AND "
	"(?3 = 0 OR byte_offset < ?3)")
#define PAST_OF "ino = ?1 AND session_id = ?2 AND state_key = ?3"
SQL(SQL_PAST_FORGET, "DELETE FROM sessfs_past WHERE " PAST_OF " AND until <= ?4")
SQL(SQL_PAST_GONE, "DELETE FROM sessfs_past WHERE ino = ?1")
SQL(SQL_PAST_TIMES, "SELECT COUNT(*), 0, 0, 0, until, 0, SUM(bytes), NULL FROM sessfs_past WHERE "
	PAST_OF " AND until > ?4 GROUP BY until ORDER BY until DESC")
SQL(SQL_PAST_SIZE, "SELECT COALESCE(SUM(bytes), 0), COALESCE(MAX(n), 0) FROM sessfs_past")
