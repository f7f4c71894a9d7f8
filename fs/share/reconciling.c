/* SPDX-License-Identifier: MIT */

#include <errno.h>

#include "fs/content/content.h"
#include "fs/inode/quota.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/share/reconcile.h"
#include "backend/base/array.h"

int reconcile_add(struct reconciling *reconciling, const struct backend_change *change, bool logged)
{
	struct changed_key *item;
	int r;

	if (ARRAY_ROOM(reconciling->keys, reconciling->count, reconciling->room) < 0)
		return -ENOMEM;
	item = &reconciling->keys[reconciling->count];
	*item = (struct changed_key){
		.first = change->first,
		.rewritten = change->rewritten,
		.stamp = change->stamp,
		.logged = logged,
	};
	reconciling->count++;
	r = buf_reserve(&item->session, 1);
	if (r == 0)
		r = buf_append_bytes(&item->session, change->session);
	if (r == 0)
		r = buf_reserve(&item->key, 1);
	if (r == 0)
		r = buf_append_bytes(&item->key, change->key);
	return r;
}

bool reconcile_has(const struct reconciling *reconciling, const struct backend_change *change)
{
	for (size_t i = 0; i < reconciling->wanted; i++)
		if (bytes_equal(key_key(&reconciling->keys[i]), change->key) &&
		    bytes_equal(key_session(&reconciling->keys[i]), change->session))
			return true;
	return false;
}

enum { STALE_MOST = 64 };

/* Sessions of which others have changed rows. */
static void stale_all(const struct reconciling *reconciling)
{
	const struct bytes any = { 0 };

	if (!quota_on(reconciling->tree))
		return;
	if (reconciling->count > STALE_MOST)
		quota_stale(reconciling->tree, any);
	else
		for (size_t i = 0; i < reconciling->count; i++)
			quota_stale(reconciling->tree, key_session(&reconciling->keys[i]));
}

int reconcile_begin(struct reconciling *reconciling)
{
	reconciling->notes.view = &reconciling->view;
	reconciling->views++;
	return view_begin(reconciling->tree, BACKEND_ANYWAY, &reconciling->view);
}

int reconcile_commit(struct reconciling *reconciling, struct batch *batch)
{
	int r;

	view_end(&reconciling->view);
	r = tree_commit(reconciling->tree, batch, BACKEND_ANYWAY | BACKEND_FREES);
	reconciling->tree->changes++;
	stale_all(reconciling);
	reconciling->view_error = reconcile_begin(reconciling);
	return r < 0 ? r : 0;
}

void reconcile_done(const struct changed_key *key, struct batch *batch)
{
	batch_guard_rows(batch, key_session(key), key_key(key));
	if (key->logged)
		batch_change_done(batch, key_session(key), key_key(key), key->stamp);
}

bool rows_are_known(const struct inode *inode, const struct backend_feed *feed)
{
	return feed->behind && feed->added && (inode->loaded || inode->grown) &&
	       inode->node.kind == BACKEND_LIST && feed->first < inode->list.next;
}

int rows_inode(struct tree *tree, struct view *view, const struct backend_feed *feed,
	       struct inode **ret_inode)
{
	struct backend_node node = { .ino = feed->node };
	int r = feed->node ? 0 : ASK(view, node_find, feed->session, feed->key, &node);

	*ret_inode = r == 0 ? inode_known(tree, node.ino) : NULL;
	backend_node_done(&node);
	return r == -ENOENT ? 0 : r;
}

struct version *reconcile_version(struct tree *tree, struct inode *inode)
{
	struct version *version = versions_wanted(inode, NULL) ? content_kept(inode) : NULL;
	struct view *view = NULL;

	if (!version && versions_wanted(inode, NULL))
		view = reader_snapshot_view(tree, inode);
	if (!view)
		return version;
	(void)version_take(view, inode, &version); /* it has begun */
	reader_snapshot_seen(tree, inode);
	return version;
}

struct since {
	struct bytes session;
	struct bytes key;
	int64_t first;
};

static int heed_note(void *arg, const struct backend_feed *feed)
{
	struct since *since = arg;

	if (feed->what == BACKEND_FEED_ROWS && feed->foreign &&
	    bytes_equal(feed->session, since->session) && bytes_equal(feed->key, since->key))
		since->first = MIN(since->first, feed->first);
	return 0;
}

/* Where rows of the key have changed since: the log says so, or the note of another mount that has
 * taken that in, or both. */
int64_t changed_since(struct reconciling *reconciling, struct bytes session, struct bytes key)
{
	struct view *view = &reconciling->view;
	struct since since = { .session = session, .key = key, .first = INT64_MAX };
	struct backend_change change;

	if (backend_change_find(view->backend, view->snapshot, session, key, &change) == 0)
		since.first = change.session.data ? change.first : INT64_MIN;
	(void)backend_feed_list(view->backend, view->snapshot, heed_note, &since);
	return since.first;
}
