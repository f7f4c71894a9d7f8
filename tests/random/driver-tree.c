/* SPDX-License-Identifier: MIT */

/*
 * The model layer without a kernel.  Time stands still, but for what an operation takes; the
 * processes are numbers that no process has.  Names keep the nodeid that they were answered with
 * last, as the kernel does, so that opens come to faces that are outdated.
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tests/stores/fault.h"
#include "backend/memory/memory.h"
#include "fs/api/check.h"
#include "fs/content/content.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "tests/random/driver.h"

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static _Atomic int64_t clock_now = INT64_C(1700000000000000000);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, time);
	*time = time_split(clock_now++);
	return 0;
}

/* Waits end as they do elsewhere, but no moment that something is due at ever comes by itself: a
 * loaded machine must not end what the game has not ended. */
int64_t __real_tick_now(void);
int64_t __wrap_tick_now(void);
int __real_tick_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until);
int __wrap_tick_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until);

int64_t __wrap_tick_now(void)
{
	return clock_now;
}

int __wrap_tick_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until)
{
	return __real_tick_cond_wait(cond, lock, __real_tick_now() + MAX(until - clock_now, 0));
}

enum { OUT_OF_RANGE = 5000000 }; /* above all process ids */

static struct driver_options options;
static struct tree *tree;
static struct backend *store;
static struct handle *open_file[SLOTS];
static int open_process[SLOTS];
static char scratch[64];
static char path_of_store[96];
static sqlite3 *other;

/* The memory store outlives its closing. */
static struct backend *memory;
static const struct backend_ops *memory_ops;
static struct backend_ops lasting_ops;

static pid_t pid_of(int process)
{
	return OUT_OF_RANGE + process;
}

static void say_nothing(int level, const char *sentence)
{
	(void)level;
	(void)sentence;
}

static void stay_open(struct backend *backend)
{
	(void)backend;
}

static int bare_store(struct backend **ret_backend)
{
	const struct backend_options how = { .create = true, .owner = "the test" };
	int r;

	if (!options.memory)
		return backend_open(path_of_store, &how, ret_backend, NULL);
	if (!memory) {
		r = memory_backend_open(&how, &memory);
		if (r < 0)
			return r;
		memory_ops = memory->ops;
		lasting_ops = *memory_ops;
		lasting_ops.close = stay_open;
		memory->ops = &lasting_ops;
	}
	*ret_backend = memory;
	return 0;
}

/* A wrapper that can make everything fail, for the moment when the daemon is killed. */
static int begin(void)
{
	const struct tree_options how = {
		.strict = options.strict,
		.exact = options.exact,
		.set_pause = true,
		.pause = 1000,
	};
	struct backend *inner = NULL;
	int r = bare_store(&inner);

	if (r == 0)
		r = fault_backend_open(inner, &store);
	if (r == 0)
		r = tree_open(store, &how, &tree, NULL);
	return r;
}

/* Every game syncs a lot; what is tested is not the disk. */
static void set_scratch(pid_t player)
{
	snprintf(scratch, sizeof(scratch), "%s/sessfs-random-%d",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)player);
	snprintf(path_of_store, sizeof(path_of_store), "%s/store.db", scratch);
}

