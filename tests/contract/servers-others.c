/* SPDX-License-Identifier: MIT */
/* What other programs do in the database of a store on a server. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/sql/conn.h"
#include "backend/sql/cursor.h"
#include "backend/sql/feed.h"
#include "backend/sql/mounts.h"
#include "backend/sql/watch.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "tests/contract/mounts.h"
#include "tests/unit/server.h"

TestSuite(others, .fini = close_stores);

static struct backend *backend;

#define INSERT(index, data)                                                                        \
	server_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, "         \
		    "state_data) VALUES ('sess', 'messages', " #index ", '" data "')")

static struct backend_change change;

static int keep(void *arg, const struct backend_change *told)
{
	change = *told;
	++*(int *)arg;
	return 0;
}

static int64_t stamp(void)
{
	struct backend_snapshot *snapshot = look(backend);
	int count = 0;

	cr_assert_eq(backend_change_list(backend, snapshot, keep, &count), 0);
	unlook(backend, snapshot);
	cr_assert_eq(count, 1);
	return change.stamp;
}

static int done(int64_t at, bool everything)
{
	const struct backend_op op = {
		.type = BACKEND_CHANGE_DONE,
		.session = everything ? (struct bytes){ 0 } : S,
		.key = everything ? (struct bytes){ 0 } : K,
		.at = at,
	};

	return backend_commit(backend, &op, 1, BACKEND_ANYWAY);
}

Test(others, inserts_make_readers_and_writers_wait_until_digested)
{
	backend = fresh_store(0);
	INSERT(0, "1");
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0");
	cr_expect_eq(snapshot_error(backend), -ESTALE);
	cr_expect_eq(COMMIT(backend, row_insert(S, K, 1, BYTES("2"))), -ESTALE);
	cr_expect_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("2"))), -ESTALE);
	cr_expect_eq(COMMIT(backend, row_insert(S, BYTES("other"), 0, BYTES("2"))), 0);
	cr_expect_eq(done(stamp(), false), 0);
	cr_expect_not(change.rewritten);
	cr_expect_str_eq(changes_of(backend), "");
	cr_expect_eq(snapshot_error(backend), 0);
	cr_expect_eq(COMMIT(backend, row_insert(S, K, 1, BYTES("2"))), 0);
	cr_expect_str_eq(changes_of(backend), "", "one's own are not logged");
}

Test(others, tell_what_they_have_done)
{
	int64_t at;

	backend = fresh_store(0);
	COMMIT(backend, row_insert(S, K, 0, BYTES("1")), row_insert(S, K, 1, BYTES("2")));
	server_runs("UPDATE agentscope_sessions SET state_data = '3' WHERE item_index = 1");
	cr_expect_str_eq(changes_of(backend), "sess/messages from 1");
	at = stamp();
	cr_expect(change.rewritten);
	server_runs("DELETE FROM agentscope_sessions WHERE item_index = 0");
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0 deleted 0");
	cr_expect_eq(done(at, false), 0, "it has moved on");
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0 deleted 0");
	cr_expect_eq(done(stamp(), false), 0);
	cr_expect_str_eq(changes_of(backend), "");
	server_runs("UPDATE agentscope_sessions SET state_key = 'to'");
	cr_expect_str_eq(changes_of(backend), "sess/messages from 1 deleted 1 sess/to from 1");
}

Test(others, that_are_not_committed_hold_up_nobody)
{
	backend = fresh_store(0);
	server_begins("INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		      "state_data) VALUES ('sess', 'messages', 0, '1')");
	cr_expect_str_eq(changes_of(backend), "");
	INSERT(1, "2");
	cr_expect_eq(done(stamp(), false), 0);
	cr_expect_eq(COMMIT(backend, row_insert(S, BYTES("other"), 0, BYTES("2"))), 0);
	cr_expect_str_eq(changes_of(backend), "");
	server_ends();
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0", "whose number is lower");
}

Test(others, changes_that_were_set_apart_are_waited_for_by_nobody)
{
	struct backend_op op = { .type = BACKEND_CHANGE_APART, .session = S, .key = K, .to = 0 };

	backend = fresh_store(0);
	INSERT(0, "1");
	op.at = stamp();
	cr_expect_eq(backend_commit(backend, &op, 1, BACKEND_ANYWAY), 0);
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0 apart");
	cr_expect_eq(snapshot_error(backend), 0);
	cr_expect_eq(done(-op.at, false), 0);
	cr_expect_str_eq(changes_of(backend), "");
	INSERT(1, "1");
	op.at = stamp();
	cr_expect_eq(backend_commit(backend, &op, 1, BACKEND_ANYWAY), 0);
	INSERT(2, "1");
	cr_expect_eq(snapshot_error(backend), -ESTALE);
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0 deleted 0");
	cr_expect_eq(done(stamp(), false), 0);
	cr_expect_str_eq(changes_of(backend), "");
}

Test(others, changes_that_were_set_apart_are_digested_whatever_their_stamp)
{
	struct backend_op op = { .type = BACKEND_CHANGE_APART, .session = S, .key = K, .to = 0 };

	backend = fresh_store(0);
	INSERT(0, "1");
	cr_expect_eq(done(BACKEND_STAMP_APART, false), 0);
	cr_expect_str_eq(changes_of(backend), "sess/messages from 0", "it was not set apart");
	op.at = stamp();
	cr_expect_eq(backend_commit(backend, &op, 1, BACKEND_ANYWAY), 0);
	cr_expect_eq(done(BACKEND_STAMP_APART, false), 0);
	cr_expect_str_eq(changes_of(backend), "");
}

Test(others, end_a_wait)
{
	backend = fresh_store(0);
	look_around(backend);
	INSERT(0, "1");
	cr_expect_eq(backend_change_wait(backend, 20000), 1);
}

Test(others, may_have_made_the_table)
{
	server_serves();
	INSERT(0, "1");
	backend = fresh_store(0);
	cr_expect_str_eq(changes_of(backend), "", "they are not told of");
	cr_expect_str_eq(settings_of(backend), BACKEND_UNADOPTED "=1");
	/* As when the triggers had gone. */
	server_runs("INSERT INTO sessfs_change (item_index, what) VALUES (0, '*')");
	cr_expect_str_eq(changes_of(backend), "everything");
	cr_expect_eq(snapshot_error(backend), -ESTALE);
	cr_expect_eq(done(stamp(), true), 0);
	cr_expect_eq(snapshot_error(backend), 0);
	cr_expect_str_eq(rows_of(backend, S, K), "0=1");
	cr_expect_eq(COMMIT(backend, row_put(S, K, 0, BYTES("3"))), 0);
	cr_expect_eq(COMMIT(backend, row_insert(S, K, (int64_t)1 << 40, BYTES("3"))), -EFBIG);
	cr_expect_str_eq(rows_of(backend, S, K), "0=3");
	cr_expect_str_eq(server_asks("SELECT COUNT(*) FROM agentscope_sessions"), "1");
}

