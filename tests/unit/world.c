/* SPDX-License-Identifier: MIT */
#include "tests/unit/world.h"

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/stores/fault.h"
#include "backend/memory/memory.h"
#include "tests/stores/trace.h"
#include "fs/api/check.h"
#include "fs/content/content.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "backend/base/log.h"
#include "tests/unit/rounds.h"
#include "tests/unit/scratch.h"
#include "tests/unit/server.h"

struct tree *world_tree;
struct backend *world_store;
struct tree_options world_options = { .set_pause = true };
bool world_shared;

static int world_kind;
static world_wrapper *wrapper;
static char scratch[256];
static char path_of_store[512];
static sqlite3 *other;

/* The memory store outlives its closing, so that a tree can be opened on it again. */
static struct backend *memory;
static const struct backend_ops *memory_ops;
static struct backend_ops lasting_ops;

static void stay_open(struct backend *backend)
{
	(void)backend;
}

static struct backend *memory_open(void)
{
	static const struct backend_options options = { .create = true };

	if (memory)
		return memory;
	cr_assert_eq(memory_backend_open(&options, &memory), 0);
	memory_ops = memory->ops;
	lasting_ops = *memory_ops;
	lasting_ops.close = stay_open;
	memory->ops = &lasting_ops;
	return memory;
}

static struct backend *file_open(const char *owner)
{
	const struct backend_options options = {
		.create = !world_options.read_only,
		.read_only = world_options.read_only,
		.owner = owner,
		.shared = world_shared,
	};
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;
	int r;

	if (world_kind == WORLD_SERVER) {
		snprintf(path_of_store, sizeof(path_of_store), "%s", server_url());
	} else if (!*scratch) {
		scratch_template(scratch, sizeof(scratch), "unit");
		cr_assert_not_null(mkdtemp(scratch));
		snprintf(path_of_store, sizeof(path_of_store), "%s/store.db", scratch);
	}
	r = backend_open(path_of_store, &options, &backend, &why);
	cr_assert_eq(r, 0, "%s: %s", path_of_store, why ? why : strerror(-r));
	return backend;
}

static struct backend *bare_store(const char *owner)
{
	return world_kind == WORLD_MEMORY ? memory_open() : file_open(owner);
}

/* One in memory is as a server may be: its snapshots begin with their first reads, and large saves
 * are applied twice. */
static struct backend *wrapped(struct backend *inner)
{
	struct backend *backend = inner;

	if (wrapper) {
		cr_assert_eq(wrapper(inner, &backend), 0);
	} else if (world_kind == WORLD_MEMORY) {
		cr_assert_eq(fault_backend_open(inner, &inner), 0);
		cr_assert_eq(trace_backend_open(inner, &backend), 0);
	}
	return backend;
}

int world_try(char **ret_why)
{
	int r;

	world_store = wrapped(bare_store("the test"));
	r = tree_open(world_store, &world_options, &world_tree, ret_why);
	if (r < 0)
		backend_close(world_store);
	return r;
}

static void tree_begin(void)
{
	_cleanup_(freep) char *why = NULL;
	int r = world_try(&why);

	cr_assert_eq(r, 0, "tree_open: %s", why ? why : strerror(-r));
}

struct backend *world_join(void)
{
	struct backend *joined;

	if (world_kind != WORLD_MEMORY)
		joined = file_open("one more");
	else
		cr_assert_eq(memory_backend_join(memory, &joined), 0);
	return wrapped(joined);
}

void world_wrap(world_wrapper *with)
{
	wrapper = with;
}

void world_open(int kind)
{
	/* Lines that are no JSON are what many cases are about. */
	log_set_level(LOG_ERR);
	world_kind = kind;
	tree_begin();
}

void world_reopen(void)
{
	tree_close(world_tree);
	tree_begin();
}

const char *world_path(void)
{
	return path_of_store;
}

void world_kill_after(void something(void))
{
	pid_t child;
	int status;

	tree_close(world_tree);
	sqlite3_close(other);
	other = NULL;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		tree_begin();
		something();
		raise(SIGKILL);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it ended by itself");
}

static int end_ghosts(void)
{
	WITH_WRITE_LOCK(world_tree);

	return ghosts_end(world_tree, true, NULL);
}

void world_settle(void)
{
	int r = TREE_RETRY(world_tree, end_ghosts());

	cr_assert_eq(r, 0, "ghosts_end: %s", strerror(-r));
	r = tree_write_times(world_tree, true);
	cr_assert_eq(r, 0, "tree_write_times: %s", strerror(-r));
}

