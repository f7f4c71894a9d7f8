/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SERVER_CLIENT_H
#define TESTS_UNIT_SERVER_CLIENT_H

/* Other programs of a server, one kind each; they fail the case if anything fails. */

#include "backend/url/url.h"

struct server_client {
	const char *variable; /* of the environment */
	/* How AgentScope's services make their table. */
	const char *table;
	/* Make a database, anew; drop it. */
	void (*make)(const struct url *url, const char *name);
	void (*drop)(const struct url *url, const char *name);
	/* As server_runs() and server_asks(). */
	void (*run)(const struct url *url, const char *statements);
	const char *(*ask)(const struct url *url, const char *statement);
	/* A transaction with a statement, that has not ended; it is. */
	void *(*begin)(const struct url *url, const char *statement);
	void (*end)(void *transaction);
};

extern const struct server_client server_mysql, server_postgresql;

#endif
