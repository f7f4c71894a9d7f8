/* SPDX-License-Identifier: MIT */
/* A store on Redis in the place of stores.c, on the server that tests/servers/with-server has
 * started. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/redis/redis.h"
#include "backend/redis/wire.h"
#include "tests/contract/mounts.h"
#include "tests/unit/rounds.h"

enum { ANSWER_MS = 30000 };

static const struct backend_options fresh = { .create = true, .owner = "the test" };
static const struct backend_options shared = { .create = true,
					       .owner = "the test",
					       .shared = true };

/* The server's URL with a prefix of the case's own. */
static void parse(struct url *url)
{
	_cleanup_(freep) char *text =
		str_printf("%s&prefix=case%d", getenv("SESSFS_TEST_REDIS"), getpid());

	cr_assert_eq(url_parse(text, url, NULL), 0);
}

static void drop(void)
{
	static const char script[] =
		"for _, begins in ipairs({'', 'sessfs:'}) do for _, key in ipairs(redis.call('KEYS', "
		"begins .. ARGV[1] .. ':*')) do redis.call('DEL', key) end end";
	_cleanup_(url_done) struct url url = { 0 };
	struct words words = { 0 };
	struct reply reply = { 0 };
	struct wire *wire;

	parse(&url);
	cr_assert_eq(wire_open(&url, NULL, 0, redis_now() + ANSWER_MS, &wire, NULL), 0);
	words_str(&words, "EVAL");
	words_str(&words, script);
	words_str(&words, "0");
	words_str(&words, url.prefix);
	cr_assert_eq(wire_ask(wire, &words, redis_now() + ANSWER_MS, &reply), 0);
	words_done(&words);
	reply_done(&reply);
	wire_free(wire);
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
static const struct {
	const char *suite;
	const char *name;
	const char *reason;
} excepted[] = {
	{ "", "", "" },
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