static int tree_driver_start(const struct driver_options *how)
{
	options = *how;
	log_set_sink(say_nothing);
	set_scratch(getppid());
	if (!options.memory && mkdir(scratch, 0700) < 0)
		return -errno;
	return begin();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void abandon_all(void)
{
	for (int slot = 0; slot < SLOTS; slot++)
		if (open_file[slot])
			handle_abandon(tree, open_file[slot]);
	memset(open_file, 0, sizeof(open_file));
}

static void tree_driver_finish(void)
{
	if (tree) {
		abandon_all();
		tree_close(tree);
	}
	if (other)
		sqlite3_close(other);
	if (memory) {
		memory->ops = memory_ops;
		backend_close(memory);
	}
}

static void tree_driver_clear(void)
{
	set_scratch(getpid());
	nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int tree_driver_restart(int mount, bool kill)
{
	(void)mount;
	/* What a killed daemon would still do reaches the store no more. */
	if (kill)
		fault_backend_set(store, 1, -EIO, true);
	abandon_all();
	tree_close(tree);
	tree = NULL;
	return begin();
}

static void tree_driver_tick(int mount)
{
	(void)mount;
	clock_now += 1000000;
}

static int64_t tree_driver_now(void)
{
	return clock_now;
}

void __real_handles_publish_paused(struct tree *of, int64_t now);
void __wrap_handles_publish_paused(struct tree *of, int64_t now);

/* The tree's own thread, for which nobody pauses long enough, holds the locks of writers while it
 * looks: what is published in a pause would not be. */
void __wrap_handles_publish_paused(struct tree *of, int64_t now)
{
	(void)of;
	(void)now;
}

static int tree_driver_pause(void)
{
	const int64_t pause = INT64_C(1001) * 1000000000;

	clock_now += pause;
	__real_handles_publish_paused(tree, tick_now() + pause);
	return 0;
}

static int end_ghosts(void)
{
	WITH_WRITE_LOCK(tree);

	return ghosts_end(tree, true, NULL);
}

static int tree_driver_settle(void)
{
	return TREE_RETRY(tree, end_ghosts());
}

static void wait_until_notified(void)
{
	while (tree_is_notifying(tree))
		usleep(50);
}

/* ---- names ---- */

static int find_inode(const char *path, size_t size, struct inode **ret_inode)
{
	struct inode *inode = inode_ref(tree, tree->root);

	for (size_t at = 0; at < size;) {
		size_t part = strcspn(path + at, "/");
		struct inode *next = NULL;
		int r;

		part = MIN(part, size - at);
		r = tree_lookup(tree, inode, bytes_make(path + at, part), &next);
		inode_forget(tree, inode, 1);
		if (r < 0)
			return r;
		inode = next;
		at += part + 1;
	}
	*ret_inode = inode;
	return 0;
}

static int find(const char *path, struct inode **ret_inode)
{
	return find_inode(path, strlen(path), ret_inode);
}

static int find_dir(const char *path, struct inode **ret_dir, struct bytes *ret_name)
{
	const char *slash = strrchr(path, '/');

	*ret_name = bytes_str(slash ? slash + 1 : path);
	return find_inode(path, slash ? (size_t)(slash - path) : 0, ret_dir);
}

static const struct caller caller = { .uid = 0, .gid = 0 };

static int make(const char *path, mode_t mode, bool will_save, struct inode **ret_inode)
{
	const struct tree_new what = { .mode = mode, .will_save = will_save };
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path, &dir, &name);

	if (r < 0)
		return r;
	r = tree_make(tree, &caller, dir, name, &what, ret_inode);
	inode_forget(tree, dir, 1);
	return r;
}

static int tree_driver_make_dir(const char *path)
{
	struct inode *inode;
	int r = make(path, S_IFDIR | 0755, false, &inode);

	if (r == 0)
		inode_forget(tree, inode, 1);
	return r;
}

/* What the kernel remembers of names. */
enum { REMEMBERED = 16 };
static struct {
	char path[32];
	uint64_t nodeid;
} remembered[REMEMBERED];

static uint64_t *nodeid_of(const char *path)
{
	static unsigned next;

	for (size_t i = 0; i < REMEMBERED; i++)
		if (strcmp(remembered[i].path, path) == 0)
			return &remembered[i].nodeid;
	next = (next + 1) % REMEMBERED;
	snprintf(remembered[next].path, sizeof(remembered[next].path), "%s", path);
	remembered[next].nodeid = 0;
	return &remembered[next].nodeid;
}

static int open_found(struct inode *inode, pid_t pid, const char *path, int flags,
		      struct handle **ret_handle)
{
	uint64_t *nodeid = nodeid_of(path);
	struct shown shown;
	int r = -ESTALE;

	if (nodeid_ino(*nodeid) == inode_number(inode))
		r = tree_open_file(tree, inode, nodeid_face(*nodeid), flags, pid, ret_handle);
	for (int again = 0; r == -ESTALE && again < 2; again++) {
		r = tree_enter(tree, inode, FACE_ANY, pid, &shown);
		if (r < 0)
			return r;
		*nodeid = shown.nodeid;
		r = tree_open_file(tree, inode, nodeid_face(*nodeid), flags, pid, ret_handle);
	}
	return r;
}

static int open_at(const char *path, int flags, pid_t pid, struct handle **ret_handle)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	struct inode *inode;
	int r = find(path, &inode);

	if (r == 0 && (flags & O_CREAT) && (flags & O_EXCL)) {
		inode_forget(tree, inode, 1);
		return -EEXIST;
	}
	if (r == 0) {
		r = open_found(inode, pid, path, flags, ret_handle);
	} else if (r == -ENOENT && (flags & O_CREAT)) {
		r = make(path, S_IFREG | 0644, writes && !(flags & O_APPEND), &inode);
		if (r < 0)
			return r;
		r = tree_open_file(tree, inode, FACE_ANY, flags, pid, ret_handle);
		if (r == 0)
			*nodeid_of(path) = handle_nodeid(*ret_handle);
	} else {
		return r;
	}
	inode_forget(tree, inode, 1);
	return r;
}

