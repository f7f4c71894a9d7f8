/* SPDX-License-Identifier: MIT */
/*
 * Statements: SQL(name, text) for each; text.h makes the names of it, text.c the texts.
 *
 * ?1, ?2 ... are values.  Words in braces are the driver's (driver.h) or these, of the rows' table:
 *	{rows}         its name
 *	{is A B}       session_id and state_key are ?A and ?B, byte for byte
 *	{created}, {updated}   seconds since 1970 or 0
 *	{time_columns} {time_values A B} {keep_updated} {set_updated}   if it has such columns
 *	{same A}       A, if the row that is replaced has the ids that were meant
 *	{text A}       A, an id of a table of ours, as one of the rows' table
 *	where ids have several spellings (otherwise nothing):
 *	{spelled A B}  and A, an id of the rows' table that is B to the server, is it byte for byte
 *	{spellings A B}   by these, too
 *	{several ...}  what follows; elsewhere nothing
 *	{exact ...}    the other way round
 */

/* clang-format off */
#include "backend/texts.h"
/* ?1: which notes the mount ?2 has not digested. */
SQL(SQL_STATE, "SELECT epoch, 0, turn, settings, "
	"CASE WHEN EXISTS (SELECT 1 FROM sessfs_feed WHERE ?1) OR (?2 <> 0 AND NOT EXISTS "
	"(SELECT 1 FROM sessfs_mount WHERE number = ?2)) THEN 1 ELSE 0 END, "
	"CASE WHEN EXISTS (SELECT 1 FROM sessfs_apart) THEN 1 ELSE 0 END, "
	"CASE WHEN EXISTS (SELECT 1 FROM sessfs_change) THEN 1 ELSE 0 END, last_ino, last_entry "
	"FROM sessfs_store WHERE id = 1")
SQL(SQL_STATE_LOCK, "SELECT guard FROM sessfs_store WHERE id = 1 {locked}")
SQL(SQL_STATE_LOCK_AT_ONCE, "SELECT guard FROM sessfs_store WHERE id = 1 {at_once}")
SQL(SQL_ROLLBACK, "ROLLBACK")

SQL(SQL_NODE_FIND, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.session_id = ?1 AND "
	"n.slot = ?2")
SQL(SQL_NODE_LIST, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.ino >= ?1 AND n.ino > 0 "
	"ORDER BY n.ino LIMIT ?3")
SQL(SQL_NODE_LIST_ORPHANS, "SELECT " NODE_COLUMNS " FROM sessfs_node n WHERE n.nlink = 0 AND "
	"n.ino >= ?1 AND n.ino > 0 ORDER BY n.ino LIMIT ?3")
SQL(SQL_ENTRY_FIND, "SELECT " NODE_COLUMNS ", e.id FROM sessfs_entry e JOIN sessfs_node n "
	"ON n.ino = e.ino WHERE e.parent = ?1 AND e.name = ?2")
SQL(SQL_ENTRY_LIST, "SELECT " NODE_COLUMNS ", e.id, e.name FROM sessfs_entry e JOIN sessfs_node n "
	"ON n.ino = e.ino WHERE e.parent = ?4 AND e.id >= ?1 ORDER BY e.id LIMIT ?3")
SQL(SQL_CHUNK_READ, "SELECT chunk, data FROM sessfs_chunk WHERE ino = ?4 AND chunk >= ?1 AND "
	"chunk <= ?5 ORDER BY chunk LIMIT ?3")
SQL(SQL_CHUNK_LIST, "SELECT chunk, OCTET_LENGTH(data) FROM sessfs_chunk WHERE ino = ?4 AND "
	"chunk >= ?1 AND chunk <= ?5 ORDER BY chunk LIMIT ?3")
SQL(SQL_PIECE_READ, "SELECT item_index, seq, data FROM sessfs_piece WHERE ino = ?4 AND "
	"(item_index > ?1 OR (item_index = ?1 AND seq >= ?2)) ORDER BY item_index, seq LIMIT ?3")
SQL(SQL_LAST_IDS, "SELECT last_ino, last_entry FROM sessfs_store WHERE id = 1")
/* The place is what this database is called, which no copy of the store takes along. */
SQL(SQL_SETTING_LIST, "SELECT name, value FROM sessfs_setting WHERE name <> {bytes 'place'} "
	"UNION ALL "
	"SELECT 'table', {bytes rows_table} FROM sessfs_store ORDER BY 1")

/* Rows. */
SQL(SQL_ROW_READ, "SELECT item_index, state_data FROM {rows} WHERE {is 4 5} AND "
	"item_index >= ?1 ORDER BY item_index LIMIT ?3")
