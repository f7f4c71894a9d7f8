/* SPDX-License-Identifier: MIT */
/* Others' changes, made by a plain SQLite client. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define INSERT "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
#define TABLE                                                                                      \
	"CREATE TABLE agentscope_sessions (session_id TEXT NOT NULL, state_key TEXT NOT NULL, "    \
	"item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL, "                        \
	"PRIMARY KEY (session_id, state_key, item_index))"

static const struct backend_options owner = { .create = true, .owner = "the test" };
static const struct backend_options reader = { .read_only = true, .owner = "the test" };

static struct backend *store;
static sqlite3 *other;

static void setup(void)
{
	store = open_at(scratch_path("store.db"), &owner);
	other = other_open(scratch_path("store.db"));
}

static void teardown(void)
{
	if (other)
		other_close(other);
	close_stores();
}

TestSuite(others, .init = setup, .fini = teardown);

struct noted {
	struct backend_op done;
	char session[64];
	char key[64];
};

static int note(void *arg, const struct backend_change *change)
{
	struct noted *noted = arg;

	noted->done.type = BACKEND_CHANGE_DONE;
	noted->done.at = change->stamp;
	if (change->session.data) {
		memcpy(noted->session, change->session.data, change->session.size);
		memcpy(noted->key, change->key.data, change->key.size);
		noted->done.session = bytes_make(noted->session, change->session.size);
		noted->done.key = bytes_make(noted->key, change->key.size);
	}
	return 1;
}

/* The operation that says that the first waiting change was digested. */
static void note_first(struct backend *backend, struct noted *noted)
{
	struct backend_snapshot *snapshot = look(backend);

	*noted = (struct noted){ 0 };
	cr_assert_eq(backend_change_list(backend, snapshot, note, noted), 0);
	cr_assert_eq(noted->done.type, BACKEND_CHANGE_DONE, "no change waits");
	unlook(backend, snapshot);
}

static int digest_first(struct backend *backend)
{
	struct noted noted;

	note_first(backend, &noted);
	return backend_commit(backend, &noted.done, 1, BACKEND_ANYWAY);
}

Test(others, inserts_make_readers_and_writers_wait_until_digested)
{
	other_runs(other, INSERT "VALUES ('sess', 'messages', 3, '{}')");

	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_eq(COMMIT(store, row_put(S, K, 3, BYTES("mine"))), -ESTALE);
	cr_assert_str_eq(rows_of(store, S, K), "3={}");
	cr_assert_str_eq(changes_of(store), "sess/messages from 3");

	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_eq(COMMIT(store, row_put(S, K, 3, BYTES("mine"))), 0);
}

static int past_error(struct backend *backend)
{
	struct backend_snapshot *snapshot;
	int r = backend->ops->snapshot_begin(backend, BACKEND_PAST, &snapshot);

	if (r == 0)
		backend->ops->snapshot_end(backend, snapshot);
	return r;
}

static int found(struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	struct backend_snapshot *snapshot = look(store);
	int r = backend_change_find(store, snapshot, session, key, ret_change);

	unlook(store, snapshot);
	return r;
}

Test(others, a_change_holds_up_only_who_names_its_key)
{
	const struct bytes other_key = BYTES("k2"), none = { 0 };
	struct backend_node node = { .ino = 9, .kind = BACKEND_LIST, .mode = 0100644, .nlink = 1 };
	struct backend_change change;

	other_runs(other, INSERT "VALUES ('sess', 'messages', 3, '{}')");

	cr_assert_eq(COMMIT(store, row_put(S, other_key, 0, BYTES("1"))), 0);
	cr_assert_eq(COMMIT(store, xattr_put(1, K, BYTES("x"))), 0);
	cr_assert_eq(COMMIT(store, row_delete(S, K, 0, 9)), -ESTALE);
	node.session = S;
	node.key = K;
	cr_assert_eq(COMMIT(store, row_put(S, other_key, 0, BYTES("2")), node_put(&node)), -ESTALE);
	cr_assert_str_eq(rows_of(store, S, other_key), "0=1");
	cr_assert_eq(COMMIT(store, { .type = BACKEND_KEY_MOVE,
				     .session = S,
				     .key = other_key,
				     .session_to = S,
				     .key_to = K }),
		     -ESTALE);

	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_eq(past_error(store), 0);
	cr_assert_eq(found(S, K, &change), 0);
	cr_assert_eq(change.first, 3);
	cr_assert_eq(found(S, other_key, &change), -ENOENT);
	cr_assert_eq(found(S, none, &change), 0);
	cr_assert_eq(found(BYTES("sess2"), none, &change), -ENOENT);
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(found(S, K, &change), -ENOENT);
	cr_assert_eq(COMMIT(store, row_delete(S, K, 0, 9)), 0);
}

static int64_t oldest_waiting(struct backend *backend)
{
	int64_t oldest, newest;

	cr_assert_eq(backend_change_waiting(backend, &oldest, &newest), 0);
	return oldest;
}

