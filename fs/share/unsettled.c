/* SPDX-License-Identifier: MIT */

/*
 * Changes of other programs that are taken in without a commit.
 *
 *   Between what a program reads and what it writes in one transaction nobody may commit, or SQLite
 *   refuses what it writes.  So a mount commits nothing because another program has changed a file,
 *   as long as nobody writes that file here.  Where the store allows it (change_seen()), a change
 *   stays in its log if nothing has to be written for it but that it was taken in:
 *
 *     a document   was changed, and is one still
 *     a list       has got rows behind its last one, and no line of it is torn
 *
 *   It is settled, that is, taken in with a commit as any other one: before this mount changes the
 *   file, since the store refuses the batch and the key is wanted; when no program has changed
 *   anything for ten minutes, when another mount comes, and at the end.  Until then the times of
 *   the file are in memory alone, and so the file stays there.
 */

#include <errno.h>

#include "fs/inode/quota.h"
#include "fs/inode/waiting.h"
#include "fs/share/share.h"
#include "fs/share/unsettled.h"
#include "backend/base/tick.h"

enum { UNSETTLED_MOST = 1024 };

static bool has_writer(const struct inode *inode)
{
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->writing->writers)
			return true;
	return false;
}

static int on_piece(void *arg, int64_t index, int64_t seq, struct bytes data)
{
	bool *any = arg;

	(void)index, (void)seq, (void)data;
	*any = true;
	return 1;
}

/* Whether there may be a torn line where rows were added. */
static int is_torn(struct view *view, uint64_t ino, int64_t first, bool *ret_torn)
{
	struct backend_mark mark = { .index = INT64_MIN };
	int r = ASK(view, mark_find_index, ino, first - 1, &mark);

	*ret_torn = false;
	if (r < 0 && r != -ENOENT)
		return r;
	return ASK(view, piece_read, ino, mark.index, INT64_MIN, on_piece, ret_torn);
}

int unsettled_may_be(struct reconciling *reconciling, const struct changed_key *key,
		     struct inode *inode, uint32_t kind, bool *ret_may)
{
	const uint32_t is = inode->node.kind;
	bool torn;
	int r;

	*ret_may = false;
	if (!reconciling->may_stay || key->settle || !key->logged || key->stamp <= 0 ||
	    inode->apart || inode->inherits || has_writer(inode) ||
	    (inode->node.flags & ~(uint32_t)BACKEND_ADOPTED))
		return 0;
	if (is != BACKEND_LIST) {
		*ret_may = is == kind;
		return 0;
	}
	if (key->rewritten || key->first < 0)
		return 0;
	r = is_torn(&reconciling->view, inode->ino, key->first, &torn);
	*ret_may = !torn;
	return r;
}

int64_t unsettled_first(const struct changed_key *key, const struct inode *inode)
{
	return inode->is_unsettled && !key->rewritten ? MAX(key->first, inode->unsettled.end) :
							key->first;
}

bool unsettled_is_seen(const struct changed_key *key, const struct inode *inode)
{
	return inode->is_unsettled && key->logged && key->stamp == inode->unsettled.stamp;
}

void unsettled_add(struct reconciling *reconciling, const struct changed_key *key,
		   struct inode *inode, const struct backend_key_stat *stat)
{
	struct tree *tree = reconciling->tree;

	tree->changes++;
	quota_stale(tree, key_session(key));
	inode->unsettled.stamp = key->stamp;
	inode->unsettled.end = MIN(stat->last, INT64_MAX - 1) + 1;
	if (inode->is_unsettled)
		return;
	inode->is_unsettled = true;
	inode->unsettled.next = tree->unsettled.first;
	tree->unsettled.first = inode_ref(tree, inode);
	tree->unsettled.count++;
}

void unsettled_end(struct tree *tree, struct inode *inode)
{
	struct inode **link = &tree->unsettled.first;

	if (!inode->is_unsettled)
		return;
	while (*link != inode)
		link = &(*link)->unsettled.next;
	*link = inode->unsettled.next;
	inode->is_unsettled = false;
	tree->unsettled.count--;
	inode_forget(tree, inode, 1);
}

int unsettled_settle(struct reconciling *reconciling, const struct changed_key *key,
		     struct inode *inode)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	int r;

	batch_node_put(&batch, &inode->node);
	reconcile_done(key, &batch);
	r = reconcile_commit(reconciling, &batch);
	if (r < 0)
		return r;
	unsettled_end(reconciling->tree, inode);
	return reconciling->view_error;
}

bool unsettled_was_seen(struct tree *tree, const struct backend_feed *feed)
{
	struct inode *inode = tree->unsettled.first;
	bool seen;

	if (feed->what != BACKEND_FEED_ROWS || !feed->foreign)
		return false;
	while (inode && (!bytes_equal(inode->node.session, feed->session) ||
			 !bytes_equal(inode->node.key, feed->key)))
		inode = inode->unsettled.next;
	seen = inode && (uint64_t)inode->unsettled.stamp == feed->count;
	if (inode)
		unsettled_end(tree, inode);
	return seen;
}

bool unsettled_are_due(struct tree *tree)
{
	return tree->unsettled.count &&
	       (tree->unsettled.all || tree->unsettled.count > UNSETTLED_MOST ||
		!tree->taker.runs || tree_is_shared(tree) || tree_is_quiet(tree));
}

/* What the log has of it; -ENOENT: another process has settled it. */
static int find_change(struct view *view, const struct inode *inode,
		       struct backend_change *ret_change)
{
	return inode->gone ? -ENOENT :
			     backend_change_find(view->backend, view->snapshot, inode->node.session,
						 inode->node.key, ret_change);
}

int unsettled_collect(struct reconciling *reconciling)
{
	struct tree *tree = reconciling->tree;
	struct inode *inode = unsettled_are_due(tree) ? tree->unsettled.first : NULL;
	struct inode *next;
	int r = 0;

	for (; r == 0 && inode; inode = next) {
		struct backend_change change;

		next = inode->unsettled.next;
		r = find_change(&reconciling->view, inode, &change);
		if (r == 0 && change.session.data && !reconcile_has(reconciling, &change))
			r = reconcile_add(reconciling, &change, true);
		if (r == -ENOENT) {
			unsettled_end(tree, inode);
			r = 0;
		}
	}
	if (r == 0)
		tree->unsettled.all = false;
	return r;
}
