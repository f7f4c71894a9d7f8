/* SPDX-License-Identifier: MIT */

/* Other mounts of the store: what a commit leaves for them to digest, and what may not be committed
 * before it was digested. */

#include <errno.h>
#include <unistd.h>

#include "backend/memory/internal.h"
#include "backend/memory/walk.h"
#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

static int node_before(void *arg, uint64_t ino, struct backend_node *ret_node)
{
	return memory_find_node(arg, ino, ret_node); /* borrowed */
}

static int entry_before(void *arg, uint64_t parent, int64_t id, struct buf *name,
			uint64_t *ret_node)
{
	_cleanup_(key_done) struct key key = key_of_node(KEY_ENTRY, parent);
	const struct map_entry *entry;

	key_add_number(&key, id);
	if (key.error < 0)
		return key.error;
	entry = map_find(arg, key_bytes(&key));
	if (!entry)
		return -ENOENT;
	memcpy(ret_node, entry->value.data, sizeof(*ret_node));
	return buf_append(name, entry->value.data + sizeof(int64_t),
			  entry->value.size - sizeof(int64_t));
}

struct feed_state memory_feed_state(const struct map *map)
{
	return (struct feed_state){ .node = node_before,
				    .entry = entry_before,
				    .arg = (void *)(uintptr_t)map };
}

/* Where a node lies. */
static int find_place(struct map *map, uint64_t ino, struct buf *name, uint64_t *ret_parent)
{
	struct backend_node node;
	uint64_t there;
	int r = memory_find_node(map, ino, &node);

	if (r == 0)
		r = entry_before(map, node.parent, (int64_t)node.entry, name, &there);
	if (r == 0)
		*ret_parent = node.parent;
	return r;
}

enum { PATH_NAMES = 64 };

/* The path of what has a name in a directory; left empty if it cannot be told. */
static int find_path(struct map *map, uint64_t parent, struct bytes name, struct buf *path)
{
	int r = buf_append_bytes(path, name);

	for (int i = 1; r == 0 && i < PATH_NAMES && parent != BACKEND_ROOT; i++) {
		_cleanup_(buf_done) struct buf below = *path;

		*path = (struct buf){ 0 };
		r = find_place(map, parent, path, &parent);
		if (r == 0)
			r = buf_append_byte(path, '/');
		if (r == 0)
			r = buf_append_bytes(path, buf_bytes(&below));
	}
	if (r == -ENOENT || parent != BACKEND_ROOT)
		buf_clear(path);
	return r == -ENOENT ? 0 : r;
}

/* What is to be told of a note, and the state after the commit tells. */
static int describe(struct map *map, struct backend_feed *feed, struct buf *path)
{
	struct backend_snapshot after = { .map = map };
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	struct backend_key_stat stat;
	int r = 0;

	if (feed->what == BACKEND_FEED_ROWS) {
		if (memory_key_stat(NULL, &after, feed->session, feed->key, &stat) == 0)
			feed->end = MIN(stat.last, INT64_MAX - 1) + 1;
	}
	if (feed->what == BACKEND_FEED_ROWS && !feed->dated) {
		r = memory_node_find(NULL, &after, feed->session, feed->key, &node);
		feed->node = node.ino;
	} else if (feed->what == BACKEND_FEED_NODE) {
		feed->node = feed->ino;
	}
	if (feed->what == BACKEND_FEED_ENTRY) {
		feed->parent = feed->ino;
		r = find_path(map, feed->parent, feed->name, path);
	}
	feed->path = path->size ? buf_bytes(path) : (struct bytes){ 0 };
	return r == -ENOENT ? 0 : r;
}

struct putting {
	const struct memory *memory;
	struct map **map;
	uint64_t n;
	int64_t at;
};

static int put_one(void *arg, const struct backend_feed *note)
{
	_cleanup_(key_done) struct key key = key_make(KEY_FEED);
	_cleanup_(buf_done) struct buf value = { 0 };
	_cleanup_(buf_done) struct buf path = { 0 };
	struct putting *putting = arg;
	struct backend_feed feed = *note;
	struct map *with;
	int r;

	feed.n = ++putting->n;
	feed.mount = putting->memory->mount;
	feed.pid = getpid();
	feed.at = putting->at;
	key_add_number(&key, (int64_t)feed.n);
	r = key.error;
	if (r == 0)
		r = describe(*putting->map, &feed, &path);
	if (r == 0)
		r = buf_append(&value, &putting->memory->mount, sizeof(putting->memory->mount));
	if (r == 0)
		r = feed_pack(&feed, &value);
	if (r == 0)
		r = map_put(*putting->map, key_bytes(&key), buf_bytes(&value), &with);
	if (r < 0)
		return r;
	map_unref(*putting->map);
	*putting->map = with;
	return 0;
}

