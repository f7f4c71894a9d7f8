/* SPDX-License-Identifier: MIT */
#include "fs/inode/commit.h"

#include <errno.h>

#include "fs/inode/waiting.h"

static bool is_alone(const struct tree *tree)
{
	return tree->changer == pthread_self();
}

/* From now on a snapshot may show it; the store calls this, in whatever thread commits. */
static void on_visible(void *arg)
{
	struct tree *tree = arg;

	tree->unapplied = true;
}

/* Readers that begin a snapshot now wait for tree.lock until memory has it, too. */
static void applying(struct tree *tree)
{
	if (!tree->unapplied)
		return;
	pthread_mutex_lock(&tree->applied_lock);
	tree->unapplied = false;
	tree->applied++;
	pthread_cond_broadcast(&tree->applied_changed);
	pthread_mutex_unlock(&tree->applied_lock);
}

void tree_wait_applied(struct tree *tree)
{
	if (!tree->unapplied)
		return;
	pthread_mutex_lock(&tree->applied_lock);
	while (tree->unapplied)
		pthread_cond_wait(&tree->applied_changed, &tree->applied_lock);
	pthread_mutex_unlock(&tree->applied_lock);
}

static int commit_source(struct tree *tree, struct backend_batch *source, unsigned flags)
{
	int r;

	if (!is_alone(tree))
		return tree->backend->ops->commit(tree->backend, source, flags);
	source->visible = on_visible;
	source->visible_arg = tree;
	pthread_rwlock_unlock(&tree->lock);
	r = tree->backend->ops->commit(tree->backend, source, flags);
	pthread_rwlock_wrlock(&tree->lock);
	applying(tree);
	return r;
}

int tree_commit_source(struct tree *tree, struct backend_batch *source, unsigned flags)
{
	const struct backend_op *ops = source->ops;
	size_t count = source->count;
	int r = commit_source(tree, source, flags);

	if (r == -ESTALE)
		tree_want_batch(tree, ops, count);
	return r;
}

int tree_commit(struct tree *tree, struct batch *batch, unsigned flags)
{
	struct backend_batch source = { .ops = batch->ops, .count = batch->count };

	if (batch->error || !batch->count)
		return batch->error;
	return tree_commit_source(tree, &source, flags);
}