Test(others, spell_ids_as_the_collation_of_their_table_lets_them)
{
	server_serves();
	backend = fresh_store(0);
	cr_expect_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("1"))), 0);
	cr_expect_str_eq(rows_of(backend, BYTES("Sess"), K), "");
	cr_expect_eq(COMMIT(backend, row_insert(BYTES("Sess"), K, 0, BYTES("2"))), -EEXIST);
	cr_expect_eq(COMMIT(backend, row_put(BYTES("Sess"), K, 0, BYTES("2"))), -EEXIST);
	cr_expect_eq(COMMIT(backend, row_put(BYTES("sess "), K, 0, BYTES("2"))), -EEXIST);
	cr_expect_eq(COMMIT(backend, row_delete(BYTES("Sess"), K, 0, 9)), 0);
	cr_expect_str_eq(rows_of(backend, S, K), "0=1");
}

static void let_rows_be_null(void)
{
	server_serves();
	server_runs(strncmp(server_url(), "mysql", 5) == 0 ?
			    "ALTER TABLE agentscope_sessions MODIFY state_data LONGTEXT" :
			    "ALTER TABLE agentscope_sessions ALTER state_data DROP NOT NULL");
}

Test(others, spell_ids_in_several_ways_where_rows_may_be_null)
{
	let_rows_be_null();
	backend = fresh_store(0);
	cr_expect_eq(COMMIT(backend, row_put(S, K, 0, BYTES("1"))), 0);
	cr_expect_eq(COMMIT(backend, row_put(BYTES("Sess"), K, 0, BYTES("2"))), -EEXIST);
	cr_expect_str_eq(rows_of(backend, S, K), "0=1");
	cr_expect_eq(COMMIT(backend, row_put(S, K, 0, BYTES("2"))), 0);
	cr_expect_str_eq(rows_of(backend, S, K), "0=2");
}

Test(others, make_a_row_null_and_something_again)
{
	static const char *const statements[] = {
		"UPDATE agentscope_sessions SET state_data = NULL",
		"UPDATE agentscope_sessions SET state_data = '1'",
	};

	let_rows_be_null();
	backend = fresh_store(0);
	cr_expect_eq(COMMIT(backend, row_put(S, K, 0, BYTES("1"))), 0);
	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		server_runs(statements[i]);
		cr_assert_str_eq(changes_of(backend), "sess/messages from 0", "%s", statements[i]);
		cr_expect_eq(done(stamp(), false), 0);
		server_runs(statements[i]);
		cr_expect_str_eq(changes_of(backend), "", "%s, again", statements[i]);
	}
}

Test(others, fill_a_gap_and_add_nothing_behind_the_last_row)
{
	struct backend_snapshot *snapshot;

	backend = fresh_store(0);
	COMMIT(backend, row_insert(S, K, 0, BYTES("1")), row_insert(S, K, 2, BYTES("3")));
	for (int i = 0; i < 2; i++) {
		if (i)
			INSERT(3, "4");
		else
			INSERT(1, "2");
		snapshot = look(backend);
		cr_expect_eq(backend_change_find(backend, snapshot, S, K, &change), 0);
		unlook(backend, snapshot);
		cr_expect_eq(change.rewritten, !i, "%d", i);
		cr_expect_eq(done(stamp(), false), 0);
	}
}

static int tell_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	return buf_printf(arg, "%.*s/%.*s %d-%d ", (int)session.size, session.data, (int)key.size,
			  key.data, (int)stat->first, (int)stat->last);
}

static int tell_session(void *arg, struct bytes session, const struct backend_session_stat *stat)
{
	return buf_printf(arg, "%.*s %d keys %d items ", (int)session.size, session.data,
			  (int)stat->keys, (int)stat->items);
}