/* A change that the model knows of stays in the log. */
Test(others, a_change_that_was_seen_is_pending_no_more_and_holds_up_who_names_its_key)
{
	static const struct backend_options shared = { .create = true,
						       .owner = "the test",
						       .shared = true };
	static const struct backend_options guest = { .read_only = true, .log_only = true };
	const struct bytes other_key = BYTES("k2");
	struct backend_change change;
	struct backend *reading;
	struct noted noted;

	cr_expect_not(backend_change_seen(store, 0), "other mounts cannot come");
	other_close(other);
	store = open_at(scratch_path("shared.db"), &shared);
	other = other_open(scratch_path("shared.db"));
	reading = open_at(scratch_path("shared.db"), &guest);
	other_runs(other, INSERT "VALUES ('sess', 'messages', 3, '{}')");
	cr_expect_gt(oldest_waiting(reading), 0);
	note_first(store, &noted);
	cr_expect(backend_change_seen(store, 0));
	cr_expect_eq(snapshot_error(store), -ESTALE);

	cr_expect(backend_change_seen(store, noted.done.at));
	cr_expect_eq(snapshot_error(store), 0);
	cr_expect_str_eq(changes_of(store), "");
	cr_expect_str_eq(changes_of(reading), "sess/messages from 3");
	cr_expect_eq(oldest_waiting(store), 0);
	cr_expect_eq(oldest_waiting(reading), 0);
	cr_assert_eq(found(S, K, &change), 0);
	cr_expect(change.seen);
	cr_expect_eq(COMMIT(store, row_put(S, K, 3, BYTES("mine"))), -ESTALE);
	cr_expect_eq(COMMIT(store, row_put(S, other_key, 0, BYTES("1"))), 0);

	other_runs(other, INSERT "VALUES ('sess', 'messages', 4, '[]')");
	cr_expect_eq(snapshot_error(store), -ESTALE);
	cr_assert_eq(found(S, K, &change), 0);
	cr_expect_not(change.seen);
	cr_expect_eq(change.first, 3);
	cr_expect_eq(oldest_waiting(reading), change.stamp);
	cr_expect_str_eq(changes_of(store), "sess/messages from 3");
	cr_expect_eq(digest_first(store), 0);
	cr_expect_eq(snapshot_error(store), 0);
	cr_expect_eq(COMMIT(store, row_put(S, K, 3, BYTES("mine"))), 0);
}

/* What others do to a list of which "sess/messages" has rows 0, 1 and 2, and whether that does more
 * than add to it. */
static const struct {
	const char *sql;
	bool rewritten;
} rewrites[] = {
	{ INSERT "VALUES ('sess', 'messages', 3, '3')", false },
	{ INSERT "VALUES ('sess', 'messages', 3, '3'), ('sess', 'messages', 4, '4')", false },
	{ INSERT "SELECT 'sess', 'messages', item_index + 3, '5' FROM agentscope_sessions "
		 "ORDER BY item_index",
	  false },
	{ INSERT "VALUES ('sess', 'messages', 7, '7')", false },
	{ "INSERT OR IGNORE INTO agentscope_sessions (session_id, state_key, item_index, "
	  "state_data) VALUES ('sess', 'messages', 2, 'x'), ('sess', 'messages', 3, '3')",
	  false },
	{ INSERT "VALUES ('sess', 'messages', 3, '3') ON CONFLICT (session_id, state_key, "
		 "item_index) DO UPDATE SET state_data = excluded.state_data",
	  false },
	{ "BEGIN; DELETE FROM agentscope_sessions WHERE state_key = 'another'; " INSERT
	  "VALUES ('sess', 'another', 0, '3'), ('sess', 'messages', 3, '3'); COMMIT",
	  false },
	{ INSERT "VALUES ('sess', 'messages', 4, '4'), ('sess', 'messages', 3, '3')", true },
	{ INSERT "VALUES ('sess', 'messages', -1, '0')", true },
	{ "INSERT OR REPLACE INTO agentscope_sessions (session_id, state_key, item_index, "
	  "state_data) VALUES ('sess', 'messages', 2, 'x')",
	  true },
	{ INSERT "VALUES ('sess', 'messages', 2, 'x') ON CONFLICT (session_id, state_key, "
		 "item_index) DO UPDATE SET state_data = excluded.state_data",
	  true },
	{ "UPDATE agentscope_sessions SET state_data = '9' WHERE item_index = 2", true },
	{ "UPDATE agentscope_sessions SET item_index = 3 WHERE item_index = 2", true },
	{ "DELETE FROM agentscope_sessions WHERE item_index = 2", true },
	{ "BEGIN; DELETE FROM agentscope_sessions; " INSERT
	  "VALUES ('sess', 'messages', 0, '0'); COMMIT",
	  true },
	{ INSERT "VALUES ('sess', 'messages', 3, '3'); UPDATE agentscope_sessions SET state_data "
		 "= '9' WHERE item_index = 2",
	  true },
	{ "UPDATE agentscope_sessions SET state_data = '9' WHERE item_index = 2; " INSERT
	  "VALUES ('sess', 'messages', 3, '3')",
	  true },
};

Test(others, tell_whether_they_have_only_added_to_a_list)
{
	struct backend_change change;

	for (size_t i = 0; i < ARRAY_SIZE(rewrites); i++) {
		COMMIT(store, row_delete(S, K, INT64_MIN, INT64_MAX));
		COMMIT(store, row_insert(S, K, 0, BYTES("0")), row_insert(S, K, 1, BYTES("1")),
		       row_insert(S, K, 2, BYTES("2")));
		other_runs(other, rewrites[i].sql);
		cr_assert_eq(found(S, K, &change), 0);
		cr_expect_eq(change.rewritten, rewrites[i].rewritten, "%s", rewrites[i].sql);
		while (snapshot_error(store) == -ESTALE)
			cr_assert_eq(digest_first(store), 0);
	}
}

