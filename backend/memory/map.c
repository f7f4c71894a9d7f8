/* SPDX-License-Identifier: MIT */
/*
 * A treap: a search tree by key that is a heap by priority.  Priorities are a hash of the key, so
 * the shape of a map follows from its keys alone, and is balanced unless the keys were chosen to
 * unbalance it.
 */
#include "backend/memory/map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

struct item {
	atomic_uint refs;
	struct map_entry entry;
	char bytes[]; /* key, value */
};

struct map {
	atomic_uint refs;
	uint32_t priority;
	struct map *left;
	struct map *right;
	struct item *item;
};

static struct item *item_new(struct bytes key, struct bytes value)
{
	struct item *item = malloc(sizeof(*item) + key.size + value.size);

	if (!item)
		return NULL;
	atomic_init(&item->refs, 1);
	if (key.size)
		memcpy(item->bytes, key.data, key.size);
	if (value.size)
		memcpy(item->bytes + key.size, value.data, value.size);
	item->entry.key = bytes_make(item->bytes, key.size);
	item->entry.value = bytes_make(item->bytes + key.size, value.size);
	return item;
}

static struct item *item_ref(struct item *item)
{
	atomic_fetch_add(&item->refs, 1);
	return item;
}

static void item_unref(struct item *item)
{
	if (atomic_fetch_sub(&item->refs, 1) == 1)
		free(item);
}

struct map *map_ref(struct map *map)
{
	if (map)
		atomic_fetch_add(&map->refs, 1);
	return map;
}

void map_unref(struct map *map)
{
	if (!map || atomic_fetch_sub(&map->refs, 1) > 1)
		return;
	map_unref(map->left);
	map_unref(map->right);
	item_unref(map->item);
	free(map);
}

/* Its bits mixed once more. */
static uint32_t hash(struct bytes key)
{
	uint64_t h = bytes_hash(BYTES_HASH, key);

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return (uint32_t)(h >> 32);
}

/* Takes over all references handed in, also when it fails. */
static struct map *node_new(struct item *item, uint32_t priority, struct map *left,
			    struct map *right)
{
	struct map *node = malloc(sizeof(*node));

	if (!node) {
		map_unref(left);
		map_unref(right);
		item_unref(item);
		return NULL;
	}
	*node = (struct map){ .priority = priority, .left = left, .right = right, .item = item };
	atomic_init(&node->refs, 1);
	return node;
}

static int insert(const struct map *map, struct item *item, struct map **ret_map)
{
	struct map *child = NULL, *node, **inner;
	int order, r;

	if (!map) {
		*ret_map = node_new(item_ref(item), hash(item->entry.key), NULL, NULL);
		return *ret_map ? 0 : -ENOMEM;
	}
	order = bytes_compare(item->entry.key, map->item->entry.key);
	if (order == 0) {
		*ret_map = node_new(item_ref(item), map->priority, map_ref(map->left),
				    map_ref(map->right));
		return *ret_map ? 0 : -ENOMEM;
	}
	r = insert(order < 0 ? map->left : map->right, item, &child);
	if (r < 0)
		return r;
	node = node_new(item_ref(map->item), map->priority, order < 0 ? child : map_ref(map->left),
			order < 0 ? map_ref(map->right) : child);
	if (!node)
		return -ENOMEM;
	*ret_map = node;
	if (child->priority > node->priority) {
		/* Both were just made, so other threads do not see them change places. */
		inner = order < 0 ? &child->right : &child->left;
		*(order < 0 ? &node->left : &node->right) = *inner;
		*inner = node;
		*ret_map = child;
	}
	return 0;
}

int map_put(struct map *map, struct bytes key, struct bytes value, struct map **ret_map)
{
	struct item *item = item_new(key, value);
	int r;

	if (!item)
		return -ENOMEM;
	r = insert(map, item, ret_map);
	item_unref(item);
	return r;
}

/* All keys of left are below those of right. */
static int join(struct map *left, struct map *right, struct map **ret_map)
{
	struct map *child = NULL;
	int r;

	if (!left || !right) {
		*ret_map = map_ref(left ? left : right);
		return 0;
	}
	if (left->priority > right->priority) {
		r = join(left->right, right, &child);
		if (r < 0)
			return r;
		*ret_map =
			node_new(item_ref(left->item), left->priority, map_ref(left->left), child);
	} else {
		r = join(left, right->left, &child);
		if (r < 0)
			return r;
		*ret_map = node_new(item_ref(right->item), right->priority, child,
				    map_ref(right->right));
	}
	return *ret_map ? 0 : -ENOMEM;
}

/* The key is there. */
static int erase(const struct map *map, struct bytes key, struct map **ret_map)
{
	int order = bytes_compare(key, map->item->entry.key);
	struct map *child = NULL;
	int r;

	if (order == 0)
		return join(map->left, map->right, ret_map);
	r = erase(order < 0 ? map->left : map->right, key, &child);
	if (r < 0)
		return r;
	*ret_map =
		node_new(item_ref(map->item), map->priority, order < 0 ? child : map_ref(map->left),
			 order < 0 ? map_ref(map->right) : child);
	return *ret_map ? 0 : -ENOMEM;
}

int map_delete(struct map *map, struct bytes key, struct map **ret_map)
{
	if (map_find(map, key))
		return erase(map, key, ret_map);
	*ret_map = map_ref(map);
	return 0;
}

const struct map_entry *map_find(const struct map *map, struct bytes key)
{
	const struct map_entry *entry = map_before(map, key, true);

	return entry && bytes_equal(entry->key, key) ? entry : NULL;
}

const struct map_entry *map_after(const struct map *map, struct bytes key, bool inclusive)
{
	const struct map_entry *best = NULL;

	while (map) {
		int order = bytes_compare(map->item->entry.key, key);

		if (order > 0 || (order == 0 && inclusive)) {
			best = &map->item->entry;
			map = map->left;
		} else {
			map = map->right;
		}
	}
	return best;
}

const struct map_entry *map_before(const struct map *map, struct bytes key, bool inclusive)
{
	const struct map_entry *best = NULL;

	while (map) {
		int order = bytes_compare(map->item->entry.key, key);

		if (order < 0 || (order == 0 && inclusive)) {
			best = &map->item->entry;
			map = map->right;
		} else {
			map = map->left;
		}
	}
	return best;
}
