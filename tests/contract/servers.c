/* SPDX-License-Identifier: MIT */
/* Stores on servers in the place of stores.c, on the one that tests/servers/with-server has
 * started. */
#include <string.h>

#include "backend/mysql/mysql.h"
#include "backend/postgresql/postgresql.h"
#include "backend/url/url.h"
#include "tests/contract/mounts.h"
#include "tests/unit/rounds.h"
#include "tests/unit/server.h"

static const struct backend_options fresh = { .create = true, .owner = "the test" };

static const struct {
	const char *scheme;
	int (*open)(const struct url *url, const struct backend_options *options,
		    struct backend **ret_backend, char **ret_why);
} kinds[] = {
#ifdef HAVE_MYSQL
	{ "mysql", mysql_store_open },
#endif
#ifdef HAVE_POSTGRESQL
	{ "postgresql", postgresql_store_open },
#endif
};

static bool is_scheme(const char *scheme)
{
	return strncmp(server_url(), scheme, strlen(scheme)) == 0;
}

static int try_store(const struct backend_options *options, struct backend **ret_backend,
		     char **ret_why)
{
	_cleanup_(url_done) struct url url = { 0 };
	size_t kind = 0;

	after_stores = server_done;
	while (!is_scheme(kinds[kind].scheme))
		kind++;
	cr_assert_eq(url_parse(server_url(), &url, NULL), 0);
	return kinds[kind].open(&url, options, ret_backend, ret_why);
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

/* What a server itself cannot hold; scheme NULL: none of them can. */
static const struct {
	const char *scheme;
	const char *suite;
	const char *name;
	const char *reason;
} excepted[] = {
	{ NULL, "quotas", "hold_from_when_they_are_set_until_they_are_taken_back",
	  "how much room a database takes is the server's to say" },
	{ "mysql", "rows", "above_the_limit_are_refused",
	  "the server takes a packet of 16 MiB, unless it is told otherwise" },
	{ "mysql", "rows", "of_many_megabytes_come_back_as_they_were",
	  "the server takes a packet of 16 MiB, unless it is told otherwise" },
	{ "mysql", "rows", "have_ids_of_4000_bytes",
	  "the table of AgentScope has ids of 255 characters" },
	{ "postgresql", "rows", "keep_ids_that_contain_nul_bytes_apart",
	  "the server's text has no such bytes" },
	{ "postgresql", "rows", "of_many_megabytes_come_back_as_they_were",
	  "the server has text, and not any bytes" },
	{ "postgresql", "others", "spell_ids_as_the_collation_of_their_table_lets_them",
	  "an id has one spelling" },
	{ "postgresql", "others", "spell_ids_in_several_ways_where_rows_may_be_null",
	  "an id has one spelling" },
	{ NULL, "snapshots", "see_what_was_committed_just_before",
	  "the table of AgentScope has text, and not any bytes" },
};

/* Megabytes of notes, which take a server seconds; each check has them on SQLite. */
static const struct {
	const char *suite;
	const char *name;
} long_ones[] = {
	{ "mounts", "what_is_too_much_to_be_told_is_anything" },
	{ "mounts", "what_comes_behind_too_much_is_told_too" },
};

static void look_for_exception(void)
{
	const struct criterion_test *test = criterion_current_test;

	for (size_t i = 0; i < ARRAY_SIZE(long_ones); i++)
		if (strcmp(test->category, long_ones[i].suite) == 0 &&
		    strcmp(test->name, long_ones[i].name) == 0 &&
		    !rounds("SESSFS_LONG", false, true))
			cr_skip("for a soak (SESSFS_SOAK=1)");
	for (size_t i = 0; i < ARRAY_SIZE(excepted); i++)
		if (strcmp(test->category, excepted[i].suite) == 0 &&
		    strcmp(test->name, excepted[i].name) == 0 &&
		    (!excepted[i].scheme || is_scheme(excepted[i].scheme)))
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
	static const struct backend_options shared = { .create = true,
						       .owner = "the test",
						       .shared = true };

	(void)kind, (void)first;
	look_for_exception();
	return open_store(&shared);
}
