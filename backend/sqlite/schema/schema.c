/* SPDX-License-Identifier: MIT */
/*
 * Our tables, their versions, and the triggers that log others' changes.
 *
 * sessfs_meta is the truth about the version.  The numbers in the file's header (application_id,
 * user_version) say the same in a store that we made; in a database that another program made and
 * we adopted, user_version is that program's, and application_id is set only where it was 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/schema/judge.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/base/log.h"

/*
 * The rows of a store that we make.
 *
 * With a rowid: a row that is in a tree of the keys alone may take a quarter of a page, and what is
 * larger, as most lines of transcripts are, takes a page of its own for the rest.  Appending lines
 * of 2 KB costs a third of the time so, and a quarter of the disk.
 */
static const char rows_table[] =
	"CREATE TABLE IF NOT EXISTS main.{rows} (\n"
	"  -- What the sessions hold: one row a state, or one row an item of a list state.\n"
	"  session_id TEXT    NOT NULL,\n"
	"  state_key  TEXT    NOT NULL,\n"
	"  item_index INTEGER NOT NULL DEFAULT 0, -- lists: 0, 1, 2 ... without holes\n"
	"  state_data TEXT    NOT NULL, -- JSON as it was written; plain text if the key ends in "
	":_hash\n"
	"  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, -- UTC\n"
	"  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, -- UTC; moves when state_data changes\n"
	"  version    BIGINT  NOT NULL DEFAULT 0, -- of a state, not of a list: rises with "
	"each write\n"
	"  PRIMARY KEY (session_id, state_key, item_index)\n"
	")";

#define PAST_TABLE                                                                                 \
	"CREATE TABLE {schema}sessfs_past (\n"                                                     \
	"  -- What changes of rows have taken away (backend/history.h).  Times are nanoseconds "   \
	"since 1970.\n"                                                                            \
	"  n          INTEGER PRIMARY KEY, -- rises\n"                                             \
	"  ino        INTEGER NOT NULL DEFAULT 0, -- of a removed file, which had the key\n"       \
	"  session_id NOT NULL,\n"                                                                 \
	"  state_key  NOT NULL,\n"                                                                 \
	"  until      INTEGER NOT NULL, -- it was so until then\n"                                 \
	"  what       INTEGER NOT NULL, -- 0 a row; 1 no row from item_index to last_index; 2 "    \
	"rows "                                                                                    \
	"\n"                                                                                       \
	"             -- from item_index on moved by last_index; 3 nothing is kept from "          \
	"item_index "                                                                              \
	"\n"                                                                                       \
	"             -- to last_index, two times; 4 all was put back as of item_index\n"          \
	"  item_index INTEGER NOT NULL,\n"                                                         \
	"  last_index INTEGER NOT NULL,\n"                                                         \
	"  late       INTEGER NOT NULL DEFAULT 0, -- so much after until it was written\n"         \
	"  pid        INTEGER NOT NULL DEFAULT 0, -- process of the mount; 0: another program\n"   \
	"  bytes      INTEGER NOT NULL DEFAULT 0, -- of state_data\n"                              \
	"  created_at,\n"                                                                          \
	"  updated_at,\n"                                                                          \
	"  version,\n"                                                                             \
	"  state_data\n"                                                                           \
	");\n"                                                                                     \
	"CREATE INDEX {schema}sessfs_past_key ON sessfs_past (ino, session_id, state_key, "        \
	"until,\n"                                                                                 \
	"  item_index);\n"

/*
 * Names, symbolic links' targets and attributes are any bytes, so they are stored as BLOB always:
 * to SQLite a text and a blob of the same bytes are two different values.  Ids are text, as in the
 * rows.
 */
