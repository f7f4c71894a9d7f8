/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_SESSION_KEYS_H
#define FS_UPKEEP_SESSION_KEYS_H

/* The keys of a session that have rows or had some (backend/history.h). */

#include "backend/backend.h"

struct session_keys {
	struct bytes session;
	char **key;
	size_t *size;
	size_t count;
	size_t room;
	size_t size_room;
};

void session_keys_done(struct session_keys *keys);
struct bytes session_key_at(const struct session_keys *keys, size_t i);
/* The one key, if it has data. */
int session_keys_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct session_keys *keys);

#endif
