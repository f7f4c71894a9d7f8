/* SPDX-License-Identifier: MIT */
#include "fs/inode/kept.h"

#include <errno.h>

#include "fs/inode/waiting.h"

static bool is_held(const struct kept *kept)
{
	return kept->view.backend;
}

/* All under kept.lock. */

/* new.changes was taken before its view was begun. */
static void keep(struct kept *kept, const struct kept *new)
{
	view_end(&kept->view);
	*kept = *new;
}

/* With all that others have changed taken in; then nothing else is needed. */
static int begin_whole(struct tree *tree, unsigned flags)
{
	struct kept new = { .changes = tree->changes };
	int r = view_begin_whole(tree, flags | BACKEND_BEGUN, &new.view);

	if (r < 0)
		return r;
	keep(&tree->kept.kept[KEPT_WHOLE], &new);
	view_end(&tree->kept.kept[KEPT_PAST].view);
	return 0;
}

/* It shows the file as the tree knows it. */
static int begin_past(struct tree *tree, const struct inode *inode)
{
	struct kept new = { .changes = tree->changes };
	int r = view_begin(tree, BACKEND_BEGUN, &new.view);

	if (r == 0)
		r = inode_heed(tree, &new.view, inode);
	if (r == 0)
		keep(&tree->kept.kept[KEPT_PAST], &new);
	else
		view_end(&new.view);
	return r;
}

static bool has(const struct tree *tree, const struct inode *inode)
{
	for (size_t i = 0; i < KEPTS; i++)
		if (is_held(&tree->kept.kept[i]) && inode->changed <= tree->kept.kept[i].changes)
			return true;
	return false;
}

int kept_begin(struct tree *tree, const struct inode *inode)
{
	int r = 0;

	if (!tree->kept.may_be)
		return 0;
	pthread_mutex_lock(&tree->kept.lock);
	tree->kept.used = true;
	if (!has(tree, inode)) {
		r = begin_whole(tree, 0);
		if (r == -ESTALE && tree->taker.late)
			r = begin_past(tree, inode);
	}
	pthread_mutex_unlock(&tree->kept.lock);
	/* Without a snapshot the file can be read all the same. */
	return r == -ESTALE ? r : 0;
}

void kept_opened(struct tree *tree)
{
	tree->kept.readers++;
}

void kept_closed(struct tree *tree)
{
	tree->kept.readers--;
}

/* Whether the snapshot has the file's rows as the tree knows them, but for some behind them.  A
 * reader that has read those since has begun a newer snapshot (kept_begin()). */
static bool has_same(struct tree *tree, struct kept *kept, struct inode *inode)
{
	struct backend_node *node = &inode->node, was;
	bool same;

	if (!is_held(kept) || inode->replaced_at > kept->changes ||
	    inode_heed(tree, &kept->view, inode) < 0 ||
	    ASK(&kept->view, node_get, node->ino, &was) < 0)
		return false;
	same = was.kind == node->kind && bytes_equal(was.session, node->session) &&
	       bytes_equal(was.key, node->key);
	if (same) {
		tree->kept.flags = node->flags;
		tree->kept.size = node->size;
		node->flags = was.flags;
		node->size = was.size;
	}
	backend_node_done(&was);
	return same;
}

struct view *kept_view(struct tree *tree, struct inode *inode)
{
	pthread_mutex_lock(&tree->kept.lock);
	for (size_t i = 0; i < KEPTS; i++)
		if (has_same(tree, &tree->kept.kept[i], inode))
			return &tree->kept.kept[i].view;
	pthread_mutex_unlock(&tree->kept.lock);
	return NULL;
}

void kept_seen(struct tree *tree, struct inode *inode)
{
	inode->node.flags = tree->kept.flags;
	inode->node.size = tree->kept.size;
	pthread_mutex_unlock(&tree->kept.lock);
}

static bool any_held(const struct tree *tree)
{
	return is_held(&tree->kept.kept[KEPT_WHOLE]) || is_held(&tree->kept.kept[KEPT_PAST]);
}

static void end_all(struct tree *tree)
{
	for (size_t i = 0; i < KEPTS; i++)
		view_end(&tree->kept.kept[i].view);
}

void kept_renew(struct tree *tree)
{
	pthread_mutex_lock(&tree->kept.lock);
	if (!tree->kept.used && !tree->kept.readers)
		end_all(tree);
	else if (any_held(tree))
		(void)begin_whole(tree, BACKEND_AT_ONCE);
	tree->kept.used = false;
	pthread_mutex_unlock(&tree->kept.lock);
}

static void on_keep(void *arg, enum backend_keep how)
{
	struct tree *tree = arg;

	/* Only trylock: the lock's holder may be waiting for the store, which calls this. */
	if (pthread_mutex_trylock(&tree->kept.lock) != 0)
		return;
	if (how == BACKEND_KEEP_NONE)
		end_all(tree);
	else if (any_held(tree))
		(void)begin_whole(tree, BACKEND_AT_ONCE);
	pthread_mutex_unlock(&tree->kept.lock);
}

void kept_start(struct tree *tree)
{
	tree->kept.may_be = backend_snapshot_keep(tree->backend, on_keep, tree);
}

void kept_end(struct tree *tree)
{
	backend_snapshot_keep(tree->backend, NULL, NULL);
	end_all(tree);
}
