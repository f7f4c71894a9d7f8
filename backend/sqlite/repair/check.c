/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/repair/image.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"

static int count_bytes(struct sqlite *store, uint64_t *ret_pages, uint64_t *ret_free)
{
	struct backend_snapshot *snapshot;
	int64_t pages = 0, unused = 0, size = SQLITE_PAGE;
	int r = sqlite_pool_get(store, false, &snapshot);

	if (r < 0)
		return r;
	r = sqlite_conn_query(&snapshot->conn, "PRAGMA main.page_count", 0, &pages);
	if (r == 0)
		r = sqlite_conn_query(&snapshot->conn, "PRAGMA main.freelist_count", 0, &unused);
	if (r == 0)
		r = sqlite_conn_query(&snapshot->conn, "PRAGMA main.page_size", size, &size);
	sqlite_pool_put(store, snapshot);
	if (r < 0)
		return r;
	*ret_pages = (uint64_t)(pages * size);
	*ret_free = (uint64_t)(unused * size);
	return 0;
}

int sqlite_space(struct backend *backend, struct backend_space *ret_space)
{
	struct sqlite *store = sqlite_of(backend);
	uint64_t pages = 0, unused = 0, total, left, used;
	struct statvfs fs;
	int r = count_bytes(store, &pages, &unused);

	if (r < 0)
		return r;
	if (statvfs(store->place.path, &fs) < 0)
		return -errno;
	total = (uint64_t)fs.f_blocks * fs.f_frsize;
	/* Pages that are free in the file take no room of the medium. */
	left = (uint64_t)fs.f_bavail * fs.f_frsize + unused;
	used = pages + sqlite_beside_size(store->place.path, "-wal");
	if (store->max_size) {
		uint64_t taken = pages - unused;

		total = MIN(total, store->max_size);
		left = MIN(left, store->max_size > taken ? store->max_size - taken : 0);
	}
	*ret_space = (struct backend_space){ .total = total, .free = left, .used = used };
	return 0;
}

struct rule {
	const char *sql; /* counts what breaks it */
	const char *sentence;
};

/* The greatest number of which the next ones are numbers, too. */
#define MOST "4611686018427387903"
#define HAS_LAYOUT "EXISTS (SELECT 1 FROM sessfs_meta WHERE key = 'setting:layout')"
/* While the layout changes, files are where they were before it or after it. */
#define AT_REST "NOT EXISTS (SELECT 1 FROM sessfs_meta WHERE key = 'setting:layout_moving')"
#define IS_DIR "(mode & 61440) = 16384"

