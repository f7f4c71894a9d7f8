/* SPDX-License-Identifier: MIT */

/*
 * Files that were unlinked while open when the last mount ended without a word; and, by the one of
 * several mounts that is on duty, those that no mount has in use any more.  Before a file is opened
 * its mount says that it uses it (backend_use()), and what deletes one depends on no mount doing
 * so.  A file that nobody has open may go before each mount has heard that it has lost its name.
 */

#include <errno.h>

#include "fs/base/batch.h"
#include "fs/base/entries.h"
#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "fs/inode/shed.h"
#include "fs/inode/trashed.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/upkeep.h"
#include "backend/base/log.h"

/* Longer than any mount that is not stopped leaves a ghost. */
static const int64_t GHOST_NS = INT64_C(10000000000);

struct orphans {
	struct tree *tree;
	struct entries nodes;  /* as ordinary ones if their rows are another file's */
	struct entries theirs; /* those of which other programs have changed the rows */
	bool shared;
};

static void orphans_done(struct orphans *orphans)
{
	entries_done(&orphans->nodes);
	entries_done(&orphans->theirs);
}

/* Whether other programs have changed the rows since. */
static int is_theirs(const struct view *view, const struct backend_node *node)
{
	struct backend_change change;
	int r = backend_change_find(view->backend, view->snapshot, node->session, node->key,
				    &change);

	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int keep_orphan(void *arg, const struct backend_node *node)
{
	struct orphans *orphans = arg;

	/* The root has no name to lose: a number of links that says so is wrong. */
	return node->ino == BACKEND_ROOT ? 0 : entries_add(&orphans->nodes, NULL, node);
}

/* A ghost that was not ended still has its rows, unless another file has got its key, or another
 * program has changed them since. */
static int take_rows(struct view *view, struct orphans *orphans)
{
	struct entries *nodes = &orphans->nodes;
	int r = 0;

	for (size_t i = 0; r == 0 && i < nodes->count; i++) {
		struct backend_node *node = &nodes->item[i].node, other;

		if (!kind_is_state(node->kind) || !node->key.data)
			continue;
		r = ASK(view, node_find, node->session, node->key, &other);
		if (r == 0) {
			backend_node_done(&other);
			node->kind = BACKEND_ORDINARY;
			node->target = (struct bytes){ 0 };
			continue;
		}
		if (r == -ENOENT)
			r = is_theirs(view, node);
		if (r > 0) {
			r = entries_add(&orphans->theirs, NULL, node);
			entry_done(&nodes->item[i]);
			nodes->item[i--] = nodes->item[--nodes->count];
		}
	}
	return r;
}

/* Whoever takes the rows in makes a file like the one that they were of (share/reconcile-key.c). */
static int keep_theirs(struct tree *tree, struct view *view, struct orphans *orphans)
{
	struct inode *inode;
	int r = 0;

	for (size_t i = 0; r == 0 && i < orphans->theirs.count; i++) {
		r = inode_of_node(tree, view, &orphans->theirs.item[i].node, &inode);
		if (r == 0)
			r = ghost_add(tree, inode, BACKEND_TRASH);
		if (r == 0)
			ghost_set_theirs(tree, inode->node.session, inode->node.key);
	}
	/* One that is damaged is told of by who checks the store. */
	return r == -EIO ? 0 : r;
}

/* A mount has one of them in use, or has not told which it has; or others have changed something
 * since they were looked for.  They go later. */
static bool is_for_later(int error)
{
	return error == -EBUSY || error == -EAGAIN || error == -ESTALE;
}

static void emit_delete(const struct backend_node *node, struct batch *batch)
{
	if (kind_is_state(node->kind) && node->key.data)
		batch_row_delete(batch, node->session, node->key, INT64_MIN, INT64_MAX);
	batch_node_delete(batch, node->ino);
}

/* Delete all of them in one transaction; those that have a path go into the trash. */
static int delete_together(struct tree *tree, struct view *view, const struct orphans *orphans)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < orphans->nodes.count; i++) {
		const struct backend_node *node = &orphans->nodes.item[i].node;
		struct bytes path = node_trash_path(tree, node);

		if (orphans->shared)
			batch_guard_unused(&batch, node->ino);
		if (path.data)
			r = trash_put_single(tree, view, node, path, &batch);
		else
			emit_delete(node, &batch);
	}
	view_end(view);
	/* Not if other programs have changed rows of one meanwhile. */
	return r < 0 ? r : tree_commit(tree, &batch, BACKEND_FREES);
}

