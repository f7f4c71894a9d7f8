/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "tests/unit/server-client.h"

static PGconn *open_client(const struct url *url, const char *database)
{
	char port[16];
	const char *const names[] = {
		"host", "port", "user", "password", "dbname", "options", NULL
	};
	const char *const values[] = {
		url->host ? url->host : url->socket, port, url->user, url->password, database,
		"-c client_min_messages=error",	     NULL
	};
	PGconn *conn;

	snprintf(port, sizeof(port), "%u", url_port(url));
	conn = PQconnectdbParams(names, values, 0);
	cr_assert_eq(PQstatus(conn), CONNECTION_OK, "%s", PQerrorMessage(conn));
	return conn;
}

static PGresult *execute(PGconn *conn, const char *statements)
{
	PGresult *result = PQexec(conn, statements);

	cr_assert(PQresultStatus(result) == PGRES_COMMAND_OK ||
			  PQresultStatus(result) == PGRES_TUPLES_OK,
		  "%s: %s", statements, PQerrorMessage(conn));
	return result;
}

static void run_in(const struct url *url, const char *database, const char *statements)
{
	PGconn *conn = open_client(url, database);

	PQclear(execute(conn, statements));
	PQfinish(conn);
}

static void run(const struct url *url, const char *statements)
{
	run_in(url, url->database, statements);
}

static const char *ask(const struct url *url, const char *statement)
{
	static char answer[4096];
	PGconn *conn = open_client(url, url->database);
	PGresult *result = execute(conn, statement);

	snprintf(answer, sizeof(answer), "%s",
		 !PQntuples(result)	   ? "" :
		 PQgetisnull(result, 0, 0) ? "NULL" :
					     PQgetvalue(result, 0, 0));
	PQclear(result);
	PQfinish(conn);
	return answer;
}

static void *begin(const struct url *url, const char *statement)
{
	PGconn *conn = open_client(url, url->database);

	PQclear(execute(conn, "BEGIN"));
	PQclear(execute(conn, statement));
	return conn;
}

static void end(void *conn)
{
	PQclear(execute(conn, "COMMIT"));
	PQfinish(conn);
}

static void drop(const struct url *url, const char *name)
{
	_cleanup_(freep) char *statement = str_printf("DROP DATABASE IF EXISTS %s", name);

	run_in(url, "postgres", statement);
}

/*
 * Other programs find the tables there, as AgentScope's services name that schema.  Files are
 * copied in half of the time that their pages take; older servers do nothing else.
 */
static void make(const struct url *url, const char *name)
{
	PGconn *conn = open_client(url, "postgres");
	_cleanup_(freep) char *drop = str_printf("DROP DATABASE IF EXISTS %s", name);
	_cleanup_(freep) char *create =
		str_printf("CREATE DATABASE %s %s", name,
			   PQserverVersion(conn) >= 150000 ? "STRATEGY FILE_COPY" : "");
	_cleanup_(freep) char *set =
		str_printf("ALTER DATABASE %s SET search_path = agentscope", name);

	PQclear(execute(conn, drop));
	PQclear(execute(conn, create));
	PQclear(execute(conn, set));
	PQfinish(conn);
}

static const char table[] =
	"CREATE SCHEMA agentscope; CREATE TABLE agentscope.agentscope_sessions (session_id TEXT "
	"NOT NULL, state_key TEXT NOT NULL, item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT "
	"NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT "
	"CURRENT_TIMESTAMP, PRIMARY KEY (session_id, state_key, item_index))";

const struct server_client server_postgresql = {
	"SESSFS_TEST_POSTGRESQL", table, make, drop, run, ask, begin, end
};