int memory_feed_put(const struct memory *memory, const struct feed_notes *notes, int64_t at,
		    struct map **map, uint64_t *ret_last)
{
	struct putting putting = { .memory = memory, .map = map, .n = *ret_last, .at = at };
	int r = feed_each(notes, put_one, &putting);

	if (r == 0)
		*ret_last = putting.n;
	return r;
}

/* What others have left and this mount has not digested. */
static int each_waiting(const struct memory *memory, const struct map *map, backend_feed_fn *fn,
			void *arg)
{
	struct walk walk = walk_in(map, key_make(KEY_FEED));

	key_add_number(&walk.key, (int64_t)memory->cursor);
	walk.behind = true;
	while (walk_next(&walk)) {
		struct bytes value = walk.entry->value;
		const struct backend_feed feed = feed_unpack(value.data + sizeof(uint64_t));

		/* A note is kept as the number of the mount that has left it, and what feed_pack()
		 * makes of it. */
		if (memcmp(value.data, &memory->mount, sizeof(memory->mount)) != 0)
			walk.r = fn(arg, &feed);
	}
	return walk_end(&walk);
}

static int is_any(void *arg, const struct backend_feed *feed)
{
	*(bool *)arg = true;
	return 1;
}

bool memory_feed_waits(const struct memory *memory, const struct map *map)
{
	bool any = false;

	return each_waiting(memory, map, is_any, &any) == 0 && any;
}

int memory_feed_collect(const struct memory *memory, const struct map *map,
			struct feed_notes *notes)
{
	return each_waiting(memory, map, feed_add, notes);
}

void memory_feed_wake(const struct memory *memory)
{
	for (struct memory *other = memory->store->first; other; other = other->next)
		if (other != memory)
			backend_wake(&other->backend);
}

bool memory_is_shared(struct backend *backend)
{
	struct memory_store *store = memory_of(backend)->store;
	WITH_MUTEX(&store->map_lock);

	return store->mounts > 1;
}

/* The mount that was there first. */
bool memory_on_duty(struct backend *backend)
{
	struct memory *memory = memory_of(backend);
	WITH_MUTEX(&memory->store->map_lock);

	return !memory->next;
}

int memory_feed_list(struct backend *backend, struct backend_snapshot *snapshot,
		     backend_feed_fn *fn, void *arg)
{
	return each_waiting(memory_of(backend), snapshot->map, fn, arg);
}

/* All of a table up to a number, or all that is about a mount. */
static void erase_where(struct memory_store *store, enum key_table table,
			bool wanted(struct bytes rest, uint64_t number), uint64_t number)
{
	struct walk walk = walk_in(store->map, key_make(table));
	struct map *map = map_ref(store->map), *without;

	while (walk_next(&walk)) {
		if (!wanted(walk.rest, number) || map_delete(map, walk.entry->key, &without) < 0)
			continue;
		map_unref(map);
		map = without;
	}
	walk_end(&walk);
	pthread_mutex_lock(&store->map_lock);
	without = store->map;
	store->map = map;
	pthread_mutex_unlock(&store->map_lock);
	map_unref(without);
}

static bool is_behind(struct bytes rest, uint64_t number)
{
	return (uint64_t)key_take_number(&rest) <= number;
}

static bool is_of_mount(struct bytes rest, uint64_t number)
{
	key_take_number(&rest); /* the node */
	return (uint64_t)key_take_number(&rest) == number;
}

/* Under commit_lock: what everybody has digested goes. */
static void trim(struct memory_store *store)
{
	uint64_t lowest = UINT64_MAX;

	pthread_mutex_lock(&store->map_lock);
	for (struct memory *mount = store->first; mount; mount = mount->next)
		lowest = MIN(lowest, mount->cursor);
	pthread_mutex_unlock(&store->map_lock);
	erase_where(store, KEY_FEED, is_behind, lowest);
}

void memory_feed_done(struct backend *backend, uint64_t n)
{
	struct memory *memory = memory_of(backend);
	struct memory_store *store = memory->store;
	WITH_MUTEX(&store->commit_lock);

	memory->cursor = MAX(memory->cursor, n);
	trim(store);
}