SQL(SQL_ROW_READ_BACK, "SELECT item_index, state_data FROM {rows} WHERE {is 4 5} AND "
	"item_index <= ?1 ORDER BY item_index DESC LIMIT ?3")
SQL(SQL_ROW_TIMES, "SELECT item_index, state_data, {created}, {updated} FROM {rows} WHERE "
	"{is 4 5} AND item_index >= ?1 ORDER BY item_index LIMIT ?3")
SQL(SQL_ROW_TIMES_BACK, "SELECT item_index, state_data, {created}, {updated} FROM {rows} WHERE "
	"{is 4 5} AND item_index <= ?1 ORDER BY item_index DESC LIMIT ?3")
SQL(SQL_KEY_STAT, "SELECT (SELECT item_index FROM {rows} WHERE {is 1 2} ORDER BY item_index "
	"LIMIT 1) AS low, item_index, {created}, {updated} FROM {rows} WHERE {is 1 2} "
	"ORDER BY item_index DESC LIMIT 1")
/* In the order of the index, and no further in it than to the last of them.  Where ids have several
 * spellings, those are told apart of a page's ids alone. */
#define KEYS(ids, session, where) \
	"SELECT r.session_id, r.state_key, k.low, k.high, {created}, {updated} FROM (" \
	"{exact SELECT " ids ", MIN(item_index) AS low, MAX(item_index) AS high FROM {rows} " \
	where " GROUP BY " ids " ORDER BY " ids " LIMIT ?3}" \
	"{several SELECT r.session_id, r.state_key, MIN(r.item_index) AS low, " \
	"MAX(r.item_index) AS high FROM (SELECT " ids " FROM {rows} " where " GROUP BY " ids \
	" ORDER BY " ids " LIMIT ?3) k STRAIGHT_JOIN {rows} r ON r.session_id = " session \
	" AND r.state_key = k.state_key GROUP BY r.session_id, r.state_key" \
	"{spellings r.session_id r.state_key}}) k {exact JOIN}{several STRAIGHT_JOIN} {rows} r " \
	"ON r.session_id = " session " AND r.state_key = k.state_key AND r.item_index = k.high "
#define IN_ORDER "ORDER BY 1, 2{spellings r.session_id r.state_key}"
/* Those of session ?1, however it is spelled. */
SQL(SQL_SESSION_KEYS, KEYS("state_key", "?1", "WHERE session_id = ?1") IN_ORDER)
/* Behind (?1, ?2). */
SQL(SQL_KEY_LIST, KEYS("state_key", "?1", "WHERE session_id = ?1 AND state_key >{several =} ?2")
	"{several WHERE r.state_key > ?2 OR {exactly r.session_id} > ?1 OR "
	"({exactly r.session_id} = ?1 AND {exactly r.state_key} > ?2)} " IN_ORDER)
SQL(SQL_KEY_LIST_ON, KEYS("session_id, state_key", "k.session_id", "WHERE session_id > ?1")
	IN_ORDER)
SQL(SQL_KEY_LIST_ALL, KEYS("session_id, state_key", "k.session_id", "") IN_ORDER)
#define SESSION_SUMS "COUNT(DISTINCT {exactly state_key}), COUNT(*), " \
	"SUM(OCTET_LENGTH(state_data)), MIN({created}), MAX({updated})"
SQL(SQL_SESSION_LIST, "SELECT {bytes session_id} AS session, " SESSION_SUMS ", 0 FROM {rows} "
	"GROUP BY session_id{spellings session_id session_id} UNION ALL SELECT "
	"{id n.session_id}, 0, 0, 0, 0, 0, n.mtime FROM "
	"sessfs_node n WHERE n.kind = 1 AND n.nlink > 0 AND NOT EXISTS (SELECT 1 FROM "
	"{rows} r WHERE "
	"r.session_id = {text n.session_id}{spelled r.session_id n.session_id}) ORDER BY session")
SQL(SQL_SESSION_STAT, "SELECT ?1, " SESSION_SUMS ", 0 FROM {rows} WHERE {session 1}")
SQL(SQL_DAY_LIST, "SELECT day, COUNT(*), SUM(bytes) FROM (SELECT FLOOR({created} / 86400) AS day, "
	"OCTET_LENGTH(state_data) AS bytes, {created} AS made FROM {rows}) d WHERE made > 0 "
	"GROUP BY day ORDER BY day")

/* What a look-up and a listing tell in one answer (join.c).  A list is read from its last mark
 * on, so where that is has to be a constant to the planner: of one node that is asked for by
 * itself. */
