/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SERVER_H
#define TESTS_UNIT_SERVER_H

/* A database of its own for a case, on the server that tests/servers/with-server has started and
 * SESSFS_TEST_MYSQL or SESSFS_TEST_POSTGRESQL names. */

#include <stdbool.h>

/* Whether there is one. */
bool server_is_there(void);
/* The URL of the database of this process, which is made when it is first asked for. */
const char *server_url(void);
/* Run statements of another program in it. */
void server_runs(const char *statements);
/* The first column of the first row as text, "NULL" for null, "" for no row. */
const char *server_asks(const char *statement);
/* A transaction of another program, from its first statement until it is committed. */
void server_begins(const char *statement);
void server_ends(void);
/* Make the database with the table that AgentScope's services make. */
void server_serves(void);
/* Drop it, if there is one. */
void server_done(void);

#endif
