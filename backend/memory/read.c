/* SPDX-License-Identifier: MIT */
/* Nodes, what belongs to them, and the rows of a key. */
#include <errno.h>
#include <stdlib.h>

#include "backend/memory/internal.h"
#include "backend/memory/walk.h"
#include "backend/base/cleanup.h"

struct backend_node memory_node(struct bytes value)
{
	const char *bytes = value.data + sizeof(struct backend_node);
	struct backend_node node;

	memcpy(&node, value.data, sizeof(node));
	/* The pointers only say whether there was something. */
	node.session.data = node.session.data ? bytes : NULL;
	node.key.data = node.key.data ? bytes + node.session.size : NULL;
	node.target.data = node.target.data ? bytes + node.session.size + node.key.size : NULL;
	return node;
}

int64_t memory_number(struct bytes value)
{
	int64_t number;

	memcpy(&number, value.data, sizeof(number));
	return number;
}

int memory_snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot)
{
	struct memory_store *store = memory_of(backend)->store;
	struct backend_snapshot *snapshot = malloc(sizeof(*snapshot));

	if (!snapshot)
		return -ENOMEM;
	pthread_mutex_lock(&store->map_lock);
	snapshot->map = map_ref(store->map);
	pthread_mutex_unlock(&store->map_lock);
	if (!(flags & BACKEND_ANYWAY) && memory_feed_waits(memory_of(backend), snapshot->map)) {
		memory_snapshot_end(backend, snapshot);
		return -ESTALE;
	}
	*ret_snapshot = snapshot;
	return 0;
}

void memory_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	map_unref(snapshot->map);
	free(snapshot);
}

/* The entry of a key, which is taken over; missing is the error when there is none. */
static int entry_find(const struct map *map, struct key key, int missing,
		      const struct map_entry **ret_entry)
{
	int r = key.error;

	*ret_entry = r < 0 ? NULL : map_find(map, key_bytes(&key));
	key_done(&key);
	return r < 0 ? r : *ret_entry ? 0 : missing;
}

int memory_find_node(const struct map *map, uint64_t ino, struct backend_node *ret_node)
{
	const struct map_entry *entry;
	int r = entry_find(map, key_of_node(KEY_NODE, ino), -ENOENT, &entry);

	if (r == 0)
		*ret_node = memory_node(entry->value);
	return r;
}

int memory_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct backend_node *ret_node)
{
	struct backend_node node;
	int r = memory_find_node(snapshot->map, ino, &node);

	return r < 0 ? r : backend_node_copy(&node, ret_node);
}

int memory_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct key index = key.data ? key_of_state(KEY_FILE, session, key) : key_make(KEY_SESSION);
	const struct map_entry *entry;
	int r;

	if (!key.data)
		key_add_text(&index, session);
	r = entry_find(snapshot->map, index, -ENOENT, &entry);
	return r < 0 ? r :
		       memory_node_get(backend, snapshot, (uint64_t)memory_number(entry->value),
				       ret_node);
}

int memory_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		     bool orphans_only, backend_node_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_make(orphans_only ? KEY_ORPHAN : KEY_NODE));
	struct backend_node node;

	key_add_number(&walk.key, (int64_t)after);
	walk.behind = true;
	while (walk_next(&walk)) {
		walk.r = memory_find_node(snapshot->map, (uint64_t)key_take_number(&walk.rest),
					  &node);
		if (walk.r == 0)
			walk.r = fn(arg, &node);
	}
	return walk_end(&walk);
}

int memory_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct key key = key_of_node(KEY_NAME, parent);
	const struct map_entry *entry;
	int64_t id = 0;
	int r;

	key_add_text(&key, name);
	r = entry_find(snapshot->map, key, -ENOENT, &entry);
	if (r == 0) {
		id = memory_number(entry->value);
		key = key_of_node(KEY_ENTRY, parent);
		key_add_number(&key, id);
		r = entry_find(snapshot->map, key, -ENOENT, &entry);
	}
	if (r == 0)
		r = memory_node_get(backend, snapshot, (uint64_t)memory_number(entry->value),
				    ret_node);
	if (r == 0)
		*ret_id = (uint64_t)id;
	return r;
}

/* The name in the value of an entry. */
static struct bytes name_of(const struct map_entry *entry)
{
	return bytes_make(entry->value.data + sizeof(int64_t), entry->value.size - sizeof(int64_t));
}

int memory_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t id, struct buf *name)
{
	struct key key = key_of_node(KEY_ENTRY, parent);
	const struct map_entry *entry;
	int r;

	key_add_number(&key, (int64_t)id);
	r = entry_find(snapshot->map, key, -ENOENT, &entry);
	return r < 0 ? r : buf_append_bytes(name, name_of(entry));
}

int memory_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t after, backend_entry_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_ENTRY, parent));

	key_add_number(&walk.key, (int64_t)after);
	walk.behind = true;
	while (walk_next(&walk)) {
		struct backend_entry entry = { .parent = parent,
					       .id = (uint64_t)key_take_number(&walk.rest),
					       .name = name_of(walk.entry),
					       .ino = (uint64_t)memory_number(walk.entry->value) };
		struct backend_node node;

		if (memory_find_node(snapshot->map, entry.ino, &node) == 0)
			walk.r = fn(arg, &entry, &node);
	}
	return walk_end(&walk);
}

