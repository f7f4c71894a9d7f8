/* SPDX-License-Identifier: MIT */

/*
 * Ghosts: state files that were just unlinked.
 *
 *   Clients rewrite a list by unlinking it and writing it again.  That is one save: until the new
 *   file is closed others see the previous rows, and then only those change that differ.  So
 *   unlinking removes the name and leaves the rows, for GHOST_MS at the most; the node stays in the
 *   store without a link and with its key, so that the rows are deleted if the daemon dies.
 *
 *   A file of the same kind that is made under the same key for writing inherits the rows: its
 *   first handle begins as a save of nothing, like one with O_TRUNC.  One that is made to append
 *   does not: what others save before its line comes must not be deleted with the old rows.  (A
 *   list that is made where a document was is another file.)  Until the save is published the new
 *   name shows the old content, so the file must have the same owner and must not be readable by
 *   more users; another file does not inherit.  If its owner then gives rights to more users, or
 *   moves it, it becomes empty; if the save fails, the rows are its own.  When no such file comes,
 *   or the directory is removed or moved, or another program writes to the key, the ghost ends.
 *   For handles of the unlinked file its bytes move into a stage then, and the file goes into the
 *   trash (fs/inode/trashed.h), unless a file of its name was made.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/content/content.h"
#include "fs/inode/commit.h"
#include "fs/inode/shed.h"
#include "fs/inode/waiting.h"
#include "fs/tree/tree.h"
#include "fs/write/write.h"
#include "backend/base/chain.h"
#include "backend/base/tick.h"

enum {
	GHOST_MS = 300,
	AGAIN_MS = 1000,   /* after a failure, such as a full disk */
	ENDS_AT_ONCE = 64, /* in one transaction */
	TOGETHER_MS = 100, /* between two times that ghosts end */
};

struct ghost {
	struct ghost *next;
	struct ghost **link;
	struct inode *inode; /* counted */
	uint64_t parent;
	int64_t until;
	bool theirs; /* another program has changed the rows, so they stay */
};

struct ghost_end {
	struct ghost *ghost;
	struct unlinking unlinking;
};

int ghost_add(struct tree *tree, struct inode *inode, uint64_t parent)
{
	struct ghost *ghost = calloc(1, sizeof(*ghost));

	if (!ghost) {
		/* The next mount deletes it. */
		inode_forget(tree, inode, 1);
		return -ENOMEM;
	}
	ghost->inode = inode;
	ghost->parent = parent;
	ghost->until = tick_now() + (int64_t)GHOST_MS * 1000000;
	CHAIN_ENTER(tree->ghosts, ghost, next, link);
	if (!ghost->next) /* otherwise the tree's thread waits for an earlier one */
		tree_rouse(tree);
	return 0;
}

static void ghost_free(struct tree *tree, struct ghost *ghost)
{
	CHAIN_LEAVE(ghost, next, link);
	inode_forget(tree, ghost->inode, 1);
	free(ghost);
}

void ghost_lost(struct tree *tree, const struct inode *inode)
{
	for (struct ghost *ghost = tree->ghosts; ghost; ghost = ghost->next) {
		if (ghost->inode != inode)
			continue;
		ghost_free(tree, ghost);
		return;
	}
}

int ghost_end_elsewhere(struct view *view, const struct backend_node *node, struct batch *batch)
{
	struct backend_node ghost;
	int r;

	r = backend_orphan_find(view->backend, view->snapshot, node->session, node->key, &ghost);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	batch_row_delete(batch, node->session, node->key, INT64_MIN, INT64_MAX);
	if (!node_shows_no_more(node, &ghost))
		batch_past_forget(batch, node);
	batch_node_delete(batch, ghost.ino);
	backend_node_done(&ghost);
	return batch->error;
}

struct ghost *ghost_find(struct tree *tree, struct bytes session, struct bytes key)
{
	for (struct ghost *ghost = tree->ghosts; ghost; ghost = ghost->next)
		if (bytes_equal(ghost->inode->node.session, session) &&
		    bytes_equal(ghost->inode->node.key, key))
			return ghost;
	return NULL;
}

