/* SPDX-License-Identifier: MIT */
#include "fs/upkeep/session-keys.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"

void session_keys_done(struct session_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++)
		free((void *)(uintptr_t)keys->item[i].session.data);
	free(keys->item);
}

int session_keys_add(void *arg, const struct backend_past_key *key)
{
	struct session_keys *keys = arg;
	struct buf both = { 0 };

	if (ARRAY_ROOM(keys->item, keys->count, keys->room) < 0 ||
	    buf_join(&both, key->session, key->key, BYTES("\0")) < 0) {
		buf_done(&both);
		return -ENOMEM;
	}
	keys->item[keys->count++] = (struct backend_past_key){
		.ino = key->ino,
		.session = bytes_make(both.data, key->session.size),
		.key = bytes_make(both.data + key->session.size, key->key.size),
	};
	return 0;
}

static int add_once(struct session_keys *keys, struct bytes key)
{
	for (size_t i = 0; i < keys->count; i++)
		if (bytes_equal(keys->item[i].key, key))
			return 0;
	return session_keys_add(keys, &(struct backend_past_key){ 0, keys->session, key });
}

static int on_key(void *arg, struct bytes session, struct bytes key,
		  const struct backend_key_stat *stat)
{
	(void)session, (void)stat;
	return add_once(arg, key);
}

static int on_past(void *arg, const struct backend_past_key *key)
{
	struct session_keys *keys = arg;

	return key->ino || !bytes_equal(key->session, keys->session) ? 1 : add_once(keys, key->key);
}

int session_keys_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct session_keys *keys)
{
	const struct backend_past_key before = { 0, session, BYTES("") };
	const struct bytes all = { 0 };
	int r;

	keys->session = session;
	if (key.data)
		return add_once(keys, key);
	r = backend_session_keys(backend, snapshot, session, all, on_key, keys);
	return r < 0 ? r : backend_past_keys(backend, snapshot, &before, on_past, keys);
}
