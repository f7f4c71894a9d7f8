/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "backend/days.h"
#include "backend/memory/internal.h"
#include "src/base/cleanup.h"

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
	struct memory *memory = memory_of(backend);
	struct backend_snapshot *snapshot = malloc(sizeof(*snapshot));

	(void)flags;
	if (!snapshot)
		return -ENOMEM;
	pthread_mutex_lock(&memory->map_lock);
	snapshot->map = map_ref(memory->map);
	pthread_mutex_unlock(&memory->map_lock);
	*ret_snapshot = snapshot;
	return 0;
}

void memory_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	(void)backend;
	map_unref(snapshot->map);
	free(snapshot);
}

/* All entries of one table whose keys begin with a prefix, one after the other. */
struct walk {
	const struct map *map;
	struct key prefix; /* and, behind prefix_size, where to begin */
	size_t prefix_size;
	const struct map_entry *entry;
};

static void walk_done(struct walk *walk)
{
	key_done(&walk->prefix);
}

/* The first entry at the key, or behind it; 1 with walk->entry, 0 at the end. */
static int walk_start(struct walk *walk, bool inclusive)
{
	if (walk->prefix.error < 0)
		return walk->prefix.error;
	walk->entry = map_after(walk->map, key_bytes(&walk->prefix), inclusive);
	return 1;
}

/* Is the entry one of ours?  rest is its key behind the prefix. */
static bool walk_here(const struct walk *walk, struct bytes *ret_rest)
{
	struct bytes prefix = bytes_make(walk->prefix.buf.data, walk->prefix_size);
	struct bytes key;

	if (!walk->entry || walk->entry->key.size < prefix.size)
		return false;
	key = walk->entry->key;
	if (!bytes_equal(bytes_make(key.data, prefix.size), prefix))
		return false;
	*ret_rest = bytes_make(key.data + prefix.size, key.size - prefix.size);
	return true;
}

static void walk_next(struct walk *walk)
{
	walk->entry = map_after(walk->map, walk->entry->key, false);
}

/* table, number: the prefix of most. */
static void walk_number(struct walk *walk, const struct map *map, enum key_table table, uint64_t id)
{
	*walk = (struct walk){ .map = map };
	key_start(&walk->prefix, table);
	key_add_number(&walk->prefix, (int64_t)id);
	walk->prefix_size = walk->prefix.buf.size;
}

static int find_node(const struct map *map, uint64_t ino, struct backend_node *ret_node)
{
	_cleanup_(key_done) struct key key = { 0 };
	const struct map_entry *entry;

	key_start(&key, KEY_NODE);
	key_add_number(&key, (int64_t)ino);
	if (key.error < 0)
		return key.error;
	entry = map_find(map, key_bytes(&key));
	if (!entry)
		return -ENOENT;
	*ret_node = memory_node(entry->value);
	return 0;
}

static int copy_node(const struct map *map, uint64_t ino, struct backend_node *ret_node)
{
	struct backend_node node;
	int r = find_node(map, ino, &node);

	return r < 0 ? r : backend_node_copy(&node, ret_node);
}

int memory_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct backend_node *ret_node)
{
	(void)backend;
	return copy_node(snapshot->map, ino, ret_node);
}

int memory_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	_cleanup_(key_done) struct key index = { 0 };
	const struct map_entry *entry;

	(void)backend;
	key_start(&index, key.data ? KEY_FILE : KEY_SESSION);
	key_add_text(&index, session);
	if (key.data)
		key_add_text(&index, key);
	if (index.error < 0)
		return index.error;
	entry = map_find(snapshot->map, key_bytes(&index));
	if (!entry)
		return -ENOENT;
	return copy_node(snapshot->map, (uint64_t)memory_number(entry->value), ret_node);
}