static int tree_driver_open(int slot, int process, const char *path, int flags)
{
	open_process[slot] = process;
	return open_at(path, flags, pid_of(process), &open_file[slot]);
}

static int tree_driver_close(int slot)
{
	int r = handle_flush(tree, open_file[slot], pid_of(open_process[slot]));

	handle_free(tree, open_file[slot]);
	open_file[slot] = NULL;
	return r;
}

static int tree_driver_stranger(int slot)
{
	return handle_flush(tree, open_file[slot], pid_of(PROCESSES));
}

static ssize_t tree_driver_write(int slot, uint64_t offset, struct bytes data)
{
	return handle_write(tree, open_file[slot], pid_of(open_process[slot]), offset, data);
}

static ssize_t tree_driver_read(int slot, int way, uint64_t offset, size_t size, struct buf *out)
{
	size_t before = out->size;
	int r = handle_read(tree, open_file[slot], offset, size, out);

	(void)way;
	return r < 0 ? r : (ssize_t)(out->size - before);
}

static int tree_driver_sync(int slot)
{
	return handle_sync(tree, open_file[slot]);
}

static int set(struct inode *inode, struct handle *handle, pid_t pid, const struct stat *st,
	       unsigned mask)
{
	const struct set_attr how = {
		.face = handle ? nodeid_face(handle_nodeid(handle)) : 0,
		.handle = mask & TREE_SET_SIZE ? handle : NULL,
		.pid = pid,
		.st = st,
		.mask = mask,
	};
	struct stat now;
	bool own;

	return tree_set_attr(tree, inode, &how, &now, &own);
}

/* Once more when the name is to be looked up again. */
static int set_name(const char *path, pid_t pid, const struct stat *st, unsigned mask)
{
	struct set_attr how = { .pid = pid, .st = st, .mask = mask };
	struct inode *inode;
	struct shown shown;
	struct stat now;
	bool own;
	int r = find(path, &inode);

	if (r < 0)
		return r;
	for (int again = 0; again < 2; again++) {
		r = tree_enter(tree, inode, FACE_ANY, pid, &shown);
		how.face = nodeid_face(shown.nodeid);
		if (r == 0)
			r = tree_set_attr(tree, inode, &how, &now, &own);
		if (r != -ESTALE)
			break;
	}
	inode_forget(tree, inode, 1);
	return r;
}

static int tree_driver_cut(int slot, uint64_t size)
{
	const struct stat st = { .st_size = (off_t)size };

	return set(handle_inode(open_file[slot]), open_file[slot], pid_of(open_process[slot]), &st,
		   TREE_SET_SIZE);
}

static int tree_driver_cut_name(int process, const char *path, uint64_t size)
{
	const struct stat st = { .st_size = (off_t)size };

	return set_name(path, pid_of(process), &st, TREE_SET_SIZE);
}

static int tree_driver_stat(int slot, struct stat *ret_stat)
{
	bool own;

	wait_until_notified();
	return tree_stat_face(tree, handle_inode(open_file[slot]),
			      nodeid_face(handle_nodeid(open_file[slot])), 0, ret_stat, &own);
}

static int tree_driver_stat_name(int process, const char *path, struct stat *ret_stat)
{
	struct inode *inode;
	struct shown shown;
	int r = find(path, &inode);

	if (r < 0)
		return r;
	wait_until_notified();
	r = tree_enter(tree, inode, FACE_ANY, pid_of(process), &shown);
	if (r == 0) {
		*nodeid_of(path) = shown.nodeid;
		*ret_stat = shown.st;
	}
	inode_forget(tree, inode, 1);
	return r;
}

