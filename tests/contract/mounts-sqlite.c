/* SPDX-License-Identifier: MIT */
/* Several mounts of one store in SQLite: what is so because it is a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/contract/mounts.h"

static const struct backend_options shared = { .create = true,
					       .owner = "the test",
					       .shared = true };

Test(mounts, tell_what_another_program_has_done, .fini = close_stores)
{
	struct backend_op done = {
		.type = BACKEND_CHANGE_DONE, .session = S, .key = K, .at = INT64_MAX
	};
	struct backend_node node = placed(state_node(5, S, K), 1, 7);
	sqlite3 *db;

	one = open_at(scratch_path("store.db"), &shared);
	two = open_at(scratch_path("store.db"), &shared);
	COMMIT(one, node_put(&node), entry_put(1, 7, BYTES("k"), 5));
	followed(two);
	db = other_open(scratch_path("store.db"));
	other_runs(db, "INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		       "state_data) VALUES ('sess', 'messages', 4, '1')");
	other_close(db);
	cr_expect_eq(backend_commit(one, &done, 1, BACKEND_ANYWAY), 0);
	cr_expect_str_eq(followed(two), "file 5 in 0 foreign +1 to 5");
}

static void use_meanwhile(void *arg)
{
	*(int *)arg = backend_use(two, 5, true);
}

Test(mounts, that_come_to_use_a_file_while_it_is_removed_fail_at_once, .fini = close_stores)
{
	struct backend_node node = plain_node(5);
	const struct backend_op ops[] = { guard_unused(5), node_delete(5) };
	int result = 0;
	sqlite3 *db;
	struct backend_batch batch = { .ops = ops,
				       .count = ARRAY_SIZE(ops),
				       .visible = use_meanwhile,
				       .visible_arg = &result };

	one = open_at(scratch_path("store.db"), &shared);
	two = open_at(scratch_path("store.db"), &shared);
	COMMIT(one, node_put(&node));
	digest(two);
	cr_expect_eq(one->ops->commit(one, &batch, 0), 0);
	cr_expect_eq(result, -ESTALE);
	cr_expect_eq(backend_use(two, 5, true), -ESTALE, "it has to be heard of");
	digest(two);
	cr_expect_eq(backend_use(two, 5, true), 0);
	db = other_open(scratch_path("store.db"));
	other_runs(db, "INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		       "state_data) VALUES ('sess', 'messages', 4, '1')");
	other_close(db);
	cr_expect_eq(backend_use(two, 6, true), 1, "what another program has left waits");
}

static int count_node(void *arg, const struct backend_node *node)
{
	*(unsigned *)arg += node->ino == 5;
	return 0;
}

Test(mounts, that_share_with_nobody_delete_what_has_no_name, .fini = close_stores)
{
	static const struct backend_options alone = { .create = true, .owner = "the test" };
	struct backend_node node = plain_node(5);
	struct backend_snapshot *snapshot;
	unsigned found = 0;

	one = open_at(scratch_path("store.db"), &alone);
	node.nlink = 0;
	COMMIT(one, node_put(&node));
	snapshot = look(one);
	cr_expect_eq(backend_orphan_list(one, snapshot, count_node, &found), 0);
	unlook(one, snapshot);
	cr_expect_eq(found, 1);
	cr_expect_eq(COMMIT(one, guard_unused(5), node_delete(5)), 0);
}

Test(mounts, that_were_alone_are_waited_for, .fini = close_stores)
{
	one = open_at(scratch_path("store.db"), &shared);
	look_around(one);
	cr_expect_eq(backend_use(one, 5, true), 0);
	cr_expect_eq(backend_use(one, 7, true), 0);
	cr_expect_eq(backend_use(one, 7, false), 0);
	two = open_at(scratch_path("store.db"), &shared);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EAGAIN);
	cr_expect_eq(COMMIT(two, guard_unused(6)), -EAGAIN);
	cr_expect_eq(backend_use(one, 7, true), 0);
	look_around(one);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EBUSY);
	cr_expect_eq(COMMIT(two, guard_unused(6)), 0);
	cr_expect_eq(COMMIT(two, guard_unused(7)), -EBUSY);
	cr_expect_eq(COMMIT(two, guard_unused(UINT64_C(1) << 62)), 0);
	shut(two);
	look_around(one);
	two = open_at(scratch_path("store.db"), &shared);
	cr_expect_eq(COMMIT(two, guard_unused(6)), -EAGAIN, "it was alone again");
}

static int call_table(const struct backend_options *options, const char *name)
{
	struct backend *backend = open_at(scratch_path("store.db"), options);
	const struct backend_op op = setting(BYTES("table"), bytes_str(name));
	int r = backend_commit(backend, &op, 1, BACKEND_ANYWAY);

	shut(backend);
	return r;
}

Test(tables, of_rows_get_another_name_while_they_are_empty, .fini = close_stores)
{
	static const struct backend_options alone = { .create = true, .owner = "the test" };
	static const struct backend_options guest = { .create = true };
	struct backend *backend;
	sqlite3 *other;

	cr_expect_eq(call_table(&guest, "mine"), -EBUSY);
	cr_expect_eq(call_table(&shared, "mine"), -EBUSY);
	cr_expect_eq(call_table(&alone, "sessfs_node"), -EINVAL);
	cr_expect_eq(call_table(&alone, "my rows"), 0);
	other = other_open(scratch_path("store.db"));
	cr_expect_str_eq(other_asks(other, "SELECT count(*) FROM \"my rows\""), "0");
	cr_expect_str_eq(other_asks(other, "SELECT count(*) FROM sqlite_schema WHERE "
					   "name = 'agentscope_sessions'"),
			 "0");
	other_runs(other, "CREATE TABLE unfit (a)");
	cr_expect_eq(call_table(&alone, "unfit"), -EINVAL);
	backend = open_at(scratch_path("store.db"), &alone);
	other_runs(other, "INSERT INTO \"my rows\" (session_id, state_key, state_data) "
			  "VALUES ('sess', 'messages', '1')");
	cr_expect_str_eq(rows_of(backend, S, K), "0=1");
	cr_expect_eq(snapshot_error(backend), -ESTALE, "the triggers have moved along");
	shut(backend);
	cr_expect_eq(call_table(&alone, ""), -ENOTEMPTY);
	cr_expect_eq(call_table(&alone, "MY ROWS"), 0, "it is called so");
	other_close(other);
}

Test(mounts, of_a_file_under_another_name_are_refused, .fini = close_stores)
{
	static const struct backend_options alone = { .create = true, .owner = "another" };
	_cleanup_(freep) char *why = NULL;

	one = open_at(scratch_path("store.db"), &shared);
	cr_assert_eq(link(scratch_path("store.db"), scratch_path("other.db")), 0);
	cr_expect_eq(refused_at(scratch_path("other.db"), &shared, &why), -EBUSY);
	free(why);
	why = NULL;
	cr_expect_eq(refused_at(scratch_path("store.db"), &alone, &why), -EBUSY);
	two = open_at(scratch_path("store.db"), &shared);
	shut(one);
	shut(two);
	one = open_at(scratch_path("other.db"), &shared);
}
