/* SPDX-License-Identifier: MIT */
#include "fs/inode/kept.h"

#include <errno.h>

#include "fs/inode/waiting.h"

/* Under kept.lock. */
static int begin(struct tree *tree, unsigned flags)
{
	uint64_t changes = tree->changes;
	struct view view = { 0 };
	int r = view_begin(tree, flags, &view);

	if (r < 0)
		return r;
	view_end(&tree->kept.view);
	tree->kept.view = view;
	tree->kept.changes = changes;
	return 0;
}

static bool is_held(const struct tree *tree)
{
	return tree->kept.view.backend;
}

int kept_begin(struct tree *tree, const struct inode *inode)
{
	int r = 0;

	if (!tree->kept.may_be)
		return 0;
	pthread_mutex_lock(&tree->kept.lock);
	tree->kept.used = true;
	if (!is_held(tree) || inode->changed > tree->kept.changes)
		r = begin(tree, 0);
	pthread_mutex_unlock(&tree->kept.lock);
	/* Without it, it is read all the same. */
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

/* Whether the file has the same rows in it as far as the tree knows. */
static bool has_same(struct tree *tree, const struct inode *inode)
{
	const struct backend_node *node = &inode->node;
	struct backend_node kept;
	bool same;

	if (!is_held(tree) || inode->changed > tree->kept.changes ||
	    inode_heed(tree, &tree->kept.view, inode) < 0 ||
	    ASK(&tree->kept.view, node_get, node->ino, &kept) < 0)
		return false;
	same = kept.kind == node->kind && kept.flags == node->flags &&
	       bytes_equal(kept.session, node->session) && bytes_equal(kept.key, node->key);
	backend_node_done(&kept);
	return same;
}

struct view *kept_view(struct tree *tree, const struct inode *inode)
{
	pthread_mutex_lock(&tree->kept.lock);
	if (has_same(tree, inode))
		return &tree->kept.view;
	pthread_mutex_unlock(&tree->kept.lock);
	return NULL;
}

void kept_seen(struct tree *tree)
{
	pthread_mutex_unlock(&tree->kept.lock);
}

void kept_renew(struct tree *tree)
{
	pthread_mutex_lock(&tree->kept.lock);
	if (!tree->kept.used && !tree->kept.readers)
		view_end(&tree->kept.view);
	else if (is_held(tree))
		(void)begin(tree, BACKEND_AT_ONCE);
	tree->kept.used = false;
	pthread_mutex_unlock(&tree->kept.lock);
}

static void on_keep(void *arg, enum backend_keep how)
{
	struct tree *tree = arg;

	/* The thread that begins one may be waiting for the store. */
	if (pthread_mutex_trylock(&tree->kept.lock) != 0)
		return;
	if (how == BACKEND_KEEP_NONE)
		view_end(&tree->kept.view);
	else if (is_held(tree))
		(void)begin(tree, BACKEND_AT_ONCE);
	pthread_mutex_unlock(&tree->kept.lock);
}

void kept_start(struct tree *tree)
{
	tree->kept.may_be = backend_snapshot_keep(tree->backend, on_keep, tree);
}

void kept_end(struct tree *tree)
{
	backend_snapshot_keep(tree->backend, NULL, NULL);
	view_end(&tree->kept.view);
}