int memory_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		     bool orphans_only, backend_node_fn *fn, void *arg)
{
	_cleanup_(walk_done) struct walk walk = { .map = snapshot->map };
	struct backend_node node;
	struct bytes rest;
	int r;

	(void)backend;
	key_start(&walk.prefix, orphans_only ? KEY_ORPHAN : KEY_NODE);
	walk.prefix_size = walk.prefix.buf.size;
	key_add_number(&walk.prefix, (int64_t)after);
	for (r = walk_start(&walk, false); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		r = find_node(snapshot->map, (uint64_t)key_take_number(&rest), &node);
		if (r == 0)
			r = fn(arg, &node);
		if (r)
			return MIN(r, 0);
		r = 1;
	}
	return MIN(r, 0);
}

int memory_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	_cleanup_(key_done) struct key key = { 0 };
	const struct map_entry *entry;
	int64_t id;
	int r;

	(void)backend;
	key_start(&key, KEY_NAME);
	key_add_number(&key, (int64_t)parent);
	key_add_text(&key, name);
	if (key.error < 0)
		return key.error;
	entry = map_find(snapshot->map, key_bytes(&key));
	if (!entry)
		return -ENOENT;
	id = memory_number(entry->value);
	key_start(&key, KEY_ENTRY);
	key_add_number(&key, (int64_t)parent);
	key_add_number(&key, id);
	if (key.error < 0)
		return key.error;
	entry = map_find(snapshot->map, key_bytes(&key));
	r = copy_node(snapshot->map, (uint64_t)memory_number(entry->value), ret_node);
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
	_cleanup_(key_done) struct key key = { 0 };
	const struct map_entry *entry;

	(void)backend;
	key_start(&key, KEY_ENTRY);
	key_add_number(&key, (int64_t)parent);
	key_add_number(&key, (int64_t)id);
	if (key.error < 0)
		return key.error;
	entry = map_find(snapshot->map, key_bytes(&key));
	return entry ? buf_append_bytes(name, name_of(entry)) : -ENOENT;
}

int memory_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t after, backend_entry_fn *fn, void *arg)
{
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;
	int r;

	(void)backend;
	walk_number(&walk, snapshot->map, KEY_ENTRY, parent);
	key_add_number(&walk.prefix, (int64_t)after);
	for (r = walk_start(&walk, false); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		struct backend_entry entry = { .parent = parent,
					       .id = (uint64_t)key_take_number(&rest),
					       .name = name_of(walk.entry),
					       .ino = (uint64_t)memory_number(walk.entry->value) };
		struct backend_node node;

		r = find_node(snapshot->map, entry.ino, &node);
		if (r == 0)
			r = fn(arg, &entry, &node);
		if (r && r != -ENOENT)
			return MIN(r, 0);
		r = 1;
	}
	return MIN(r, 0);
}

int memory_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     struct bytes name, struct buf *value)
{
	_cleanup_(key_done) struct key key = { 0 };
	const struct map_entry *entry;

	(void)backend;
	key_start(&key, KEY_XATTR);
	key_add_number(&key, (int64_t)ino);
	key_add_text(&key, name);
	if (key.error < 0)
		return key.error;
	entry = map_find(snapshot->map, key_bytes(&key));
	return entry ? buf_append_bytes(value, entry->value) : -ENODATA;
}

int memory_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      backend_name_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;
	int r;

	(void)backend;
	walk_number(&walk, snapshot->map, KEY_XATTR, ino);
	for (r = walk_start(&walk, true); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		buf_clear(&name);
		r = key_take_text(&rest, &name);
		if (r == 0)
			r = fn(arg, buf_bytes(&name));
		if (r)
			return MIN(r, 0);
		r = 1;
	}
	return MIN(r, 0);
}

int memory_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;
	int r;

	(void)backend;
	walk_number(&walk, snapshot->map, KEY_CHUNK, ino);
	key_add_number(&walk.prefix, first);
	for (r = walk_start(&walk, true); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		int64_t chunk = key_take_number(&rest);

		r = chunk > last ? 1 : fn(arg, chunk, walk.entry->value);
		if (r)
			return MIN(r, 0);
		r = 1;
	}
	return MIN(r, 0);
}

struct sizes {
	backend_chunk_size_fn *fn;
	void *arg;
};

static int tell_size(void *arg, int64_t chunk, struct bytes data)
{
	const struct sizes *sizes = arg;

	return sizes->fn(sizes->arg, chunk, data.size);
}

