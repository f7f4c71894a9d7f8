/* SPDX-License-Identifier: MIT */
/* A store on Redis in the place of stores.c, on the server that tests/servers/with-server has
 * started. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/redis/redis.h"
#include "backend/redis/wire.h"
#include "backend/base/tick.h"
#include "tests/contract/mounts.h"
#include "tests/unit/rounds.h"

/* One server has all cases that run at once, and does one thing at a time: a large batch of one
 * case is waited for by the others, however slow the machine is. */
#define WAIT "600"
enum { ANSWER_MS = 600000 };

static const struct backend_options fresh = { .create = true, .owner = "the test" };
static const struct backend_options shared = { .create = true,
					       .owner = "the test",
					       .shared = true };

/* The server's URL with a prefix of the case's own. */
static void parse(struct url *url)
{
	_cleanup_(freep) char *text =
		str_printf("%s&timeout=" WAIT "&prefix=case%d:", getenv("SESSFS_TEST_REDIS"),
			   getpid());

	cr_assert_eq(url_parse(text, url, NULL), 0);
}

/* By the server, as other programs do it: ARGV[1] is the prefix. */
static int64_t server_runs(const char *script)
{
	_cleanup_(url_done) struct url url = { 0 };
	struct reply reply = { 0 };
	struct wire *wire;
	int64_t number;

	parse(&url);
	cr_assert_eq(wire_open(&url, NULL, 0, tick_ms() + ANSWER_MS, &wire, NULL), 0);
	cr_assert_eq(wire_ask_str(wire, tick_ms() + ANSWER_MS, &reply, "EVAL", script, "0",
				  url.prefix, NULL),
		     0);
	cr_assert_neq(reply.type, REPLY_ERROR, "%s", reply.text.data);
	number = reply_number(&reply);
	reply_done(&reply);
	wire_free(wire);
	return number;
}

static void drop(void)
{
	server_runs("for _, begins in ipairs({'', 'sessfs:'}) do for _, key in "
		    "ipairs(redis.call('KEYS', begins .. ARGV[1] .. '*')) do "
		    "redis.call('DEL', key) end end");
}

static int try_store(const struct backend_options *options, struct backend **ret_backend,
		     char **ret_why)
{
	_cleanup_(url_done) struct url url = { 0 };

	after_stores = drop;
	parse(&url);
	return redis_store_open(&url, options, ret_backend, ret_why);
}

static struct backend *open_store(const struct backend_options *options)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;
	int r = try_store(options, &backend, &why);

	cr_assert_eq(r, 0, "%s: %s", strerror(-r), why);
	return remember(backend);
}

int try_alone(struct backend **ret_backend)
{
	_cleanup_(freep) char *why = NULL;
	int r = try_store(&fresh, ret_backend, &why);

	if (r == 0)
		remember(*ret_backend);
	return r;
}

struct criterion_test_params every_kind(void)
{
	static int one_kind;

	return cr_make_param_array(int, &one_kind, 1, NULL);
}

/* What Redis cannot hold. */
#define NO_GAPS "a list on Redis has no gaps and begins at 0"
#define NO_TIMES "a list on Redis has no times of its items"
#define NO_PAST "Redis shows no past state: who reads is told -ESTALE and begins again"
static const struct {
	const char *suite;
	const char *name;
	const char *reason;
} excepted[] = {
	{ "rows", "are_read_in_the_order_of_their_index", NO_GAPS },
	{ "rows", "with_negative_indexes_are_handed_out_as_they_are", NO_GAPS },
	{ "rows", "are_read_from_an_index_on", NO_GAPS },
	{ "rows", "are_read_backwards_from_an_index_on", NO_GAPS },
	{ "rows", "are_deleted_by_an_inclusive_range", NO_GAPS },
	{ "rows", "of_many_megabytes_come_back_as_they_were", NO_GAPS },
	{ "rows", "are_read_again_by_a_callback_with_the_same_snapshot", NO_PAST },
	{ "rows", "have_the_times_that_the_operation_says", NO_TIMES },
	{ "rows", "have_each_its_own_time_among_many", NO_TIMES },
	{ "keys", "know_their_first_and_last_index", NO_GAPS },
	{ "keys", "are_listed_in_order_and_from_any_point_on", NO_GAPS },
	{ "keys", "are_looked_at_together", NO_GAPS },
	{ "keys", "are_told_of_one_session", NO_GAPS },
	{ "keys", "that_move_replace_all_rows_that_were_there", NO_GAPS },
	{ "keys", "know_when_the_last_row_was_made_and_changed", NO_TIMES },
	{ "hidden", "rows_are_deleted_by_their_indexes_and_not_with_the_node", NO_GAPS },
	{ "hidden", "rows_are_seen_by_nobody", NO_GAPS },
	{ "shifts", "beyond_the_last_number_are_refused", NO_GAPS },
	{ "shifts", "do_not_put_rows_in_the_place_of_others", NO_GAPS },
	{ "shifts", "down_close_the_place_of_those_that_are_gone", NO_GAPS },
	{ "shifts", "of_a_key_without_a_file_are_of_its_rows_alone", NO_GAPS },
	{ "shifts", "of_thousands_of_rows_keep_their_order", NO_GAPS },
	{ "shifts", "take_pieces_and_marks_with_them", NO_GAPS },
	{ "shifts", "up_make_room_for_others", NO_GAPS },
	{ "batches", "of_many_rows_put_each_in_its_place", NO_GAPS },
	{ "batches", "whose_source_gives_a_bad_operation_leave_nothing", NO_GAPS },
	{ "memory", "that_runs_out_in_a_commit_leaves_the_store_as_it_was", NO_GAPS },
	{ "sessions", "are_asked_for_one_at_a_time", NO_GAPS },
	{ "mounts", "a_time_and_then_the_rows_of_its_file_are_one_note", NO_GAPS },
	{ "mounts", "each_hears_what_the_others_have_changed", NO_GAPS },
	{ "mounts", "rows_that_go_elsewhere_have_changed_from_the_first_place_on", NO_GAPS },
	{ "snapshots", "of_one_thread_may_be_several_and_end_in_any_order", NO_PAST },
	{ "snapshots", "see_the_state_of_their_beginning", NO_PAST },
	{ "settings", "of_a_snapshot_stay_as_they_were", NO_PAST },
	{ "threads", "that_read_beside_a_writer_see_one_state_each", NO_PAST },
	{ "threads", "that_read_see_each_batch_whole", NO_PAST },
	{ "threads", "may_mix_batches_with_and_without_a_source", NO_GAPS },
	{ "threads", "that_commit_at_once_get_each_their_own_result", NO_GAPS },
};

