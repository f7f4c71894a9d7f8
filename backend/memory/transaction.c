/* SPDX-License-Identifier: MIT */
#include "backend/memory/transaction.h"

#include <errno.h>

static uint64_t weight(const struct map_entry *entry)
{
	return entry ? entry->key.size + entry->value.size : 0;
}

static void replace_map(struct transaction *transaction, struct map *map)
{
	map_unref(transaction->map);
	transaction->map = map;
}

int transaction_put(struct transaction *transaction, const struct key *key, struct bytes value)
{
	uint64_t used, limit = transaction->store->max_size;
	const struct map_entry *old;
	struct map *map;
	int r;

	if (key->error < 0)
		return key->error;
	old = map_find(transaction->map, key_bytes(key));
	used = transaction->used - weight(old) + key->buf.size + value.size;
	if (limit && used > limit && used > transaction->used)
		return -ENOSPC;
	r = map_put(transaction->map, key_bytes(key), value, &map);
	if (r < 0)
		return r;
	replace_map(transaction, map);
	transaction->used = used;
	return 0;
}

int transaction_erase(struct transaction *transaction, struct bytes key)
{
	uint64_t freed = weight(map_find(transaction->map, key));
	struct map *map;
	int r = map_delete(transaction->map, key, &map);

	if (r < 0)
		return r;
	replace_map(transaction, map);
	transaction->used -= freed;
	return 0;
}

int transaction_erase_key(struct transaction *transaction, const struct key *key)
{
	return key->error < 0 ? key->error : transaction_erase(transaction, key_bytes(key));
}

const struct map_entry *transaction_find(const struct transaction *transaction,
					 const struct key *key)
{
	return key->error < 0 ? NULL : map_find(transaction->map, key_bytes(key));
}

int transaction_erase_range(struct transaction *transaction, const struct key *from,
			    const struct key *to)
{
	const struct map_entry *entry;
	int r = from->error < 0 ? from->error : to->error;

	while (r == 0) {
		entry = map_after(transaction->map, key_bytes(from), true);
		if (!entry || (bytes_compare(entry->key, key_bytes(to)) > 0 &&
			       !bytes_starts_with(entry->key, key_bytes(to))))
			return 0;
		r = transaction_erase(transaction, entry->key);
	}
	return r;
}
