/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_MEMORY_H
#define BACKEND_MEMORY_MEMORY_H

#include "backend/backend.h"

/* A store in memory, gone when the last one closes it: the reference implementation of backend.h.
 * No other program can change it. */
int memory_backend_open(const struct backend_options *options, struct backend **ret_backend);
/* One more mount of the store that another one has open. */
int memory_backend_join(struct backend *backend, struct backend **ret_backend);

#endif
