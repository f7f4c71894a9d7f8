/* SPDX-License-Identifier: MIT */
/* Which keys there are. */
#include <errno.h>

#include "backend/memory/internal.h"
#include "backend/memory/walk.h"
#include "backend/base/cleanup.h"

int memory_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	bool first = !after_session.data;
	struct backend_key_stat stat;
	int r = 0;

	if (!first)
		r = buf_append_bytes(&session, after_session);
	if (!first && r == 0)
		r = buf_append_bytes(&key, after_key);
	while (r == 0) {
		struct walk walk = walk_in(snapshot->map, key_make(KEY_ROW));
		bool found;

		/* Behind the last row of the key before. */
		if (!first) {
			key_add_text(&walk.key, buf_bytes(&session));
			key_add_text(&walk.key, buf_bytes(&key));
			key_add_number(&walk.key, INT64_MAX);
			walk.behind = true;
		}
		found = walk_next(&walk);
		buf_clear(&session);
		buf_clear(&key);
		if (found)
			walk.r = key_take_text(&walk.rest, &session);
		if (found && walk.r == 0)
			walk.r = key_take_text(&walk.rest, &key);
		r = walk_end(&walk);
		if (r < 0 || !found)
			return r;
		r = memory_key_stat(backend, snapshot, buf_given(&session), buf_given(&key), &stat);
		if (r == 0)
			r = fn(arg, buf_given(&session), buf_given(&key), &stat);
		first = false;
	}
	return MIN(r, 0);
}
