/* SPDX-License-Identifier: MIT */
/* Which rows are written, as plain SQLite sees them. */
#include "tests/lib/lib.h"

#include <stdio.h>

/* Everything that happens to rows from now on is written down. */
static void audit(void)
{
	sql_runs("CREATE TABLE audit (what, state_key, item_index);"
		 "CREATE TRIGGER audit_insert AFTER INSERT ON agentscope_sessions BEGIN "
		 "INSERT INTO audit VALUES ('insert', new.state_key, new.item_index); END;"
		 "CREATE TRIGGER audit_update AFTER UPDATE ON agentscope_sessions BEGIN "
		 "INSERT INTO audit VALUES ('update', new.state_key, new.item_index); END;"
		 "CREATE TRIGGER audit_delete AFTER DELETE ON agentscope_sessions BEGIN "
		 "INSERT INTO audit VALUES ('delete', old.state_key, old.item_index); END");
}

static const char *audited(const char *key)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "SELECT coalesce(group_concat(what || ' ' || item_index, ', '), 'nothing') "
		 "FROM audit WHERE state_key = '%s'",
		 key);
	return sql_asks(text);
}

#define OLD "2020-01-02 03:04:05"

static void make_old(void)
{
	sql_runs("UPDATE agentscope_sessions SET created_at = '" OLD "', updated_at = '" OLD "'");
}

static const char *young(const char *column)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "SELECT coalesce(group_concat(item_index), 'none') FROM agentscope_sessions "
		 "WHERE %s <> '" OLD "' AND state_key = 'l'",
		 column);
	return sql_asks(text);
}

SqliteStore(rows, of_a_list_of_10000_with_one_more_are_one_new_one)
{
	save_numbers("s", "l", "x", 10000);
	make_old();
	audit();

	save_numbers("s", "l", "x", 10001);

	cr_assert_str_eq(audited("l"), "insert 10000");
	cr_assert_str_eq(young("created_at"), "10000");
	cr_assert_str_eq(young("updated_at"), "10000");
	cr_assert_str_eq(audited("l:_hash"), "update 0");
	cr_assert_str_eq(sql_asks("SELECT first_index || ' ' || (deleted_index > 10000) FROM "
				  "sessfs_change WHERE state_key = 'l'"),
			 "0 1", "of the first save");
}

SqliteStore(rows, that_differ_are_updated_and_keep_the_time_of_their_birth)
{
	SAVE_LIST("s", "l", "0", "1", "2");
	make_old();
	audit();

	SAVE_LIST("s", "l", "0", "9", "2");

	cr_assert_str_eq(audited("l"), "update 1");
	cr_assert_str_eq(young("created_at"), "none");
	cr_assert_str_eq(young("updated_at"), "1");
}

SqliteStore(rows, behind_the_end_are_deleted_and_no_others)
{
	SAVE_LIST("s", "l", "0", "1", "2");
	audit();

	SAVE_LIST("s", "l", "0");

	cr_assert_str_eq(audited("l"), "delete 1, delete 2");
}

SqliteStore(rows, of_a_list_that_is_the_same_are_not_touched)
{
	const char *version;

	SAVE_LIST("s", "l", "0", "1", "2");
	/* AgentScope was here. */
	sql_runs("UPDATE agentscope_sessions SET state_data = '1f2e3d4c' WHERE "
		 "state_key = 'l:_hash'");
	version = sql_asks("PRAGMA data_version");

	SAVE_LIST("s", "l", "0", "1", "2");
	cr_assert_str_eq(sql_asks("PRAGMA data_version"), version, "something was written");
	cr_assert_str_eq(get("s", "l:_hash"), "1f2e3d4c");

	SAVE_LIST("s", "l", "0", "1", "3");
	cr_assert_str_neq(sql_asks("PRAGMA data_version"), version, "nothing was written");
	cr_assert_str_neq(get("s", "l:_hash"), "1f2e3d4c");
}

SqliteStore(rows, of_a_state_are_one_of_index_0)
{
	save("s", "k", "{}");
	make_old();
	save("s", "k", "[]");

	cr_assert_str_eq(sql_asks("SELECT group_concat(session_id || '/' || state_key || '/' || "
				  "item_index || '=' || state_data || ' ' || created_at) FROM "
				  "agentscope_sessions"),
			 "s/k/0=[] " OLD);
}

SqliteStore(rows, of_a_state_that_is_the_same_are_not_touched)
{
	save("s", "k", "{}");
	audit();
	save("s", "k", "{}");
	cr_assert_str_eq(audited("k"), "nothing");
}