static const char tables[] =
	"CREATE TABLE {schema}sessfs_meta (\n"
	"  -- About this store: schema_version, table (that holds the rows), owner (process that\n"
	"  -- mounted it last), stamp (the newest in sessfs_change), made (1: sessfs made the "
	"file).\n"
	"  key   TEXT PRIMARY KEY,\n"
	"  value\n"
	") WITHOUT ROWID;\n"
	"CREATE TABLE {schema}sessfs_node (\n"
	"  -- One row a file or directory.  Times are nanoseconds since 1970.\n"
	"  ino        INTEGER PRIMARY KEY,\n"
	"  parent     INTEGER NOT NULL, -- the directory that holds it: its ino\n"
	"  entry      INTEGER NOT NULL, -- and the id of its entry there; 0: none\n"
	"  kind       INTEGER NOT NULL, -- 0 ordinary, 1 session, 2 single, 3 list, 4 hash\n"
	"  flags      INTEGER NOT NULL, -- 1 draft, 2 no newline at the end, 4 adopted, 8 sparse\n"
	"  mode       INTEGER NOT NULL, -- as in stat(2)\n"
	"  uid        INTEGER NOT NULL,\n"
	"  gid        INTEGER NOT NULL,\n"
	"  nlink      INTEGER NOT NULL, -- 0: deleted, but still in use\n"
	"  rdev       INTEGER NOT NULL,\n"
	"  size       INTEGER NOT NULL, -- of the bytes in sessfs_chunk\n"
	"  atime      INTEGER NOT NULL,\n"
	"  mtime      INTEGER NOT NULL,\n"
	"  ctime      INTEGER NOT NULL,\n"
	"  btime      INTEGER NOT NULL,\n"
	"  session_id TEXT,             -- whose rows it shows\n"
	"  state_key  TEXT,\n"
	"  target     BLOB,             -- of a symbolic link\n"
	"  generation INTEGER NOT NULL DEFAULT 0 -- moves when a list is written anew\n"
	");\n"
	"CREATE UNIQUE INDEX {schema}sessfs_node_key ON sessfs_node (session_id, state_key)\n"
	"  WHERE kind >= 2 AND nlink > 0;\n"
	"CREATE UNIQUE INDEX {schema}sessfs_node_session ON sessfs_node (session_id)\n"
	"  WHERE kind = 1 AND nlink > 0;\n"
	"CREATE INDEX {schema}sessfs_node_orphan ON sessfs_node (ino) WHERE nlink = 0;\n"
	"CREATE TABLE {schema}sessfs_entry (\n"
	"  -- Names in directories.\n"
	"  parent INTEGER NOT NULL, -- ino of the directory\n"
	"  id     INTEGER NOT NULL, -- rises; the order of a listing\n"
	"  name   BLOB    NOT NULL,\n"
	"  ino    INTEGER NOT NULL,\n"
	"  PRIMARY KEY (parent, id),\n"
	"  UNIQUE (parent, name)\n"
	") WITHOUT ROWID;\n"
	"CREATE TABLE {schema}sessfs_xattr (\n"
	"  -- Extended attributes.\n"
	"  ino   INTEGER NOT NULL,\n"
	"  name  BLOB    NOT NULL,\n"
	"  value BLOB    NOT NULL,\n"
	"  PRIMARY KEY (ino, name)\n"
	") WITHOUT ROWID;\n"
	"CREATE TABLE {schema}sessfs_chunk (\n"
	"  -- Bytes of ordinary files and drafts, 32768 a chunk; what is missing reads as zeros.\n"
	"  ino   INTEGER NOT NULL,\n"
	"  chunk INTEGER NOT NULL,\n"
	"  data  BLOB    NOT NULL,\n"
	"  PRIMARY KEY (ino, chunk)\n"
	");\n"
	"CREATE TABLE {schema}sessfs_piece (\n"
	"  -- Bytes of a list file that are not rows, before the row item_index.\n"
	"  ino        INTEGER NOT NULL,\n"
	"  item_index INTEGER NOT NULL,\n"
	"  seq        INTEGER NOT NULL,\n"
	"  data       BLOB    NOT NULL,\n"
	"  PRIMARY KEY (ino, item_index, seq)\n"
	") WITHOUT ROWID;\n"
	"CREATE TABLE {schema}sessfs_mark (\n"
	"  -- Where rows begin in a list file: a sparse index.\n"
	"  ino         INTEGER NOT NULL,\n"
	"  byte_offset INTEGER NOT NULL,\n"
	"  item_index  INTEGER NOT NULL,\n"
	"  PRIMARY KEY (ino, byte_offset)\n"
	") WITHOUT ROWID;\n"
	"CREATE INDEX {schema}sessfs_mark_index ON sessfs_mark (ino, item_index);\n"
	"CREATE TABLE {schema}sessfs_change (\n"
	"  -- Keys that other programs changed and sessfs has not looked at yet, written by the\n"
	"  -- triggers on the rows.  The key (x'', x''), two blobs, says: anything may have "
	"changed.\n"
	"  session_id    NOT NULL,\n"
	"  state_key     NOT NULL,\n"
	"  first_index   INTEGER NOT NULL, -- lowest index that was changed\n"
	"  deleted_index INTEGER NOT NULL, -- lowest index that was deleted\n"
	"  stamp         INTEGER NOT NULL, -- never used twice; negative: it was set apart\n"
	"  rewritten     INTEGER NOT NULL DEFAULT 1, -- 0: rows were added behind the last one\n"
	"  PRIMARY KEY (session_id, state_key)\n"
	") WITHOUT ROWID;\n"
	"INSERT INTO {schema}sessfs_meta (key, value) VALUES ('stamp', 0), ('below', "
	"0);\n" PAST_TABLE "CREATE TABLE {schema}sessfs_feed (\n"
	"  -- What a mount has changed, until all others know it: a row each node, name or key.\n"
	"  n             INTEGER PRIMARY KEY, -- rises by one\n"
	"  mount         INTEGER NOT NULL,    -- that has changed it\n"
	"  what          INTEGER NOT NULL,    -- 0 a node, 1 a name, 2 rows, 3 anything\n"
	"  ino           INTEGER NOT NULL,    -- of the node, or of the directory that has the "
	"name\n"
	"  flags         INTEGER NOT NULL,    -- 1 moved, made or removed; 2 bytes, too; 4 rows "
	"were "
	"added;\n"
	"                                     -- 8 it is gone; 16 another program has done it\n"
	"  first_index   INTEGER NOT NULL,    -- lowest index of the rows\n"
	"  session_id    TEXT,\n"
	"  state_key     TEXT,\n"
	"  name          BLOB,\n"
	"  pid           INTEGER, -- process of the mount\n"
	"  at            INTEGER, -- nanoseconds since 1970\n"
	"  row_count     INTEGER, -- rows that were inserted or put\n"
	"  deleted_index INTEGER, -- lowest index that was deleted\n"
	"  end_index     INTEGER, -- behind the last row\n"
	"  node          INTEGER, -- of the file\n"
	"  parent        INTEGER, -- of its directory\n"
	"  path          TEXT\n"
	");\n"
	"CREATE TABLE {schema}sessfs_lock (\n"
	"  -- Locks of files (flock, fcntl) that a mount holds, while there are others.\n"
	"  ino   INTEGER NOT NULL,\n"
	"  mount INTEGER NOT NULL,\n"
	"  locks BLOB    NOT NULL, -- an array of struct backend_lock (backend.h)\n"
	"  PRIMARY KEY (ino, mount)\n"
	") WITHOUT ROWID;\n";