Test(others, that_may_have_changed_anything_may_have_rewritten_it)
{
	struct backend_change change;

	other_runs(other, "INSERT INTO sessfs_change (session_id, state_key, first_index, "
			  "deleted_index, stamp) VALUES (x'', x'', 0, 0, 1000)");
	cr_assert_eq(found(S, K, &change), 0);
	cr_expect(change.rewritten);
}

Test(others, that_may_have_changed_anything_hold_up_everybody)
{
	struct backend_change change;

	other_runs(other, "INSERT INTO sessfs_change (session_id, state_key, first_index, "
			  "deleted_index, stamp) VALUES (x'', x'', 0, 0, 1000)");

	cr_assert_eq(found(S, K, &change), 0);
	cr_assert_null(change.session.data);
	cr_assert_eq(COMMIT(store, row_put(S, BYTES("k2"), 0, BYTES("1"))), -ESTALE);
}

Test(others, changes_of_one_key_are_gathered)
{
	other_runs(other, INSERT "VALUES ('s', 'k', 5, '{}'), ('s', 'k', 6, '{}'), "
				 "('s', 'k', 7, '{}')");
	other_runs(other, "DELETE FROM agentscope_sessions WHERE item_index = 6");
	other_runs(other, INSERT "VALUES ('s', 'k', 2, '{}')");

	cr_assert_str_eq(changes_of(store), "s/k from 2 deleted 6");
}

Test(others, updates_tell_the_index_and_move_updated_at)
{
	COMMIT(store, row_insert(S, K, 4, BYTES("{}")));
	other_runs(other, "UPDATE agentscope_sessions SET updated_at = '2001-01-01 00:00:00'");
	cr_assert_str_eq(changes_of(store), "", "times are not content");
	other_runs(other, "UPDATE agentscope_sessions SET state_data = '[]'");

	cr_assert_str_eq(changes_of(store), "sess/messages from 4");
	cr_assert_str_eq(other_asks(other, "SELECT updated_at > '2020' FROM agentscope_sessions"),
			 "1");
}

Test(others, updates_that_set_updated_at_keep_it)
{
	COMMIT(store, row_insert(S, K, 4, BYTES("{}")));
	other_runs(other, "PRAGMA recursive_triggers = ON; UPDATE agentscope_sessions SET "
			  "state_data = '[]', updated_at = '2001-01-01 00:00:00'");

	cr_assert_str_eq(other_asks(other, "SELECT updated_at FROM agentscope_sessions"),
			 "2001-01-01 00:00:00");
}

Test(others, updates_of_a_key_tell_both_keys)
{
	COMMIT(store, row_insert(S, K, 4, BYTES("{}")));
	other_runs(other, "UPDATE agentscope_sessions SET state_key = 'new', item_index = 0");

	cr_assert_str_eq(changes_of(store), "sess/messages from 4 deleted 4 sess/new from 0");
}

Test(others, replacements_are_noticed_whatever_the_conflict_clause)
{
	COMMIT(store, row_insert(S, K, 0, BYTES("{}")), row_insert(S, K, 1, BYTES("{}")));
	other_runs(other, "INSERT OR REPLACE INTO agentscope_sessions (session_id, state_key, "
			  "item_index, state_data) VALUES ('sess', 'messages', 1, '[]')");
	cr_assert_str_eq(changes_of(store), "sess/messages from 1");

	other_runs(other, "INSERT OR REPLACE INTO agentscope_sessions (session_id, state_key, "
			  "item_index, state_data) VALUES ('sess', 'messages', 2, '[]')");
	cr_assert_str_eq(changes_of(store), "sess/messages from 1", "the lowest index stays");
	other_runs(other, "INSERT OR IGNORE INTO agentscope_sessions (session_id, state_key, "
			  "item_index, state_data) VALUES ('sess', 'messages', 0, '[]')");
	cr_assert_str_eq(changes_of(store), "sess/messages from 1", "an ignored row is no change");
}

Test(others, upserts_are_noticed)
{
	COMMIT(store, row_insert(S, K, 7, BYTES("{}")));
	other_runs(other, INSERT "VALUES ('sess', 'messages', 7, '[]') ON CONFLICT DO UPDATE SET "
				 "state_data = excluded.state_data");

	cr_assert_str_eq(changes_of(store), "sess/messages from 7");
}

Test(others, changes_that_are_rolled_back_never_were)
{
	other_runs(other, "BEGIN; " INSERT "VALUES ('s', 'k', 5, '{}'); ROLLBACK");

	cr_assert_eq(snapshot_error(store), 0);
}

Test(others, changes_of_a_key_that_moved_on_are_not_done)
{
	struct noted noted;

	other_runs(other, INSERT "VALUES ('s', 'k', 5, '{}')");
	note_first(store, &noted);
	other_runs(other, INSERT "VALUES ('s', 'k', 6, '{}')");

	cr_assert_eq(backend_commit(store, &noted.done, 1, BACKEND_ANYWAY), 0);
	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_str_eq(changes_of(store), "s/k from 5");
}