int memory_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg)
{
	struct sizes sizes = { .fn = fn, .arg = arg };

	return memory_chunk_read(backend, snapshot, ino, first, last, tell_size, &sizes);
}

static void walk_rows(struct walk *walk, const struct map *map, struct bytes session,
		      struct bytes key)
{
	*walk = (struct walk){ .map = map };
	key_start(&walk->prefix, KEY_ROW);
	key_add_text(&walk->prefix, session);
	key_add_text(&walk->prefix, key);
	walk->prefix_size = walk->prefix.buf.size;
}

int memory_row_read(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		    void *arg)
{
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;
	int r;

	(void)backend;
	walk_rows(&walk, snapshot->map, session, key);
	key_add_number(&walk.prefix, first);
	for (r = walk_start(&walk, true); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		struct bytes value = walk.entry->value;

		r = fn(arg, key_take_number(&rest),
		       bytes_make(value.data + sizeof(struct memory_row),
				  value.size - sizeof(struct memory_row)));
		if (r)
			return MIN(r, 0);
		r = 1;
	}
	return MIN(r, 0);
}

int memory_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	_cleanup_(walk_done) struct walk walk;
	struct backend_key_stat stat;
	struct memory_row row;
	struct bytes rest;
	int r;

	(void)backend;
	walk_rows(&walk, snapshot->map, session, key);
	r = walk_start(&walk, true);
	if (r < 0)
		return r;
	if (!walk_here(&walk, &rest))
		return -ENOENT;
	stat.first = key_take_number(&rest);
	key_add_number(&walk.prefix, INT64_MAX);
	if (walk.prefix.error < 0)
		return walk.prefix.error;
	walk.entry = map_before(snapshot->map, key_bytes(&walk.prefix));
	memcpy(&row, walk.entry->value.data, sizeof(row));
	stat.created = row.created;
	stat.updated = row.updated;
	walk_here(&walk, &rest);
	stat.last = key_take_number(&rest);
	*ret_stat = stat;
	return 0;
}

/* Tell about the key to which a row belongs, and leave in position where the next key begins. */
static int tell_key(struct backend *backend, struct backend_snapshot *snapshot, struct bytes rest,
		    struct key *position, backend_key_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 };
	_cleanup_(buf_done) struct buf key = { 0 };
	struct backend_key_stat stat;
	struct bytes a, b;
	int r = key_take_text(&rest, &session);

	if (r == 0)
		r = key_take_text(&rest, &key);
	if (r < 0)
		return r;
	a = bytes_make(session.data ? session.data : "", session.size);
	b = bytes_make(key.data ? key.data : "", key.size);
	r = memory_key_stat(backend, snapshot, a, b, &stat);
	if (r == 0)
		r = fn(arg, a, b, &stat);
	key_start(position, KEY_ROW);
	key_add_text(position, a);
	key_add_text(position, b);
	key_add_number(position, INT64_MAX);
	return r;
}

int memory_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg)
{
	_cleanup_(walk_done) struct walk walk = { .map = snapshot->map };
	struct bytes rest;
	int r;

	key_start(&walk.prefix, KEY_ROW);
	walk.prefix_size = walk.prefix.buf.size;
	if (after_session.data) {
		key_add_text(&walk.prefix, after_session);
		key_add_text(&walk.prefix, after_key);
		key_add_number(&walk.prefix, INT64_MAX);
	}
	while ((r = walk_start(&walk, false)) > 0 && walk_here(&walk, &rest)) {
		r = tell_key(backend, snapshot, rest, &walk.prefix, fn, arg);
		if (r)
			return MIN(r, 0);
	}
	return MIN(r, 0);
}

/* The bytes of a buffer, of which an empty one may have none. */
static struct bytes present(const struct buf *buf)
{
	return bytes_make(buf->data ? buf->data : "", buf->size);
}

/* The first session behind another one (NULL: of all) that a table has: 1, or 0 without one. */
static int next_session(struct map *map, enum key_table table, const struct buf *after,
			struct buf *session)
{
	_cleanup_(walk_done) struct walk walk = { .map = map };
	struct bytes rest;
	int r;