void memory_feed_leave(struct memory *memory)
{
	struct memory_store *store = memory->store;
	WITH_MUTEX(&store->commit_lock);

	erase_where(store, KEY_LOCK, is_of_mount, memory->mount);
	memory->cursor = UINT64_MAX;
	trim(store);
}

int memory_hold(struct backend *backend, bool untold)
{
	memory_of(backend)->untold = untold;
	return 1;
}

int memory_use(struct backend *backend, uint64_t ino, bool on)
{
	struct memory *memory = memory_of(backend);
	struct memory_store *store = memory->store;
	int r = 0;
	WITH_MUTEX(&store->commit_lock);

	if (!on)
		uses_remove(&memory->uses, ino);
	else if (memory_feed_waits(memory, store->map))
		r = -ESTALE;
	else
		r = uses_add(&memory->uses, ino);
	return r;
}

int memory_feed_judge_locks(const struct memory *memory, const struct map *map, uint64_t ino,
			    struct bytes locks)
{
	struct walk walk = walk_in(map, key_of_node(KEY_LOCK, ino));

	while (walk_next(&walk))
		if ((uint64_t)key_take_number(&walk.rest) != memory->mount &&
		    backend_locks_clash(locks, walk.entry->value))
			walk.r = -EAGAIN;
	pthread_mutex_lock(&memory->store->map_lock);
	for (const struct memory *mount = memory->store->first; mount; mount = mount->next)
		if (mount != memory && mount->untold)
			walk.r = -EAGAIN;
	pthread_mutex_unlock(&memory->store->map_lock);
	return walk_end(&walk);
}

int memory_lock_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     const struct backend_lock *lock, struct backend_lock *ret_lock)
{
	struct walk walk = walk_in(snapshot->map, key_of_node(KEY_LOCK, ino));
	bool found = false;

	while (!found && walk_next(&walk))
		found = (uint64_t)key_take_number(&walk.rest) != memory_of(backend)->mount &&
			backend_lock_in(walk.entry->value, lock, ret_lock);
	walk_end(&walk);
	return found ? 0 : -ENOENT;
}

/* Under commit_lock. */
static bool is_in_use(const struct memory *memory, uint64_t ino)
{
	bool found = false;
	WITH_MUTEX(&memory->store->map_lock);

	for (const struct memory *mount = memory->store->first; mount; mount = mount->next)
		found |= uses_has(&mount->uses, ino);
	return found;
}

int memory_orphan_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_node_fn *fn, void *arg)
{
	struct memory *memory = memory_of(backend);
	struct walk walk = walk_in(snapshot->map, key_make(KEY_ORPHAN));
	struct backend_node node;
	bool used;

	while (walk_next(&walk)) {
		uint64_t ino = (uint64_t)key_take_number(&walk.rest);

		pthread_mutex_lock(&memory->store->commit_lock);
		used = is_in_use(memory, ino);
		pthread_mutex_unlock(&memory->store->commit_lock);
		if (used)
			continue;
		walk.r = memory_find_node(snapshot->map, ino, &node);
		if (walk.r == 0)
			walk.r = fn(arg, &node);
	}
	return walk_end(&walk);
}

/* Borrows from the map. */
static int find_orphan(const struct map *map, struct bytes session, struct bytes key,
		       struct backend_node *ret_node)
{
	struct walk walk = walk_in(map, key_make(KEY_ORPHAN));
	int r = -ENOENT;

	while (r == -ENOENT && walk_next(&walk)) {
		r = memory_find_node(map, (uint64_t)key_take_number(&walk.rest), ret_node);
		if (r == 0 &&
		    (!ret_node->session.data || !ret_node->key.data ||
		     !bytes_equal(ret_node->session, session) || !bytes_equal(ret_node->key, key)))
			r = -ENOENT;
	}
	walk_end(&walk);
	return r;
}

int memory_orphan_find(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	struct backend_node node;
	int r = find_orphan(snapshot->map, session, key, &node);

	return r < 0 ? r : backend_node_copy(&node, ret_node);
}

int memory_feed_guard(const struct memory *memory, const struct map *map,
		      const struct backend_op *op, bool shared)
{
	struct backend_node orphan;

	if (!op->session.data && op->ino)
		return op->at == BACKEND_UNUSED && is_in_use(memory, op->ino) ? -EBUSY : 0;
	if (!op->session.data)
		return shared ? -ESTALE : 0;
	return op->at && find_orphan(map, op->session, op->key, &orphan) == 0 ? -EEXIST : 0;
}
