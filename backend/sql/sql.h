/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_SQL_H
#define BACKEND_SQL_SQL_H

/* A store in a database of an SQL server, by the driver of a kind of server. */

#include "backend/backend.h"
#include "backend/sql/driver.h"

/* As backend_open().  The URL is copied as far as it is needed again. */
int sql_backend_open(const struct sql_driver *driver, const struct url *url,
		     const struct backend_options *options, struct backend **ret_backend,
		     char **ret_why);
/* As backend_read_older(). */
int sql_read_older(const struct sql_driver *driver, const struct url *url, const char *table,
		   backend_older_fn *fn, void *arg, char **ret_why);

#endif
