/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_KEYS_H
#define BACKEND_REDIS_KEYS_H

/* Which sessions there are, as a snapshot has found them. */

#include "backend/redis/store.h"

struct keys_found {
	char **sessions; /* each with its size in front; in their order */
	size_t count, room;
};

void keys_found_free(struct keys_found *found); /* NULL is fine */
/* The keys of Redis that begin so, unsorted; some perhaps twice. */
int redis_scan(struct redis *store, const char *begins, const char *ends,
	       int (*fn)(void *arg, struct bytes key), void *arg);

#endif
