/* SPDX-License-Identifier: MIT */
#include "fs/inode/reader-snapshot.h"

#include <errno.h>

#include "fs/inode/waiting.h"

static bool is_held(const struct reader_snapshot *held)
{
	return held->view.backend;
}

/* All under tree.reader_snapshots.lock. */

/* new.changes was taken before its view was begun. */
static void keep(struct reader_snapshot *held, const struct reader_snapshot *new)
{
	view_end(&held->view);
	*held = *new;
}

/* With all that others have changed taken in; then nothing else is needed. */
static int begin_whole(struct tree *tree, unsigned flags)
{
	struct reader_snapshot new = { .changes = tree->changes };
	int r = view_begin_whole(tree, flags | BACKEND_BEGUN, &new.view);

	if (r < 0)
		return r;
	keep(&tree->reader_snapshots.held[SNAPSHOT_WHOLE], &new);
	view_end(&tree->reader_snapshots.held[SNAPSHOT_PAST].view);
	return 0;
}

/* It shows the file as the tree knows it. */
static int begin_past(struct tree *tree, const struct inode *inode)
{
	struct reader_snapshot new = { .changes = tree->changes };
	int r = view_begin(tree, BACKEND_BEGUN, &new.view);

	if (r == 0)
		r = inode_heed(tree, &new.view, inode);
	if (r == 0)
		keep(&tree->reader_snapshots.held[SNAPSHOT_PAST], &new);
	else
		view_end(&new.view);
	return r;
}

static bool has(const struct tree *tree, const struct inode *inode)
{
	for (size_t i = 0; i < SNAPSHOTS; i++)
		if (is_held(&tree->reader_snapshots.held[i]) &&
		    inode->changed <= tree->reader_snapshots.held[i].changes)
			return true;
	return false;
}

int reader_snapshot_begin(struct tree *tree, const struct inode *inode)
{
	int r = 0;

	if (!tree->reader_snapshots.may_be || tree->reader_snapshots.unwanted)
		return 0;
	pthread_mutex_lock(&tree->reader_snapshots.lock);
	tree->reader_snapshots.used = true;
	if (!has(tree, inode)) {
		r = begin_whole(tree, 0);
		if (r == -ESTALE && tree->taker.late)
			r = begin_past(tree, inode);
	}
	pthread_mutex_unlock(&tree->reader_snapshots.lock);
	/* Without a snapshot the file can be read all the same. */
	return r == -ESTALE ? r : 0;
}

void reader_snapshot_opened(struct tree *tree)
{
	tree->reader_snapshots.readers++;
}

void reader_snapshot_closed(struct tree *tree)
{
	tree->reader_snapshots.readers--;
}

/* Whether the snapshot has the file's rows as the tree knows them, but for some behind them.  A
 * reader that has read those since has begun a newer snapshot (reader_snapshot_begin()). */
static bool has_same(struct tree *tree, struct reader_snapshot *held, struct inode *inode)
{
	struct backend_node *node = &inode->node, was;
	bool same;

	if (!is_held(held) || inode->replaced_at > held->changes ||
	    inode_heed(tree, &held->view, inode) < 0 ||
	    ASK(&held->view, node_get, node->ino, &was) < 0)
		return false;
	same = was.kind == node->kind && bytes_equal(was.session, node->session) &&
	       bytes_equal(was.key, node->key);
	if (same) {
		tree->reader_snapshots.flags = node->flags;
		tree->reader_snapshots.size = node->size;
		node->flags = was.flags;
		node->size = was.size;
	}
	backend_node_done(&was);
	return same;
}

struct view *reader_snapshot_view(struct tree *tree, struct inode *inode)
{
	pthread_mutex_lock(&tree->reader_snapshots.lock);
	for (size_t i = 0; i < SNAPSHOTS; i++)
		if (has_same(tree, &tree->reader_snapshots.held[i], inode))
			return &tree->reader_snapshots.held[i].view;
	pthread_mutex_unlock(&tree->reader_snapshots.lock);
	return NULL;
}

void reader_snapshot_seen(struct tree *tree, struct inode *inode)
{
	inode->node.flags = tree->reader_snapshots.flags;
	inode->node.size = tree->reader_snapshots.size;
	pthread_mutex_unlock(&tree->reader_snapshots.lock);
}

static bool any_held(const struct tree *tree)
{
	return is_held(&tree->reader_snapshots.held[SNAPSHOT_WHOLE]) ||
	       is_held(&tree->reader_snapshots.held[SNAPSHOT_PAST]);
}

bool reader_snapshot_held(struct tree *tree)
{
	WITH_MUTEX(&tree->reader_snapshots.lock);

	return any_held(tree);
}

static void end_all(struct tree *tree)
{
	for (size_t i = 0; i < SNAPSHOTS; i++)
		view_end(&tree->reader_snapshots.held[i].view);
}

void reader_snapshot_renew(struct tree *tree)
{
	WITH_MUTEX(&tree->reader_snapshots.lock);

	if (tree->reader_snapshots.unwanted ||
	    (!tree->reader_snapshots.used && !tree->reader_snapshots.readers))
		end_all(tree);
	else if (any_held(tree))
		(void)begin_whole(tree, BACKEND_AT_ONCE);
	tree->reader_snapshots.used = false;
}

static void on_keep(void *arg, enum backend_keep how)
{
	struct tree *tree = arg;

	if (how == BACKEND_KEEP_CONTENT || how == BACKEND_KEEP_AGAIN) {
		tree->reader_snapshots.unwanted = how == BACKEND_KEEP_CONTENT;
		return;
	}
	/* Only trylock: the lock's holder may be waiting for the store, which calls this. */
	if (pthread_mutex_trylock(&tree->reader_snapshots.lock) != 0)
		return;
	if (how == BACKEND_KEEP_NONE)
		end_all(tree);
	else if (any_held(tree))
		(void)begin_whole(tree, BACKEND_AT_ONCE);
	pthread_mutex_unlock(&tree->reader_snapshots.lock);
}

void reader_snapshot_start(struct tree *tree)
{
	tree->reader_snapshots.may_be = backend_snapshot_keep(tree->backend, on_keep, tree);
}

void reader_snapshot_end(struct tree *tree)
{
	backend_snapshot_keep(tree->backend, NULL, NULL);
	end_all(tree);
}