/* AgentScope takes a list for the one that it has saved as long as the hash is its own. */
SqliteStore(hashes, are_as_agentscope_s_of_an_empty_list_and_like_none_otherwise)
{
	cr_assert_eq(sessfs_save_list(lib, "s", "l", NULL, 0), 0);
	cr_assert_str_eq(sql_asks("SELECT state_data FROM agentscope_sessions WHERE "
				  "state_key = 'l:_hash'"),
			 "empty:0");
	SAVE_LIST("s", "l", "1");
	cr_assert_str_eq(sql_asks("SELECT state_data GLOB replace(hex(zeroblob(16)), '0', "
				  "'[0-9a-f]') FROM agentscope_sessions WHERE state_key = "
				  "'l:_hash'"),
			 "1");
}

SqliteStore(hashes, tell_lists_apart)
{
	const char *lists[3];

	SAVE_LIST("s", "l", "1", "23");
	lists[0] = get("s", "l:_hash");
	SAVE_LIST("s", "l", "12", "3");
	lists[1] = get("s", "l:_hash");
	SAVE_LIST("s", "l", "3", "12");
	lists[2] = get("s", "l:_hash");

	cr_assert_str_neq(lists[0], lists[1]);
	cr_assert_str_neq(lists[1], lists[2]);
	SAVE_LIST("t", "other", "3", "12");
	cr_assert_str_eq(get("t", "other:_hash"), lists[2]);
}

SqliteStore(rows, of_another_program_are_read_and_replaced)
{
	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'l', -1, '7'), ('s', 'l', 0, '8'), ('s', 'l', 5, '9')");
	cr_assert_str_eq(list_of("s", "l"), "0=7 1=8 2=9");
	cr_assert_str_eq(get("s", "l"), "8");

	SAVE_LIST("s", "l", "1", "2");
	cr_assert_str_eq(sql_asks("SELECT group_concat(item_index || '=' || state_data) FROM "
				  "agentscope_sessions WHERE state_key = 'l'"),
			 "0=1,1=2");
}

SqliteStore(rows, with_empty_ids_of_another_program_can_be_deleted)
{
	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, state_data) "
		 "VALUES ('s', '', '7'), ('t', 'k', '7')");
	cr_assert_eq(sessfs_exists(lib, "s"), 1);
	cr_assert_eq(sessfs_delete_session(lib, "s"), 0);
	cr_assert_str_eq(sessions(), "t");
}

SqliteStore(changes, wait_for_the_next_mount)
{
	SAVE_LIST("s", "l", "0", "1", "2");
	save("s", "k", "1");
	sql_runs("DELETE FROM sessfs_change");

	SAVE_LIST("s", "l", "0", "1", "3", "4");
	cr_assert_eq(sessfs_delete_key(lib, "s", "k"), 0);

	cr_assert_str_eq(sql_asks("SELECT group_concat(state_key || ' ' || first_index) FROM "
				  "(SELECT * FROM sessfs_change ORDER BY state_key)"),
			 "k 0,l 2,l:_hash 0");
}

/* Memory does not grow with the list. */

static int most_memory(void *arg, size_t index, const char *data, size_t size)
{
	sqlite3_int64 *most = arg;

	(void)index;
	(void)data;
	(void)size;
	*most = MAX(*most, sqlite3_memory_used());
	return 0;
}

SqliteStore(lists, are_read_a_piece_at_a_time)
{
	sqlite3_int64 most = 0;

	sql_runs("WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) "
		 "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "SELECT 's', 'l', i, '\"' || hex(zeroblob(8000)) || '\"' FROM n");
	sqlite3_db_release_memory(sql());

	cr_assert_eq(sessfs_get_list(lib, "s", "l", most_memory, &most), 0);
	cr_assert_lt(most, 8 << 20, "%lld bytes for a list of 32 MB", (long long)most);
}

SqliteStore(rows, of_a_state_have_a_version_that_rises_and_those_of_a_list_have_none)
{
	cr_assert_eq(sessfs_save(lib, "s", "k", "1", 1), 0);
	cr_assert_str_eq(sql_asks("SELECT version FROM agentscope_sessions"), "1");
	cr_assert_eq(sessfs_save(lib, "s", "k", "2", 1), 0);
	cr_assert_eq(sessfs_save(lib, "s", "k", "2", 1), 0);
	cr_assert_str_eq(sql_asks("SELECT version FROM agentscope_sessions"), "2");
	save_numbers("s", "l", "x", 100);
	save_numbers("s", "l", "y", 100);
	cr_assert_str_eq(sql_asks("SELECT group_concat(DISTINCT version) FROM agentscope_sessions "
				  "WHERE state_key <> 'k'"),
			 "0");
}
