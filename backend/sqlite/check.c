/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "backend/sqlite/image.h"
#include "backend/sqlite/internal.h"
#include "src/base/cleanup.h"

static uint64_t wal_bytes(const struct sqlite *store)
{
	_cleanup_(freep) char *name = NULL;
	struct stat st;

	if (asprintf(&name, "%s-wal", store->place.path) < 0) {
		name = NULL;
		return 0;
	}
	return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int count_bytes(struct sqlite *store, uint64_t *ret_pages, uint64_t *ret_free)
{
	struct backend_snapshot *snapshot;
	int64_t pages = 0, unused = 0, size = SQLITE_PAGE;
	int r = sqlite_pool_get(store, &snapshot);

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
	used = pages + wal_bytes(store);
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

static const struct rule rules[] = {
	{ "SELECT count(*) FROM {rows} WHERE typeof(session_id) <> 'text' OR "
	  "typeof(state_key) <> 'text'",
	  "rows have a session_id or state_key that is not text, and are not shown" },
	{ "SELECT count(*) FROM {rows} WHERE typeof(item_index) <> 'integer'",
	  "rows have an item_index that is not an integer, and are not shown" },
	{ "SELECT count(*) FROM {rows} WHERE item_index < 0", "rows have a negative item_index" },
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
	  "nodes are missing of which sessfs_xattr has attributes" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_chunk WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing of which sessfs_chunk has bytes" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_piece WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing of which sessfs_piece has bytes" },
	{ "SELECT count(DISTINCT ino) FROM sessfs_mark WHERE ino NOT IN "
	  "(SELECT ino FROM sessfs_node)",
	  "nodes are missing of which sessfs_mark has marks" },
};

/* SQLite's own check: one row "ok", or one a defect. */
static int check_integrity(struct sqlite_conn *conn, backend_report_fn *report, void *arg)
{
	sqlite3_stmt *statement = NULL;
	int found = 0, r, code;

	code = sqlite3_prepare_v2(conn->db, "PRAGMA main.integrity_check", -1, &statement, NULL);
	r = sqlite_result(conn, code);
	if (r < 0)
		return r;
	while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		if (!text || strcmp(text, "ok") == 0)
			continue;
		report(arg, text);
		found++;
	}
	r = sqlite_result(conn, code);
	sqlite3_finalize(statement);
	return r < 0 ? r : found;
}

static int check_rule(struct sqlite_conn *conn, const struct rule *rule, backend_report_fn *report,
		      void *arg)
{
	char *sql = sqlite_sql_expand(rule->sql, &conn->store->layout, "");
	int64_t count = 0;
	char sentence[160];
	int r = sql ? sqlite_conn_query(conn, sql, 0, &count) : -ENOMEM;

	sqlite3_free(sql);
	if (r < 0 || count == 0)
		return r;
	snprintf(sentence, sizeof(sentence), "%lld %s", (long long)count, rule->sentence);
	report(arg, sentence);
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
		"nodes are missing of which sessfs_trash has rows"
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

static int check_all(struct sqlite_conn *conn, backend_report_fn *report, void *arg)
{
	int found = check_integrity(conn, report, arg), r = found;

	/* Told, not counted: a power cut may leave this of what was never synced. */
	image_check_log(conn->store->place.path, report, arg);
	if (r >= 0)
		r = check_trash(conn, report, arg);
	if (r >= 0) {
		found += r;
		r = check_triggers(conn, report, arg);
	}

	for (size_t i = 0; r >= 0; i++) {
		found += r;
		if (i == ARRAY_SIZE(rules))
			return found;
		r = check_rule(conn, &rules[i], report, arg);
	}
	return r;
}

int sqlite_check(struct backend *backend, backend_report_fn *report, void *arg)
{
	struct backend_snapshot *snapshot;
	int r = sqlite_snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = check_all(&snapshot->conn, report, arg);
	sqlite_snapshot_end(backend, snapshot);
	return r;
}
