/* SPDX-License-Identifier: MIT */

/* Writing to the store what only memory has: times, and small writes that are buffered. */

#include <errno.h>
#include <stdlib.h>

#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "backend/base/chain.h"
#include "backend/base/tick.h"

/* Appends to an open list that write its times at once beside other mounts. */
enum { SHARED_FIRST = 16 };

/* An array of its own, since the inodes are linked into the list again as soon as they change.
 * all: also those whose next append would write them. */
static int times_take(struct tree *tree, bool all, struct inodes *times)
{
	struct inode *inode, *next;

	WITH_MUTEX(&tree->times_lock);
	for (inode = tree->times_first; inode; inode = inode->times_next)
		times->count++;
	times->inode = calloc(times->count + 1, sizeof(struct inode *));
	times->count = 0;
	if (!times->inode)
		return -ENOMEM;
	for (inode = tree->times_first; inode; inode = next) {
		next = inode->times_next;
		if (!all && inode->shared_times.appends &&
		    tick_now() - inode->shared_times.at < TIMES_INTERVAL_SHARED * (int64_t)1000000)
			continue;
		CHAIN_LEAVE(inode, times_next, times_link);
		inode->times_dirty = false;
		times->inode[times->count++] = inode;
	}
	return 0;
}

static int write_times_once(struct tree *tree, bool all)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct inodes times = { 0 };
	int failed = 0, r;

	{
		/* Under the write lock, so that the nodes do not change until they are
		 * committed. */
		WITH_WRITE_LOCK(tree);
		r = times_take(tree, all, &times);
		for (size_t i = 0; i < times.count; i++) {
			struct inode *inode = times.inode[i];
			int settled = file_write_back(tree, inode);

			if (settled < 0)
				failed = settled;
			if (!inode->gone)
				batch_node_put(&batch, &inode->node);
		}
		if (r == 0)
			r = tree_commit(tree, &batch, BACKEND_ANYWAY | BACKEND_FREES);
		if (r == 0)
			r = failed;
		/* Still under the lock, before the values of the store may be taken in instead. */
		for (size_t i = 0; r < 0 && !tree->stopping && i < times.count; i++)
			inode_times_dirty(tree, times.inode[i]);
	}
	for (size_t i = 0; i < times.count; i++)
		inode_forget(tree, times.inode[i], 1);
	free(times.inode);
	return r;
}

static int write_one_once(struct tree *tree, struct inode *inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	WITH_CHANGE_LOCK(tree, inode);
	WITH_INODE_LOCK(inode);
	int r;

	if (inode->gone || !inode_has_times(tree, inode))
		return 0;
	/* All of the node, so that times which another mount has set meanwhile are seen first. */
	batch_node_put(&batch, &inode->node);
	r = tree_commit_file(tree, inode, &batch, BACKEND_ANYWAY | BACKEND_FREES);
	if (r == 0)
		inode_times_written(tree, inode);
	return r;
}

int file_write_times(struct tree *tree, struct inode *inode)
{
	if (!inode->shared_times.appends)
		return 0;
	inode->shared_times.appends = 0;
	return inode_has_times(tree, inode) ? TREE_RETRY(tree, write_one_once(tree, inode)) : 0;
}

int tree_write_times(struct tree *tree, bool all)
{
	/* Another mount may have changed one of these nodes. */
	return TREE_RETRY(tree, write_times_once(tree, all));
}

bool shared_times_due(struct shared_times *times)
{
	const int64_t interval = TIMES_INTERVAL_SHARED * (int64_t)1000000;
	int64_t now = tick_now();

	if (times->appends >= SHARED_FIRST && now - times->at < interval)
		return false;
	times->at = now;
	return true;
}