static int set_apart(const struct noted *noted, int64_t first)
{
	struct backend_op apart = noted->done;

	apart.type = BACKEND_CHANGE_APART;
	apart.to = first;
	return backend_commit(store, &apart, 1, BACKEND_ANYWAY);
}

Test(others, changes_that_were_set_apart_are_waited_for_by_nobody)
{
	struct noted noted;

	other_runs(other, INSERT "VALUES ('s', 'k', 5, '{}')");
	note_first(store, &noted);
	cr_assert_eq(set_apart(&noted, 5), 0);

	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_eq(COMMIT(store, row_put(S, K, 3, BYTES("mine"))), 0);
	cr_assert_eq(backend_change_wait(store, 60), 0);
	cr_assert_str_eq(changes_of(store), "s/k from 5 apart");
	other_runs(other, INSERT "VALUES ('t', 'k', 0, '{}')");
	cr_assert_str_eq(changes_of(store), "s/k from 5 apart t/k from 0");

	other_runs(other, INSERT "VALUES ('s', 'k', 6, '{}')");
	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_str_eq(changes_of(store), "s/k from 5 t/k from 0");
	cr_assert_eq(set_apart(&noted, 5), 0);
	cr_assert_str_eq(changes_of(store), "s/k from 5 t/k from 0", "it has moved on");
	note_first(store, &noted);
	cr_assert_eq(set_apart(&noted, 5), 0);
	note_first(store, &noted);
	cr_assert_eq(backend_commit(store, &noted.done, 1, BACKEND_ANYWAY), 0);
	cr_assert_str_eq(changes_of(store), "t/k from 0", "it was digested after all");
}

Test(others, changes_that_were_set_apart_are_digested_whatever_their_stamp)
{
	const struct backend_op done = {
		.type = BACKEND_CHANGE_DONE, .session = S, .key = K, .at = BACKEND_STAMP_APART
	};
	struct noted noted;

	other_runs(other, INSERT "VALUES ('sess', 'messages', 5, '{}')");
	cr_assert_eq(backend_commit(store, &done, 1, BACKEND_ANYWAY), 0);
	cr_assert_str_eq(changes_of(store), "sess/messages from 5", "it was not set apart");
	note_first(store, &noted);
	cr_assert_eq(set_apart(&noted, 5), 0);
	cr_assert_eq(backend_commit(store, &done, 1, BACKEND_ANYWAY), 0);
	cr_assert_str_eq(changes_of(store), "");
	other_runs(other, INSERT "VALUES ('sess', 'messages', 6, '{}')");
	cr_assert_str_eq(changes_of(store), "sess/messages from 6");
}

Test(others, changes_that_were_set_apart_stay_when_everything_was_digested)
{
	struct backend_op apart = {
		.type = BACKEND_CHANGE_APART, .session = S, .key = K, .at = 1, .to = INT64_MIN
	};
	const struct backend_op done = { .type = BACKEND_CHANGE_DONE, .at = INT64_MAX };

	cr_assert_eq(backend_commit(store, &apart, 1, BACKEND_ANYWAY), 0);
	other_runs(other, INSERT "VALUES ('s', 'k', 5, '{}')");
	cr_assert_eq(backend_commit(store, &done, 1, BACKEND_ANYWAY), 0);
	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_str_eq(changes_of(store), "sess/messages from -9223372036854775808 apart");
}

Test(others, stamps_are_not_used_again_after_a_digest)
{
	struct noted first, second;

	other_runs(other, INSERT "VALUES ('s', 'k', 5, '{}')");
	note_first(store, &first);
	cr_assert_eq(backend_commit(store, &first.done, 1, BACKEND_ANYWAY), 0);
	other_runs(other, INSERT "VALUES ('s', 'k', 6, '{}')");
	note_first(store, &second);

	cr_assert_neq(first.done.at, second.done.at);
	cr_assert_eq(backend_commit(store, &first.done, 1, BACKEND_ANYWAY), 0);
	cr_assert_eq(snapshot_error(store), -ESTALE, "an old stamp has digested a new change");
}

Test(others, changes_digested_in_a_batch_that_fails_still_wait)
{
	struct noted noted;
	struct backend_op ops[2];

	COMMIT(store, row_insert(S, K, 0, BYTES("{}")));
	other_runs(other, INSERT "VALUES ('s', 'k', 5, '{}')");
	note_first(store, &noted);
	ops[0] = noted.done;
	ops[1] = row_insert(S, K, 0, BYTES("again"));

	cr_assert_eq(backend_commit(store, ops, 2, BACKEND_ANYWAY), -EEXIST);
	cr_assert_eq(snapshot_error(store), -ESTALE);
}

Test(others, rows_of_any_type_are_handed_out_as_bytes)
{
	other_runs(other, INSERT "VALUES ('s', 'k', 0, x'7b007d'), ('s', 'k', 1, 12), "
				 "('s', 'k', 2, 1.5), ('s', 'k', 3, '')");

	cr_assert_str_eq(rows_of(store, BYTES("s"), BYTES("k")), "0={\\0} 1=12 2=1.5 3=");
}

static void keep_last(void *arg, const char *sentence)
{
	snprintf(arg, 200, "%s", sentence);
}