void world_take_in(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (world_tree->taker.late)
		nanosleep(&moment, NULL);
}

size_t world_inodes(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	size_t count = 0;

	/* The tree's own thread may hold one for a moment. */
	for (unsigned attempt = 0; attempt < 2000 && count != 1; attempt++) {
		if (attempt)
			nanosleep(&moment, NULL);
		/* Files with changes that stay in the store's log are in memory. */
		world_tree->unsettled.all = true;
		backend_wake(world_store);
		world_settle();
		pthread_mutex_lock(&world_tree->table_lock);
		count = world_tree->inodes.count;
		pthread_mutex_unlock(&world_tree->table_lock);
	}
	return count;
}

static void tell(void *arg, const char *sentence)
{
	cr_assert_eq(buf_printf(arg, "%s\n", sentence), 0);
}

static void check(struct backend *backend)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	struct check_result result;
	int r = check_store(backend, tell, &said, &result);

	cr_assert_eq(r, 0, "check_store: %s", strerror(-r));
	cr_assert_eq(result.violations, 0, "%" PRIu64 " violations among\n%.*s", result.violations,
		     (int)said.size, said.data);
}

void world_check(void)
{
	check(world_store);
}

static int count_node(void *arg, const struct backend_node *node)
{
	(void)node;
	++*(unsigned *)arg;
	return 0;
}

/* Nothing is left of files that were unlinked. */
static void check_orphans(struct backend *backend)
{
	struct backend_snapshot *snapshot;
	unsigned orphans = 0;

	cr_assert_eq(backend->ops->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(backend->ops->node_list(backend, snapshot, 0, true, count_node, &orphans), 0);
	backend->ops->snapshot_end(backend, snapshot);
	cr_assert_eq(orphans, 0, "%u files without a name are left", orphans);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void world_close(void)
{
	size_t known = world_inodes();

	cr_assert_eq(known, 1, "%zu inodes are known beside the root", known - 1);
	tree_close(world_tree);
	world_tree = NULL;
	if (other)
		cr_assert_eq(sqlite3_close(other), SQLITE_OK);
	other = NULL;
	world_store = bare_store(NULL);
	check(world_store);
	check_orphans(world_store);
	if (memory)
		memory->ops = memory_ops;
	backend_close(world_store);
	memory = NULL;
	server_done();
	if (*scratch)
		nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	*scratch = '\0';
}

/* In a check, the store in memory holds the contract (tests/contract); here it is one in a soak. */
static int kind_numbers[] = { WORLD_SQLITE, WORLD_MEMORY };

struct criterion_test_params every_kind(void)
{
	static int server_number = WORLD_SERVER;

	return server_is_there() ?
		       cr_make_param_array(int, &server_number, 1, NULL) :
		       cr_make_param_array(int, kind_numbers,
					   rounds("SESSFS_KINDS", 1, ARRAY_SIZE(kind_numbers)),
					   NULL);
}

/* Text. */

static struct buf *next_shown(void)
{
	static struct buf shown[8];
	static unsigned next;
	struct buf *buf = &shown[next++ % ARRAY_SIZE(shown)];

	buf_clear(buf);
	return buf;
}

static const char *finish(struct buf *shown)
{
	cr_assert_eq(buf_append_byte(shown, '\0'), 0);
	return shown->data;
}

static void show_bytes(struct buf *shown, struct bytes bytes)
{
	for (size_t i = 0; i < bytes.size; i++) {
		if (!bytes.data[i])
			cr_assert_eq(buf_append_byte(shown, '\\'), 0);
		cr_assert_eq(buf_append_byte(shown, bytes.data[i] ? bytes.data[i] : '0'), 0);
	}
}

static void show_gap(struct buf *shown)
{
	if (shown->size)
		cr_assert_eq(buf_append_byte(shown, ' '), 0);
}

/* Another program. */

static sqlite3 *other_open(void)
{
	if (!other) {
		cr_assert_eq(sqlite3_open(path_of_store, &other), SQLITE_OK);
		sqlite3_busy_timeout(other, 600000);
	}
	return other;
}

void sql_runs(const char *sql)
{
	sqlite3 *db = other_open();

	cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s: %s", sql,
		     sqlite3_errmsg(db));
}

void sql_adds(const char *index, const char *data)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'l', %s, '%s')",
		 index, data);
	sql_runs(sql);
}

