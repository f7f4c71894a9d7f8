/* SPDX-License-Identifier: MIT */
#include "fs/upkeep/session-keys.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"

void session_keys_done(struct session_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++)
		free(keys->key[i]);
	free(keys->key);
	free(keys->size);
}

struct bytes session_key_at(const struct session_keys *keys, size_t i)
{
	return bytes_make(keys->key[i], keys->size[i]);
}

static int add_key(struct session_keys *keys, struct bytes key)
{
	for (size_t i = 0; i < keys->count; i++)
		if (bytes_equal(session_key_at(keys, i), key))
			return 0;
	if (ARRAY_ROOM(keys->key, keys->count, keys->room) < 0 ||
	    ARRAY_ROOM(keys->size, keys->count, keys->size_room) < 0)
		return -ENOMEM;
	keys->key[keys->count] = bytes_dup(key);
	keys->size[keys->count] = key.size;
	return keys->key[keys->count] ? (keys->count++, 0) : -ENOMEM;
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	(void)session;
	(void)stat;
	return add_key(arg, key);
}

static int on_past(void *arg, const struct backend_past_key *key)
{
	struct session_keys *keys = arg;

	if (key->ino || !bytes_equal(key->session, keys->session))
		return 1;
	return add_key(keys, key->key);
}

int session_keys_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct session_keys *keys)
{
	const struct backend_past_key before = { 0, session, BYTES("") };
	const struct bytes all = { 0 };
	int r;

	keys->session = session;
	if (key.data)
		return add_key(keys, key);
	r = backend_session_keys(backend, snapshot, session, all, on_key, keys);
	return r < 0 ? r : backend_past_keys(backend, snapshot, &before, on_past, keys);
}
