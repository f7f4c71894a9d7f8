/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/repair/repair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/tick.h"

enum { COMMIT_BYTES = 32 << 20 };

/* What is rescued may be older than what a service has read. */
#define RISEN_VERSION(old)                                                                         \
	"CASE WHEN typeof(" old ") = 'integer' AND " old " > 0 THEN max(" old " + (" old           \
	" < 9223372036854775807), strftime('%s', 'now') * 1000000) ELSE 0 END"

/* The first record of a key counts: they come in the order of their worth. */
static const char *const inserts[SALVAGE_TABLES] = {
	[SALVAGE_NODE] = "INSERT OR IGNORE INTO sessfs_node VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
			 "?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
	[SALVAGE_ENTRY] = "INSERT OR IGNORE INTO sessfs_entry (parent, id, name, ino) "
			  "VALUES (?1, ?2, ?3, ?4)",
	[SALVAGE_XATTR] = "INSERT OR IGNORE INTO sessfs_xattr (ino, name, value) "
			  "VALUES (?1, ?2, ?3)",
	[SALVAGE_CHUNK] = "INSERT OR IGNORE INTO sessfs_chunk (ino, chunk, data) "
			  "VALUES (?1, ?2, ?3)",
	[SALVAGE_PIECE] = "INSERT OR IGNORE INTO sessfs_piece (ino, item_index, seq, data) "
			  "VALUES (?1, ?2, ?3, ?4)",
	[SALVAGE_TRASH] = "INSERT OR IGNORE INTO sessfs_trash (ino, item_index, state_data, "
			  "created_at, updated_at, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[SALVAGE_ROW] = "INSERT OR IGNORE INTO {rows} (session_id, state_key, item_index, "
			"state_data, created_at, updated_at, version) VALUES (?1, ?2, ?3, ?4, ?5, "
			"?6, " RISEN_VERSION("?7") ")",
	/* What was never its own node is made one here; the kind is found out later. */
	[SALVAGE_NODE_KEY] =
		"INSERT OR IGNORE INTO sessfs_node (ino, parent, entry, kind, flags, mode, uid, "
		"gid, nlink, rdev, size, atime, mtime, ctime, btime, session_id, state_key) "
		"SELECT ?3, coalesce((SELECT parent FROM sessfs_entry WHERE ino = ?3), 0), "
		"coalesce((SELECT id FROM sessfs_entry WHERE ino = ?3), 0), 0, 0, 33152, 0, 0, 1, "
		"0, 0, 0, 0, 0, 0, ?1, ?2 "
		"WHERE NOT EXISTS (SELECT 1 FROM sessfs_node WHERE ino = ?3)",
	[SALVAGE_ENTRY_NAME] =
		"INSERT OR IGNORE INTO sessfs_entry (parent, id, name, ino) "
		"SELECT ?1, ?3, ?2, n.ino FROM sessfs_node n WHERE n.parent = ?1 AND n.entry = ?3 "
		"AND NOT EXISTS (SELECT 1 FROM sessfs_entry e WHERE e.parent = ?1 AND e.id = ?3)",
	[SALVAGE_MARK] = "INSERT OR IGNORE INTO sessfs_mark (ino, byte_offset, item_index) "
			 "VALUES (?1, ?2, ?3)",
	/* What the store says for all its mounts. */
	[SALVAGE_META] = "INSERT OR IGNORE INTO sessfs_meta (key, value) "
			 "SELECT ?1, ?2 WHERE ?1 LIKE 'setting:%'",
};

void repair_report(void *arg, const char *sentence)
{
	struct repairing *repairing = arg;
	char shown[2048];

	snprintf(shown, sizeof(shown), "%s", sentence);
	/* What stands in a row cannot forge a line. */
	for (char *at = shown; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	repairing->repaired.lost++;
	repairing->repair->report(repairing->repair->arg, shown);
}

static int64_t int_at(const struct salvage_record *record, int i)
{
	return sqlite3_column_int64(record->row, SALVAGE_FIRST + i);
}

static int type_at(const struct salvage_record *record, int i)
{
	return sqlite3_column_type(record->row, SALVAGE_FIRST + i);
}

static int64_t size_at(const struct salvage_record *record, int i)
{
	const int type = type_at(record, i);

	/* That of a number would be known when it was made text. */
	return type == SQLITE_TEXT || type == SQLITE_BLOB ?
		       sqlite3_column_bytes(record->row, SALVAGE_FIRST + i) :
		       0;
}

/* Whether what is whole in the eyes of the store can be what it says that it is. */
static bool is_sound(const struct salvage_record *record)
{
	switch (record->table) {
	case SALVAGE_ROW:
		return int_at(record, ROW_INDEX) > INT64_MIN;
	case SALVAGE_NODE:
		return record->rowid >= BACKEND_TRASH;
	case SALVAGE_ENTRY:
		return int_at(record, 0) >= BACKEND_TRASH && int_at(record, 1) > 0 &&
		       int_at(record, 3) > 0 && size_at(record, 2) > 0;
	case SALVAGE_ENTRY_NAME:
		return int_at(record, 0) >= BACKEND_TRASH;
	case SALVAGE_CHUNK:
		return int_at(record, 0) > 0 && int_at(record, 1) >= 0 &&
		       size_at(record, 2) <= BACKEND_CHUNK;
	case SALVAGE_PIECE:
		return int_at(record, 0) > 0 && int_at(record, 1) >= 0;
	default:
		return type_at(record, 0) != SQLITE_INTEGER || int_at(record, 0) > 0;
	}
}

static int commit_some(struct repairing *repairing)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	int r = sqlite_conn_exec(conn, "COMMIT");

	repairing->waiting = 0;
	if (r == 0)
		sqlite3_wal_checkpoint_v2(conn->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	return r == 0 ? sqlite_conn_exec(conn, "BEGIN IMMEDIATE") : r;
}

static int insert(struct repairing *repairing, const struct salvage_record *record)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	sqlite3_stmt *statement = repairing->insert[record->table];
	int code = SQLITE_OK;

	for (int i = 0; code == SQLITE_OK && i < record->count; i++)
		code = sqlite3_bind_value(statement, i + 1,
					  sqlite3_column_value(record->row, SALVAGE_FIRST + i));
	if (code == SQLITE_OK && record->table == SALVAGE_NODE)
		code = sqlite3_bind_int64(statement, 1, record->rowid);
	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	/* Too large for this build of SQLite, or text that is none. */
	if ((code & 0xff) == SQLITE_TOOBIG || (code & 0xff) == SQLITE_CONSTRAINT)
		return -ENODATA;
	if (code == SQLITE_DONE && sqlite3_changes(conn->db) > 0 && record->table < SALVAGE_MARK) {
		repairing->repaired.records++;
		repairing->repaired.rows += record->table == SALVAGE_ROW;
		repairing->repaired.found += record->found;
		repairing->repaired.old += record->old;
	}
	return sqlite_result(conn, code);
}

static bool is_row(struct repairing *repairing, const struct salvage_record *record)
{
	const struct backend_repair *repair = repairing->repair;
	const int type = type_at(record, ROW_DATA);

	/* The new store makes text of a number. */
	if (type == SQLITE_INTEGER ||
	    (type == SQLITE_FLOAT &&
	     isfinite(sqlite3_column_double(record->row, SALVAGE_FIRST + ROW_DATA))))
		return true;
	return repair->is_row(repair->arg, salvage_text(record->row, ROW_SESSION),
			      salvage_text(record->row, ROW_KEY),
			      salvage_text(record->row, ROW_DATA));
}

static int on_record(void *arg, const struct salvage_record *record)
{
	struct repairing *repairing = arg;
	bool fits;
	int r = 0;

	if (repairing->repair->stop && repairing->repair->stop())
		return -EINTR;
	if (!is_sound(record))
		return -ENODATA;
	fits = record->table != SALVAGE_ROW || is_row(repairing, record);
	if (!fits) {
		repair_tell(repairing,
			    "session %.500s, key %.500s, item %" PRId64
			    ": the row is not JSON and is lost",
			    salvage_text(record->row, ROW_SESSION).data,
			    salvage_text(record->row, ROW_KEY).data, int_at(record, ROW_INDEX));
		return 0;
	}
	/* The root is there already, in a store that was just made. */
	if (record->table == SALVAGE_NODE && record->rowid == BACKEND_ROOT && !repairing->root) {
		repairing->root = true;
		r = sqlite_conn_exec(&repairing->store->writer,
				     "DELETE FROM sessfs_node WHERE ino = 1");
	}
	if (r == 0)
		r = insert(repairing, record);
	for (int i = 0; i < record->count; i++)
		repairing->waiting += (uint64_t)size_at(record, i) + 16;
	tick(1);
	if (r == 0 && repairing->waiting >= COMMIT_BYTES)
		r = commit_some(repairing);
	return r;
}

/* Entries that only their index has are looked for by the node's name. */
static const char helper[] = "CREATE INDEX sessfs_repair ON sessfs_node (parent, entry);"
			     "CREATE INDEX sessfs_repair_entry ON sessfs_entry (ino)";
static const char drop_helper[] = "DROP INDEX sessfs_repair; DROP INDEX sessfs_repair_entry";

static int bring(struct repairing *repairing)
{
	struct sqlite_conn *conn = &repairing->store->writer;
	/* Until it is complete, the new store need not be durable. */
	int r = sqlite_conn_exec(conn, "PRAGMA synchronous = OFF; BEGIN IMMEDIATE");

	if (r == 0)
		r = sqlite_conn_exec(conn, helper);
	if (r == 0)
		r = sqlite_conn_exec(conn, sqlite_sql_text(SQL_TRASH_MAKE));
	for (int i = 0; r == 0 && i < SALVAGE_TABLES; i++)
		if (inserts[i])
			r = sqlite_conn_prepare(conn, inserts[i], &repairing->insert[i]);
	if (r == 0)
		r = salvage_run(&repairing->salvage, on_record, repairing);
	for (int i = 0; i < SALVAGE_TABLES; i++)
		sqlite3_finalize(repairing->insert[i]);
	if (r == 0)
		r = repair_mend(repairing);
	if (r == 0)
		r = sqlite_conn_exec(conn, drop_helper);
	r = sqlite_conn_end(conn, r);
	if (r == 0)
		r = sqlite_conn_exec(conn, "PRAGMA synchronous = NORMAL");
	if (r == 0 && !repairing->repaired.records)
		r = -ENODATA;
	return r;
}

void sqlite_backend_discard(const char *path)
{
	static const char *const files[] = { "-wal", "-shm", "-journal" };

	sqlite_beside_remove(path);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlink(BESIDE(path, files[i]));
	/* Last, so that the rest is found by it. */
	unlink(path);
}

static int bring_into(struct repairing *repairing, const char *new_path, char **ret_why)
{
	struct backend_options options = { .create = true, .table = repairing->salvage.table };
	struct backend *backend;
	int r = sqlite_backend_open(new_path, &options, &backend, ret_why);

	if (r == 0) {
		repairing->store = sqlite_of(backend);
		sqlite_writer_take(repairing->store);
		r = bring(repairing);
		sqlite_writer_give(repairing->store);
		if (r == 0)
			r = sqlite_sync(backend);
		backend->ops->close(backend);
	}
	return r;
}

int sqlite_backend_repair(const char *path, const char *new_path,
			  const struct backend_repair *repair,
			  struct backend_repaired *ret_repaired, char **ret_why)
{
	struct repairing repairing = { .repair = repair };
	_cleanup_(freep) char *real = realpath(path, NULL);
	int r;

	if (!real)
		return str_explain(ret_why, -errno, "cannot open %s: %s", path, strerror(errno));
	r = salvage_open(real, repair->table, repair_report, &repairing, &repairing.salvage,
			 ret_why);
	if (r == 0) {
		r = bring_into(&repairing, new_path, ret_why);
		salvage_close(&repairing.salvage);
	}
	if (r == 0)
		*ret_repaired = repairing.repaired;
	else if (r == -ENODATA)
		str_explain(ret_why, r,
			    "cannot rescue anything from %s: it has no complete record of a store",
			    path);
	else if (ret_why && !*ret_why)
		str_explain(ret_why, r, "cannot repair %s: %s", path, strerror(-r));
	return r;
}