const char *sql_asks(const char *sql)
{
	struct buf *shown = next_shown();
	sqlite3 *db = other_open();
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	cr_assert_eq(code, SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(db));
	code = sqlite3_step(statement);
	if (code == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		cr_assert_eq(buf_append_str(shown, text ? text : "NULL"), 0);
	} else {
		cr_assert_eq(code, SQLITE_DONE, "%s: %s", sql, sqlite3_errmsg(db));
	}
	sqlite3_finalize(statement);
	return finish(shown);
}

/* Names. */

static const struct caller caller = { .uid = 1000, .gid = 1000 };

int find_inode(const char *path, struct inode **ret_inode)
{
	struct inode *inode = inode_ref(world_tree, world_tree->shown);

	while (*path) {
		size_t size = strcspn(path, "/");
		struct inode *next = NULL;
		int r = tree_lookup(world_tree, inode, bytes_make(path, size), &next);

		inode_forget(world_tree, inode, 1);
		if (r < 0)
			return r;
		inode = next;
		path += size;
		path += *path == '/';
	}
	*ret_inode = inode;
	return 0;
}

struct inode *inode_at(const char *path)
{
	struct inode *inode = NULL;
	int r = find_inode(path, &inode);

	cr_assert_eq(r, 0, "%s: %s", path, strerror(-r));
	return inode;
}

void forget(struct inode *inode)
{
	inode_forget(world_tree, inode, 1);
}

int looked_up(const char *path)
{
	struct inode *inode;
	int r = find_inode(path, &inode);

	if (r == 0)
		forget(inode);
	return r;
}

/* The directory of a path, counted; *ret_name is the rest of the path. */
static int find_dir(const char *path, struct inode **ret_dir, struct bytes *ret_name)
{
	const char *slash = strrchr(path, '/');
	char dir[1024] = "";

	cr_assert_lt(strlen(path), sizeof(dir));
	if (slash)
		memcpy(dir, path, (size_t)(slash - path));
	*ret_name = bytes_str(slash ? slash + 1 : path);
	return find_inode(dir, ret_dir);
}

static int make_at(const char *path, mode_t mode, bool will_save, struct inode **ret_inode)
{
	const struct tree_new what = { .mode = mode, .will_save = will_save };
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path, &dir, &name);

	if (r < 0)
		return r;
	r = tree_make(world_tree, &caller, dir, name, &what, ret_inode);
	forget(dir);
	return r;
}

int make_file(const char *path, mode_t mode)
{
	struct inode *inode;
	int r = make_at(path, mode, false, &inode);

	if (r == 0)
		forget(inode);
	return r;
}

void make_dir(const char *path)
{
	int r = make_file(path, S_IFDIR | 0755);

	cr_assert_eq(r, 0, "%s: %s", path, strerror(-r));
}

int unlinked(const char *path)
{
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path, &dir, &name);

	if (r < 0)
		return r;
	r = tree_unlink(world_tree, dir, name);
	forget(dir);
	return r;
}

int removed_dir(const char *path)
{
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path, &dir, &name);

	if (r < 0)
		return r;
	r = tree_rmdir(world_tree, dir, name);
	forget(dir);
	return r;
}

int make_nameless(const char *dir, struct inode **ret_inode)
{
	struct inode *inode = inode_at(dir);
	int r = tree_make_nameless(world_tree, &caller, inode, S_IFREG | 0640, ret_inode);

	forget(inode);
	return r;
}

int named(struct inode *inode, const char *path_to)
{
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path_to, &dir, &name);

	if (r < 0)
		return r;
	r = tree_link(world_tree, inode, dir, name);
	forget(dir);
	return r;
}

int named_over(struct inode *inode, const char *path_to)
{
	struct bytes name;
	struct inode *dir;
	int r = find_dir(path_to, &dir, &name);

	if (r < 0)
		return r;
	r = tree_name(world_tree, inode, dir, name);
	forget(dir);
	return r;
}

int linked(const char *path, const char *path_to)
{
	struct inode *inode;
	int r = find_inode(path, &inode);

	if (r < 0)
		return r;
	r = named(inode, path_to);
	forget(inode);
	return r;
}

