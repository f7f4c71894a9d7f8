/* SPDX-License-Identifier: MIT */
#include "backend/memory/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "backend/memory/internal.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/base/thread.h"

static void memory_close(struct backend *backend)
{
	struct memory *memory = memory_of(backend), **link;
	struct memory_store *store = memory->store;
	unsigned left;

	memory_feed_leave(memory);
	pthread_mutex_lock(&store->map_lock);
	for (link = &store->first; *link != memory; link = &(*link)->next)
		;
	*link = memory->next;
	left = --store->mounts;
	pthread_mutex_unlock(&store->map_lock);
	uses_done(&memory->uses);
	free(memory);
	if (left)
		return;
	map_unref(store->map);
	pthread_mutex_destroy(&store->commit_lock);
	pthread_mutex_destroy(&store->map_lock);
	free(store);
}

/* A snapshot is a reference, and does not hold up writers. */
bool memory_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg)
{
	return true;
}

int memory_sync(struct backend *backend)
{
	return 0;
}

int memory_space(struct backend *backend, struct backend_space *ret_space)
{
	struct memory_store *store = memory_of(backend)->store;
	uint64_t total = store->max_size, left, used;
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return -errno;
	pthread_mutex_lock(&store->map_lock);
	used = store->used;
	pthread_mutex_unlock(&store->map_lock);
	left = (uint64_t)info.freeram * info.mem_unit;
	if (total)
		left = MIN(left, total > used ? total - used : 0);
	else
		total = (uint64_t)info.totalram * info.mem_unit;
	*ret_space = (struct backend_space){ .total = total, .free = left, .used = used };
	return 0;
}

/* As SQLite's default for one value, so that both refuse the same. */
static const uint64_t ITEM_MAX = 1000000000 - 65536;

/* Of the store in memory all handles have one quota. */
void memory_set_quota(struct backend *backend, uint64_t max_size)
{
	struct memory_store *store = memory_of(backend)->store;
	WITH_MUTEX_AS(commits, &store->commit_lock);
	WITH_MUTEX(&store->map_lock);

	store->max_size = max_size;
	backend->max_item = max_size ? MIN(ITEM_MAX, MAX(max_size, BACKEND_ITEM_LEAST)) : ITEM_MAX;
}

static int put_root(struct backend *backend)
{
	struct backend_node root = { .ino = BACKEND_ROOT,
				     .parent = BACKEND_ROOT,
				     .mode = S_IFDIR | 0755,
				     .uid = geteuid(),
				     .gid = getegid(),
				     .nlink = 2 };
	const struct backend_op op = { .type = BACKEND_NODE_PUT, .node = &root };
	root.atime = root.mtime = root.ctime = root.btime = time_now();
	return backend_commit(backend, &op, 1, 0);
}

static const struct backend_scans memory_scans = { .row_read_times = memory_row_read_times };

/* clang-format off */
#define READ(slot, ...) .slot = memory_##slot,
#define READ_ROWS READ
static const struct backend_shared memory_shared = {
	.is_shared = memory_is_shared,
	.on_duty = memory_on_duty,
	.hold = memory_hold,
	.use = memory_use,
	.feed_done = memory_feed_done,
	BACKEND_SHARED
};

static const struct backend_snapshots memory_snapshots = { .snapshot_keep = memory_snapshot_keep };

static const struct backend_upkeep memory_upkeep = { .set_quota = memory_set_quota };

static const struct backend_ops memory_ops = {
	.name = "memory",
	.close = memory_close,
	.snapshot_begin = memory_snapshot_begin,
	.snapshot_end = memory_snapshot_end,
	.commit = memory_commit,
	.sync = memory_sync,
	.space = memory_space,
	BACKEND_READS
	.scans = &memory_scans,
	.shared = &memory_shared,
	.snapshots = &memory_snapshots,
	.upkeep = &memory_upkeep,
};
#undef READ
#undef READ_ROWS
/* clang-format on */

/* A handle of a store. */
static int open_handle(struct memory_store *store, struct memory **ret_memory)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return -ENOMEM;
	memory->store = store;
	memory->backend.max_item = ITEM_MAX;
	backend_init(&memory->backend, &memory_ops);
	pthread_mutex_lock(&store->map_lock);
	memory->mount = ++store->last_mount;
	memory->cursor = store->last_feed;
	memory->next = store->first;
	store->first = memory;
	store->mounts++;
	pthread_mutex_unlock(&store->map_lock);
	*ret_memory = memory;
	return 0;
}

int memory_backend_open(const struct backend_options *options, struct backend **ret_backend)
{
	struct memory_store *store = calloc(1, sizeof(*store));
	struct memory *memory;
	int r;

	if (!store)
		return -ENOMEM;
	pthread_mutex_init(&store->commit_lock, NULL);
	pthread_mutex_init(&store->map_lock, NULL);
	r = open_handle(store, &memory);
	if (r < 0) {
		free(store);
		return r;
	}
	memory->backend.read_only = options->read_only;
	r = put_root(&memory->backend);
	if (r < 0) {
		memory_close(&memory->backend);
		return r;
	}
	memory_set_quota(&memory->backend, options->max_size);
	*ret_backend = &memory->backend;
	return 0;
}

int memory_backend_join(struct backend *backend, struct backend **ret_backend)
{
	struct memory *memory;
	int r = open_handle(memory_of(backend)->store, &memory);

	if (r < 0)
		return r;
	memory->backend.max_item = (uint64_t)backend->max_item;
	*ret_backend = &memory->backend;
	return 0;
}