/*
 * The triggers.  They run in other programs' connections only (in ours they are off), so only
 * those pay.  They log; a client that replaces a row (INSERT OR REPLACE) is seen by the insert.
 * What has no text for ids and no integer for an index is nothing that we show.
 *
 * Behind an insert nothing tells whether it has replaced a row, so one trigger notes before each
 * whether there is a row at its place or behind it ('below' in sessfs_meta).  One that is ignored
 * because of such a row is never logged.
 */
#define NEXT_STAMP "  UPDATE sessfs_meta SET value = value + 1 WHERE key = 'stamp';\n"
#define LOG(row, deleted, rewritten, condition)                                                    \
	"  INSERT INTO sessfs_change (session_id, state_key, first_index, deleted_index, stamp,\n" \
	"      rewritten)\n"                                                                       \
	"    SELECT " row ".session_id, " row ".state_key, " row ".item_index, " deleted ",\n"     \
	"      (SELECT value FROM sessfs_meta WHERE key = 'stamp'), " rewritten "\n"               \
	"    WHERE typeof(" row ".session_id) = 'text' AND typeof(" row ".state_key) = 'text'\n"   \
	"      AND typeof(" row ".item_index) = 'integer'" condition "\n"                          \
	"    ON CONFLICT (session_id, state_key) DO UPDATE SET\n"                                  \
	"      first_index = min(first_index, excluded.first_index),\n"                            \
	"      deleted_index = min(deleted_index, excluded.deleted_index),\n"                      \
	"      stamp = excluded.stamp, rewritten = max(rewritten, excluded.rewritten);\n"
