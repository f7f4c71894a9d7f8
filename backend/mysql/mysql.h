/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MYSQL_MYSQL_H
#define BACKEND_MYSQL_MYSQL_H

/* A store in a database of a MySQL or MariaDB server. */

#include "backend/backend.h"

struct url;

/* As plugin.h has it. */
int mysql_store_prepare(const struct url *url, char **ret_why);
/* As backend_open(). */
int mysql_store_open(const struct url *url, const struct backend_options *options,
		     struct backend **ret_backend, char **ret_why);
int mysql_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
			   void *arg, char **ret_why);

#endif