/* On a full disk: one by one, and what is large in parts. */
static int end_one(struct tree *tree, struct entry_copy *item, bool shared)
{
	const struct orphans one = { .nodes = { .item = item, .count = 1 }, .shared = shared };
	struct backend_node *node = &item->node;
	_cleanup_(view_end) struct view view = { 0 };
	int r = node_trash_path(tree, node).data ? view_begin(tree, BACKEND_ANYWAY, &view) :
						   -ENOSPC;

	if (r == 0)
		r = delete_together(tree, &view, &one);
	if (r != -ENOSPC)
		return r;
	node->target = (struct bytes){ 0 };
	r = shed_hidden(tree, node);
	return r < 0 ? r : delete_together(tree, &view, &one);
}

static void end_each(struct tree *tree, const struct orphans *orphans)
{
	for (size_t i = 0; i < orphans->nodes.count; i++) {
		struct entry_copy *item = &orphans->nodes.item[i];
		int r = end_one(tree, item, orphans->shared);

		if (is_for_later(r))
			tree->has_orphans = true;
		else if (r < 0)
			log_warning("inode %llu is unlinked, but cannot be deleted (%s); the next "
				    "mount tries again",
				    (unsigned long long)item->node.ino, strerror(-r));
	}
}

/* In memory are those that this mount needs itself.  A ghost (tree/ghost.h) is ended by its own
 * mount, unless that was killed. */
static int keep_unneeded(void *arg, const struct backend_node *node)
{
	struct orphans *orphans = arg;
	struct inode *inode = inode_known(orphans->tree, node->ino);

	if (!inode && (!kind_is_state(node->kind) || node->ctime < time_now() - GHOST_NS))
		return keep_orphan(orphans, node);
	if (inode)
		inode_forget(orphans->tree, inode, 1);
	else
		orphans->tree->has_orphans = true; /* look again, even if alone by then */
	return 0;
}

static int delete_orphans(struct tree *tree, bool opening, bool shared)
{
	_cleanup_(orphans_done) struct orphans orphans = { .tree = tree };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0 && shared)
		r = backend_orphan_list(view.backend, view.snapshot, keep_unneeded, &orphans);
	else if (r == 0)
		r = ASK(&view, node_list, 0, true, keep_orphan, &orphans);
	if (r == 0)
		r = take_rows(&view, &orphans);
	if (r == 0 && opening)
		r = keep_theirs(tree, &view, &orphans);
	else if (orphans.theirs.count)
		tree->has_orphans = true; /* they go when the rows have another file */
	if (r < 0)
		return r == -EROFS ? 0 : r;
	if (shared && !backend_on_duty(tree->backend))
		return 0;
	r = delete_together(tree, &view, &orphans);
	if (r == -ENOSPC || r == -EEXIST) {
		end_each(tree, &orphans);
		r = 0;
	}
	return r == -EROFS ? 0 : r;
}

int tree_delete_orphans(struct tree *tree, bool opening)
{
	int r = delete_orphans(tree, opening, backend_is_shared(tree->backend));

	if (!is_for_later(r))
		return r;
	tree->has_orphans = true;
	return 0;
}

int tree_reap_orphans(struct tree *tree)
{
	bool shared = backend_is_shared(tree->backend);
	int r;

	if (!atomic_exchange(&tree->has_orphans, shared) && !shared)
		return 0;
	if (!backend_on_duty(tree->backend)) {
		/* For when it is, even if alone by then. */
		tree->has_orphans = true;
		return 0;
	}

	/* So that nobody here comes to need one meanwhile. */
	WITH_WRITE_LOCK(tree);

	r = delete_orphans(tree, false, true);
	if (r < 0)
		tree->has_orphans = true;
	return r;
}
