/* SPDX-License-Identifier: MIT */

/* What the tree waits for comes in its time, also when somebody sets the clock. */

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "fs/upkeep/upkeep.h"
#include "fs/api/trash.h"
#include "fs/inode/locks.h"
#include "backend/base/tick.h"
#include "tests/unit/clock.h"
#include "tests/unit/until.h"
#include "tests/unit/world.h"

enum { HOURS_2 = 7200 };

/* What the clock was set back by, in seconds.  The linker's --wrap option prescribes the names. */
atomic_long clock_set_back;
atomic_long clock_ahead;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int r = __real_clock_gettime(clock, time);

	if (r == 0 && clock == CLOCK_REALTIME)
		time->tv_sec -= clock_set_back;
	else if (r == 0)
		time->tv_sec += clock_ahead;
	return r;
}

/* Within a time that is far below what the clock was set back by. */
static bool comes_to(const char *(*ask)(void), const char *answer)
{
	return UNTIL(strcmp(ask(), answer) == 0);
}

static const char *rows_of_k(void)
{
	return sql_asks("SELECT group_concat(state_data, ' ') FROM agentscope_sessions WHERE "
			"state_key = 'k'");
}

SqliteStore(clock, that_is_set_back_keeps_no_rows_of_unlinked_files)
{
	save("s/k.json", "1");
	cr_assert_str_eq(rows_of_k(), "1");
	cr_assert_eq(unlinked("s/k.json"), 0);
	clock_set_back = HOURS_2;
	cr_assert(comes_to(rows_of_k, "NULL"), "the rows are there: %s", rows_of_k());
}

SqliteStore(clock, that_is_set_back_holds_up_no_writer_that_pauses)
{
	struct handle *handle;

	world_options.pause = 1;
	world_reopen();
	save("s/k.json", "1");
	handle = open_at("s/k.json", O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("2"));
	clock_set_back = HOURS_2;
	cr_assert(comes_to(rows_of_k, "2"), "the rows are: %s", rows_of_k());
	close_handle(handle);
}

SqliteStore(clock, that_is_set_forward_and_back_holds_up_no_times)
{
	struct stat st = { .st_mtim = { .tv_sec = 5 } };
	struct handle *handle = open_at("s/plain", O_CREAT | O_WRONLY);

	clock_set_back = -HOURS_2;
	write_at(handle, 0, BYTES("text"));
	clock_set_back = HOURS_2;
	close_handle(handle);
	cr_assert_eq(set_attr("s/plain", &st, TREE_SET_MTIME), 0);
	world_settle();
	cr_assert_eq(stat_of("s/plain").st_mtim.tv_sec, 5);
}

static const char *trashed(void)
{
	return sql_asks("SELECT count(*) FROM sessfs_entry WHERE parent = 0");
}

static bool has_looked(void)
{
	int64_t at;

	pthread_mutex_lock(&world_tree->upkeep->lock);
	at = world_tree->upkeep->expire_at;
	pthread_mutex_unlock(&world_tree->upkeep->lock);
	return at && at != INT64_MAX;
}

/* The thread also wakes by itself, after a minute. */
static void wake_expirer(void)
{
	pthread_mutex_lock(&world_tree->upkeep->lock);
	pthread_cond_signal(&world_tree->upkeep->changed);
	pthread_mutex_unlock(&world_tree->upkeep->lock);
}

SqliteStore(clock, that_is_set_back_holds_up_nothing_that_is_to_be_purged)
{
	cr_assert_eq(tree_trash(world_tree, BYTES("s"), INT64_MAX, 0), 0);
	cr_assert_str_eq(trashed(), "1");
	world_options.expires = true;
	clock_set_back = -HOURS_2;
	world_reopen();
	while (!has_looked())
		usleep(20000);
	cr_assert(comes_to(trashed, "0"), "it is there: %s", trashed());
	make_dir("s");
	clock_set_back = 0;
	cr_assert_eq(tree_trash(world_tree, BYTES("s"), INT64_MAX, 0), 0);
	wake_expirer();
	cr_assert(comes_to(trashed, "0"), "it is there: %s", trashed());
}

/* Whoever deletes this node fails, and who asks for its ttl if they have any; that of all others is
 * an hour then. */
static struct {
	struct backend_ops ops;
	const struct backend_ops *real;
	uint64_t ino;
	int error;
	bool ttls;
} keeping;

static int keeping_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	for (size_t i = 0; i < batch->count; i++)
		if (batch->ops[i].type == BACKEND_NODE_DELETE && batch->ops[i].ino == keeping.ino)
			return keeping.error;
	return keeping.real->commit(backend, batch, flags);
}

static int keeping_xattr_get(struct backend *backend, struct backend_snapshot *snapshot,
			     uint64_t ino, struct bytes name, struct buf *value)
{
	if (!keeping.ttls || !bytes_equal(name, BYTES(TRASH_TTL)))
		return keeping.real->xattr_get(backend, snapshot, ino, name, value);
	return ino == keeping.ino ? keeping.error : buf_append_str(value, "1h");
}

static int keep_one(struct backend *inner, struct backend **ret_backend)
{
	*ret_backend = inner;
	keeping.real = inner->ops;
	keeping.ops = *inner->ops;
	keeping.ops.commit = keeping_commit;
	keeping.ops.xattr_get = keeping_xattr_get;
	inner->ops = &keeping.ops;
	return 0;
}

/* Three sessions, of which the first one makes trouble. */
static void make_three(int error)
{
	world_wrap(keep_one);
	world_open(WORLD_SQLITE);
	keeping.error = error;
	for (char name[] = "a"; *name <= 'c'; ++*name) {
		make_dir(name);
		keeping.ino = keeping.ino ? keeping.ino : stat_of(name).st_ino;
	}
}

/* They are over. */
static void purge_behind(int error)
{
	make_three(error);
	for (char name[] = "a"; *name <= 'c'; ++*name)
		cr_assert_eq(tree_trash(world_tree, bytes_str(name), INT64_MAX, 1), 0);
	cr_assert_str_eq(trashed(), "3");
	world_options.expires = true;
	world_reopen();
}

Test(clock, holds_up_none_behind_one_that_cannot_be_purged)
{
	purge_behind(-EIO);
	cr_expect(comes_to(trashed, "1"), "there are %s", trashed());
	world_close();
}

Test(clock, tries_no_other_when_the_whole_store_refuses)
{
	purge_behind(-EBUSY);
	while (!has_looked())
		usleep(20000);
	cr_expect_str_eq(trashed(), "3");
	world_close();
}

static const char *left(void)
{
	return sql_asks("SELECT count(*) FROM sessfs_entry WHERE parent = 1");
}

static void expire_behind(int error)
{
	make_three(error);
	keeping.ttls = true;
	clock_set_back = -HOURS_2;
	world_options.expires = true;
	world_reopen();
}

Test(clock, holds_up_none_behind_one_that_nobody_knows_the_end_of)
{
	expire_behind(-EIO);
	cr_expect(comes_to(left, "1"), "there are %s", left());
	world_close();
}

Test(clock, lets_none_go_when_the_whole_store_refuses)
{
	expire_behind(-EBUSY);
	while (!has_looked())
		usleep(20000);
	cr_expect_str_eq(left(), "3");
	world_close();
}
