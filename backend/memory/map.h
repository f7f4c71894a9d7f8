/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_MEMORY_MAP_H
#define BACKEND_MEMORY_MAP_H

/*
 * An ordered map from bytes to bytes that never changes: putting and deleting make a new map, which
 * shares most of its nodes with the old one.  So a snapshot is a reference to a map, and a batch
 * that fails half-way is a new map that is thrown away.
 *
 * Order is bytes_compare().  An empty map is NULL.  References are counted atomically: maps may be
 * read, referenced and released from any thread.
 */

#include <stdbool.h>

#include "backend/base/buf.h"

struct map;

struct map_entry {
	struct bytes key;
	struct bytes value;
};

struct map *map_ref(struct map *map);
/* NULL is fine. */
void map_unref(struct map *map);

/* Insert or replace; key and value are copied.  0 or -ENOMEM; map itself stays as it is, and so
 * does the caller's reference to it. */
int map_put(struct map *map, struct bytes key, struct bytes value, struct map **ret_map);
/* Nothing there: a new reference to the same map. */
int map_delete(struct map *map, struct bytes key, struct map **ret_map);

/* What is found lives as long as the map.  NULL: none. */
const struct map_entry *map_find(const struct map *map, struct bytes key);
/* The first one behind key; with inclusive, also the one at it. */
const struct map_entry *map_after(const struct map *map, struct bytes key, bool inclusive);
/* The last one before key; with inclusive, also the one at it. */
const struct map_entry *map_before(const struct map *map, struct bytes key, bool inclusive);

#endif