/* To the server they are one key; two may have rows of it, with different indexes. */
Test(others, that_spell_a_key_in_two_ways_have_the_rows_of_each)
{
	const struct backend_node list = {
		.ino = 7, .kind = BACKEND_LIST, .nlink = 1, .session = S, .key = K
	};
	_cleanup_(buf_done) struct buf keys = { 0 }, sessions = { 0 }, of_one = { 0 };
	struct backend_snapshot *snapshot;
	struct backend_tail tail;

	server_serves();
	INSERT(0, "1");
	server_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		    "state_data) VALUES ('sess', 'Messages', 5, '123'), "
		    "('Sess', 'messages', 3, '12'), ('sess', 'messages', 1, '12')");
	backend = fresh_store(0);
	snapshot = look(backend);
	cr_expect_eq(backend_tail_get(backend, snapshot, &list, &tail), 0);
	cr_expect_eq(tail.rows, 2, "%d", (int)tail.rows);
	cr_expect_eq(tail.bytes, 3, "%d", (int)tail.bytes);
	cr_expect_eq(tail.last_bytes, 2, "%d", (int)tail.last_bytes);
	cr_expect_eq(tail.last, 1, "%d", (int)tail.last);
	cr_expect_eq(backend->ops->key_list(backend, snapshot, (struct bytes){ 0 },
					    (struct bytes){ 0 }, tell_key, &keys),
		     0);
	cr_expect_eq(backend_session_list(backend, snapshot, tell_session, &sessions), 0);
	cr_expect_eq(backend_session_keys(backend, snapshot, S, (struct bytes){ 0 }, tell_key,
					  &of_one),
		     0);
	unlook(backend, snapshot);
	buf_append_byte(&keys, '\0');
	buf_append_byte(&sessions, '\0');
	buf_append_byte(&of_one, '\0');
	cr_expect_str_eq(keys.data, "Sess/messages 3-3 sess/Messages 5-5 sess/messages 0-1 ");
	cr_expect_str_eq(of_one.data, "sess/Messages 5-5 sess/messages 0-1 ");
	cr_expect_str_eq(sessions.data, "Sess 1 keys 1 items sess 2 keys 3 items ");
}

enum { MANY_KEYS = 5000 };

struct walking {
	struct buf last;      /* the key that was told last */
	char seen[MANY_KEYS]; /* how often each was told, which is told apart by its index */
	size_t told;
	size_t stop; /* after so many */
};

static int count_key(void *arg, struct bytes session, struct bytes key,
		     const struct backend_key_stat *stat)
{
	struct walking *walking = arg;

	if (!bytes_equal(session, S))
		return 1;
	walking->seen[stat->first]++;
	buf_clear(&walking->last);
	cr_assert_eq(buf_append_bytes(&walking->last, key), 0);
	return ++walking->told % walking->stop == 0;
}

/* Each key in two spellings, over pages, and from the middle of what is one key to the server. */
Test(others, that_spell_many_keys_in_two_ways_have_each_told_once)
{
	static const size_t stops[] = { MANY_KEYS + 1, 999, 1000, 256 };
	static struct walking walking;
	struct backend_snapshot *snapshot;

	server_serves();
	server_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		    "state_data) WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
		    "WHERE i < 49), m(i) AS (SELECT 50 * a.i + b.i FROM n a CROSS JOIN n b) "
		    "SELECT 'sess', CONCAT('k', 1000 + i), 2 * i, '1' FROM m UNION ALL "
		    "SELECT 'sess', CONCAT('K', 1000 + i), 2 * i + 1, '1' FROM m");
	backend = fresh_store(0);
	snapshot = look(backend);
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++) {
		size_t before;

		walking = (struct walking){ .stop = stops[i] };
		do {
			_cleanup_(buf_done) struct buf last = { 0 };

			before = walking.told;
			cr_assert_eq(buf_reserve(&last, 1), 0);
			cr_assert_eq(buf_append_bytes(&last, buf_bytes(&walking.last)), 0);
			cr_assert_eq(backend->ops->key_list(backend, snapshot, S, buf_bytes(&last),
							    count_key, &walking),
				     0);
		} while (walking.told > before && walking.told <= MANY_KEYS);
		cr_expect_eq(walking.told, MANY_KEYS, "%zu", walking.told);
		for (size_t key = 0; key < MANY_KEYS; key++)
			cr_assert_eq(walking.seen[key], 1, "%zu", key);
		buf_done(&walking.last);
	}
	unlook(backend, snapshot);
}

static void begin_two(void)
{
	one = shared_store(0, NULL);
	two = shared_store(0, one);
	look_around(one);
	look_around(two);
}

static const char *version_of(const char *key)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "SELECT version FROM agentscope_sessions WHERE state_key = "
		 "'%s'",
		 key);
	return server_asks(text);
}

static struct backend_op single(struct backend_op op, int64_t least)
{
	op.version = least;
	return op;
}

Test(others, that_count_versions_see_each_write_of_a_single)
{
	const struct backend_op hide = single(
		(struct backend_op){ .type = BACKEND_KEY_HIDE, .session = S, .key = K, .ino = 4 },
		7);
	struct backend_op show = hide, move = hide;

	server_serves();
	server_runs("ALTER TABLE agentscope_sessions ADD version BIGINT NOT NULL DEFAULT 0");
	backend = fresh_store(0);
	cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("1")), 1)), 0);
	cr_expect_str_eq(version_of("messages"), "1");
	cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("2")), 1)), 0);
	cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("2")), 1)), 0, "it is the same");
	cr_expect_str_eq(version_of("messages"), "2");
	cr_expect_eq(COMMIT(backend, row_put(S, K, 0, BYTES("3"))), 0);
	cr_expect_str_eq(version_of("messages"), "2", "an item of a list is none");
	show.type = BACKEND_KEY_SHOW;
	cr_expect_eq(COMMIT(backend, hide, show), 0);
	cr_expect_str_eq(version_of("messages"), "7");
	move.type = BACKEND_KEY_MOVE;
	move.session_to = S;
	move.key_to = BYTES("to");
	cr_expect_eq(COMMIT(backend, move), 0);
	cr_expect_str_eq(version_of("to"), "8");
	cr_expect_eq(COMMIT(backend, single(row_insert(S, K, 0, BYTES("1")), 1),
			    row_insert(S, BYTES("list"), 0, BYTES("1")),
			    row_insert(S, BYTES("list"), 1, BYTES("2"))),
		     0);
	cr_expect_str_eq(version_of("messages"), "1");
	cr_expect_str_eq(version_of("list' AND item_index = '1"), "0");
}