static void look_for_exception(void)
{
	const struct criterion_test *test = criterion_current_test;

	for (size_t i = 0; i < ARRAY_SIZE(excepted); i++)
		if (strcmp(test->category, excepted[i].suite) == 0 &&
		    strcmp(test->name, excepted[i].name) == 0)
			cr_skip("%s", excepted[i].reason);
}

struct backend *fresh_store(int kind)
{
	(void)kind;
	look_for_exception();
	return open_store(&fresh);
}

struct criterion_test_params every_shared_kind(void)
{
	return every_kind();
}

struct backend *shared_store(int kind, struct backend *first)
{
	(void)kind, (void)first;
	look_for_exception();
	return open_store(&shared);
}

static void expect_refusal(const struct backend_options *options, int error, const char *words)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend;

	cr_assert_eq(try_store(options, &backend, &why), error, "%s", why);
	cr_expect(strstr(why, words), "\"%s\" does not say \"%s\"", why, words);
}

/* The keys of a store are named in store.h. */
#define KEY(letter) "'sessfs:' .. ARGV[1] .. '" letter "'"

Test(opening, brings_the_format_before_forward_unless_older_programs_have_it, .fini = close_stores)
{
	static const struct backend_options reading = { .read_only = true };
	struct backend *older;

	older = open_store(&shared);
	cr_assert_eq(COMMIT(older, row_insert(S, K, 0, BYTES("1"))), 0);
	server_runs("redis.call('HSET', " KEY(
		"m") ", 'format', '1'); "
		     "redis.call('ZADD', " KEY("o") ", 0, 'A1', 0, 'A2'); "
						    "redis.call('HSET', " KEY(
							    "v") ", 'A1', '', 'A2', '')");
	expect_refusal(&shared, -EBUSY, "is mounted by an older sessfs; unmount it");
	expect_refusal(&reading, -EROFS, "is a store of an older sessfs; mount it once");
	cr_assert_eq(COMMIT(older, row_insert(S, K, 1, BYTES("2"))), 0);
	/* It is stopped for longer than its lease. */
	cr_expect_eq(server_runs("local list = redis.call('HGETALL', " KEY(
			     "w") "); "
				  "for i = 1, #list, 2 do redis.call('HSET', " KEY(
					  "w") ", "
					       "list[i], (string.gsub(list[i + 1], ' %d+', ' 0', "
					       "1))) end "
					       "return #list"),
		     2);
	one = open_store(&shared);
	cr_expect_eq(server_runs("return tonumber(redis.call('HGET', " KEY("m") ", 'format'))"), 2);
	cr_expect_eq(server_runs("return #redis.call('ZRANGEBYLEX', " KEY(
			     "o") ", '[A', '(B') "
				  "+ redis.call('HEXISTS', " KEY("v") ", 'A1')"),
		     0);
	cr_expect_lt(COMMIT(older, row_insert(S, K, 2, BYTES("3"))), 0);
	usleep(1500000); /* in which it says that it lives */
	cr_expect_lt(COMMIT(older, row_insert(S, K, 2, BYTES("3"))), 0);
	cr_expect_str_eq(rows_of(one, S, K), "0=1 1=2");
	cr_expect_eq(COMMIT(one, row_insert(S, K, 2, BYTES("3"))), 0);
	cr_expect_eq(server_runs("return redis.call('HLEN', " KEY("w") ")"), 1);
	server_runs("redis.call('HSET', " KEY("m") ", 'format', '3')");
	expect_refusal(&shared, -EPROTONOSUPPORT, "newer format (3)");
}

Test(single, is_written_in_the_place_of_a_list_of_the_same_item, .fini = close_stores)
{
	const struct backend_op move = { .type = BACKEND_KEY_MOVE,
					 .session = S,
					 .key = BYTES("other"),
					 .session_to = S,
					 .key_to = K,
					 .version = 1 };
	struct backend_op single = row_insert(S, BYTES("other"), 0, BYTES("1"));

	single.version = 1;
	one = open_store(&shared);
	cr_assert_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1")), single), 0);
	cr_assert_eq(COMMIT(one, move), 0);
	cr_expect_str_eq(rows_of(one, S, K), "0=1");
}
