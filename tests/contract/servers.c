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

struct backend *fresh_store(int kind)
{
	(void)kind;
	return server_open(&fresh);
}
