/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <mysql.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "tests/unit/server-client.h"

static MYSQL *open_client(const struct url *url, const char *database)
{
	MYSQL *mysql = mysql_init(NULL);

	cr_assert_not_null(mysql_real_connect(mysql, url->host, url->user, url->password, database,
					      url->port, url->socket, CLIENT_MULTI_STATEMENTS),
			   "%s", mysql_error(mysql));
	return mysql;
}

static void run_in(const struct url *url, const char *database, const char *statements)
{
	MYSQL *mysql = open_client(url, database);
	int r = mysql_real_query(mysql, statements, strlen(statements));

	cr_assert_eq(r, 0, "%s: %s", statements, mysql_error(mysql));
	while ((r = mysql_next_result(mysql)) == 0)
		;
	cr_assert_eq(r, -1, "%s: %s", statements, mysql_error(mysql));
	mysql_close(mysql);
}

static void run(const struct url *url, const char *statements)
{
	run_in(url, url->database, statements);
}

static const char *ask(const struct url *url, const char *statement)
{
	static char answer[4096];
	MYSQL *mysql = open_client(url, url->database);
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

static void *begin(const struct url *url, const char *statement)
{
	MYSQL *mysql = open_client(url, url->database);

	cr_assert_eq(mysql_query(mysql, "BEGIN"), 0);
	cr_assert_eq(mysql_query(mysql, statement), 0, "%s", mysql_error(mysql));
	return mysql;
}

static void end(void *mysql)
{
	cr_assert_eq(mysql_query(mysql, "COMMIT"), 0);
	mysql_close(mysql);
}

static void make(const struct url *url, const char *name)
{
	_cleanup_(freep) char *statements =
		str_printf("DROP DATABASE IF EXISTS %s; CREATE DATABASE %s", name, name);

	run_in(url, NULL, statements);
}

static void drop(const struct url *url, const char *name)
{
	_cleanup_(freep) char *statement = str_printf("DROP DATABASE %s", name);

	run_in(url, NULL, statement);
}

static const char table[] =
	"CREATE TABLE agentscope_sessions (session_id VARCHAR(255) NOT NULL, state_key "
	"VARCHAR(255) NOT NULL, item_index INT NOT NULL DEFAULT 0, state_data LONGTEXT "
	"NOT NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP, updated_at DATETIME "
	"DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY "
	"(session_id, state_key, item_index)) DEFAULT CHARACTER SET utf8mb4 COLLATE "
	"utf8mb4_unicode_ci";

const struct server_client server_mysql = {
	"SESSFS_TEST_MYSQL", table, make, drop, run, ask, begin, end
};