/* A service that is upgraded while it is mounted gives its table the column. */
Test(others, that_give_the_table_versions_or_take_them_away_are_noticed_by_the_next_write)
{
	server_serves();
	backend = fresh_store(0);
	one = shared_store(0, backend);
	look_around(backend);
	look_around(one);
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("1")), 1)), 0);
		server_runs("ALTER TABLE agentscope_sessions ADD version INT DEFAULT 2147483647");
		cr_expect_eq(COMMIT(backend, row_put(S, BYTES("l"), 0, BYTES("1")),
				    single(row_put(S, K, 0, BYTES("2")), 1)),
			     0);
		cr_expect_str_eq(version_of("messages"), "1", "it cannot rise");
		digest(one);
		cr_expect_eq(COMMIT(one, single(row_put(S, K, 0, BYTES("3")), INT64_MAX / 2)), 0);
		cr_expect_str_eq(version_of("messages"), "2", "the column cannot have its least");
		server_runs("ALTER TABLE agentscope_sessions DROP COLUMN version");
		digest(backend);
	}
	cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("4")), 1)), 0);
	cr_expect_str_eq(server_asks("SELECT state_data FROM agentscope_sessions WHERE state_key = "
				     "'messages'"),
			 "4");
}

Test(others, may_have_a_column_of_that_name_that_counts_nothing)
{
	server_serves();
	server_runs("ALTER TABLE agentscope_sessions ADD version VARCHAR(10) DEFAULT 'draft'");
	backend = fresh_store(0);
	cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("1")), 1)), 0);
	cr_expect_eq(COMMIT(backend, single(row_put(S, K, 0, BYTES("2")), 1)), 0);
	cr_expect_str_eq(version_of("messages"), "draft");
}

/* Its mount may be dead, or stopped. */
Test(others, wait_for_a_turn_in_which_nothing_is_committed_a_second)
{
	int64_t begun;

	one = shared_store(0, NULL);
	two = shared_store(0, one);
	look_around(one);
	backend_turn(one, true);
	look_around(two);
	begun = tick_ms();
	cr_expect_eq(COMMIT(two, row_insert(S, K, 0, BYTES("1"))), 0, "it is taken away");
	cr_expect_geq(tick_ms() - begun, 1000, "not before");
	digest(one);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 1, BYTES("2"))), 0, "and was only a turn");
	backend_turn(one, false);
	backend_turn(one, true);
	backend_turn(two, true);
	digest(two);
	cr_expect_eq(COMMIT(two, row_insert(S, K, 2, BYTES("3"))), 0, "to have one, too");
	backend_turn(one, false);
	cr_expect_str_eq(server_asks("SELECT turn FROM sessfs_store"), "2", "not one's own");
	backend_turn(two, false);
}

/* As when a connection was lost: the one that is still on its way is too late, also behind what
 * others have committed. */
Test(others, see_to_it_that_a_transaction_is_not_made_by_moving_its_lane)
{
	for (int i = 0; i < 2; i++) {
		begin_two();
		server_runs("UPDATE sessfs_mount SET lane = lane + 2 WHERE number = 1");
		if (i)
			COMMIT(two, row_insert(S, BYTES("other"), 0, BYTES("1")));
		cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), -ESTALE);
		cr_expect_str_eq(rows_of(two, S, K), "");
		digest(one);
		cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0,
			     "it is another mount now");
		close_stores();
	}
}

/* As who is found silent is ended. */
static void end_first(void)
{
	server_runs("DELETE FROM sessfs_mount WHERE number = 1");
	server_runs("UPDATE sessfs_store SET epoch = epoch + 1");
}

/* Whoever has ended it may be known to one of its threads, and not to another yet. */
Test(others, that_have_ended_a_mount_see_nothing_of_what_it_commits)
{
	for (int heard = 0; heard < 2; heard++) {
		one = shared_store(0, NULL);
		two = shared_store(0, one);
		look_around(one);
		end_first();
		if (heard)
			cr_expect_eq(backend_change_wait(one, 20000), 1);
		cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), -ESTALE);
		cr_expect_str_eq(rows_of(two, S, K), "");
		digest(one);
		cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0,
			     "it has joined again");
		cr_expect_str_eq(server_asks("SELECT MAX(number) FROM sessfs_mount"), "3");
		close_stores();
	}
}

/* Two threads ask who is there; what the slower one has heard is not true any more when the
 * quicker one has made the mount join again. */
Test(others, that_have_ended_a_mount_make_it_join_again_once)
{
	enum { TIMES = 30 };
	_cleanup_(freep) char *last = str_printf("%d", TIMES + 1);

	one = shared_store(0, NULL);
	for (uint64_t number = 1; number <= TIMES; number++) {
		server_runs("DELETE FROM sessfs_mount");
		server_runs("UPDATE sessfs_store SET epoch = epoch + 1");
		while (backend_lease(one) == number)
			backend_change_wait(one, 5);
		digest(one);
		look_around(one);
		cr_assert_eq(backend_lease(one), number + 1, "%d", (int)number);
	}
	cr_expect_str_eq(server_asks("SELECT MAX(number) FROM sessfs_mount"), last);
}

static void *commit_one(void *result)
{
	*(int *)result = COMMIT(one, row_insert(S, K, 0, BYTES("1")));
	return NULL;
}

static bool is_mysql(void)
{
	return strncmp(server_url(), "mysql", 5) == 0;
}