Test(others, ids_that_are_not_text_are_skipped_and_told_by_the_check)
{
	char sentence[200] = "";
	uint64_t damage = 1;

	other_runs(other, INSERT "VALUES (x'61', 'k', 0, '{}'), ('s', x'6b', 0, '{}'), "
				 "('s', 'k', 0, '{}'), ('t', x'6b', 0, '{}'), ('u', 'k', 0, '{}')");

	cr_assert_str_eq(keys_of(store), "s/k[0-0] u/k[0-0]");
	cr_assert_eq(backend_check(store, keep_last, sentence, &damage), 1);
	cr_assert_eq(damage, 0);
	cr_assert(strstr(sentence, "3 rows"), "%s", sentence);
}

Test(others, indexes_that_are_no_integers_are_skipped)
{
	struct backend_snapshot *snapshot;

	other_runs(other, INSERT "VALUES ('s', 'k', 1.5, '{}'), ('s', 'k', 'x', '{}'), "
				 "('s', 'k', 1, '{}'), ('s', 'only', 'x', '{}')");
	other_runs(other, "UPDATE agentscope_sessions SET created_at = 7");

	cr_assert_str_eq(keys_of(store), "s/k[1-1]");
	cr_assert_str_eq(rows_of(store, BYTES("s"), BYTES("k")), "1={}");
	snapshot = look(store);
	cr_assert_str_eq(rows_back(store, snapshot, BYTES("s"), BYTES("k"), INT64_MAX, 1), "1={}");
	cr_assert_str_eq(rows_timed(store, snapshot, BYTES("s"), BYTES("k"), INT64_MAX, true, 1),
			 "1@7={}");
	cr_assert_str_eq(rows_timed(store, snapshot, BYTES("s"), BYTES("k"), 0, false, 9),
			 "1@7={}");
	unlook(store, snapshot);
}

Test(others, tables_put_in_place_of_ours_are_read_anew)
{
	COMMIT(store, row_insert(S, K, 0, BYTES("old")));
	other_runs(other, "BEGIN; DROP TABLE agentscope_sessions; " TABLE "; " INSERT
			  "VALUES ('s', 'k', 0, 'new'); COMMIT");

	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_str_eq(changes_of(store), "everything");
	cr_assert_str_eq(keys_of(store), "s/k[0-0]");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(snapshot_error(store), 0);
	other_runs(other, INSERT "VALUES ('s', 'k', 1, '{}')");
	cr_assert_str_eq(changes_of(store), "s/k from 1", "the triggers are back");
}

Test(others, tables_renamed_and_replaced_are_noticed_by_a_commit)
{
	COMMIT(store, row_insert(S, K, 0, BYTES("old")));
	other_runs(other, "BEGIN; ALTER TABLE agentscope_sessions RENAME TO old; " TABLE
			  "; INSERT INTO agentscope_sessions SELECT session_id, state_key, "
			  "item_index, state_data FROM old; DROP TABLE old; COMMIT");

	cr_assert_eq(COMMIT(store, row_insert(S, K, 1, BYTES("mine"))), -ESTALE);
	cr_assert_eq(digest_first(store), 0);
	shut(store);
	other_runs(other, INSERT "VALUES ('sess', 'messages', 1, 'theirs')");
	store = open_at(scratch_path("store.db"), &owner);
	cr_assert_str_eq(changes_of(store), "sess/messages from 1");
}

/* The writer's connection reads then: what it learns of the schema it must not forget. */
static int brief_error(struct backend *backend)
{
	struct backend_snapshot *snapshot;
	int r = backend->ops->snapshot_begin(backend, BACKEND_BRIEF, &snapshot);

	if (r == 0)
		backend->ops->snapshot_end(backend, snapshot);
	return r;
}

Test(others, tables_put_in_place_of_ours_are_noticed_by_a_brief_look)
{
	COMMIT(store, row_insert(S, K, 0, BYTES("old")));
	cr_assert_eq(brief_error(store), 0);
	other_runs(other, "BEGIN; DROP TABLE agentscope_sessions; " TABLE "; " INSERT
			  "VALUES ('s', 'k', 0, 'new'); COMMIT");

	cr_assert_eq(brief_error(store), -ESTALE);
	cr_assert_eq(COMMIT(store, row_insert(S, K, 1, BYTES("mine"))), -ESTALE);
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(brief_error(store), 0);
	cr_assert_eq(COMMIT(store, row_insert(S, K, 1, BYTES("mine"))), 0);
}

Test(others, columns_that_are_gone_are_noticed_by_a_commit_behind_a_brief_look)
{
	COMMIT(store, row_put(S, K, 0, BYTES("1")));
	cr_assert_eq(brief_error(store), 0);
	other_runs(other, "ALTER TABLE agentscope_sessions DROP COLUMN version");

	cr_assert_eq(brief_error(store), 0);
	cr_assert_eq(COMMIT(store, row_put(S, K, 0, BYTES("2"))), 0);
	cr_assert_str_eq(rows_of(store, S, K), "0=2");
}

static int64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *insert_soon(void *arg)
{
	int64_t *at = arg;

	usleep(200000);
	*at = milliseconds();
	sqlite3_exec(other,
		     INSERT "SELECT 's', 'k', ifnull(max(item_index) + 1, 0), '{}' "
			    "FROM agentscope_sessions WHERE session_id = 's'",
		     NULL, NULL, NULL);
	return NULL;
}