	key_start(&walk.prefix, table);
	walk.prefix_size = walk.prefix.buf.size;
	if (after)
		key_add_text(&walk.prefix, present(after));
	/* Behind all that begins with this text, before any that it is the beginning of. */
	if (after && !walk.prefix.error)
		walk.prefix.buf.data[walk.prefix.buf.size - 1] = 1;
	r = walk_start(&walk, false);
	if (r < 0 || !walk_here(&walk, &rest))
		return MIN(r, 0);
	buf_clear(session);
	r = key_take_text(&rest, session);
	return r < 0 ? r : 1;
}

static void add_row(struct backend_session_stat *stat, struct bytes value)
{
	struct memory_row row;

	memcpy(&row, value.data, sizeof(row));
	stat->created = stat->items ? MIN(stat->created, row.created) : row.created;
	stat->updated = MAX(stat->updated, row.updated);
	stat->items++;
	stat->bytes += value.size - sizeof(row);
}

/* All rows of a session; -ENOENT when there are none. */
static int add_session(struct map *map, const struct buf *session,
		       struct backend_session_stat *stat)
{
	_cleanup_(walk_done) struct walk walk = { .map = map };
	_cleanup_(buf_done) struct buf key = { 0 }, last = { 0 };
	struct bytes rest;
	int r;

	key_start(&walk.prefix, KEY_ROW);
	key_add_text(&walk.prefix, present(session));
	walk.prefix_size = walk.prefix.buf.size;
	for (r = walk_start(&walk, true); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		buf_clear(&key);
		r = key_take_text(&rest, &key);
		if (r == 0 && (!stat->items || !bytes_equal(buf_bytes(&key), buf_bytes(&last)))) {
			stat->keys++;
			buf_clear(&last);
			r = buf_append_bytes(&last, buf_bytes(&key));
		}
		if (r < 0)
			return r;
		add_row(stat, walk.entry->value);
		r = 1;
	}
	return r < 0 ? r : stat->items ? 0 : -ENOENT;
}

static int stat_session(struct backend *backend, struct backend_snapshot *snapshot,
			const struct buf *session, struct backend_session_stat *ret_stat)
{
	struct backend_session_stat stat = { 0 };
	struct backend_node node;
	int r = add_session(snapshot->map, session, &stat);

	if (r == -ENOENT) {
		r = memory_node_find(backend, snapshot, present(session), (struct bytes){ 0 },
				     &node);
		if (r == 0) {
			stat.updated = node.mtime;
			backend_node_done(&node);
		}
	}
	if (r == 0)
		*ret_stat = stat;
	return r;
}

int memory_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat)
{
	_cleanup_(buf_done) struct buf id = { 0 };
	struct backend_session_stat stat = { 0 };
	int r = buf_append_bytes(&id, session);

	(void)backend;
	if (r == 0)
		r = add_session(snapshot->map, &id, &stat);
	if (r == 0)
		*ret_stat = stat;
	return r;
}

/* The next session that either table has. */
static int next_of_both(struct map *map, const struct buf *after, struct buf *session)
{
	_cleanup_(buf_done) struct buf named = { 0 };
	int rows = next_session(map, KEY_ROW, after, session);
	int r = rows < 0 ? rows : next_session(map, KEY_SESSION, after, &named);

	if (r < 0)
		return r;
	if (r > 0 && (!rows || bytes_compare(buf_bytes(&named), buf_bytes(session)) < 0)) {
		struct buf swapped = *session;

		*session = named;
		named = swapped;
	}
	return rows || r;
}

int memory_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, next = { 0 };
	struct backend_session_stat stat;
	int r = next_of_both(snapshot->map, NULL, &next);

	while (r > 0) {
		struct buf swapped = session;

		session = next;
		next = swapped;
		r = stat_session(backend, snapshot, &session, &stat);
		if (r == 0)
			r = fn(arg, present(&session), &stat);
		if (r)
			return MIN(r, 0);
		r = next_of_both(snapshot->map, &session, &next);
	}
	return r;
}