int memory_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     struct bytes name, struct buf *value)
{
	struct key key = key_of_node(KEY_XATTR, ino);
	const struct map_entry *entry;
	int r;

	key_add_text(&key, name);
	r = entry_find(snapshot->map, key, -ENODATA, &entry);
	return r < 0 ? r : buf_append_bytes(value, entry->value);
}

int memory_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      backend_name_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_XATTR, ino));
	_cleanup_(buf_done) struct buf name = { 0 };

	while (walk_next(&walk)) {
		buf_clear(&name);
		walk.r = key_take_text(&walk.rest, &name);
		if (walk.r == 0)
			walk.r = fn(arg, buf_bytes(&name));
	}
	return walk_end(&walk);
}

int memory_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_CHUNK, ino));

	key_add_number(&walk.key, first);
	while (walk_next(&walk)) {
		int64_t chunk = key_take_number(&walk.rest);

		walk.r = chunk > last ? 1 : fn(arg, chunk, walk.entry->value);
	}
	return walk_end(&walk);
}

static struct bytes row_data(struct bytes value)
{
	return bytes_make(value.data + sizeof(struct memory_row),
			  value.size - sizeof(struct memory_row));
}

int memory_row_read(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		    void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_state(KEY_ROW, session, key));

	key_add_number(&walk.key, first);
	while (walk_next(&walk))
		walk.r = fn(arg, key_take_number(&walk.rest), row_data(walk.entry->value));
	return walk_end(&walk);
}

int memory_row_read_back(struct backend *backend, struct backend_snapshot *snapshot,
			 struct bytes session, struct bytes key, int64_t last, uint64_t most,
			 backend_row_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_state(KEY_ROW, session, key));

	key_add_number(&walk.key, last);
	for (; most && walk_back(&walk); most--)
		walk.r = fn(arg, key_take_number(&walk.rest), row_data(walk.entry->value));
	return walk_end(&walk);
}

int memory_row_read_times(struct backend *backend, struct backend_snapshot *snapshot,
			  struct bytes session, struct bytes key, int64_t from, bool back,
			  uint64_t most, backend_row_time_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_state(KEY_ROW, session, key));
	struct memory_row row;

	key_add_number(&walk.key, from);
	for (; most && (back ? walk_back(&walk) : walk_next(&walk)); most--) {
		memcpy(&row, walk.entry->value.data, sizeof(row));
		walk.r = fn(arg, key_take_number(&walk.rest),
			    (struct backend_times){ row.created, row.updated },
			    row_data(walk.entry->value));
	}
	return walk_end(&walk);
}

int memory_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	struct walk walk = walk_in(snapshot->map, key_of_state(KEY_ROW, session, key));
	struct memory_row row;
	int64_t first = 0;

	if (walk_next(&walk))
		first = key_take_number(&walk.rest);
	key_add_number(&walk.key, INT64_MAX);
	if (walk_last(&walk)) {
		memcpy(&row, walk.entry->value.data, sizeof(row));
		*ret_stat = (struct backend_key_stat){
			.first = first,
			.last = key_take_number(&walk.rest),
			.created = row.created,
			.updated = row.updated,
		};
	}
	return walk_end(&walk);
}

int memory_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_PIECE, ino));

	key_add_number(&walk.key, first);
	key_add_number(&walk.key, first_seq);
	while (walk_next(&walk)) {
		int64_t index = key_take_number(&walk.rest);

		walk.r = fn(arg, index, key_take_number(&walk.rest), walk.entry->value);
	}
	return walk_end(&walk);
}

int memory_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     uint64_t offset, struct backend_mark *ret_mark)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_MARK, ino));

	key_add_number(&walk.key, (int64_t)MIN(offset, (uint64_t)INT64_MAX));
	if (walk_last(&walk))
		*ret_mark = (struct backend_mark){ .offset = (uint64_t)key_take_number(&walk.rest),
						   .index = memory_number(walk.entry->value) };
	return walk_end(&walk);
}

int memory_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t index, struct backend_mark *ret_mark)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_MARK_INDEX, ino));

	key_add_number(&walk.key, index);
	key_add_number(&walk.key, INT64_MAX);
	if (walk_last(&walk)) {
		ret_mark->index = key_take_number(&walk.rest);
		ret_mark->offset = (uint64_t)key_take_number(&walk.rest);
	}
	return walk_end(&walk);
}

int memory_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		    uint64_t *ret_entry)
{
	const struct memory_store *store = memory_of(backend)->store;

	*ret_ino = store->last_ino;
	*ret_entry = store->last_entry;
	return 0;
}

int memory_setting_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_setting_fn *fn, void *arg)
{
	struct walk walk = walk_in(snapshot->map, key_make(KEY_SETTING));
	_cleanup_(buf_done) struct buf name = { 0 };

	while (walk_next(&walk)) {
		buf_clear(&name);
		walk.r = key_take_text(&walk.rest, &name);
		if (walk.r == 0)
			walk.r = fn(arg, buf_bytes(&name), walk.entry->value);
	}
	return walk_end(&walk);
}