Test(others, changes_end_a_wait_within_100_ms)
{
	int64_t best = INT64_MAX;

	/* A machine that has other things to do is late now and then. */
	for (int64_t end = milliseconds() + 600000; best >= 100 && milliseconds() < end;) {
		pthread_t thread;
		int64_t at, seen;

		cr_assert_eq(backend_change_wait(store, 50), 0);
		cr_assert_eq(pthread_create(&thread, NULL, insert_soon, &at), 0);
		cr_assert_eq(backend_change_wait(store, 10000), 1);
		seen = milliseconds();
		pthread_join(thread, NULL);
		best = MIN(best, seen - at);
		digest_first(store);
	}

	cr_assert_lt(best, 100);
}

static void *append_for_a_second(void *arg)
{
	int64_t *count = arg, until = milliseconds() + 1000;

	for (; milliseconds() < until; (*count)++)
		if (COMMIT(store, row_insert(S, K, *count, BYTES("{}"))) < 0)
			break;
	return NULL;
}

Test(others, changes_are_all_that_ends_a_wait)
{
	pthread_t thread;
	int64_t count = 0;

	cr_assert_eq(pthread_create(&thread, NULL, append_for_a_second, &count), 0);
	cr_assert_eq(backend_change_wait(store, 900), 0, "our own appends woke the watcher");
	pthread_join(thread, NULL);
	cr_assert_gt(count, 10);
}

/* Databases that another program made. */

static void make_foreign(const char *path)
{
	sqlite3 *db = other_open(path);

	other_runs(db, TABLE "; PRAGMA user_version = 42; " INSERT
			     "VALUES ('s', 'k', 0, '{}'), ('s', 'k', 1, '{}')");
	other_close(db);
}

TestSuite(adopted, .fini = teardown);

Test(adopted, databases_report_everything_until_it_is_digested)
{
	const char *path = scratch_path("foreign.db");

	make_foreign(path);
	store = open_at(path, &owner);
	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_str_eq(changes_of(store), "everything");
	shut(store);

	store = open_at(path, &owner);
	cr_assert_str_eq(changes_of(store), "everything", "it was not digested yet");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_str_eq(rows_of(store, BYTES("s"), BYTES("k")), "0={} 1={}");
}

Test(adopted, databases_log_single_keys_afterwards)
{
	const char *path = scratch_path("foreign.db");

	make_foreign(path);
	store = open_at(path, &owner);
	other = other_open(path);
	other_runs(other, INSERT "VALUES ('t', 'k', 0, '{}')");
	cr_assert_str_eq(changes_of(store), "everything", "one key more is part of everything");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_str_eq(changes_of(store), "");
	other_runs(other, INSERT "VALUES ('t', 'k', 1, '{}')");
	cr_assert_str_eq(changes_of(store), "t/k from 1");
}

Test(adopted, databases_keep_their_rows_table_and_version)
{
	const char *path = scratch_path("foreign.db");

	make_foreign(path);
	store = open_at(path, &owner);
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(COMMIT(store, row_put(BYTES("s"), BYTES("k"), 2, BYTES("[]"))), 0);
	other = other_open(path);

	cr_assert_str_eq(other_asks(other, "PRAGMA user_version"), "42");
	cr_assert_str_eq(other_asks(other, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND "
					   "name = 'agentscope_sessions'"),
			 TABLE);
	cr_assert_str_eq(other_asks(other, "SELECT group_concat(item_index || state_data) FROM "
					   "agentscope_sessions"),
			 "0{},1{},2[]");
}

Test(adopted, databases_get_nothing_added_when_read_only)
{
	const char *path = scratch_path("foreign.db");
	struct backend_node node = plain_node(5);

	make_foreign(path);
	store = open_at(path, &reader);
	cr_assert_str_eq(changes_of(store), "everything");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_eq(COMMIT(store, node_put(&node), entry_put(1, 1, BYTES("f"), 5)), 0);
	cr_assert_str_eq(entries_of(store, 1, 0), "1:f=5");
	cr_assert_eq(COMMIT(store, row_put(S, K, 0, BYTES("no"))), -EROFS);
	shut(store);

	other = other_open(path);
	cr_assert_str_eq(other_asks(other, "SELECT group_concat(name) FROM sqlite_schema"),
			 "agentscope_sessions,sqlite_autoindex_agentscope_sessions_1");
	cr_assert_str_eq(other_asks(other, "PRAGMA journal_mode"), "delete");
	cr_assert_str_eq(other_asks(other, "PRAGMA application_id"), "0");
}

Test(adopted, databases_that_are_read_only_report_everything_after_each_change)
{
	const char *path = scratch_path("foreign.db");
	struct backend_snapshot *snapshot;

	make_foreign(path);
	store = open_at(path, &reader);
	other = other_open(path);
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_eq(backend_change_wait(store, 50), 0);
	/* Readers that began before must not make later ones believe that nothing has changed. */
	snapshot = look(store);
	unlook(store, snapshot);

	other_runs(other, INSERT "VALUES ('t', 'k', 1, '{}')");
	cr_assert_eq(backend_change_wait(store, 20000), 1);
	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_eq(snapshot_error(store), -ESTALE, "it waits until digested");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(snapshot_error(store), 0);
	cr_assert_str_eq(keys_of(store), "s/k[0-1] t/k[1-1]");
}