/* Take a connection away, by its number. */
static void cut_off(const char *number)
{
	_cleanup_(freep) char *kill =
		str_printf(is_mysql() ? "KILL %s" : "SELECT pg_terminate_backend(%s)", number);
	_cleanup_(freep) char *find =
		str_printf(is_mysql() ?
				   "SELECT id FROM information_schema.processlist WHERE id = %s" :
				   "SELECT pid FROM pg_stat_activity WHERE pid = %s",
			   number);

	server_runs(kill);
	while (*server_asks(find))
		usleep(2000);
}

/* The connection by which somebody waits for a gate. */
static char *waiting_writer(void)
{
	const char *found = "";

	while (!*found) {
		usleep(2000);
		found = server_asks(
			is_mysql() ?
				"SELECT id FROM information_schema.processlist "
				"WHERE db = DATABASE() AND info LIKE 'UPDATE sessfs_gate SET%'" :
				"SELECT pid FROM pg_stat_activity WHERE "
				"wait_event_type = 'Lock' AND datname = "
				"current_database()");
	}
	return bytes_dup(bytes_str(found));
}

static void cut_off_reader(struct backend_snapshot *snapshot)
{
	struct sql_answer *answer = NULL;
	struct bytes columns[SQL_COLUMNS];
	_cleanup_(freep) char *number = NULL;

	cr_assert_eq(sql_snapshot_ask(snapshot,
				      is_mysql() ? BYTES("SELECT CONNECTION_ID()") :
						   BYTES("SELECT pg_backend_pid()"),
				      &answer, 1),
		     0);
	cr_assert(sql_row(snapshot->store, answer, columns));
	number = bytes_dup(columns[0]);
	snapshot->store->texts.driver->answer_done(answer);
	cut_off(number);
}

static int count_row(void *arg, int64_t index, struct bytes data)
{
	(void)index;
	(void)data;
	++*(int *)arg;
	return 0;
}

/* As when the server is started again in the middle of it. */
Test(others, that_cut_off_a_read_let_it_begin_again)
{
	struct backend_snapshot *snapshot;
	int count = 0;

	backend = fresh_store(0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("1"))), 0);
	snapshot = look(backend);
	cr_assert_str_eq(rows_seen(backend, snapshot, S, K, 0), "0=1");
	cut_off_reader(snapshot);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(backend->ops->row_read(backend, snapshot, S, K, 0, count_row, &count),
			     -ESTALE);
	cr_expect_eq(count, 0);
	unlook(backend, snapshot);
	cr_expect_str_eq(rows_of(backend, S, K), "0=1", "it has another connection");
}

/* Whether it was made nobody can know, since the lane went with it. */
Test(others, that_end_a_mount_whose_connection_is_lost_leave_its_change_in_doubt)
{
	_cleanup_(freep) char *writer = NULL;
	pthread_t thread;
	int r = 0;

	begin_two();
	server_begins("UPDATE sessfs_gate SET guard = 0");
	cr_assert_eq(pthread_create(&thread, NULL, commit_one, &r), 0);
	writer = waiting_writer();
	end_first();
	cut_off(writer);
	server_ends();
	pthread_join(thread, NULL);
	cr_expect_eq(r, -EIO, "it is not made again: %d", r);
	cr_expect_str_eq(rows_of(two, S, K), "");
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("2"))), -ESTALE);
	digest(one);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("2"))), 0, "it has joined again");
	digest(two);
	cr_expect_str_eq(rows_of(two, S, K), "0=2");
}

/* It may only have been cut off as long as the server was, and come back in a moment. */
Test(others, that_join_end_nobody_who_is_silent)
{
	one = shared_store(0, NULL);
	server_runs("UPDATE sessfs_mount SET seen_at = seen_at - INTERVAL '20' SECOND");
	two = shared_store(0, one);
	cr_expect_str_eq(server_asks("SELECT COUNT(*) FROM sessfs_mount"), "2");
	cr_expect_eq(backend_lease(one), 1);
}

/* It does nothing by itself any more. */
static void silence(struct backend *mount)
{
	sql_watch_stop(sql_of(mount));
	sql_of(mount)->watch.running = sql_of(mount)->watch.stop = false;
}

static struct sql_link *connect_aside(struct sql *store)
{
	struct sql_link *link = NULL;

	cr_assert_eq(sql_connect(store, true, sql_until(store), &link, NULL), 0);
	return link;
}

static void judge(struct backend *mount)
{
	struct sql *store = sql_of(mount);
	struct sql_link *link = connect_aside(store);

	cr_assert_eq(sql_mounts_beat(store, link), 0);
	cr_assert_eq(sql_mounts_judge(store, link), 0);
	sql_disconnect(store, &link);
}

/* Nothing is heard of two for longer than its lease, and one judges it. */
static void let_lapse(void)
{
	silence(two);
	server_runs("UPDATE sessfs_mount SET seen_at = seen_at - INTERVAL '20' SECOND "
		    "WHERE number = 2");
	judge(one);
}

static void trim(struct backend *mount)
{
	struct sql *store = sql_of(mount);
	struct sql_link *link = connect_aside(store);

	cr_assert_eq(sql_feed_tell(store, link), 0);
	cr_assert_eq(sql_feed_trim(store, link), 0);
	sql_disconnect(store, &link);
}

/* As if the connection had been lost while the answer was on its way, or the question (lost). */
static void hear_nothing(struct backend *mount, bool lost)
{
	struct sql *store = sql_of(mount);

	sql_disconnect(store, &store->writer.link);
	store->writer.lane -= !lost;
	store->writer.unsure = true;
}

