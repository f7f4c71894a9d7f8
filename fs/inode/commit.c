/* SPDX-License-Identifier: MIT */
#include "fs/inode/commit.h"

#include <errno.h>

#include "fs/inode/waiting.h"

static bool is_alone(const struct tree *tree)
{
	return tree->changer == pthread_self();
}

/* From now on a snapshot may show it; the store calls this in the thread that commits, which may be
 * another one. */
static void on_visible(void *arg)
{
	struct tree *tree = arg;

	tree->applying.pending = true;
}

static void wake_waiters(struct tree *tree)
{
	tree->applying.done++;
	if (!tree->applying.waiters)
		return;
	WITH_MUTEX(&tree->applying.lock);
	pthread_cond_broadcast(&tree->applying.changed);
}

/* Readers that begin a snapshot now wait for tree.lock until memory has it, too. */
static void applying(struct tree *tree)
{
	if (!tree->applying.pending)
		return;
	tree->applying.pending = false;
	wake_waiters(tree);
}

static bool is_applied(const struct tree *tree, uint64_t applied)
{
	return !tree->applying.pending && (!tree->applying.files || tree->applying.done != applied);
}

void tree_wait_applied(struct tree *tree, uint64_t applied)
{
	if (is_applied(tree, applied))
		return;
	WITH_MUTEX(&tree->applying.lock);
	tree->applying.waiters++;
	while (!is_applied(tree, applied))
		pthread_cond_wait(&tree->applying.changed, &tree->applying.lock);
	tree->applying.waiters--;
}

/* When the store is full, the trash gives room and the commit runs again: each time twice as many
 * files, so that few commits are in vain. */
static int commit_giving(struct tree *tree, struct backend_batch *source, unsigned flags)
{
	struct backend *backend = tree->backend;
	int r = backend->ops->commit(backend, source, flags);

	for (size_t count = 1;
	     r == -ENOSPC && !tree->trashed.returning && !(flags & BACKEND_AT_ONCE); count *= 2) {
		int given = tree->give_room(tree, count);

		if (given <= 0)
			return given == -ESTALE ? given : r;
		if (source->rewind)
			source->rewind(source);
		r = backend->ops->commit(backend, source, flags);
	}
	return r;
}

static int commit_source(struct tree *tree, struct backend_batch *source, unsigned flags)
{
	int r;

	if (!is_alone(tree))
		return commit_giving(tree, source, flags);
	source->visible = on_visible;
	source->visible_arg = tree;
	pthread_rwlock_unlock(&tree->lock);
	r = commit_giving(tree, source, flags);
	pthread_rwlock_wrlock(&tree->lock);
	applying(tree);
	return r;
}

/* What sessions may hold. */
static int commit_take(struct tree *tree, struct batch *batch)
{
	return batch && batch->growths ? tree->quota.take(tree, batch) : 0;
}

static void commit_settle(struct tree *tree, struct batch *batch, int r)
{
	if (batch && batch->growths)
		tree->quota.settle(tree, batch, r);
}

int tree_commit_source(struct tree *tree, struct batch *batch, struct backend_batch *source,
		       unsigned flags)
{
	int r = commit_take(tree, batch);

	if (r < 0)
		return r;
	r = commit_source(tree, source, flags);
	commit_settle(tree, batch, r);
	if (r == -ESTALE)
		tree_want_batch(tree, source->ops, source->count);
	return r;
}

int tree_commit(struct tree *tree, struct batch *batch, unsigned flags)
{
	struct backend_batch source = { .ops = batch->ops,
					.count = batch->count,
					.append = batch->append };

	if (batch->error || !batch->count)
		return batch->error;
	return tree_commit_source(tree, batch, &source, flags);
}

int tree_commit_locked(struct tree *tree, struct batch *batch, unsigned flags)
{
	struct backend_batch source = { .ops = batch->ops, .count = batch->count };

	if (batch->error || !batch->count)
		return batch->error;
	return commit_giving(tree, &source, flags);
}

struct file_commit {
	struct tree *tree;
	struct inode *inode;
};

static void on_file_visible(void *arg)
{
	struct file_commit *commit = arg;

	if (!atomic_exchange(&commit->inode->unapplied, true))
		commit->tree->applying.files++;
}

int tree_commit_file(struct tree *tree, struct inode *inode, struct batch *batch, unsigned flags)
{
	struct file_commit commit = { .tree = tree, .inode = inode };
	struct backend_batch source = {
		.ops = batch->ops,
		.count = batch->count,
		.append = batch->append,
		.visible = on_file_visible,
		.visible_arg = &commit,
	};
	int r;

	if (is_alone(tree) || batch->error || !batch->count)
		return tree_commit(tree, batch, flags);
	r = commit_take(tree, batch);
	if (r < 0)
		return r;
	pthread_mutex_unlock(&inode->lock);
	r = tree_commit_source(tree, NULL, &source, flags);
	pthread_mutex_lock(&inode->lock);
	commit_settle(tree, batch, r);
	if (inode->unapplied) {
		inode->unapplied = false;
		tree->applying.files--;
		wake_waiters(tree);
	}
	return r;
}
