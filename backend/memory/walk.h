/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_WALK_H
#define BACKEND_MEMORY_WALK_H

/*
 * All entries of one table whose keys begin with a prefix, one after the other.
 *
 *	struct walk walk = walk_in(map, key_of_node(KEY_CHUNK, ino));
 *
 *	key_add_number(&walk.key, first);
 *	while (walk_next(&walk))
 *		walk.r = fn(arg, key_take_number(&walk.rest), walk.entry->value);
 *	return walk_end(&walk);
 *
 * A failure, or what a callback stops with, is remembered in r, and then there is no further entry.
 */

#include "backend/memory/key.h"
#include "backend/memory/map.h"

struct walk {
	const struct map *map;
	struct key key; /* the prefix, and behind it where to begin */
	size_t prefix_size;
	bool behind; /* begin behind the key, not at it */
	const struct map_entry *entry;
	struct bytes rest; /* of its key, behind the prefix */
	int r;
};

/* Takes the prefix over. */
struct walk walk_in(const struct map *map, struct key prefix);
/* Whether there is one more entry. */
bool walk_next(struct walk *walk);
/* The same the other way, from the key or before it. */
bool walk_back(struct walk *walk);
/* Whether there is an entry at the key or before it, the last of them; else r is -ENOENT. */
bool walk_last(struct walk *walk);
/* 0, also when a callback has stopped it, or what has failed. */
int walk_end(struct walk *walk);

#endif