/* Others have digested them by then. */
Test(others, keep_the_notes_that_tell_what_became_of_a_transaction)
{
	static const char numbers[] = "SELECT COALESCE(MAX(number), 0) * 10 + COUNT(*) FROM "
				      "sessfs_feed WHERE mount = 1";

	begin_two();
	silence(one);
	silence(two);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0);
	digest(two);
	trim(two);
	cr_expect_str_eq(server_asks(numbers), "11", "a mount takes away only its own");
	hear_nothing(one, false);
	trim(one);
	cr_expect_str_eq(server_asks(numbers), "11");
	while (COMMIT(one, row_insert(S, K, 1, BYTES("2"))) == -ESTALE)
		digest(one);
	cr_expect_str_eq(server_asks(numbers), "22", "the first one was committed");
	cr_expect_str_eq(server_asks("SELECT lane FROM sessfs_mount WHERE number = 1"), "0");
	hear_nothing(one, true);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 2, BYTES("3"))), 0);
	cr_expect_str_eq(server_asks("SELECT lane FROM sessfs_mount WHERE number = 1"), "4");
	cr_expect_str_eq(server_asks(numbers), "53", "the third one was not");
	/* What says so may be lost, too, and is said again. */
	server_runs("UPDATE sessfs_mount SET lane = 7 WHERE number = 1");
	hear_nothing(one, true);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 3, BYTES("4"))), 0);
	cr_expect_str_eq(server_asks(numbers), "84");
	digest(two);
	trim(two);
	trim(one);
	cr_expect_str_eq(server_asks(numbers), "0");
	cr_expect_str_eq(rows_of(two, S, K), "0=1 1=2 2=3 3=4");
}

/* They are one statement, of which the first note has the conditions. */
Test(others, that_leave_several_notes_depend_on_what_one_depends_on)
{
	struct backend_node node = plain_node(5);

	begin_two();
	server_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
		    "state_data) VALUES ('s', 'messages', 0, 'theirs')");
	cr_expect_eq(COMMIT(one, node_put(&node),
			    row_put(BYTES("s"), BYTES("messages"), 0, BYTES("1")),
			    row_put(BYTES("s"), BYTES("other"), 0, BYTES("1"))),
		     -ESTALE);
	cr_expect_str_eq(rows_of(two, BYTES("s"), BYTES("messages")), "0=theirs");
	cr_expect_str_eq(rows_of(two, BYTES("s"), BYTES("other")), "");
	end_first();
	cr_expect_eq(COMMIT(one, node_put(&node),
			    row_put(BYTES("s"), BYTES("other"), 0, BYTES("1"))),
		     -ESTALE);
	cr_expect_str_eq(rows_of(two, BYTES("s"), BYTES("other")), "");
	cr_expect_str_eq(server_asks("SELECT COUNT(*) FROM sessfs_feed"), "0");
}

Test(others, that_are_silent_end_with_all_that_they_had)
{
	static const char left[] =
		"SELECT (SELECT COUNT(*) FROM sessfs_mount) * 100 + (SELECT COUNT(*) FROM "
		"sessfs_lock) * 10 + (SELECT COUNT(*) FROM sessfs_use)";
	const struct backend_lock held = { .end = 99, .pid = 7, .exclusive = 1 };
	const struct backend_op lock = {
		.type = BACKEND_LOCK,
		.ino = 6,
		.at = 1,
		.data = bytes_make((const char *)&held, sizeof(held)),
	};
	struct backend_node node = plain_node(6);

	begin_two();
	cr_expect_eq(COMMIT(two, node_put(&node), lock), 0);
	digest(one);
	cr_expect_eq(backend_use(two, 6, true), 0);
	cr_expect(backend_on_duty(two));
	backend_turn(two, true);
	cr_expect_str_eq(server_asks(left), "211");
	let_lapse();
	cr_expect_str_eq(server_asks(left), "100");
	cr_expect_str_eq(server_asks("SELECT turn FROM sessfs_store"), "0");
	look_around(one);
	cr_expect_not(backend_is_shared(one));
	cr_expect(backend_on_duty(one));
	cr_expect_eq(COMMIT(one, lock, guard_unused(6)), 0);
}

Test(others, that_were_ended_come_again_as_another_who_knows_nothing)
{
	struct backend_node node = plain_node(6);
	struct backend *three;

	begin_two();
	cr_expect_eq(COMMIT(one, node_put(&node)), 0);
	digest(two);
	cr_expect_eq(backend_use(two, 6, true), 0);
	cr_expect(backend_on_duty(two));
	let_lapse();
	cr_expect_eq(COMMIT(one, guard_unused(6)), 0);
	three = shared_store(0, one);
	cr_expect_eq(backend_lease(three), 3, "no number is given twice");
	cr_expect(backend_on_duty(three));
	cr_expect_eq(COMMIT(three, row_insert(S, K, 0, BYTES("1"))), 0);
	cr_expect_eq(COMMIT(two, row_insert(S, BYTES("other"), 0, BYTES("2"))), -ESTALE);
	cr_expect_str_eq(rows_of(three, S, BYTES("other")), "");
	cr_expect_eq(backend_lease(two), 4);
	cr_expect_not(backend_on_duty(two), "another one is by now");
	cr_expect_eq(snapshot_error(two), -ESTALE);
	cr_expect_eq(COMMIT(two, row_insert(S, BYTES("other"), 0, BYTES("2"))), -ESTALE,
		     "before it has taken in that anything may have changed");
	digest(two);
	cr_expect_eq(COMMIT(two, row_insert(S, BYTES("other"), 0, BYTES("2"))), 0);
	digest(one);
	cr_expect_eq(COMMIT(one, guard_unused(6)), -EBUSY, "it has it in use still");
}

Test(others, that_were_ended_and_do_not_know_it_yet_are_in_nobody_s_way)
{
	struct backend_node node = plain_node(6);

	begin_two();
	shared_store(0, one);
	cr_expect_eq(COMMIT(one, node_put(&node)), 0);
	let_lapse();
	backend_on_duty(two);
	cr_expect(backend_on_duty(one));
	cr_expect_eq(backend_use(two, 6, true), -ESTALE);
	/* As when it had joined again before it took that back. */
	server_runs("INSERT INTO sessfs_use (ino, mount) VALUES (6, 2)");
	look_around(one);
	cr_expect(backend_is_shared(one));
	cr_expect_eq(COMMIT(one, guard_unused(6)), 0);
}