static int tree_driver_times(int slot, int64_t mtime)
{
	const struct stat st = { .st_mtim = time_split(mtime) };

	return set(handle_inode(open_file[slot]), open_file[slot], pid_of(open_process[slot]), &st,
		   TREE_SET_MTIME);
}

static int tree_driver_times_name(const char *path, int64_t mtime)
{
	const struct stat st = { .st_mtim = time_split(mtime) };

	return set_name(path, pid_of(0), &st, TREE_SET_MTIME);
}

static int tree_driver_mode(const char *path, mode_t mode)
{
	const struct stat st = { .st_mode = mode };

	return set_name(path, pid_of(0), &st, TREE_SET_MODE);
}

static int tree_driver_set_xattr(const char *path, const char *name, const char *value)
{
	struct inode *inode;
	int r = find(path, &inode);

	if (r < 0)
		return r;
	r = tree_set_xattr(tree, inode, bytes_str(name), bytes_str(value), 0);
	inode_forget(tree, inode, 1);
	return r;
}

static int tree_driver_get_xattr(const char *path, const char *name, struct buf *out)
{
	struct inode *inode;
	int r = find(path, &inode);

	if (r < 0)
		return r;
	r = tree_get_xattr(tree, inode, bytes_str(name), out);
	inode_forget(tree, inode, 1);
	return r;
}

static int tree_driver_unlink(int process, const char *path)
{
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path, &dir, &name);

	(void)process;
	if (r < 0)
		return r;
	r = tree_unlink(tree, dir, name);
	inode_forget(tree, dir, 1);
	return r;
}

static int tree_driver_rename(int process, const char *path, const char *path_to, unsigned flags)
{
	struct bytes name, name_to;
	struct inode *dir, *dir_to;
	int r = find_dir(path, &dir, &name);

	(void)process;
	if (r < 0)
		return r;
	r = find_dir(path_to, &dir_to, &name_to);
	if (r == 0) {
		r = tree_rename(tree, dir, name, dir_to, name_to, flags);
		inode_forget(tree, dir_to, 1);
	}
	inode_forget(tree, dir, 1);
	return r;
}

/* ---- what is there ---- */

/* In parts of different sizes, so that positions in the middle are found. */
static int tree_driver_content(int process, const char *path, int way, struct buf *out)
{
	static size_t part;
	struct handle *handle;
	size_t before, start = out->size;
	int r = open_at(path, O_RDONLY, pid_of(process), &handle);

	(void)way;
	if (r < 0)
		return r;
	part = part > 200000 ? 61 : part * 3 + 61;
	do {
		before = out->size;
		r = handle_read(tree, handle, out->size - start,
				MAX(part, 4096 + (out->size - start) / 4), out);
	} while (r == 0 && out->size > before);
	handle_free(tree, handle);
	return r;
}

struct naming {
	driver_name_fn *fn;
	void *arg;
};

static int say_entry(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	struct naming *naming = arg;
	char text[256];

	(void)inode;
	(void)shown;
	snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
	if (position > 2)
		naming->fn(naming->arg, text);
	return 0;
}

static int tree_driver_names(const char *path, driver_name_fn *fn, void *arg)
{
	struct naming naming = { fn, arg };
	struct inode *dir;
	int r = find(path, &dir);

	if (r < 0)
		return r;
	r = tree_list(tree, dir, 0, UINT64_MAX, false, say_entry, &naming);
	inode_forget(tree, dir, 1);
	return r;
}

static int other_open(void)
{
	if (other)
		return 0;
	if (sqlite3_open(path_of_store, &other) != SQLITE_OK)
		return -EIO;
	sqlite3_busy_timeout(other, 600000);
	return 0;
}

static int prepare(const char *sql, sqlite3_stmt **ret_statement)
{
	if (other_open() < 0 ||
	    sqlite3_prepare_v2(other, sql, -1, ret_statement, NULL) != SQLITE_OK)
		return -EIO;
	return 0;
}

struct rowing {
	driver_row_fn *fn;
	void *arg;
};

static int say_row(void *arg, int64_t index, struct bytes data)
{
	const struct driver_row row = { .data = data };
	struct rowing *rowing = arg;

	rowing->fn(rowing->arg, index, &row);
	return 0;
}