Test(adopted, digests_of_a_read_only_database_do_not_hide_a_later_change)
{
	const char *path = scratch_path("foreign.db");
	struct noted noted;

	make_foreign(path);
	store = open_at(path, &reader);
	other = other_open(path);
	note_first(store, &noted);
	other_runs(other, INSERT "VALUES ('t', 'k', 1, '{}')");

	cr_assert_eq(backend_commit(store, &noted.done, 1, BACKEND_ANYWAY), 0);
	cr_assert_eq(snapshot_error(store), -ESTALE);
}

Test(adopted, databases_may_have_a_rowid_table_and_no_times)
{
	const char *path = scratch_path("foreign.db");
	struct backend_snapshot *snapshot;

	other = other_open(path);
	other_runs(other, "CREATE TABLE agentscope_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, "
			  "state_data LONGTEXT, item_index INT, state_key VARCHAR(200), "
			  "session_id VARCHAR(200), note TEXT NOT NULL DEFAULT 'x'); CREATE UNIQUE "
			  "INDEX u ON agentscope_sessions (session_id, state_key, item_index)");
	store = open_at(path, &owner);

	cr_assert_eq(COMMIT(store, row_insert(S, K, 0, BYTES("a")), row_put(S, K, 1, BYTES("b")),
			    row_put(S, K, 0, BYTES("c"))),
		     0);
	cr_assert_eq(COMMIT(store, row_insert(S, K, 1, BYTES("d"))), -EEXIST);
	cr_assert_str_eq(rows_of(store, S, K), "0=c 1=b");
	snapshot = look(store);
	cr_assert_str_eq(rows_timed(store, snapshot, S, K, 0, false, 9), "0@0=c 1@0=b");
	unlook(store, snapshot);
	other_runs(other, "UPDATE agentscope_sessions SET state_data = 'e' WHERE item_index = 1");
	cr_assert_str_eq(changes_of(store), "sess/messages from 1");
}

Test(adopted, databases_in_utf_16_hand_out_utf_8)
{
	const char *path = scratch_path("foreign.db");

	other = other_open(path);
	other_runs(other, "PRAGMA encoding = 'UTF-16le'; " TABLE "; " INSERT
			  "VALUES ('sess', 'messages', 0, '\"\u00e4\"')");
	store = open_at(path, &owner);

	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(COMMIT(store, row_insert(S, K, 1, BYTES("\"\u4e2d\""))), 0);
	cr_assert_str_eq(rows_of(store, S, K), "0=\"\u00e4\" 1=\"\u4e2d\"");
	cr_assert_str_eq(keys_of(store), "sess/messages[0-1]");
}

static int take_one(void *arg, int64_t index, struct bytes data)
{
	(void)index;
	*(size_t *)arg = data.size;
	return 1;
}

/* Of which nothing comes where it cannot be converted, without an error at first. */
Test(adopted, databases_in_utf_16_hand_out_all_of_a_row_or_an_error)
{
	enum { LENGTH = 1 << 20, LEAST = 1 << 18 };
	const char *path = scratch_path("foreign.db");
	struct backend_snapshot *snapshot;
	size_t size = 0;
	int r, failed = 0;

	other = other_open(path);
	other_runs(other, "PRAGMA encoding = 'UTF-16le'; " TABLE "; " INSERT
			  "VALUES ('sess', 'messages', 0, '\"' || printf('%.*c', 1048574, 'x') || "
			  "'\"')");
	store = open_at(path, &owner);
	cr_assert_eq(digest_first(store), 0);
	for (int64_t room = LEAST; room < 16 * LENGTH; room += LEAST) {
		snapshot = look(store);
		size = 0;
		sqlite3_hard_heap_limit64(sqlite3_memory_used() + room);
		r = store->ops->row_read(store, snapshot, S, K, 0, take_one, &size);
		sqlite3_hard_heap_limit64(0);
		unlook(store, snapshot);
		failed += r == -ENOMEM;
		cr_assert(r == -ENOMEM || (r == 0 && size == LENGTH), "%d: %d, %zu bytes",
			  (int)room, r, size);
	}
	cr_assert_gt(failed, 0);
	cr_assert_eq(r, 0);
}

Test(adopted, databases_may_serve_another_table)
{
	const struct backend_options named = { .table = "my \"rows\"", .owner = "the test" };
	const char *path = scratch_path("foreign.db");

	other = other_open(path);
	other_runs(other,
		   "CREATE TABLE \"my \"\"rows\"\"\" (session_id TEXT, state_key TEXT, "
		   "item_index INTEGER, state_data TEXT, PRIMARY KEY (session_id, state_key, "
		   "item_index)); CREATE TABLE agentscope_sessions (x)");
	store = open_at(path, &named);

	cr_assert_eq(COMMIT(store, row_insert(S, K, 0, BYTES("a"))), 0);
	cr_assert_str_eq(other_asks(other, "SELECT state_data FROM \"my \"\"rows\"\"\""), "a");
	shut(store);
	store = open_at(path, &owner);
	cr_assert_str_eq(rows_of(store, S, K), "0=a", "the store remembers its table");
}