bool node_shows_no_more(const struct backend_node *node, const struct backend_node *other)
{
	mode_t all = S_IRGRP | S_IROTH, shown = node->mode & all;

	if (node->uid != other->uid)
		return false;
	/* We do not know the members of two groups. */
	return node->gid == other->gid ? !(shown & ~other->mode) :
					 !shown || (other->mode & all) == all;
}

bool ghost_leaves_to(const struct ghost *ghost, const struct backend_node *node)
{
	const struct backend_node *was = &ghost->inode->node;

	return was->kind == node->kind && ghost->parent == node->parent && !ghost->theirs &&
	       node_shows_no_more(node, was);
}

enum ghost_rows ghost_rows_for(const struct ghost *ghost, const struct backend_node *node,
			       bool takes_over)
{
	const struct backend_node *was = &ghost->inode->node;
	const bool again = was->kind == node->kind && ghost->parent == node->parent;

	return takes_over ? GHOST_LEAVE : again ? GHOST_DELETE : GHOST_TRASH;
}

void ghost_set_theirs(struct tree *tree, struct bytes session, struct bytes key)
{
	struct ghost *ghost = ghost_find(tree, session, key);

	if (ghost)
		ghost->theirs = true;
}

bool ghost_is_theirs(const struct ghost *ghost)
{
	return ghost->theirs;
}

const struct backend_node *ghost_node(const struct ghost *ghost)
{
	return &ghost->inode->node;
}

int inherited_drop(struct tree *tree, struct inode *inode, struct notes *notes)
{
	_cleanup_(stage_done) struct stage empty = { 0 };

	if (!inode->inherits || inode->gone)
		return 0;
	inode_is_to_change(tree, inode);
	/* An explicit time stays. */
	return save_publish(tree, inode, NULL, &empty, inode->node.mtime, NULL, notes);
}

int ghost_end_begin(struct tree *tree, struct view *view, struct ghost *ghost, enum ghost_rows rows,
		    struct batch *batch, struct ghost_end **ret_end)
{
	const bool leave = rows == GHOST_LEAVE || ghost->theirs;
	struct ghost_end *end = calloc(1, sizeof(*end));
	int r;

	if (!end)
		return -ENOMEM;
	end->ghost = ghost;
	if (rows == GHOST_TRASH && !leave)
		end->unlinking.path = node_trash_path(tree, &ghost->inode->node);
	r = unlinking_begin(tree, view, ghost->inode, leave, &end->unlinking, batch);
	if (r < 0) {
		ghost_end_free(end);
		return r;
	}
	*ret_end = end;
	return 0;
}

void ghost_end_free(struct ghost_end *end)
{
	if (!end)
		return;
	unlinking_done(&end->unlinking);
	free(end);
}

void ghost_end_apply(struct tree *tree, struct ghost_end *end)
{
	unlinking_apply(&end->unlinking);
	ghost_free(tree, end->ghost);
	ghost_end_free(end);
}

/* On a full disk: in several transactions. */
static int commit_in_parts(struct tree *tree, const struct ghost *ghost, struct batch *batch)
{
	int r = shed_hidden(tree, &ghost->inode->node);

	if (r == 0)
		r = tree_commit(tree, batch, BACKEND_FREES);
	inode_unload(ghost->inode);
	ghost->inode->version++;
	return r;
}

/* All in one transaction: files that were removed together have rows that lie together.
 * GHOST_DELETE: one alone. */
static int ghosts_end_as(struct tree *tree, struct ghost *const *some, size_t count,
			 enum ghost_rows rows)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	struct ghost_end *end[ENDS_AT_ONCE] = { 0 };
	int r;

	r = view_begin(tree, 0, &view);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = ghost_end_begin(tree, &view, some[i], rows, &batch, &end[i]);
	view_end(&view);
	if (r == 0) {
		r = tree_commit(tree, &batch, BACKEND_FREES);
		if (r == -ENOSPC && rows == GHOST_DELETE && !some[0]->theirs)
			r = commit_in_parts(tree, some[0], &batch);
	}
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			ghost_end_apply(tree, end[i]);
		else
			ghost_end_free(end[i]);
	}
	return r;
}

