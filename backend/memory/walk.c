/* SPDX-License-Identifier: MIT */
#include "backend/memory/walk.h"

#include "backend/base/cleanup.h"

struct walk walk_in(const struct map *map, struct key prefix)
{
	return (struct walk){ .map = map, .key = prefix, .prefix_size = prefix.buf.size };
}

/* Is the entry one of ours? */
static bool walk_here(struct walk *walk)
{
	struct bytes prefix = bytes_make(walk->key.buf.data, walk->prefix_size);

	if (!walk->entry || !bytes_starts_with(walk->entry->key, prefix))
		return false;
	walk->rest = bytes_make(walk->entry->key.data + prefix.size,
				walk->entry->key.size - prefix.size);
	return true;
}

bool walk_next(struct walk *walk)
{
	if (walk->r == 0)
		walk->r = walk->key.error;
	if (walk->r)
		return false;
	if (walk->entry)
		walk->entry = map_after(walk->map, walk->entry->key, false);
	else
		walk->entry = map_after(walk->map, key_bytes(&walk->key), !walk->behind);
	return walk_here(walk);
}

bool walk_back(struct walk *walk)
{
	if (walk->r == 0)
		walk->r = walk->key.error;
	if (walk->r)
		return false;
	if (walk->entry)
		walk->entry = map_before(walk->map, walk->entry->key, false);
	else
		walk->entry = map_before(walk->map, key_bytes(&walk->key), true);
	return walk_here(walk);
}

bool walk_last(struct walk *walk)
{
	walk->r = walk->key.error;
	walk->entry = walk->r < 0 ? NULL : map_before(walk->map, key_bytes(&walk->key), true);
	return walk_here(walk);
}

int walk_end(struct walk *walk)
{
	key_done(&walk->key);
	return MIN(walk->r, 0);
}