#define NONE_DELETED "9223372036854775807"
#define KEY_MOVED                                                                                  \
	" AND (old.session_id IS NOT new.session_id\n"                                             \
	"        OR old.state_key IS NOT new.state_key OR old.item_index IS NOT new.item_index)"

/*
 * What is taken away is kept: a row that is deleted or changed, one that is replaced, of
 * which a trigger of DELETE need not hear, and that there was none where one comes, since the
 * created_at of other programs is exact to a second only.  Behind the last one "from here on" is
 * said once for all.
 *
 * SQL knows no time of a transaction.  So what other programs write within PAUSE of one another,
 * and SPAN altogether, is one change: it has the time of the first.  Where our own connections
 * run the triggers, they say the time ('moment' in sessfs_meta, while the transaction lasts;
 * negative: what it takes away is not kept).
 */
#define NOW                                                                                        \
	"((CAST(strftime('%s', 'now') AS INTEGER) * 1000 + "                                       \
	"CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)) * 1000000)"
#define PAUSE "100000000"
#define SPAN "5000000000"
#define MOMENT                                                                                     \
	"coalesce((SELECT value FROM sessfs_meta WHERE key = 'moment'), (SELECT until FROM "       \
	"sessfs_past WHERE n = (SELECT max(n) FROM sessfs_past) AND "                              \
	"pid = 0 AND what < 2 AND " NOW " - until - late BETWEEN 0 AND " PAUSE " AND " NOW         \
	" - until < " SPAN "), " NOW ")"
#define PID "coalesce((SELECT value FROM sessfs_meta WHERE key = 'moment_pid'), 0)"
#define KEEPS                                                                                      \
	"coalesce((SELECT value FROM sessfs_meta WHERE key = 'setting:history'), '1') <> '0' AND " \
	"coalesce((SELECT value FROM sessfs_meta WHERE key = 'moment'), 0) >= 0"
#define KNOWN_TYPES(row)                                                                           \
	"typeof(" row ".session_id) = 'text' AND typeof(" row ".state_key) = 'text' AND "          \
	"typeof(" row ".item_index) = 'integer'"
#define PLACE_OF(row)                                                                              \
	"session_id = " row ".session_id AND state_key = " row ".state_key AND item_index = " row  \
	".item_index"
/* clang-format off */
/* Other programs may drop this column, and add it: a query of its own asks for it, and without it
 * takes the value of that name from the query around it.  So none of their statements fails. */
#define IF_THERE(column, row) "(SELECT " column " FROM {rows} x WHERE " PLACE_OF(row) ")"
/* The row that stands in the place of another.  An upsert has kept it before already. */
#define KEEP(row, condition) \
	"  INSERT INTO sessfs_past (session_id, state_key, until, late, pid, what, item_index,\n" \
	"      last_index, bytes, created_at, updated_at, version, state_data)\n" \
	"    SELECT session_id, state_key, m, " NOW " - m, " PID ", 0, item_index, item_index,\n" \
	"      coalesce({octets}, 0), " IF_THERE("created_at", row) ",\n" \
	"      " IF_THERE("updated_at", row) ",\n" \
	"      " IF_THERE("version", row) ", state_data\n" \
	"    FROM {rows}, (SELECT " MOMENT " AS m, NULL AS created_at, NULL AS updated_at, " \
		"0 AS version)\n" \
	"    WHERE " PLACE_OF(row) " AND " KNOWN_TYPES(row) " AND " KEEPS condition "\n" \
	"      AND NOT EXISTS (SELECT 1 FROM sessfs_past p WHERE n = (SELECT max(n) FROM\n" \
	"        sessfs_past) AND ino = 0 AND what = 0 AND until = m AND " PLACE_OF(row) "\n" \
	"        AND state_data IS {rows}.state_data);\n"
/* clang-format on */
#define KEEP_NONE(last, condition)                                                                 \
	"  INSERT INTO sessfs_past (session_id, state_key, until, late, pid, what, item_index, "   \
	"last_index)\n    SELECT new.session_id, new.state_key, m, " NOW " - m, " PID              \
	", 1, new.item_index, " last "\n    FROM (SELECT " MOMENT " AS m) WHERE " KNOWN_TYPES(     \
		"new") " AND " KEEPS condition "\n      AND NOT coalesce((SELECT item_index = "    \
		       "new.item_index OR (what = 1 AND "                                          \
		       "last_index >= new.item_index)\n        FROM sessfs_past WHERE ino = 0 "    \
		       "AND session_id = "                                                         \
		       "new.session_id AND state_key = new.state_key\n        AND until = m AND "  \
		       "item_index <= "                                                            \
		       "new.item_index ORDER BY item_index DESC LIMIT 1), 0);\n"

