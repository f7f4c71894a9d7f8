/* SPDX-License-Identifier: MIT */
#include "backend/memory/walk.h"

#include <errno.h>

#include "backend/base/cleanup.h"

struct walk walk_in(const struct map *map, struct key prefix)
{
	return (struct walk){ .map = map, .key = prefix, .prefix_size = prefix.buf.size };
}

/* To the entry before or behind the last one, or where the walk begins: whether it is ours. */
static bool walk_step(struct walk *walk, bool back)
{
	struct bytes from = walk->entry ? walk->entry->key : key_bytes(&walk->key);
	struct bytes prefix = bytes_make(walk->key.buf.data, walk->prefix_size);

	if (walk->r == 0)
		walk->r = walk->key.error;
	if (walk->r)
		return false;
	walk->entry = back ? map_before(walk->map, from, !walk->entry) :
			     map_after(walk->map, from, !walk->entry && !walk->behind);
	if (!walk->entry || !bytes_starts_with(walk->entry->key, prefix))
		return false;
	walk->rest = bytes_make(walk->entry->key.data + prefix.size,
				walk->entry->key.size - prefix.size);
	return true;
}

bool walk_next(struct walk *walk)
{
	return walk_step(walk, false);
}

bool walk_back(struct walk *walk)
{
	return walk_step(walk, true);
}

bool walk_last(struct walk *walk)
{
	walk->entry = NULL;
	if (!walk_step(walk, true) && walk->r == 0)
		walk->r = -ENOENT;
	return walk->r == 0;
}

int walk_end(struct walk *walk)
{
	key_done(&walk->key);
	return MIN(walk->r, 0);
}