static int memory_rows(const char *key, driver_row_fn *fn, void *arg)
{
	struct rowing rowing = { fn, arg };
	struct backend_snapshot *snapshot;
	int r = store->ops->snapshot_begin(store, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = store->ops->row_read(store, snapshot, BYTES("s"), bytes_str(key), INT64_MIN, say_row,
				 &rowing);
	store->ops->snapshot_end(store, snapshot);
	return r;
}

static int tree_driver_rows(const char *key, driver_row_fn *fn, void *arg)
{
	sqlite3_stmt *statement;
	int r, code;

	if (options.memory)
		return memory_rows(key, fn, arg);
	r = prepare("SELECT item_index, state_data, created_at, updated_at FROM "
		    "agentscope_sessions WHERE session_id = 's' AND state_key = ?1 "
		    "ORDER BY item_index",
		    &statement);
	if (r < 0)
		return r;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
		struct driver_row row = {
			.created = (const char *)sqlite3_column_text(statement, 2),
			.updated = (const char *)sqlite3_column_text(statement, 3),
		};

		row.data = bytes_make(sqlite3_column_blob(statement, 1),
				      (size_t)sqlite3_column_bytes(statement, 1));
		fn(arg, sqlite3_column_int64(statement, 0), &row);
	}
	sqlite3_finalize(statement);
	return code == SQLITE_DONE ? 0 : -EIO;
}

static int say_key(void *arg, struct bytes session, struct bytes key,
		   const struct backend_key_stat *stat)
{
	struct naming *naming = arg;
	char text[64];

	(void)session;
	(void)stat;
	snprintf(text, sizeof(text), "%.*s", (int)key.size, key.data);
	naming->fn(naming->arg, text);
	return 0;
}

static int tree_driver_keys(driver_name_fn *fn, void *arg)
{
	struct naming naming = { fn, arg };
	struct backend_snapshot *snapshot;
	const struct bytes none = { 0 };
	int r = store->ops->snapshot_begin(store, BACKEND_ANYWAY, &snapshot);

	if (r < 0)
		return r;
	r = store->ops->key_list(store, snapshot, none, none, say_key, &naming);
	store->ops->snapshot_end(store, snapshot);
	return r;
}

static int tree_driver_sql(const char *key, int64_t index, struct bytes data)
{
	static const char put[] =
		"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		"VALUES ('s', ?1, ?2, CAST(?3 AS TEXT)) ON CONFLICT (session_id, state_key, "
		"item_index) DO UPDATE SET state_data = excluded.state_data";
	static const char delete[] =
		"DELETE FROM agentscope_sessions WHERE session_id = 's' AND state_key = ?1 AND "
		"(item_index = ?2 OR ?2 < 0)";
	sqlite3_stmt *statement;
	struct inode *inode;
	int r, code;

	if (options.memory)
		return -EOPNOTSUPP;
	r = prepare(data.data ? put : delete, &statement);
	if (r < 0)
		return r;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 2, index);
	if (data.data)
		sqlite3_bind_blob(statement, 3, data.data, (int)data.size, SQLITE_STATIC);
	code = sqlite3_step(statement);
	sqlite3_finalize(statement);
	/* It is seen when the next call looks. */
	r = find("s", &inode);
	if (r == 0)
		inode_forget(tree, inode, 1);
	return code == SQLITE_DONE ? r : -EIO;
}

static void say_finding(void *arg, const char *sentence)
{
	buf_printf(arg, "%s\n", sentence);
}

static int tree_driver_check(struct buf *out)
{
	struct check_result result;
	int r = check_store(store, say_finding, out, &result);

	return r < 0 ? r : result.violations ? -EUCLEAN : 0;
}

static const struct profile profiles[] = {
	{ .title = "memory", .options = { .memory = true }, .ops = 3000 },
	{ .title = "sqlite", .ops = 1500 },
	{ .title = "memory, strict", .options = { .memory = true, .strict = true }, .ops = 1500 },
	{ .title = "memory, exact", .options = { .memory = true, .exact = true }, .ops = 1500 },
	{ .title = "sqlite, strict", .options = { .strict = true }, .ops = 700 },
	{ .title = "sqlite, exact", .options = { .exact = true }, .ops = 700 },
	{ .title = "memory, big", .options = { .memory = true }, .big = true, .ops = 200 },
	{ .title = "sqlite, big", .big = true, .ops = 150 },
};