/* A ghost that fails does not stop the others. */
static int ghosts_end_each(struct tree *tree, struct ghost *const *some, size_t count)
{
	int first = 0;

	for (size_t i = 0; i < count; i++) {
		int r = ghosts_end_as(tree, &some[i], 1, GHOST_TRASH);

		if (r == -ENOSPC)
			r = ghosts_end_as(tree, &some[i], 1, GHOST_DELETE);
		if (r < 0 && r != -ESTALE)
			some[i]->until = tick_now() + (int64_t)AGAIN_MS * 1000000;
		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

/* Whether a directory is another one or lies below it.  Another directory may have the name of one
 * that is gone, and so the keys of its ghosts. */
static bool lies_in(struct tree *tree, uint64_t ino, const struct inode *dir)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *inode = inode_known(tree, ino);
	bool in;

	if (!inode && (view_begin(tree, BACKEND_ANYWAY, &view) < 0 ||
		       inode_get_dir(tree, &view, ino, &inode) < 0))
		return true;
	in = inode->gone;
	for (const struct inode *at = inode; at && !in; at = at->parent)
		in = at == dir;
	view_end(&view);
	inode_forget(tree, inode, 1);
	return in;
}

int ghosts_end(struct tree *tree, bool now, const struct inode *dir)
{
	struct ghost *some[ENDS_AT_ONCE], *next;
	int64_t time = tick_now();
	size_t count = 0;
	int first = 0;

	for (struct ghost *ghost = tree->ghosts; ghost; ghost = next) {
		next = ghost->next;
		if ((!dir || lies_in(tree, ghost->parent, dir)) && (now || ghost->until <= time))
			some[count++] = ghost;
		if (count && (count == ENDS_AT_ONCE || !next)) {
			int r = count > 1 ? ghosts_end_as(tree, some, count, GHOST_TRASH) : -EAGAIN;

			if (r != 0 && r != -ESTALE)
				r = ghosts_end_each(tree, some, count);
			if (r < 0 && first == 0)
				first = r;
			count = 0;
		}
	}
	return first;
}

int ghosts_wait(struct tree *tree, int limit)
{
	int64_t time = tick_now();

	for (struct ghost *ghost = tree->ghosts; ghost; ghost = ghost->next) {
		int64_t left = (ghost->until - time) / 1000000 + 1;

		limit = (int)MIN(MAX(left, TOGETHER_MS), limit);
	}
	return limit;
}

void ghosts_done(struct tree *tree)
{
	while (tree->ghosts) {
		struct ghost *ghost = tree->ghosts;

		tree->ghosts = ghost->next;
		free(ghost);
	}
}

int rename_settle(struct tree *tree, struct view *view, struct inode *inode, struct inode *over,
		  bool exchange, struct notes *notes)
{
	bool inherits = inode->inherits || (exchange && over->inherits);
	bool is_dir = inode_is_dir(inode) || (over && inode_is_dir(over));
	int r;

	if (!inode->buffered && !(over && over->buffered) && !(is_dir && tree->ghosts) && !inherits)
		return 0;
	view_end(view);
	r = file_write_back(tree, inode);
	if (r == 0 && over)
		r = file_write_back(tree, over);
	if (r == 0)
		r = inherited_drop(tree, inode, notes);
	if (r == 0 && exchange)
		r = inherited_drop(tree, over, notes);
	if (r == 0 && inode_is_dir(inode))
		r = ghosts_end(tree, true, inode);
	if (r == 0 && over && inode_is_dir(over))
		r = ghosts_end(tree, true, over);
	return r < 0 ? r : view_begin(tree, 0, view);
}
