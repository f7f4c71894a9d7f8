/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CONTRACT_SERVERS_H
#define TESTS_CONTRACT_SERVERS_H

#include "backend/backend.h"

/* Open the store of the case on the server, in a database of its own; closed as others are. */
struct backend *server_open(const struct backend_options *options);
/* The other program: statements in that database if they name it. */
void server_runs(const char *statements);
/* Drop the database, when all is closed. */
void server_done(void);

#endif