static int rename_at(const char *path, const char *path_to, unsigned flags, pid_t pid)
{
	struct bytes name, name_to;
	struct inode *dir, *dir_to, *inode;
	int r = find_dir(path, &dir, &name);

	if (r < 0)
		return r;
	/* As the kernel looks the name up before. */
	if (tree_lookup_by(world_tree, dir, name, pid, &inode) == 0)
		forget(inode);
	r = find_dir(path_to, &dir_to, &name_to);
	if (r == 0) {
		r = tree_rename_by(world_tree, dir, name, dir_to, name_to, flags, pid);
		forget(dir_to);
	}
	forget(dir);
	return r;
}

int renamed(const char *path, const char *path_to, unsigned flags)
{
	return rename_at(path, path_to, flags, 0);
}

int renamed_by(const char *path, const char *path_to, pid_t pid)
{
	return rename_at(path, path_to, 0, pid);
}

static int show_entry(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		      uint64_t position)
{
	(void)inode;
	(void)shown;
	if (position <= 2)
		return 0;
	show_gap(arg);
	show_bytes(arg, name);
	return 0;
}

const char *names_in(const char *path)
{
	struct inode *dir = inode_at(path);
	struct buf *shown = next_shown();
	int r = tree_list(world_tree, dir, 0, UINT64_MAX, false, show_entry, shown);

	cr_assert_eq(r, 0, "%s: %s", path, strerror(-r));
	forget(dir);
	return finish(shown);
}

/* Attributes. */

struct stat stat_of_inode(struct inode *inode)
{
	struct stat st;
	int r = tree_stat(world_tree, inode, &st);

	/* What a reader may have in the kernel keeps its size until that is told otherwise. */
	while (tree_is_notifying(world_tree))
		usleep(100);
	if (r == 0)
		r = tree_stat(world_tree, inode, &st);
	cr_assert_eq(r, 0, "tree_stat: %s", strerror(-r));
	return st;
}

struct stat stat_of(const char *path)
{
	struct inode *inode = inode_at(path);
	struct stat st = stat_of_inode(inode);

	forget(inode);
	return st;
}

int set_attr(const char *path, const struct stat *st, unsigned mask)
{
	struct set_attr set = { .pid = getpid(), .st = st, .mask = mask };
	struct inode *inode;
	struct stat now;
	bool own;
	int r = find_inode(path, &inode);

	if (r < 0)
		return r;
	r = tree_set_attr(world_tree, inode, &set, &now, &own);
	forget(inode);
	return r;
}

int set_attr_by(struct handle *handle, const struct stat *st, unsigned mask)
{
	const struct set_attr set = {
		.handle = handle,
		.pid = getpid(),
		.st = st,
		.mask = mask,
	};
	struct stat now;
	bool own;

	return tree_set_attr(world_tree, handle_opened(handle), &set, &now, &own);
}

int64_t nanoseconds(struct timespec time)
{
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Open files. */

static int open_file(const char *path, int flags, pid_t pid, struct handle **ret_handle)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	struct inode *inode;
	int r = find_inode(path, &inode);

	if (r == 0 && (flags & O_CREAT) && (flags & O_EXCL)) {
		forget(inode);
		return -EEXIST;
	}
	if (r == -ENOENT && (flags & O_CREAT))
		r = make_at(path, S_IFREG | 0644, writes && !(flags & O_APPEND), &inode);
	else
		flags &= ~O_CREAT;
	if (r < 0)
		return r;
	r = tree_open_file(world_tree, inode, FACE_ANY, flags, pid, ret_handle);
	forget(inode);
	return r;
}

int try_open(const char *path, int flags, struct handle **ret_handle)
{
	return open_file(path, flags, getpid(), ret_handle);
}

struct handle *open_by(const char *path, int flags, pid_t pid)
{
	struct handle *handle = NULL;
	int r = open_file(path, flags, pid, &handle);

	cr_assert_eq(r, 0, "%s: %s", path, strerror(-r));
	return handle;
}

struct handle *open_at(const char *path, int flags)
{
	struct handle *handle = NULL;
	int r = try_open(path, flags, &handle);

	cr_assert_eq(r, 0, "%s: %s", path, strerror(-r));
	return handle;
}

struct handle *open_inode(struct inode *inode, int flags)
{
	struct handle *handle = NULL;
	int r = tree_open_file(world_tree, inode, FACE_ANY, flags, getpid(), &handle);

	cr_assert_eq(r, 0, "a file is not opened: %s", strerror(-r));
	return handle;
}