Test(others, that_were_alone_are_waited_for_until_they_tell_what_they_use)
{
	struct backend_node node = plain_node(5);

	one = shared_store(0, NULL);
	silence(one);
	cr_expect_eq(COMMIT(one, node_put(&node)), 0);
	cr_expect_geq(backend_use(one, 5, true), 0);
	two = shared_store(0, one);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EAGAIN);
	look_around(one);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EBUSY);
	cr_expect_eq(backend_use(one, 5, false), 0);
	cr_expect_eq(COMMIT(two, guard_unused(5)), 0);
	shut(two);
	look_around(one);
	cr_expect_geq(backend_use(one, 5, true), 0);
	two = shared_store(0, one);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EAGAIN, "it was alone again");
}

static void fall_silent(void)
{
	one = shared_store(0, NULL);
	silence(one);
	server_runs("UPDATE sessfs_mount SET seen_at = seen_at - INTERVAL '20' SECOND");
}

static void come_back(int level, const char *sentence)
{
	(void)level;
	if (strstr(sentence, "waiting as long for it to come back"))
		cr_assert_eq(sql_watch_start(sql_of(one)), 0);
}

/* A server gives up a transaction that nobody goes on with for five seconds, which a slow machine
 * may take. */
static void wait_without_end(struct sql *store)
{
	cr_assert_eq(sql_ask(store, store->writer.link,
			     is_mysql() ?
				     BYTES("SET /*M! idle_transaction_timeout = 0, */ @a = 1") :
				     BYTES("SET idle_in_transaction_session_timeout = 0"),
			     NULL),
		     0);
}

/* In the middle of a transaction, which has the row of the store: until the mount tells what it
 * uses, if what it knows is locked meanwhile, or else for as long as that would take to begin. */
static int more_when_told(struct backend_batch *batch)
{
	pthread_mutex_t *lock = &sql_of(one)->state.lock;
	static struct backend_op op;
	int *times = batch->arg;

	if ((*times)++)
		return 0;
	for (int i = 0; i < 100; i++) {
		if (pthread_mutex_trylock(lock) != 0)
			break;
		pthread_mutex_unlock(lock);
		usleep(10000);
	}
	op = row_insert(S, K, 1, BYTES("2"));
	batch->ops = &op;
	batch->count = 1;
	return 1;
}

Test(others, come_while_a_long_transaction_is_made_and_are_told_of_uses_behind_it)
{
	const struct backend_op first = row_insert(S, K, 0, BYTES("1"));
	int times = 0;
	struct backend_batch batch = {
		.ops = &first, .count = 1, .more = more_when_told, .arg = &times
	};

	one = shared_store(0, NULL);
	cr_assert_eq(backend_use(one, 5, true), 1);
	two = shared_store(0, one);
	wait_without_end(sql_of(one));
	cr_expect_eq(one->ops->commit(one, &batch, 0), 0);
	/* It cannot go back, so that this would be missing if it had been given up. */
	cr_expect_str_eq(rows_of(one, S, K), "0=1 1=2");
	while (strcmp(server_asks("SELECT COUNT(*) FROM sessfs_use"), "1") != 0)
		backend_change_wait(one, 20);
}

/* What another mount commits in the middle of a transaction of this one. */
struct amid {
	const struct backend_op *op;
	int r;
	bool done;
};

static int commit_amid(struct backend_batch *batch)
{
	struct amid *amid = batch->arg;
	static struct backend_op op;
	struct backend_batch other = { .ops = amid->op, .count = 1 };

	if (amid->done)
		return 0;
	amid->done = true;
	/* Without waiting, since this thread is the one that would be waited for. */
	amid->r = two->ops->commit(two, &other, BACKEND_AT_ONCE);
	op = row_insert(S, K, 1, BYTES("2"));
	batch->ops = &op;
	batch->count = 1;
	return 1;
}

static int commit_beside(const struct backend_op *op)
{
	const struct backend_op first = row_insert(S, K, 0, BYTES("1"));
	struct amid amid = { .op = op };
	struct backend_batch batch = {
		.ops = &first, .count = 1, .more = commit_amid, .arg = &amid
	};

	cr_expect_eq(one->ops->commit(one, &batch, 0), 0);
	cr_expect_eq(COMMIT(one, row_delete(S, K, 0, 1)), 0);
	digest(one);
	digest(two);
	return amid.r;
}

Test(others, wait_for_a_transaction_that_has_to_do_with_theirs_and_for_no_other)
{
	const struct backend_op same = row_insert(S, K, 7, BYTES("1"));
	const struct backend_op guard = { .type = BACKEND_GUARD, .session = S, .key = K };
	const struct backend_op other = row_insert(S, BYTES("other"), 0, BYTES("1"));
	const struct backend_op file = {
		.type = BACKEND_XATTR_PUT, .ino = 9, .name = BYTES("user.a"), .data = BYTES("1")
	};

	begin_two();
	cr_expect_eq(commit_beside(&same), -EBUSY);
	cr_expect_eq(commit_beside(&guard), -EBUSY);
	cr_expect_eq(commit_beside(&other), 0);
	cr_expect_eq(commit_beside(&file), 0);
}

