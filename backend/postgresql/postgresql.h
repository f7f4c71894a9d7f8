/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_POSTGRESQL_POSTGRESQL_H
#define BACKEND_POSTGRESQL_POSTGRESQL_H

/* A store in a database of a PostgreSQL server, in the schema agentscope. */

#include "backend/backend.h"

struct url;

/* As backend_open(). */
int postgresql_store_open(const struct url *url, const struct backend_options *options,
			  struct backend **ret_backend, char **ret_why);
int postgresql_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
				void *arg, char **ret_why);

#endif