int open_error(const char *path, int flags)
{
	struct handle *handle;
	int r = try_open(path, flags, &handle);

	if (r == 0)
		handle_free(world_tree, handle);
	return r;
}

void write_at(struct handle *handle, uint64_t offset, struct bytes data)
{
	ssize_t n = handle_write(world_tree, handle, getpid(), offset, data);

	cr_assert_eq(n, (ssize_t)data.size, "wrote %zd of %zu bytes", n, data.size);
}

void append_to(struct handle *handle, const char *text)
{
	/* The kernel only guesses where the end is. */
	write_at(handle, 0, bytes_str(text));
}

void close_by(struct handle *handle, pid_t pid)
{
	int r = tree_flush(world_tree, handle, pid);

	cr_assert_eq(r, 0, "tree_flush: %s", strerror(-r));
	handle_free(world_tree, handle);
}

void close_handle(struct handle *handle)
{
	close_by(handle, getpid());
}

/* In small parts, so that positions in the middle are found. */
static void read_all(struct handle *handle, struct buf *out)
{
	size_t before;

	do {
		int r;

		before = out->size;
		r = handle_read(world_tree, handle, out->size, 4096, out);
		cr_assert_eq(r, 0, "handle_read: %s", strerror(-r));
	} while (out->size > before);
}

const char *read_by(struct handle *handle)
{
	_cleanup_(buf_done) struct buf bytes = { 0 };
	struct buf *shown = next_shown();

	read_all(handle, &bytes);
	show_bytes(shown, buf_bytes(&bytes));
	return finish(shown);
}

/* Whole files. */

void save(const char *path, const char *text)
{
	struct handle *handle = open_at(path, O_WRONLY | O_CREAT | O_TRUNC);

	write_at(handle, 0, bytes_str(text));
	close_handle(handle);
}

void append(const char *path, const char *text)
{
	struct handle *handle = open_at(path, O_WRONLY | O_CREAT | O_APPEND);

	append_to(handle, text);
	close_handle(handle);
}

struct bytes bytes_of(const char *path)
{
	struct handle *handle = open_at(path, O_RDONLY);
	struct buf *bytes = next_shown();

	read_all(handle, bytes);
	handle_free(world_tree, handle);
	return buf_bytes(bytes);
}

const char *content_of(const char *path)
{
	struct buf *shown = next_shown();

	show_bytes(shown, bytes_of(path));
	return finish(shown);
}

/* The store. */

static int show_row(void *arg, int64_t index, struct bytes data)
{
	show_gap(arg);
	cr_assert_eq(buf_printf(arg, "%" PRId64 "=", index), 0);
	show_bytes(arg, data);
	return 0;
}

static struct backend_snapshot *look(void)
{
	struct backend_snapshot *snapshot = NULL;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	return snapshot;
}

const char *rows_of(const char *session, const char *key)
{
	struct backend_snapshot *snapshot = look();
	struct buf *shown = next_shown();
	int r = world_store->ops->row_read(world_store, snapshot, bytes_str(session),
					   bytes_str(key), INT64_MIN, show_row, shown);

	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert_eq(r, 0, "row_read: %s", strerror(-r));
	return finish(shown);
}

static int show_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	show_gap(arg);
	cr_assert_eq(buf_printf(arg, "%" PRId64 ".%" PRId64 "=", index, seq), 0);
	show_bytes(arg, data);
	return 0;
}

const char *pieces_of(const char *path)
{
	uint64_t ino = stat_of(path).st_ino;
	struct backend_snapshot *snapshot = look();
	struct buf *shown = next_shown();
	int r = world_store->ops->piece_read(world_store, snapshot, ino, INT64_MIN, INT64_MIN,
					     show_piece, shown);

	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert_eq(r, 0, "piece_read: %s", strerror(-r));
	return finish(shown);
}

static int show_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	show_gap(arg);
	show_bytes(arg, session);
	cr_assert_eq(buf_append_byte(arg, '/'), 0);
	show_bytes(arg, key);
	cr_assert_eq(buf_printf(arg, "[%" PRId64 "-%" PRId64 "]", stat->first, stat->last), 0);
	return 0;
}

const char *keys(void)
{
	const struct bytes none = { 0 };
	struct backend_snapshot *snapshot = look();
	struct buf *shown = next_shown();
	int r = world_store->ops->key_list(world_store, snapshot, none, none, show_key, shown);

	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert_eq(r, 0, "key_list: %s", strerror(-r));
	return finish(shown);
}