/* The server may be told of statements that come often once, and of their values each time. */
Test(others, send_the_values_of_statements_that_come_often)
{
	static const char *const values[] = {
		"\"\"",		"\"'\"", "\"''\"", "\"';--\"",		 "\"$1 $2\"",	 "\"\\\\\"",
		"\";COMMIT;\"", "1",	 "-1.5e3", "\"\\\"quoted\\\"\"", "\"\303\251\"", "\"?1\"",
	};
	_cleanup_(buf_done) struct buf expected = { 0 };

	begin_two();
	for (int64_t i = 0; i < 10 * (int64_t)ARRAY_SIZE(values); i++) {
		const char *value = values[i % (int64_t)ARRAY_SIZE(values)];
		struct backend_append append = { .session = S, .key = K, .expected = i };
		struct backend_op op = row_insert(S, K, i, bytes_str(value));
		struct backend_batch batch = { .ops = &op, .count = 1, .append = &append };

		cr_assert_eq(one->ops->commit(one, &batch, 0), 0, "%s", value);
		cr_assert_eq(append.first, i);
		buf_printf(&expected, "%s%lld=%s", i ? " " : "", (long long)i, value);
	}
	buf_append_byte(&expected, '\0');
	cr_expect_str_eq(rows_of(one, S, K), expected.data);
	cr_expect_str_eq(rows_of(two, S, K), expected.data);
}

/* Each row fits into a packet, and all of them do not. */
Test(others, append_more_at_once_than_the_server_takes_in_one_packet)
{
	enum { ROWS = 5 };
	struct backend_append append = { .session = S, .key = K, .first = -1, .bytes = 99 };
	struct backend_op ops[ROWS];
	struct backend_batch batch = { .ops = ops, .count = ROWS, .append = &append };
	size_t size;
	char *data;

	begin_two();
	cr_assert_eq(COMMIT(two, row_insert(S, K, 0, BYTES("0"))), 0);
	digest(one);
	append.expected = 1;
	size = MIN(one->max_item, (uint64_t)7 << 20) - 2;
	data = malloc(size + 2);
	cr_assert_not_null(data);
	memset(data, '\'', size + 2);
	data[0] = data[size + 1] = '"';
	for (int i = 0; i < ROWS; i++)
		ops[i] = row_insert(S, K, i + 1, bytes_make(data, size + 2));
	cr_expect_eq(one->ops->commit(one, &batch, 0), 0);
	cr_expect_eq(append.first, 1);
	cr_expect_str_eq(server_asks("SELECT MAX(item_index) * 100 + COUNT(*) FROM "
				     "agentscope_sessions"),
			 "506");
	free(data);
}

/* For as long as a lease is. */
Test(others, that_are_silent_are_waited_for_by_who_wants_to_be_alone)
{
	fall_silent();
	log_set_sink(come_back);
	cr_expect_eq(try_alone(&two), -EBUSY, "it has come back");
	log_set_sink(NULL);
	cr_expect(sql_of(one)->watch.running);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0);
	cr_expect_eq(backend_lease(one), 1);
}

Test(others, that_stay_silent_are_ended_by_who_wants_to_be_alone)
{
	fall_silent();
	cr_assert_eq(try_alone(&two), 0);
	cr_expect_str_eq(server_asks("SELECT COUNT(*) FROM sessfs_mount"), "1");
	look_around(two);
	cr_expect_not(backend_is_shared(two));
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), -ESTALE);
	cr_expect_str_eq(rows_of(two, S, K), "");
}

static const char *silent_to(struct sql_link *link, uint64_t number)
{
	static char text[64];
	struct sql *store = sql_of(one);
	struct sql_answer *answer;
	struct bytes columns[SQL_COLUMNS];

	*text = '\0';
	cr_assert_eq(sql_ask_text(store, link, SQL_MOUNTS_SILENT,
				  SQL_VALUES(sql_number(SQL_LEASE_S), sql_id(number),
					     sql_number(SQL_FRESH_S)),
				  &answer),
		     0);
	while (sql_row(store, answer, columns))
		sprintf(text + strlen(text), "%.*s ", (int)columns[0].size, columns[0].data);
	store->texts.driver->answer_done(answer);
	return text;
}

Test(others, are_judged_by_who_was_heard_of_itself)
{
	struct sql_link *link = NULL;
	struct sql *store;

	one = shared_store(0, NULL);
	two = shared_store(0, one);
	store = sql_of(one);
	cr_assert_eq(sql_connect(store, true, sql_until(store), &link, NULL), 0);
	cr_assert_eq(sql_ask(store, link, bytes_str("BEGIN"), NULL), 0);
	cr_expect_str_eq(silent_to(link, 1), "");
	cr_assert_eq(sql_ask(store, link,
			     bytes_str("UPDATE sessfs_mount SET seen_at = seen_at - "
				       "INTERVAL '20' SECOND"),
			     NULL),
		     0);
	cr_expect_str_eq(silent_to(link, 1), "", "it was not heard of itself");
	cr_assert_eq(sql_mounts_beat(store, link), 0);
	cr_expect_str_eq(silent_to(link, 1), "2 ");
	cr_expect_str_eq(silent_to(link, 7), "", "it was ended itself");
	cr_assert_eq(sql_ask(store, link, bytes_str("ROLLBACK"), NULL), 0);
	sql_disconnect(store, &link);
}

Test(others, are_judged_when_one_was_heard_of_for_as_long)
{
	struct sql_beats beats = { .last = 1000, .steady = 1000 };

	for (int64_t now = 1000; now < 16000; now += 3000)
		cr_expect_not(sql_beats_heard(&beats, now));
	cr_expect(sql_beats_heard(&beats, 16000));
	cr_expect(sql_beats_heard(&beats, 19000));
	cr_expect_not(sql_beats_heard(&beats, 27000), "it was silent itself");
	for (int64_t now = 30000; now < 42000; now += 3000)
		cr_expect_not(sql_beats_heard(&beats, now));
	cr_expect(sql_beats_heard(&beats, 42000));
}
