/* SPDX-License-Identifier: MIT */
#include "tests/unit/many.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fs/upkeep/upkeep.h"
#include "backend/base/log.h"

static struct {
	struct tree *tree;
	struct backend *store;
	const struct backend_ops *ops; /* the store's own */
	struct backend_ops hooked;
} mounts[MANY_MAX];

static int mount_count, used;

static struct {
	int number, other;
	many_fn *fn;
} meanwhile;

void many_use(int number)
{
	used = number;
	world_tree = mounts[number].tree;
	world_store = mounts[number].store;
}

void many_meanwhile(int number, int other, many_fn *fn)
{
	meanwhile.number = number;
	meanwhile.other = other;
	meanwhile.fn = fn;
}

bool many_forget_meanwhile(void)
{
	bool waits = meanwhile.fn;

	meanwhile.fn = NULL;
	return waits;
}

/* The tree's own threads commit, too; they are not meant. */
static _Thread_local bool is_test;

static struct {
	int number;
	unsigned count;
} commits;

void many_count_commits(void)
{
	commits.number = used;
	commits.count = 0;
}

unsigned many_commits(void)
{
	return commits.count;
}

static int hooked_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	int number = 0, before = used;
	many_fn *fn = meanwhile.fn;

	while (mounts[number].store != backend)
		number++;
	commits.count += is_test && number == commits.number;
	if (fn && is_test && number == meanwhile.number) {
		meanwhile.fn = NULL;
		many_use(meanwhile.other);
		fn();
		many_use(before);
	}
	return mounts[number].ops->commit(backend, batch, flags);
}

static void hook(int number)
{
	mounts[number].ops = mounts[number].store->ops;
	mounts[number].hooked = *mounts[number].ops;
	mounts[number].hooked.commit = hooked_commit;
	mounts[number].store->ops = &mounts[number].hooked;
}

static int refuse_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	(void)backend;
	(void)batch;
	(void)flags;
	return -EIO;
}

static void hear_nothing(int level, const char *sentence)
{
	(void)level;
	(void)sentence;
}

void many_kill_last(void)
{
	const int number = --mount_count;

	cr_assert(number);
	mounts[number].hooked.commit = refuse_commit;
	log_set_sink(hear_nothing);
	tree_close(mounts[number].tree);
	log_set_sink(NULL);
	many_use(0);
}

static void join(int number)
{
	mounts[number].store = world_join();
	cr_assert_eq(tree_open(mounts[number].store, &world_options, &mounts[number].tree, NULL),
		     0);
	hook(number);
}

/* A mount that was alone tells what it has in use when it sees another one. */
static void wait_for_uses(int number)
{
	const struct backend_op op = { .type = BACKEND_GUARD,
				       .ino = INT64_MAX,
				       .at = BACKEND_UNUSED };

	while (backend_commit(mounts[number].store, &op, 1, BACKEND_ANYWAY) == -EAGAIN)
		usleep(1000);
}

void many_open(int kind, int count)
{
	is_test = true;
	world_shared = true;
	world_open(kind);
	make_dir("s");
	mounts[0].tree = world_tree;
	mounts[0].store = world_store;
	hook(0);
	for (mount_count = 1; mount_count < count; mount_count++)
		join(mount_count);
	for (int i = 0; i < count; i++)
		wait_for_uses(i);
	many_use(0);
}

void many_reap_here(void)
{
	int r = TREE_RETRY(world_tree, tree_reap_orphans(world_tree));

	cr_assert(r == 0 || r == -EBUSY, "%d", r);
}

void many_settle_here(void)
{
	world_settle();
	many_reap_here();
}

/* Twice: what one lets go the others may delete. */
void many_settle(void)
{
	int before = used;

	for (int i = 0; i < 2 * mount_count; i++) {
		many_use(i % mount_count);
		cr_assert_eq(world_tree->take_in(world_tree), 0);
		many_settle_here();
	}
	many_use(before);
}

static int count_node(void *arg, const struct backend_node *node)
{
	(void)node;
	++*(unsigned *)arg;
	return 0;
}

unsigned many_orphans(void)
{
	struct backend_snapshot *snapshot;
	unsigned orphans = 0;

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(world_store->ops->node_list(world_store, snapshot, 0, true, count_node,
						 &orphans),
		     0);
	world_store->ops->snapshot_end(world_store, snapshot);
	return orphans;
}

void many_close(void)
{
	cr_expect(!many_forget_meanwhile(), "nothing was committed meanwhile");
	many_settle();
	for (int i = 1; i < mount_count; i++) {
		size_t known;

		many_use(i);
		known = world_inodes();
		cr_expect_eq(known, 1, "mount %d knows %zu inodes beside the root", i, known - 1);
		mounts[i].store->ops = mounts[i].ops;
		tree_close(mounts[i].tree);
	}
	many_use(0);
	mounts[0].store->ops = mounts[0].ops;
	world_close();
}
