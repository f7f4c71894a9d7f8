/* SPDX-License-Identifier: MIT */
#include "src/search/walk.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/base/array.h"
#include "backend/base/tick.h"

enum { WAITING_MOST = 1000 }; /* keys that are remembered; of more, any may have changed */
static const int64_t SNAPSHOT_MOST = INT64_C(5000000000);

static int on_change(void *arg, const struct backend_change *change)
{
	struct walk *walk = arg;
	struct waiting *waiting;

	if (!change->session.data || walk->count == WAITING_MOST) {
		walk->all = true;
		return 0;
	}
	if (ARRAY_ROOM(walk->waiting, walk->count, walk->room) < 0)
		return -ENOMEM;
	waiting = &walk->waiting[walk->count++];
	*waiting = (struct waiting){
		.session = bytes_make(bytes_dup(change->session), change->session.size),
		.key = bytes_make(bytes_dup(change->key), change->key.size),
	};
	return waiting->session.data && waiting->key.data ? 0 : -ENOMEM;
}

int walk_changes(struct walk *walk)
{
	struct backend *backend = walk->backend;
	int r = backend_change_list(backend, walk->snapshot, on_change, walk);

	/* With pending changes, one snapshot without a limit must do: their keys are read again
	 * each time. */
	if (!walk->most)
		walk->most = SNAPSHOT_MOST;
	walk->until = walk->count || walk->all ? 0 : tick_now() + walk->most;
	return r;
}

bool walk_is_waiting(struct walk *walk, struct bytes session, struct bytes key)
{
	bool waits = walk->all;

	for (size_t i = 0; i < walk->count; i++) {
		struct waiting *waiting = &walk->waiting[i];

		if (bytes_equal(waiting->session, session) && bytes_equal(waiting->key, key))
			waits = waiting->seen = true;
	}
	return waits;
}

bool walk_is_late(struct walk *walk)
{
	walk->late = walk->until && tick_now() > walk->until;
	if (walk->late)
		walk->most += walk->most / 4;
	return walk->late;
}

int walk_bring_up(struct walk *walk)
{
	struct backend *backend = walk->backend;
	int r;

	do {
		r = backend->ops->snapshot_begin(backend, BACKEND_ANYWAY | BACKEND_LATEST,
						 &walk->snapshot);
		if (r < 0)
			break;
		walk->late = false;
		r = walk->look(walk);
		for (size_t i = 0; i < walk->count; i++) {
			free((char *)walk->waiting[i].session.data);
			free((char *)walk->waiting[i].key.data);
		}
		walk->count = 0;
		walk->all = false;
		if (r != 0)
			backend->ops->snapshot_end(backend, walk->snapshot);
	} while (r > 0);
	free(walk->waiting);
	return r;
}
