/* SPDX-License-Identifier: MIT */
/* Stores of older versions are brought forward. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/log.h"

static const struct backend_options shared = { .owner = "the test", .shared = true };

TestSuite(versions, .fini = close_stores);

/* What the second version has that the first has not. */
static const char back_to_1[] =
	"DROP TABLE sessfs_feed; DROP TABLE sessfs_claim; DROP TABLE sessfs_lock; "
	"DELETE FROM sessfs_meta WHERE key IN ('mount', 'last_entry'); "
	"UPDATE sessfs_meta SET value = '1' WHERE key = 'schema_version'; PRAGMA user_version = 1";

/* What the fifth version has that the fourth has not. */
static const char back_to_4[] =
	"ALTER TABLE agentscope_sessions DROP COLUMN version; "
	"UPDATE sessfs_meta SET value = '4' WHERE key = 'schema_version'; PRAGMA user_version = 4";

/* What the fourth version has that the third has not, but for the triggers. */
static const char back_to_3[] =
	"DROP TRIGGER sessfs_row_before; DROP TRIGGER sessfs_row_insert; "
	"DROP TRIGGER sessfs_row_update; DROP TRIGGER sessfs_row_delete; "
	"DROP TRIGGER sessfs_row_updated_at; "
	"ALTER TABLE sessfs_node DROP COLUMN generation; "
	"ALTER TABLE sessfs_change DROP COLUMN rewritten; "
	"DELETE FROM sessfs_meta WHERE key = 'below'; "
	"UPDATE sessfs_meta SET value = '3' WHERE key = 'schema_version'; PRAGMA user_version = 3";

/* One of the second version, brought to the newest and back to the fourth. */
static void fourth_store(const char *path)
{
	sqlite3 *db;

	shut(open_at(path, &shared));
	db = other_open(path);
	other_runs(db, back_to_4);
	other_close(db);
}

/* And to the third. */
static void third_store(const char *path, const char *text)
{
	sqlite3 *db;

	fourth_store(path);
	db = other_open(path);
	other_runs(db, back_to_3);
	text = strstr(text, "CREATE TRIGGER sessfs_row_insert");
	other_runs(db, "BEGIN");
	other_runs(db, text); /* up to its COMMIT */
	other_close(db);
}

/* A store as a mount of version 1, 2, 3 or 4 has left it. */
static const char *older_store(int version)
{
	const char *path = scratch_path("store.db"), *top = getenv("top_srcdir");
	char name[4096], text[32768] = "";
	sqlite3 *db = other_open(path);
	int fd;

	cr_assert_not_null(top, "top_srcdir is not set: run this by make check");
	snprintf(name, sizeof(name), "%s/tests/contract/store-2.sql", top);
	fd = open(name, O_RDONLY);
	cr_assert_geq(fd, 0, "%s", name);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 1000);
	close(fd);
	other_runs(db, text);
	if (version == 1)
		other_runs(db, back_to_1);
	other_close(db);
	if (version == 3)
		third_store(path, text);
	if (version == 4)
		fourth_store(path);
	return path;
}

static const char *asks(const char *path, const char *sql)
{
	sqlite3 *db = other_open(path);
	const char *answer = other_asks(db, sql);

	other_close(db);
	return answer;
}

static int versions[] = { 1, 2, 3, 4 };

ParameterizedTestParameters(versions, before_this_are_brought_forward_with_all_they_hold)
{
	return cr_make_param_array(int, versions, ARRAY_SIZE(versions), NULL);
}

ParameterizedTest(const int *version, versions, before_this_are_brought_forward_with_all_they_hold)
{
	const char *path = older_store(*version);
	struct backend *backend = open_at(path, &shared);

	cr_expect_str_eq(asks(path, "PRAGMA user_version"), "5");
	cr_expect_str_eq(asks(path, "SELECT group_concat(state_key || item_index || version) FROM "
				    "(SELECT * FROM agentscope_sessions ORDER BY state_key)"),
			 "messages00,messages10,state01", "a single has a version");
	cr_expect_str_eq(rows_of(backend, BYTES("demo"), BYTES("messages")),
			 "0={\"n\":1} 1={\"n\":2}");
	cr_expect_str_eq(rows_of(backend, BYTES("demo"), BYTES("state")), "0={\"a\":1}");
	cr_expect_str_eq(pieces_of(backend, 4, 0), "2.0={\"torn");
	cr_expect_str_eq(entries_of(backend, 2, 0),
			 "2:sub=3 3:messages.jsonl=4 1025:state.json=1026");
	cr_expect_str_eq(nodes_of(backend, 1, false), "2 3 4 5 1026");
	cr_expect_str_eq(xattrs_of(backend, 5), "user.a");
	cr_expect_str_eq(changes_of(backend), "", "nothing is read anew");
	cr_expect_str_eq(asks(path, "SELECT group_concat(DISTINCT generation) FROM sessfs_node"),
			 "0");
	cr_expect_eq(COMMIT(backend, row_insert(BYTES("demo"), BYTES("messages"), 2, BYTES("3"))),
		     0);
}

Test(versions, that_are_brought_forward_keep_what_mounts_have_left_for_each_other)
{
	static const char columns[] =
		"SELECT group_concat(mount || what || ino || flags || first_index || "
		"coalesce(session_id, '-') || coalesce(state_key, '-') || coalesce(name, '-'), "
		"';') FROM (SELECT * FROM sessfs_feed ORDER BY n)";
	_cleanup_(freep) char *before = NULL;
	const char *path = older_store(2);

	before = strdup(asks(path, columns));
	cr_assert_gt(strlen(before), 100);
	shut(open_at(path, &shared));
	cr_expect_str_eq(asks(path, columns), before);
	cr_expect_str_eq(asks(path, "SELECT count(path) FROM sessfs_feed"), "0", "of then");
}

