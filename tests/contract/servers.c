/* SPDX-License-Identifier: MIT */
/* Stores on servers in the place of stores.c: SESSFS_TEST_MYSQL names an empty database, as
 * tests/servers/with-server has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mysql.h>

#include "backend/mysql/mysql.h"
#include "backend/url/url.h"
#include "tests/contract/contract.h"
#include "tests/contract/servers.h"

static const struct backend_options fresh = { .create = true, .owner = "the test" };

static struct url url; /* of the database of this case */

static void parse(const char *variable, struct url *ret_url)
{
	_cleanup_(freep) char *why = NULL;
	const char *text = getenv(variable);

	cr_assert_not_null(text, "%s is not set", variable);
	cr_assert_eq(url_parse(text, ret_url, &why), 0, "%s", why);
}

void server_runs(const char *statements)
{
	MYSQL mysql;
	int r;

	mysql_init(&mysql);
	cr_assert_not_null(mysql_real_connect(&mysql, url.host, url.user, url.password, NULL,
					      url.port, url.socket, CLIENT_MULTI_STATEMENTS),
			   "%s", mysql_error(&mysql));
	cr_assert_eq(mysql_real_query(&mysql, statements, strlen(statements)), 0, "%s: %s",
		     statements, mysql_error(&mysql));
	while ((r = mysql_next_result(&mysql)) == 0)
		;
	cr_assert_eq(r, -1, "%s: %s", statements, mysql_error(&mysql));
	mysql_close(&mysql);
}

/* A database of its own for each case, which runs in a process of its own. */
static void make_database(void)
{
	char statements[512], *name;

	if (url.database)
		return;
	parse("SESSFS_TEST_MYSQL", &url);
	name = str_printf("%s_%d", url.database, getpid());
	free(url.database);
	url.database = name;
	snprintf(statements, sizeof(statements), "DROP DATABASE IF EXISTS %s; CREATE DATABASE %s",
		 name, name);
	server_runs(statements);
	after_stores = server_done;
}

void server_done(void)
{
	char statements[512];

	if (!url.database)
		return;
	snprintf(statements, sizeof(statements), "DROP DATABASE %s", url.database);
	server_runs(statements);
	url_done(&url);
}

struct backend *server_open(const struct backend_options *options)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;
	int r;

	make_database();
	r = mysql_store_open(&url, options, &backend, &why);
	cr_assert_eq(r, 0, "%s: %s", strerror(-r), why);
	return remember(backend);
}

struct criterion_test_params every_kind(void)
{
	static int one;

	return cr_make_param_array(int, &one, 1, NULL);
}

/* What a server itself cannot hold. */
static const struct {
	const char *suite;
	const char *name;
	const char *reason;
} excepted[] = {
	{ "quotas", "hold_from_when_they_are_set_until_they_are_taken_back",
	  "how much room a database takes is the server's to say" },
	{ "rows", "above_the_limit_are_refused",
	  "the server takes a packet of 16 MiB, unless it is told otherwise" },
	{ "rows", "of_many_megabytes_come_back_as_they_were",
	  "the server takes a packet of 16 MiB, unless it is told otherwise" },
	{ "rows", "have_ids_of_4000_bytes", "the table of AgentScope has ids of 255 characters" },
	{ "snapshots", "see_what_was_committed_just_before",
	  "the table of AgentScope has text, and not any bytes" },
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
	return server_open(&fresh);
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
	return server_open(&shared);
}