/* Guests. */

Test(others, may_be_guests_of_ours_whom_the_owner_hears)
{
	const struct backend_options guest_options = { 0 };
	struct backend *guest = open_at(scratch_path("store.db"), &guest_options);

	cr_assert_eq(COMMIT(guest, row_insert(S, K, 0, BYTES("{}"))), 0);

	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_str_eq(changes_of(store), "sess/messages from 0");
	shut(store);
	cr_assert_eq(digest_first(guest), 0);
	cr_assert_eq(COMMIT(guest, row_insert(S, K, 1, BYTES("{}"))), 0);
	cr_assert_str_eq(changes_of(guest), "", "without an owner nobody needs to hear");
}

Test(others, that_change_rows_only_are_heard_by_the_next_owner_too)
{
	const struct backend_options rows_only = { .rows_only = true };
	const char *path = scratch_path("store.db");
	struct backend *guest;

	shut(store);
	guest = open_at(path, &rows_only);
	cr_assert_eq(COMMIT(guest, row_insert(S, K, 0, BYTES("{}"))), 0);
	cr_assert_eq(COMMIT(guest, row_put(S, K, 1, BYTES("{}"))), -ESTALE);
	cr_assert_eq(COMMIT(guest, xattr_put(1, K, BYTES("x"))), -EROFS);
	store = open_at(path, &owner);

	cr_assert_eq(snapshot_error(store), -ESTALE);
	cr_assert_str_eq(changes_of(store), "sess/messages from 0");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_eq(COMMIT(guest, xattr_put(1, K, BYTES("x"))), -EROFS);
}

Test(others, are_told_from_the_log_to_who_remembers_nothing)
{
	const struct backend_options log_only = { .read_only = true, .log_only = true };
	struct backend *guest = open_at(scratch_path("store.db"), &log_only);

	COMMIT(store, row_insert(S, K, 0, BYTES("{}")));
	cr_assert_str_eq(changes_of(guest), "", "ours");
	other_runs(other, INSERT "VALUES ('sess', 'messages', 1, '{}')");
	for (int i = 0; i < 2; i++)
		cr_assert_str_eq(changes_of(guest), "sess/messages from 1");
	cr_assert_eq(digest_first(store), 0);
	cr_assert_str_eq(changes_of(guest), "", "digested");
	other_runs(other, "DROP TRIGGER sessfs_row_update");
	cr_assert_str_eq(changes_of(guest), "everything");
}

/* Time stamps that other programs write. */

static int64_t last_updated(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_key_stat stat = { 0 };
	int r = backend->ops->key_stat(backend, snapshot, BYTES("s"), BYTES("k"), &stat);

	unlook(backend, snapshot);
	cr_assert_eq(r, 0);
	return stat.updated;
}

Test(others, write_times_in_many_forms)
{
	static const struct {
		const char *sql;
		int64_t nanoseconds;
	} forms[] = {
		{ "'2009-02-13 23:31:30'", 1234567890000000000 },
		{ "'2009-02-13 23:31:30.123'", 1234567890123000000 },
		{ "'2009-02-13T23:31:30.123456Z'", 1234567890123456000 },
		{ "'2009-02-14T01:31:30+02:00'", 1234567890000000000 },
		{ "'2009-02-13 18:01:30.5-0530'", 1234567890500000000 },
		{ "'2009-02-13'", 1234483200000000000 },
		{ "1234567890", 1234567890000000000 },
		{ "1234567890123", 1234567890123000000 },
		{ "1234567890.5", 1234567890500000000 },
		{ "NULL", 0 },
		{ "'yesterday'", 0 },
		{ "'9999-12-31 23:59:59'", 0 },
		{ "9223372036854775807", 9223372036854775807 },
		{ "x'00'", 0 },
	};

	other_runs(other, INSERT "VALUES ('s', 'k', 0, '{}')");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		char sql[200];

		snprintf(sql, sizeof(sql), "UPDATE agentscope_sessions SET updated_at = %s",
			 forms[i].sql);
		other_runs(other, sql);
		cr_assert_eq(last_updated(store), forms[i].nanoseconds, "%s: %lld", forms[i].sql,
			     (long long)last_updated(store));
	}
}

static int keep_stat(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	(void)session;
	*(struct backend_session_stat *)arg = *stat;
	return 0;
}

Test(others, whose_times_are_in_several_forms_are_summed_up_by_the_times)
{
	struct backend_session_stat stat = { 0 };
	struct backend_snapshot *snapshot;

	other_runs(other, INSERT "VALUES ('s', 'k', 0, 1), ('s', 'k', 1, 1), ('s', 'k', 2, 1)");
	other_runs(other, "UPDATE agentscope_sessions SET created_at = CASE item_index "
			  "WHEN 0 THEN '2009-02-13T22:00:00Z' WHEN 1 THEN '2009-02-13 23:00:00' "
			  "ELSE 'soon' END");
	other_runs(other, "UPDATE agentscope_sessions SET updated_at = created_at");

	snapshot = look(store);
	cr_assert_eq(backend_session_list(store, snapshot, keep_stat, &stat), 0);
	unlook(store, snapshot);
	cr_assert_eq(stat.created, 1234562400000000000);
	cr_assert_eq(stat.updated, 1234566000000000000);
}