static const struct rule rules[] = {
	{ "SELECT NOT EXISTS (SELECT 1 FROM sessfs_meta WHERE key = 'stamp' AND typeof(value) = "
	  "'integer' AND value BETWEEN 0 AND " MOST ")",
	  "stamp of changes is missing in sessfs_meta or out of range" },
	{ "SELECT count(*) FROM sessfs_meta WHERE key = 'last_ino' AND CAST(value AS INTEGER) NOT "
	  "BETWEEN 0 AND " MOST,
	  "last inode number in sessfs_meta is out of range" },
	{ "SELECT NOT EXISTS (SELECT 1 FROM sessfs_node WHERE ino = 1 AND nlink > 0 AND " IS_DIR
	  ")",
	  "root is missing, is not a directory, or has no links" },
	{ "SELECT count(*) FROM sessfs_node WHERE typeof(parent) <> 'integer' OR typeof(entry) <> "
	  "'integer' OR typeof(kind) <> 'integer' OR typeof(flags) <> 'integer' OR typeof(mode) <> "
	  "'integer' OR typeof(uid) <> 'integer' OR typeof(gid) <> 'integer' OR typeof(nlink) <> "
	  "'integer' OR typeof(rdev) <> 'integer' OR typeof(size) <> 'integer' OR typeof(atime) <> "
	  "'integer' OR typeof(mtime) <> 'integer' OR typeof(ctime) <> 'integer' OR "
	  "typeof(btime) <> 'integer' OR typeof(generation) <> 'integer' OR typeof(session_id) NOT "
	  "IN ('text', 'null') OR "
	  "typeof(state_key) NOT IN ('text', 'null') OR typeof(target) NOT IN ('blob', 'null')",
	  "nodes of sessfs_node have values of a wrong type" },
	{ "SELECT count(*) FROM sessfs_node WHERE ino NOT BETWEEN 0 AND " MOST
	  " OR parent NOT BETWEEN 0 AND " MOST " OR entry NOT BETWEEN 0 AND " MOST
	  " OR kind NOT BETWEEN 0 AND 4 OR flags NOT BETWEEN 0 AND 15 OR mode NOT BETWEEN 0 AND "
	  "65535 OR uid NOT BETWEEN 0 AND 4294967295 OR gid NOT BETWEEN 0 AND 4294967295 OR "
	  "nlink NOT BETWEEN 0 AND 4294967295 OR rdev < 0 OR size < 0 OR "
	  "generation < 0",
	  "nodes of sessfs_node have numbers that are out of range" },
	{ "SELECT count(*) FROM sessfs_node n JOIN sessfs_entry e ON e.parent = n.parent AND "
	  "e.id = n.entry WHERE e.ino <> n.ino",
	  "nodes of sessfs_node name an entry that leads to another one" },
	{ "SELECT count(*) FROM (SELECT 1 FROM sessfs_node WHERE kind >= 2 AND nlink > 0 GROUP BY "
	  "session_id, state_key HAVING count(*) > 1)",
	  "keys have more than one state file" },
	{ "SELECT count(*) FROM (SELECT 1 FROM sessfs_node WHERE kind = 1 AND nlink > 0 GROUP BY "
	  "session_id HAVING count(*) > 1)",
	  "sessions have more than one directory" },
	{ "WITH RECURSIVE below (ino) AS (VALUES (0), (1) UNION SELECT n.ino FROM below b JOIN "
	  "sessfs_entry e ON e.parent = b.ino JOIN sessfs_node n ON n.ino = e.ino WHERE " IS_DIR
	  ") SELECT count(*) FROM sessfs_node WHERE " IS_DIR " AND nlink > 0 AND ino NOT IN "
	  "(SELECT ino FROM below)",
	  "directories are not below the root" },
	/* With a layout, sessions may have their directories anywhere, or none. */
	{ "WITH RECURSIVE below (ino, session) AS (SELECT ino, session_id FROM sessfs_node WHERE "
	  "kind = 1 AND parent <> 0 UNION SELECT n.ino, b.session FROM below b JOIN sessfs_entry "
	  "e ON e.parent = b.ino JOIN sessfs_node n ON n.ino = e.ino WHERE " IS_DIR
	  ") SELECT count(*) FROM sessfs_node n WHERE kind >= 2 AND nlink > 0 AND NOT EXISTS "
	  "(SELECT 1 FROM below b WHERE b.ino = n.parent AND b.session = n.session_id) AND "
	  "(NOT " HAS_LAYOUT " OR parent IN (SELECT ino FROM below)) AND " AT_REST,
	  "state files are not below the directory of their session" },
	{ "SELECT count(*) FROM sessfs_node WHERE kind = 1 AND nlink > 0 AND parent <> 1 AND "
	  "NOT " HAS_LAYOUT " AND " AT_REST,
	  "sessions have a directory that is not at the root" },
	{ "SELECT count(*) FROM sessfs_entry WHERE typeof(parent) <> 'integer' OR typeof(id) <> "
	  "'integer' OR typeof(ino) <> 'integer' OR typeof(name) <> 'blob' OR id NOT BETWEEN 1 "
	  "AND " MOST,
	  "entries of sessfs_entry have values of a wrong type or out of range" },
	{ "SELECT count(*) FROM sessfs_entry WHERE parent <> 0 AND (length(name) NOT BETWEEN 1 AND "
	  "255 OR instr(name, x'2f') OR instr(name, x'00') OR name IN (x'2e', x'2e2e'))",
	  "entries of sessfs_entry have names that no file can have (empty, '.', '..', with '/' or "
	  "NUL, above 255 bytes)" },
	{ "SELECT count(*) FROM (SELECT 1 FROM sessfs_entry GROUP BY parent, name HAVING "
	  "count(*) > 1)",
	  "names appear twice in one directory" },
	{ "SELECT count(*) FROM sessfs_entry WHERE ino = 1", "entries lead to the root" },
	{ "SELECT count(*) FROM sessfs_entry e WHERE parent <> 0 AND NOT EXISTS (SELECT 1 FROM "
	  "sessfs_node n WHERE n.ino = e.parent AND " IS_DIR ")",
	  "entries of sessfs_entry are not in a directory" },
	{ "SELECT count(*) FROM sessfs_xattr WHERE typeof(name) <> 'blob' OR length(name) NOT "
	  "BETWEEN 1 AND 255 OR instr(name, x'00') OR typeof(value) <> 'blob' OR length(value) > "
	  "65536",
	  "attributes of sessfs_xattr have names or values that no attribute can have" },
	{ "SELECT count(*) FROM sessfs_chunk WHERE typeof(chunk) <> 'integer' OR chunk NOT BETWEEN "
	  "0 AND 281474976710655 OR typeof(data) <> 'blob' OR length(data) > 32768",
	  "chunks of sessfs_chunk have a wrong number or too many bytes" },
	{ "SELECT count(*) FROM sessfs_piece WHERE typeof(item_index) <> 'integer' OR "
	  "typeof(seq) <> 'integer' OR typeof(data) <> 'blob'",
	  "pieces of sessfs_piece have values of a wrong type" },
	{ "SELECT count(*) FROM sessfs_mark WHERE typeof(byte_offset) <> 'integer' OR "
	  "typeof(item_index) <> 'integer' OR byte_offset < 0",
	  "marks of sessfs_mark have values of a wrong type or out of range" },
	{ "SELECT count(*) FROM sessfs_change WHERE typeof(first_index) <> 'integer' OR "
	  "typeof(deleted_index) <> 'integer' OR typeof(stamp) <> 'integer' OR abs(stamp) > " MOST
	  " OR typeof(rewritten) <> 'integer'",
	  "changes of sessfs_change have values of a wrong type or out of range" },
	{ "SELECT count(*) FROM sessfs_entry WHERE ino NOT IN (SELECT ino FROM sessfs_node)",
	  "entries of sessfs_entry lead to no node" },
	{ "SELECT count(*) FROM (SELECT 1 FROM sessfs_entry e JOIN sessfs_node n ON n.ino = e.ino "
	  "WHERE (n.mode & 61440) = 16384 GROUP BY e.ino HAVING count(*) > 1)",
	  "directories have more than one name" },
	{ "SELECT count(*) FROM sessfs_node LEFT JOIN (SELECT ino, count(*) AS names FROM "
	  "sessfs_entry GROUP BY ino) USING (ino) WHERE mode & 61440 <> 16384 AND "
	  "nlink <> ifnull(names, 0)",
	  "files have more or fewer names than sessfs_node counts links" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_xattr WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing, but sessfs_xattr has attributes of them" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_chunk WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing, but sessfs_chunk has bytes of them" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_piece WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing, but sessfs_piece has bytes of them" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_mark WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing, but sessfs_mark has marks of them" },
};