#define BELOW "coalesce((SELECT value FROM sessfs_meta WHERE key = 'below'), 1)"

/* clang-format off */
static const char triggers[] =
	"CREATE TRIGGER main.sessfs_row_before BEFORE INSERT ON {rows} BEGIN\n"
	"  UPDATE sessfs_meta SET value = EXISTS (SELECT 1 FROM {rows}\n"
	"    WHERE session_id = new.session_id AND state_key = new.state_key\n"
	"      AND item_index >= new.item_index) WHERE key = 'below';\n"
	KEEP("new", "")
	"END;\n"
	"CREATE TRIGGER main.sessfs_row_insert AFTER INSERT ON {rows} BEGIN\n"
	NEXT_STAMP LOG("new", NONE_DELETED, BELOW, "")
	KEEP_NONE("CASE WHEN " BELOW " THEN new.item_index ELSE " NONE_DELETED " END", "")
	"END;\n"
	"CREATE TRIGGER main.sessfs_row_delete BEFORE DELETE ON {rows} BEGIN\n"
	NEXT_STAMP LOG("old", "old.item_index", "1", "") KEEP("old", "")
	"END;\n"
	"CREATE TRIGGER main.sessfs_row_update\n"
	"AFTER UPDATE OF session_id, state_key, item_index, state_data ON {rows} BEGIN\n"
	NEXT_STAMP LOG("new", NONE_DELETED, "1", "") LOG("old", "old.item_index", "1", KEY_MOVED)
	KEEP_NONE("new.item_index", KEY_MOVED)
	"END;\n"
	"CREATE TRIGGER main.sessfs_row_replace\n"
	"BEFORE UPDATE OF session_id, state_key, item_index, state_data ON {rows} BEGIN\n"
	KEEP("old", " AND (old.state_data IS NOT new.state_data OR (1" KEY_MOVED "))")
	KEEP("new", KEY_MOVED)
	"END;\n";
/* clang-format on */

/* Setting updated_at alone fires none of them, so nothing recurses. */
static const char trigger_updated[] =
	"CREATE TRIGGER main.sessfs_row_updated_at AFTER UPDATE OF state_data ON {rows}\n"
	"WHEN new.state_data IS NOT old.state_data AND new.updated_at IS old.updated_at BEGIN\n"
	"  UPDATE {rows} SET updated_at = CURRENT_TIMESTAMP WHERE session_id = new.session_id\n"
	"    AND state_key = new.state_key AND item_index = new.item_index;\n"
	"END";

static const char drop_triggers[] = "DROP TRIGGER IF EXISTS main.sessfs_row_before; "
				    "DROP TRIGGER IF EXISTS main.sessfs_row_insert; "
				    "DROP TRIGGER IF EXISTS main.sessfs_row_update; "
				    "DROP TRIGGER IF EXISTS main.sessfs_row_delete; "
				    "DROP TRIGGER IF EXISTS main.sessfs_row_replace; "
				    "DROP TRIGGER IF EXISTS main.sessfs_row_updated_at";

static const char log_everything[] =
	"UPDATE sessfs_meta SET value = value + 1 WHERE key = 'stamp'; "
	"INSERT OR REPLACE INTO sessfs_change (session_id, state_key, first_index, deleted_index, "
	"stamp) VALUES (x'', x'', 0, 0, (SELECT value FROM sessfs_meta WHERE key = 'stamp'))";

static int run(struct sqlite_conn *conn, const char *text, const char *schema)
{
	return sqlite_conn_exec_made(conn, sqlite_sql_expand(text, &conn->store->layout, schema));
}

int sqlite_meta_put(struct sqlite_conn *conn, const char *key, const char *value)
{
	static const char format[] =
		"INSERT OR REPLACE INTO sessfs_meta (key, value) VALUES (%Q, %Q)";

	return sqlite_conn_exec_made(conn, sqlite3_mprintf(format, key, value));
}