#define LOWEST "{lowest}"
#define TAIL(node, kind, session, key)                                                             \
	"SELECT " node ", COALESCE(m.byte_offset, 0), COALESCE(m.item_index, " LOWEST "), "        \
	"COUNT(r.item_index), COALESCE(SUM(OCTET_LENGTH(r.state_data)), 0), "                      \
	"COALESCE(MAX(r.item_index), 0), (SELECT OCTET_LENGTH(l.state_data) FROM {rows} l WHERE "  \
	"l.session_id = " session " AND l.state_key = " key                                        \
	"{spelled l.session_id " session "}{spelled l.state_key " key "} AND l.item_index <= "     \
	TAIL_END(kind, session, key) " ORDER BY l.item_index DESC LIMIT 1), "                      \
	"CASE WHEN EXISTS (SELECT 1 FROM sessfs_piece p WHERE " kind " = 3 AND p.ino = " node      \
	" AND p.item_index >= COALESCE(m.item_index, " LOWEST ")) THEN 1 ELSE 0 END "
/* Of a document, its first row. */
#define TAIL_END(kind, session, key)                                                               \
	"CASE WHEN " kind " = 3 THEN 9223372036854775807 ELSE (SELECT item_index FROM {rows} f "   \
	"WHERE f.session_id = " session " AND f.state_key = " key                                  \
	"{spelled f.session_id " session "}{spelled f.state_key " key "} ORDER BY item_index "     \
	"LIMIT 1) END"
#define TAIL_JOINS(node, kind, session, key)                                                       \
	"LEFT JOIN sessfs_mark m ON " kind " = 3 AND m.ino = " node " AND m.byte_offset = "        \
	"(SELECT MAX(byte_offset) FROM sessfs_mark WHERE ino = " node ") "                         \
	"LEFT JOIN {rows} r ON {point r.session_id " session "} AND {point r.state_key " key "}"   \
	"{spelled r.session_id " session "}{spelled r.state_key " key "} "                         \
	"AND r.item_index >= COALESCE(m.item_index, " LOWEST ") AND r.item_index <= "              \
	TAIL_END(kind, session, key) " "
SQL(SQL_TAIL, TAIL("?1", "?2", "?3", "?4") "FROM (SELECT 1 AS one) x "
	TAIL_JOINS("?1", "?2", "?3", "?4") "GROUP BY m.byte_offset, m.item_index")
#define OF_NODE "n.ino", "n.kind", "{text n.session_id}", "{text n.state_key}"
#define OF(macro, node) macro(node)
SQL(SQL_ENTRY_TAIL, OF(TAIL, OF_NODE) "FROM sessfs_entry e JOIN sessfs_node n ON n.ino = e.ino "
	OF(TAIL_JOINS, OF_NODE) "WHERE e.parent = ?1 AND e.name = ?2 AND n.kind >= 2 "
	"GROUP BY n.ino, m.byte_offset, m.item_index")
#define SPELLED "{spelled r.session_id n.session_id}{spelled r.state_key n.state_key}"
/* The documents of a page of SQL_ENTRY_LIST.  The limit stands behind both tables, or a server may
 * take it that hardly any node is one, and read all nodes for them. */
SQL(SQL_ENTRY_DOCUMENTS, "SELECT n.id, r.item_index, OCTET_LENGTH(r.state_data) FROM "
	"(SELECT e.id, n.kind, n.session_id, n.state_key FROM sessfs_entry e JOIN sessfs_node n "
	"ON n.ino = e.ino WHERE e.parent = ?4 AND e.id >= ?1 ORDER BY e.id LIMIT ?3) n "
	"JOIN {rows} r ON r.session_id = {text n.session_id} AND r.state_key = {text n.state_key}"
	SPELLED " WHERE n.kind IN (2, 4) ORDER BY n.id, r.item_index")
/* ?3: as many bytes are wanted at the most. */
SQL(SQL_ENTRY_WHOLE, "SELECT r.state_data FROM sessfs_entry e JOIN sessfs_node n ON n.ino = e.ino "
	"JOIN {rows} r ON r.session_id = {text n.session_id} AND r.state_key = {text n.state_key}"
	SPELLED " WHERE e.parent = ?1 AND e.name = ?2 AND n.kind IN (2, 4) AND "
	"OCTET_LENGTH(r.state_data) <= ?3 ORDER BY r.item_index LIMIT 1")
SQL(SQL_ENTRY_CHUNK, "SELECT c.data FROM sessfs_entry e JOIN sessfs_node n ON n.ino = e.ino "
	"JOIN sessfs_chunk c ON c.ino = n.ino AND c.chunk = 0 "
	"WHERE e.parent = ?1 AND e.name = ?2 AND n.kind = 0 AND n.size <= ?3")

#include "backend/sql/texts-apply.h"
#include "backend/sql/texts-past.h"
#include "backend/sql/texts-feed.h"
#include "backend/sql/texts-mounts.h"
/* clang-format on */