int memory_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg)
{
	_cleanup_(backend_days_done) struct backend_days days = { 0 };
	_cleanup_(walk_done) struct walk walk = { .map = snapshot->map };
	struct memory_row row;
	struct bytes rest;
	int r;

	(void)backend;
	key_start(&walk.prefix, KEY_ROW);
	walk.prefix_size = walk.prefix.buf.size;
	for (r = walk_start(&walk, true); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		struct bytes value = walk.entry->value;

		memcpy(&row, value.data, sizeof(row));
		r = backend_days_add(&days, row.created, value.size - sizeof(row));
		if (r < 0)
			return r;
		r = 1;
	}
	return r < 0 ? r : backend_days_tell(&days, fn, arg);
}

int memory_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;
	int r;

	(void)backend;
	walk_number(&walk, snapshot->map, KEY_PIECE, ino);
	key_add_number(&walk.prefix, first);
	key_add_number(&walk.prefix, first_seq);
	for (r = walk_start(&walk, true); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		int64_t index = key_take_number(&rest);

		r = fn(arg, index, key_take_number(&rest), walk.entry->value);
		if (r)
			return MIN(r, 0);
		r = 1;
	}
	return MIN(r, 0);
}

int memory_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     uint64_t offset, struct backend_mark *ret_mark)
{
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;

	(void)backend;
	walk_number(&walk, snapshot->map, KEY_MARK, ino);
	key_add_number(&walk.prefix, (int64_t)MIN(offset, (uint64_t)INT64_MAX));
	if (walk.prefix.error < 0)
		return walk.prefix.error;
	walk.entry = map_before(snapshot->map, key_bytes(&walk.prefix));
	if (!walk_here(&walk, &rest))
		return -ENOENT;
	*ret_mark = (struct backend_mark){ .offset = (uint64_t)key_take_number(&rest),
					   .index = memory_number(walk.entry->value) };
	return 0;
}

int memory_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t index, struct backend_mark *ret_mark)
{
	_cleanup_(walk_done) struct walk walk;
	struct bytes rest;

	(void)backend;
	walk_number(&walk, snapshot->map, KEY_MARK_INDEX, ino);
	key_add_number(&walk.prefix, index);
	key_add_number(&walk.prefix, INT64_MAX);
	if (walk.prefix.error < 0)
		return walk.prefix.error;
	walk.entry = map_before(snapshot->map, key_bytes(&walk.prefix));
	if (!walk_here(&walk, &rest))
		return -ENOENT;
	ret_mark->index = key_take_number(&rest);
	ret_mark->offset = (uint64_t)key_take_number(&rest);
	return 0;
}

/* The highest number that stands first in the keys of a table. */
static int last_ino(const struct map *map, uint64_t *ret_ino)
{
	_cleanup_(walk_done) struct walk walk = { .map = map };
	struct bytes rest;

	key_start(&walk.prefix, KEY_NODE);
	walk.prefix_size = walk.prefix.buf.size;
	key_add_number(&walk.prefix, INT64_MAX);
	if (walk.prefix.error < 0)
		return walk.prefix.error;
	walk.entry = map_before(map, key_bytes(&walk.prefix));
	*ret_ino = walk_here(&walk, &rest) ? (uint64_t)key_take_number(&rest) : 0;
	return 0;
}

int memory_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		    uint64_t *ret_entry)
{
	_cleanup_(walk_done) struct walk walk = { .map = snapshot->map };
	int64_t last = 0;
	struct bytes rest;
	uint64_t ino;
	int r = last_ino(snapshot->map, &ino);

	(void)backend;
	if (r < 0)
		return r;
	key_start(&walk.prefix, KEY_ENTRY);
	walk.prefix_size = walk.prefix.buf.size;
	for (r = walk_start(&walk, false); r > 0 && walk_here(&walk, &rest); walk_next(&walk)) {
		int64_t id;

		key_take_number(&rest); /* the directory */
		id = key_take_number(&rest);
		last = MAX(last, id);
	}
	if (r < 0)
		return r;
	*ret_ino = ino;
	*ret_entry = (uint64_t)last;
	return 0;
}

int memory_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_change_fn *fn, void *arg)
{
	(void)backend;
	(void)snapshot;
	(void)fn;
	(void)arg;
	return 0; /* there are no others */
}
