/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_REDIS_H
#define BACKEND_REDIS_REDIS_H

/* Stores on Redis and Valkey; store.h says how. */

#include "backend/backend.h"
#include "backend/url/url.h"

/* As backend_open(). */
int redis_store_open(const struct url *url, const struct backend_options *options,
		     struct backend **ret_backend, char **ret_why);
/* As backend_read_older(). */
int redis_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
			   void *arg, char **ret_why);

#endif
