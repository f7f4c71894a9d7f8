/* SPDX-License-Identifier: MIT */
#ifndef FS_UPKEEP_SESSION_KEYS_H
#define FS_UPKEEP_SESSION_KEYS_H

/* Keys of sessions, kept until the store may be asked again.  They own their bytes. */

#include "backend/backend.h"

struct session_keys {
	struct bytes session; /* of session_keys_find() */
	struct backend_past_key *item;
	size_t count;
	size_t room;
};

void session_keys_done(struct session_keys *keys);
/* A backend_past_key_fn; arg is a struct session_keys. */
int session_keys_add(void *arg, const struct backend_past_key *key);
/* Those of a session that have rows or had some (backend/history.h), each once.  The one key, if it
 * has data. */
int session_keys_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct session_keys *keys);

#endif