Test(versions, that_are_brought_forward_know_of_no_change_that_waits_what_it_was)
{
	const char *path = older_store(2);
	sqlite3 *db = other_open(path);
	struct backend *backend;

	other_runs(db, "INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		       "state_data) VALUES ('demo', 'messages', 2, '{}')");
	other_close(db);
	backend = open_at(path, &shared);
	cr_expect_str_eq(changes_of(backend), "demo/messages from 2");
	cr_expect_str_eq(asks(path, "SELECT rewritten FROM sessfs_change"), "1");
	db = other_open(path);
	other_runs(db, "DELETE FROM sessfs_change; INSERT INTO agentscope_sessions (session_id, "
		       "state_key, item_index, state_data) VALUES ('demo', 'messages', 3, '{}')");
	other_close(db);
	cr_expect_str_eq(asks(path, "SELECT rewritten FROM sessfs_change"), "0",
			 "the triggers are new as well");
}

/* What lies in the trash, too, and what another program made is not altered. */
Test(versions, that_are_brought_forward_keep_what_is_in_the_trash_and_foreign_tables)
{
	static const char trash[] =
		"CREATE TABLE sessfs_trash (ino INTEGER NOT NULL, item_index INTEGER NOT NULL, "
		"state_data, created_at, updated_at, PRIMARY KEY (ino, item_index)); "
		"INSERT INTO sessfs_trash VALUES (4, 0, '{}', NULL, NULL); "
		"UPDATE sessfs_meta SET value = '0' WHERE key = 'made'";
	const char *path = older_store(4);
	sqlite3 *db = other_open(path);
	struct backend_op show = {
		.type = BACKEND_KEY_SHOW, .session = S, .key = K, .ino = 4, .version = 7
	};
	struct backend_op hide = show;
	struct backend *backend;

	other_runs(db, trash);
	other_close(db);
	backend = open_at(path, &shared);
	cr_expect_str_eq(asks(path, "SELECT count(*) FROM pragma_table_info('agentscope_sessions') "
				    "WHERE name = 'version'"),
			 "0", "the table is another program's");
	cr_expect_eq(COMMIT(backend, show), 0);
	db = other_open(path);
	other_runs(db, "ALTER TABLE agentscope_sessions ADD COLUMN version BIGINT NOT NULL "
		       "DEFAULT 0; UPDATE agentscope_sessions SET version = 9");
	other_close(db);
	hide.type = BACKEND_KEY_HIDE;
	cr_expect_eq(COMMIT(backend, hide), 0);
	cr_expect_str_eq(asks(path, "SELECT version FROM sessfs_trash"), "9");
	cr_expect_eq(COMMIT(backend, show), 0);
	cr_expect_str_eq(asks(path, "SELECT version FROM agentscope_sessions WHERE session_id = "
				    "'sess'"),
			 "10");
}

static bool any_row(void *arg, struct bytes session, struct bytes key, struct bytes data)
{
	(void)arg, (void)session, (void)key, (void)data;
	return true;
}

static void tell(void *arg, const char *sentence)
{
	(void)arg;
	cr_expect_fail("%s", sentence);
}

/* Their nodes have a column less. */
Test(versions, before_this_are_repaired_with_all_they_hold)
{
	const struct backend_repair repair = { .is_row = any_row, .report = tell };
	_cleanup_(freep) char *path = strdup(older_store(2));
	const char *repaired = scratch_path("repaired.db");
	struct backend_repaired done;
	struct backend *backend;

	cr_assert_eq(backend_repair(path, repaired, &repair, &done, NULL), 0);
	backend = open_at(repaired, &shared);
	cr_expect_str_eq(nodes_of(backend, 1, false), "2 3 4 5 1026");
	cr_expect_str_eq(rows_of(backend, BYTES("demo"), BYTES("messages")),
			 "0={\"n\":1} 1={\"n\":2}");
	cr_expect_str_eq(asks(repaired, "SELECT count(*) FROM sessfs_node WHERE generation < "
					"1700000000000000000"),
			 "0", "what was known of a list holds no more");
}

Test(versions, without_their_triggers_are_brought_forward_and_read_anew)
{
	const char *path = older_store(3);
	sqlite3 *db = other_open(path);

	other_runs(db, "DROP TRIGGER sessfs_row_update");
	other_close(db);
	cr_expect_str_eq(changes_of(open_at(path, &shared)), "everything");
}

/* A column of that name is in the way of the last step. */
ParameterizedTestParameters(versions, that_cannot_be_brought_forward_stay_as_they_are)
{
	return cr_make_param_array(int, versions, ARRAY_SIZE(versions), NULL);
}

ParameterizedTest(const int *version, versions, that_cannot_be_brought_forward_stay_as_they_are)
{
	static const char schema[] = "SELECT group_concat(name || sql) FROM (SELECT * FROM "
				     "sqlite_schema ORDER BY name)";
	_cleanup_(freep) char *before = NULL;
	_cleanup_(freep) char *why = NULL;
	const char *path = older_store(*version);
	sqlite3 *db = other_open(path);

	other_runs(db, *version < 4 ? "ALTER TABLE sessfs_node ADD COLUMN generation" :
				      "CREATE TABLE sessfs_trash (ino, version)");
	other_close(db);
	before = strdup(asks(path, schema));
	log_set_level(LOG_CRIT);
	refused_at(path, &shared, &why);
	cr_expect_str_eq(asks(path, schema), before);
	cr_expect_eq(atoi(asks(path, "PRAGMA user_version")), *version);
	cr_expect_eq(atoi(asks(path, "SELECT value FROM sessfs_meta WHERE key = "
				     "'schema_version'")),
		     *version);
}