/* ---- defects ---- */

static unsigned turn;

static ssize_t drop_write(int slot, uint64_t offset, struct bytes data)
{
	return turn++ % 30 == 29 ? (ssize_t)data.size : tree_driver_write(slot, offset, data);
}

static ssize_t tear_write(int slot, uint64_t offset, struct bytes data)
{
	ssize_t n;

	if (turn++ % 30 != 29)
		return tree_driver_write(slot, offset, data);
	n = tree_driver_write(slot, offset, bytes_make(data.data, data.size / 2));
	return n < 0 ? n : (ssize_t)data.size;
}

static int close_unpublished(int slot)
{
	if (turn++ % 30 != 29)
		return tree_driver_close(slot);
	handle_abandon(tree, open_file[slot]);
	open_file[slot] = NULL;
	return 0;
}

static int sync_nothing(int slot)
{
	(void)slot;
	return 0;
}

/* What was not finished is published. */
static int kill_gently(int mount, bool kill)
{
	for (int slot = 0; slot < SLOTS; slot++)
		if (open_file[slot])
			handle_flush(tree, open_file[slot], 0);
	return tree_driver_restart(mount, kill);
}

static int forget_rename(int process, const char *path, const char *path_to, unsigned flags)
{
	int r = tree_driver_rename(process, path, path_to, flags);

	if (r == 0 && turn++ % 30 == 29 && strcmp(path, path_to) != 0 && !flags)
		tree_driver_rename(process, path_to, path, flags);
	return r;
}

/* All rows are written again. */
static int close_rewriting(int slot)
{
	int r = tree_driver_close(slot);

	if (!options.memory && other_open() == 0)
		sqlite3_exec(other,
			     "UPDATE agentscope_sessions SET updated_at = '2000-01-01 00:00:00'",
			     NULL, NULL, NULL);
	return r;
}

static void bring_drop(struct driver *to)
{
	to->write = drop_write;
}

static void bring_tear(struct driver *to)
{
	to->write = tear_write;
}

static void bring_close(struct driver *to)
{
	to->close = close_unpublished;
}

static void bring_sync(struct driver *to)
{
	to->sync = sync_nothing;
}

static void bring_kill(struct driver *to)
{
	to->restart = kill_gently;
}

static void bring_rename(struct driver *to)
{
	to->rename = forget_rename;
}

static void bring_rewriting(struct driver *to)
{
	to->close = close_rewriting;
}

static const struct defect defects[] = {
	{ "a write is dropped", bring_drop },
	{ "a write is torn", bring_tear },
	{ "a close publishes nothing", bring_close },
	{ "fsync publishes nothing", bring_sync },
	{ "a killed daemon publishes what was not finished", bring_kill },
	{ "a rename is lost", bring_rename },
	{ "rows that did not change get another time", bring_rewriting },
};

struct driver driver = {
	.defects = defects,
	.defect_count = ARRAY_SIZE(defects),
	.profiles = profiles,
	.profile_count = ARRAY_SIZE(profiles),
	.start = tree_driver_start,
	.finish = tree_driver_finish,
	.clear = tree_driver_clear,
	.restart = tree_driver_restart,
	.tick = tree_driver_tick,
	.now = tree_driver_now,
	.pause = tree_driver_pause,
	.settle = tree_driver_settle,
	.make_dir = tree_driver_make_dir,
	.open = tree_driver_open,
	.close = tree_driver_close,
	.stranger = tree_driver_stranger,
	.write = tree_driver_write,
	.read = tree_driver_read,
	.sync = tree_driver_sync,
	.cut = tree_driver_cut,
	.stat = tree_driver_stat,
	.times = tree_driver_times,
	.cut_name = tree_driver_cut_name,
	.stat_name = tree_driver_stat_name,
	.times_name = tree_driver_times_name,
	.mode = tree_driver_mode,
	.set_xattr = tree_driver_set_xattr,
	.get_xattr = tree_driver_get_xattr,
	.unlink = tree_driver_unlink,
	.rename = tree_driver_rename,
	.content = tree_driver_content,
	.names = tree_driver_names,
	.rows = tree_driver_rows,
	.keys = tree_driver_keys,
	.sql = tree_driver_sql,
	.check = tree_driver_check,
};
