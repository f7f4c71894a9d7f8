/* SPDX-License-Identifier: MIT */
#include "tests/unit/server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_MYSQL
#include <mysql.h>
#endif

#include "backend/url/url.h"
#include "src/base/buf.h"
#include "src/base/cleanup.h"

static const char variable[] = "SESSFS_TEST_MYSQL";
static struct url url;
static char *text;

bool server_is_there(void)
{
#ifdef HAVE_MYSQL
	return getenv(variable);
#else
	return false;
#endif
}

#ifdef HAVE_MYSQL
static MYSQL *other_open(const char *database)
{
	MYSQL *mysql = mysql_init(NULL);

	cr_assert_not_null(mysql_real_connect(mysql, url.host, url.user, url.password, database,
					      url.port, url.socket, CLIENT_MULTI_STATEMENTS),
			   "%s", mysql_error(mysql));
	return mysql;
}

static void run(const char *database, const char *statements)
{
	MYSQL *mysql = other_open(database);
	int r = mysql_real_query(mysql, statements, strlen(statements));

	cr_assert_eq(r, 0, "%s: %s", statements, mysql_error(mysql));
	while ((r = mysql_next_result(mysql)) == 0)
		;
	cr_assert_eq(r, -1, "%s: %s", statements, mysql_error(mysql));
	mysql_close(mysql);
}

void server_runs(const char *statements)
{
	run(url.database, statements);
}

static MYSQL *open_transaction;

void server_begins(const char *statement)
{
	open_transaction = other_open(url.database);
	cr_assert_eq(mysql_query(open_transaction, "BEGIN"), 0);
	cr_assert_eq(mysql_query(open_transaction, statement), 0, "%s",
		     mysql_error(open_transaction));
}

void server_ends(void)
{
	cr_assert_eq(mysql_query(open_transaction, "COMMIT"), 0);
	mysql_close(open_transaction);
}

const char *server_asks(const char *statement)
{
	static char answer[4096];
	MYSQL *mysql = other_open(url.database);
	MYSQL_RES *rows;
	MYSQL_ROW row;
	int r = mysql_real_query(mysql, statement, strlen(statement));

	cr_assert_eq(r, 0, "%s: %s", statement, mysql_error(mysql));
	rows = mysql_store_result(mysql);
	cr_assert_not_null(rows);
	row = mysql_fetch_row(rows);
	snprintf(answer, sizeof(answer), "%s", !row ? "" : row[0] ? row[0] : "NULL");
	mysql_free_result(rows);
	mysql_close(mysql);
	return answer;
}
#else
void server_begins(const char *statement)
{
	(void)statement;
}

void server_ends(void)
{
}

static void run(const char *database, const char *statements)
{
	(void)database, (void)statements;
}

void server_runs(const char *statements)
{
	(void)statements;
}

const char *server_asks(const char *statement)
{
	return statement;
}
#endif

const char *server_url(void)
{
	_cleanup_(freep) char *statements = NULL;
	_cleanup_(freep) char *why = NULL;
	char *name;

	if (text)
		return text;
	cr_assert_eq(url_parse(getenv(variable), &url, &why), 0, "%s", why);
	name = str_printf("%s_%d", url.database, getpid());
	free(url.database);
	url.database = name;
	statements = str_printf("DROP DATABASE IF EXISTS %s; CREATE DATABASE %s", name, name);
	run(NULL, statements);
	text = url_text(&url);
	cr_assert_not_null(text);
	return text;
}

void server_done(void)
{
	_cleanup_(freep) char *statements = NULL;

	if (!text)
		return;
	statements = str_printf("DROP DATABASE %s", url.database);
	run(NULL, statements);
	url_done(&url);
	free(text);
	text = NULL;
}