int sqlite_meta_get(struct sqlite_conn *conn, const char *key, char **ret_value)
{
	struct cursor cursor =
		cursor_open(conn, SQL_META_GET, SQL_VALUES(sql_text(bytes_str(key))));

	if (cursor_next(&cursor) && sqlite3_column_type(cursor.statement, 0) != SQLITE_NULL) {
		const char *value = (const char *)sqlite3_column_text(cursor.statement, 0);

		*ret_value = value ? strdup(value) : NULL;
		cursor.r = *ret_value ? 0 : -ENOMEM;
	}
	return cursor_end(&cursor);
}

int sqlite_schema_version(struct sqlite_conn *conn, int64_t *ret_version)
{
	static const char meta[] = "SELECT count(*) FROM main.sqlite_schema WHERE "
				   "type = 'table' AND name = 'sessfs_meta'";
	_cleanup_(freep) char *version = NULL;
	int64_t has_meta = 0;
	int r = sqlite_conn_query(conn, meta, 0, &has_meta);

	if (r == 0 && has_meta)
		r = sqlite_meta_get(conn, "schema_version", &version);
	if (r < 0)
		return r;
	*ret_version = version ? strtoll(version, NULL, 10) : 0;
	if (!has_meta || *ret_version > 0)
		return 0;
	log_error("%s: its table sessfs_meta has no version", conn->store->place.path);
	return -EIO;
}

static int put_version(struct sqlite_conn *conn, bool made)
{
	char number[16];
	int64_t application = 0;
	int r;

	snprintf(number, sizeof(number), "%d", SQLITE_SCHEMA_FORMAT);
	r = sqlite_meta_put(conn, "schema_version", number);
	if (r == 0)
		r = sqlite_conn_query(conn, "PRAGMA main.application_id", 0, &application);
	if (r == 0 && application == 0)
		r = sqlite_conn_exec_made(conn, sqlite3_mprintf("PRAGMA main.application_id = %d",
								SQLITE_APPLICATION));
	if (r == 0 && made)
		r = sqlite_conn_exec_made(conn, sqlite3_mprintf("PRAGMA main.user_version = %d",
								SQLITE_SCHEMA_FORMAT));
	return r;
}

/* The root has the owner of the store's file. */
static int put_root(struct sqlite_conn *conn)
{
	static const char format[] =
		"INSERT INTO sessfs_node (ino, parent, entry, kind, flags, mode, uid, gid, nlink, "
		"rdev, "
		"size, atime, mtime, ctime, btime) VALUES (%d, %d, 0, %d, 0, %d, %u, %u, 2, 0, 0, "
		"%lld, %lld, %lld, %lld)";
	const long long now = time_now();
	struct stat st;

	if (stat(conn->store->place.path, &st) < 0)
		return -errno;
	return sqlite_conn_exec_made(conn,
				     sqlite3_mprintf(format, BACKEND_ROOT, BACKEND_ROOT,
						     BACKEND_ORDINARY, S_IFDIR | 0755, st.st_uid,
						     st.st_gid, now, now, now, now));
}

int sqlite_schema_put_triggers(struct sqlite_conn *conn)
{
	int r = run(conn, drop_triggers, "");

	if (r == 0)
		r = run(conn, triggers, "");
	if (r == 0 && conn->store->layout.has_updated)
		r = run(conn, trigger_updated, "");
	return r;
}

int sqlite_schema_put_rows(struct sqlite_conn *conn)
{
	return run(conn, rows_table, "main.");
}

int sqlite_schema_log_everything(struct sqlite_conn *conn)
{
	return sqlite_conn_exec(conn, log_everything);
}

int sqlite_schema_any_rows(struct sqlite_conn *conn, bool *ret_any)
{
	static const char first[] = "SELECT 1 FROM {rows} LIMIT 1";
	int64_t any = 0;
	int r = sqlite_conn_query_made(conn, sqlite_sql_expand(first, &conn->store->layout, ""),
				       &any);

	*ret_any = any;
	return r;
}

enum { TRIGGERS = 5 };

int sqlite_schema_intact(struct sqlite_conn *conn, bool *ret_intact)
{
	int64_t count = 0;
	int r = sqlite_conn_number(conn, SQL_TRIGGERS, &count);

	if (r == 0)
		*ret_intact = count == TRIGGERS;
	return r;
}

