/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_MEMORY_H
#define BACKEND_MEMORY_MEMORY_H

#include "backend/backend.h"

/* A store in memory, gone when it is closed: the reference implementation of backend.h.  Nobody
 * else can change it, so it never answers -ESTALE. */
int memory_backend_open(const struct backend_options *options, struct backend **ret_backend);

#endif