/* What only another program puts there, and no damage. */
static const struct rule strangers[] = {
	{ "SELECT count(*) FROM {rows} WHERE typeof(session_id) <> 'text' OR "
	  "typeof(state_key) <> 'text'",
	  "rows have a session_id or state_key that is not text, and are not shown" },
	{ "SELECT count(*) FROM {rows} WHERE typeof(item_index) <> 'integer'",
	  "rows have an item_index that is not an integer, and are not shown" },
};

/* SQLite's own check: one row "ok", or one a defect. */
static int check_integrity(struct sqlite_conn *conn, backend_report_fn *report, void *arg,
			   uint64_t *damage)
{
	struct cursor cursor = cursor_open_text(conn, "PRAGMA main.integrity_check", SQL_NO_VALUES);

	while (cursor_next(&cursor)) {
		const char *text = (const char *)sqlite3_column_text(cursor.statement, 0);

		if (!text || strcmp(text, "ok") == 0)
			continue;
		report(arg, text);
		++*damage;
	}
	return cursor_end(&cursor);
}

static int check_rule(struct sqlite_conn *conn, const struct rule *rule, backend_report_fn *report,
		      void *arg)
{
	int64_t count = 0;
	int r = sqlite_conn_query_made(conn, sqlite_sql_expand(rule->sql, &conn->store->layout, ""),
				       &count);

	if (r < 0 || count == 0)
		return r;
	sqlite_tell(report, arg, "%lld %s", (long long)count, rule->sentence);
	return 1;
}

/* The table of what is in the trash is not there before something is. */
static int check_trash(struct sqlite_conn *conn, backend_report_fn *report, void *arg)
{
	static const char there[] = "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' "
				    "AND name = 'sessfs_trash'";
	static const struct rule rule = {
		"SELECT count(DISTINCT ino) FROM main.sessfs_trash WHERE ino NOT IN "
		"(SELECT ino FROM sessfs_node)",
		"nodes are missing, but sessfs_trash has rows of them"
	};
	int64_t tables = 0;
	int r = sqlite_conn_query(conn, there, 0, &tables);

	return r < 0 || !tables ? r : check_rule(conn, &rule, report, arg);
}

static int check_triggers(struct sqlite_conn *conn, backend_report_fn *report, void *arg)
{
	bool intact = true;
	int r = 0;

	if (conn->store->mode != MODE_ASIDE)
		r = sqlite_schema_intact(conn, &intact);
	if (r < 0 || intact)
		return r;
	report(arg, "the triggers that log other programs' changes are missing");
	return 1;
}