/* A store of ours that was copied as SQL text has lost the numbers in its header. */
static int put_numbers(struct sqlite_conn *conn, int64_t from)
{
	int64_t application = SQLITE_APPLICATION;
	_cleanup_(freep) char *made = NULL;
	int r = sqlite_meta_get(conn, "made", &made);
	bool ours = made && strcmp(made, "1") == 0;

	if (r == 0 && ours)
		r = sqlite_conn_query(conn, "PRAGMA main.application_id", 0, &application);
	if (r < 0 || (from == SQLITE_SCHEMA_FORMAT && application))
		return r;
	return put_version(conn, ours);
}

/* A store of a format without kept rows has a setting for what was removed alone, and triggers that
 * keep nothing. */
static int bring_forward(struct sqlite_conn *conn)
{
	static const char settings[] =
		"UPDATE OR IGNORE sessfs_meta SET key = 'setting:history' WHERE key = "
		"'setting:trash'; DELETE FROM sessfs_meta WHERE key = 'setting:trash'";
	int r = run(conn, PAST_TABLE, "main.");

	if (r == 0)
		r = sqlite_conn_exec(conn, settings);
	return r < 0 ? r : sqlite_schema_put_triggers(conn);
}

static int bring(struct sqlite_conn *conn, int64_t from, bool new_store)
{
	struct sqlite *store = conn->store;
	const bool older = from && from < SQLITE_SCHEMA_PAST;
	int64_t found = 0;
	int r = sqlite_conn_number(conn, SQL_TRIGGERS, &found);
	/* Of the format before there were so many. */
	const bool intact = found == TRIGGERS - older;
	bool any = false;

	if (r == 0 && older)
		r = bring_forward(conn);
	if (r == 0 && from && from < SQLITE_SCHEMA_FORMAT)
		r = sqlite_conn_exec(conn, "DROP TABLE IF EXISTS sessfs_claim");
	if (r == 0 && new_store)
		r = sqlite_schema_put_rows(conn);
	if (r == 0 && from == 0)
		r = run(conn, tables, "main.");
	if (r == 0 && from == 0)
		r = put_root(conn);
	if (r == 0 && from == 0)
		r = sqlite_meta_put(conn, "table", store->layout.name);
	if (r == 0 && from == 0)
		r = sqlite_meta_put(conn, "made", new_store ? "1" : "0");
	if (r == 0)
		r = put_numbers(conn, from);
	if (r == 0 && !intact)
		r = sqlite_schema_put_triggers(conn);
	/* Rows that nobody logged: of the program that made the database, or written while the
	 * triggers were gone. */
	if (r == 0 && !intact)
		r = sqlite_schema_any_rows(conn, &any);
	return r < 0 || !any ? r : sqlite_schema_log_everything(conn);
}

/* Mounts of this program are registered when the store is of its format. */
static int judge_older_mounts(const struct sqlite *store, char **ret_why)
{
	_cleanup_(freep) char *owners = sqlite_mounts_owners(store);

	return owners ? str_explain(ret_why, -EBUSY,
				    "%s is mounted by an older sessfs (%s); unmount it, and mount "
				    "it by this one then",
				    store->place.path, owners) :
			0;
}

int sqlite_schema_bring(struct sqlite *store, const struct look *look, char **ret_why)
{
	struct sqlite_conn *conn = &store->writer;
	int64_t now = look->version;
	int r = sqlite_conn_exec(conn, "BEGIN IMMEDIATE");

	store->layout.has_past = true;
	/* Of guests that find no store of ours at the same time, the second finds one here. */
	if (r == 0)
		r = sqlite_schema_version(conn, &now);
	if (r == 0 && now && now < SQLITE_SCHEMA_FORMAT)
		r = judge_older_mounts(store, ret_why);
	if (r == 0)
		r = bring(conn, now, (look->new_store || look->rows_lost) && now == look->version);
	return sqlite_conn_end(conn, r);
}

int sqlite_schema_aside(struct sqlite *store)
{
	struct sqlite_conn *conn = &store->writer;
	int r = sqlite_conn_exec(conn, "PRAGMA aside.journal_mode = WAL; BEGIN");

	if (r == 0)
		r = run(conn, tables, "aside.");
	if (r == 0)
		r = put_root(conn);
	/* No version is -1: at first, anything may have changed. */
	if (r == 0)
		r = sqlite_meta_put(conn, "digested", "-1");
	return sqlite_conn_end(conn, r);
}