/* Each with its columns and their places in the primary key. */
static const struct {
	const char *name;
	const char *columns;
} tables[] = {
	{ "sessfs_meta", "key.1 value.0" },
	{ "sessfs_node", "ino.1 parent.0 entry.0 kind.0 flags.0 mode.0 uid.0 gid.0 nlink.0 rdev.0 "
			 "size.0 atime.0 mtime.0 ctime.0 btime.0 session_id.0 state_key.0 "
			 "target.0 generation.0" },
	{ "sessfs_entry", "parent.1 id.2 name.0 ino.0" },
	{ "sessfs_xattr", "ino.1 name.2 value.0" },
	{ "sessfs_chunk", "ino.1 chunk.2 data.0" },
	{ "sessfs_piece", "ino.1 item_index.2 seq.3 data.0" },
	{ "sessfs_mark", "ino.1 byte_offset.2 item_index.0" },
	{ "sessfs_change", "session_id.1 state_key.2 first_index.0 deleted_index.0 stamp.0 "
			   "rewritten.0" },
};

static const char *const indexes[] = {
	"sessfs_node_key",
	"sessfs_node_session",
	"sessfs_node_orphan",
	"sessfs_mark_index",
};

static int check_exists(struct sqlite_conn *conn, const char *type, const char *name,
			const char *columns, backend_report_fn *report, void *arg)
{
	static const char format[] =
		"SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = %Q AND name = %Q) "
		"AND "
		"(%Q = '' OR %Q = (SELECT group_concat(name || '.' || pk, ' ') FROM "
		"pragma_table_info(%Q, 'main')))";
	int64_t there = 0;
	int r = sqlite_conn_query_made(conn,
				       sqlite3_mprintf(format, type, name, columns, columns, name),
				       &there);

	if (r < 0 || there)
		return r;
	sqlite_tell(report, arg, "the %s %s is missing or has other columns", type, name);
	return 1;
}

/* How many of our tables and indexes are not as they should be; then no rule can be looked at. */
static int check_schema(struct sqlite_conn *conn, backend_report_fn *report, void *arg)
{
	int found = 0, r = 0;

	if (conn->store->mode == MODE_ASIDE)
		return 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(tables); i++) {
		r = check_exists(conn, "table", tables[i].name, tables[i].columns, report, arg);
		found += MAX(r, 0);
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(indexes); i++) {
		r = check_exists(conn, "index", indexes[i], "", report, arg);
		found += MAX(r, 0);
	}
	return r < 0 ? r : found;
}

/* How many are broken. */
static int check_rules(struct sqlite_conn *conn, const struct rule *checked, size_t count,
		       backend_report_fn *report, void *arg)
{
	int found = 0, r = 0;

	for (size_t i = 0; r >= 0 && i < count; i++) {
		r = check_rule(conn, &checked[i], report, arg);
		found += MAX(r, 0);
	}
	return r < 0 ? r : found;
}

/* What is damage is counted in *damage; *ret_schema: of our tables and indexes. */
static int check_own(struct sqlite_conn *conn, backend_report_fn *report, void *arg,
		     uint64_t *damage, int *ret_schema)
{
	int r = check_integrity(conn, report, arg, damage);

	/* Told, not counted: a power cut may leave this of what was never synced. */
	image_check_log(conn->store->place.path, report, arg);
	if (r == 0)
		r = *ret_schema = check_schema(conn, report, arg);
	*damage += (uint64_t)MAX(r, 0);
	if (r != 0)
		return MIN(r, 0);
	r = check_trash(conn, report, arg);
	*damage += (uint64_t)MAX(r, 0);
	if (r >= 0)
		r = check_rules(conn, rules, ARRAY_SIZE(rules), report, arg);
	*damage += (uint64_t)MAX(r, 0);
	return MIN(r, 0);
}

static int check_all(struct sqlite_conn *conn, backend_report_fn *report, void *arg,
		     uint64_t *damage)
{
	int schema = 0, found = 0, r = check_own(conn, report, arg, damage, &schema);

	/* What cannot be read is damage, too. */
	if (r < 0 && !*damage && conn->store->damaged) {
		report(arg, "the database is damaged");
		++*damage;
	}
	if (r < 0 || schema)
		return *damage ? (int)*damage : r;
	r = check_triggers(conn, report, arg);
	if (r >= 0) {
		found += r;
		r = check_rules(conn, strangers, ARRAY_SIZE(strangers), report, arg);
	}
	found += MAX(r, 0);
	return r < 0 && !*damage ? r : (int)*damage + found;
}

int sqlite_check(struct backend *backend, backend_report_fn *report, void *arg,
		 uint64_t *ret_damage)
{
	struct backend_snapshot *snapshot;
	uint64_t damage = 0;
	int r = sqlite_snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = check_all(&snapshot->conn, report, arg, &damage);
	sqlite_snapshot_end(backend, snapshot);
	if (r >= 0)
		*ret_damage = damage;
	return r;
}
