/* SPDX-License-Identifier: MIT */

/*
 * Reconciling what other programs changed.
 *
 *   Others change rows and nothing else.  For each key that they changed, the tree is made to fit:
 *
 *     rows, no file    the key is adopted: a file for it, and the directories on the way
 *     rows and a file  what was known of the content (marks, size, draft) is dropped where it may
 *                      be wrong; a single that has become a list changes its name
 *     no rows, a file  the file goes, and directories that it leaves empty, up to the session
 *
 *   A draft yields to the other program's rows, which are newer, but not to their absence.  A torn
 *   line that another program's row now follows is closed off, so that no line is mixed.
 *
 *   Reconciling runs alone (tree.lock for writing), one commit a key, or for several whose files
 *   come or go (gather.c), each with the note that these keys are done: when it is
 *   interrupted, it goes on where it stopped.  Others read while it commits (commit.h), and after
 *   some keys it lets them write (waiting.h).
 *
 *   Keys are taken in by groups.  When a group fails, its keys are taken in one by one, and one
 *   that fails alone is set apart (apart.c), so that it holds up nothing else.
 */

#include <errno.h>
#include <stdlib.h>

#include "fs/inode/aparts.h"
#include "fs/inode/generation.h"
#include "fs/inode/inodes.h"
#include "fs/inode/waiting.h"
#include "fs/share/reconcile.h"
#include "fs/share/share.h"
#include "fs/share/unsettled.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

enum {
	TURN_TRIES = 8,	  /* when no other mount comes in between: other programs may */
	PAGE_KEYS = 1024, /* of all keys, in memory at a time */
};

/* Collecting the keys. */

static void reconcile_forget(struct reconciling *reconciling)
{
	while (reconciling->count) {
		struct changed_key *last = &reconciling->keys[--reconciling->count];

		buf_done(&last->session);
		buf_done(&last->key);
	}
	reconciling->wanted = 0;
}

static int keep_change(void *arg, const struct backend_change *change)
{
	struct reconciling *reconciling = arg;

	reconciling->newest = MAX(reconciling->newest, change->stamp);
	if (change->session.data && reconcile_has(reconciling, change))
		return 0;
	if (change->session.data && reconciling->count >= reconciling->wanted + STEP_KEYS) {
		reconciling->more = true;
		return 1;
	}
	/* The tree knows when to try it again; after a new start it does so at once. */
	if (change->apart && apart_has(reconciling->tree, change->session, change->key))
		return 0;
	if (!change->session.data) {
		reconciling->all = true;
		reconciling->all_stamp = change->stamp;
		return 0;
	}
	return reconcile_add(reconciling, change, true);
}

static int keep_key(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	const struct backend_change change = {
		.session = session,
		.key = key,
		.first = INT64_MIN,
		.rewritten = true,
	};

	(void)stat;
	return reconcile_add(arg, &change, false);
}

/* Of a session that is wanted, whatever the keys. */
struct collecting {
	struct reconciling *reconciling;
	struct bytes session;
};

static int keep_of_session(void *arg, const struct backend_change *change)
{
	struct collecting *collecting = arg;

	if (!change->session.data || !bytes_equal(change->session, collecting->session))
		return 0;
	return keep_change(collecting->reconciling, change);
}

static int collect_wanted(struct reconciling *reconciling)
{
	const struct wanted *wanted = reconciling->asked;
	struct view *view = &reconciling->view;
	struct backend_change change;
	int r = 0;

	for (; r == 0 && wanted; wanted = wanted->next) {
		struct bytes session = buf_bytes(&wanted->session);
		struct collecting collecting = { reconciling, session };

		if (wanted->whole) {
			r = backend_change_list(view->backend, view->snapshot, keep_of_session,
						&collecting);
			reconciling->wanted = reconciling->count;
			continue;
		}
		r = backend_change_find(view->backend, view->snapshot, session,
					buf_bytes(&wanted->key), &change);
		if (r == 0 && change.session.data)
			r = keep_change(reconciling, &change);
		reconciling->wanted = reconciling->count;
		r = MIN(r == -ENOENT ? 0 : r, 0);
	}
	return r;
}

static int reconcile_collect(struct reconciling *reconciling)
{
	struct view *view = &reconciling->view;
	int r;

	reconciling->asked = wanted_take(reconciling->tree);
	r = collect_wanted(reconciling);
	if (r == 0)
		r = rest_collect(reconciling);
	if (r == 0)
		r = aparts_collect(reconciling);
	reconciling->wanted = reconciling->count;
	if (r == 0)
		r = unsettled_collect(reconciling);
	reconciling->wanted = reconciling->count;
	for (size_t i = 0; i < reconciling->count; i++)
		reconciling->keys[i].settle = true;
	if (r == 0)
		r = backend_change_list(view->backend, view->snapshot, keep_change, reconciling);
	/* Many are taken in by steps, and each needs the log without those before it. */
	reconciling->may_stay = r == 0 && !reconciling->more && !reconciling->all &&
				reconciling->tree->taker.runs &&
				!tree_is_shared(reconciling->tree) &&
				backend_change_seen(reconciling->tree->backend, 0);
	return r;
}

/* Taking them in. */

/* The keys from first to end (exclusive).  With an error, those that were only gathered are not in
 * the store. */
static int take_in(struct reconciling *reconciling, size_t first, size_t end)
{
	int r = 0;

	for (size_t i = first; r == 0 && i < end; i++) {
		struct changed_key key;

		if (!key_holds(reconciling, &reconciling->keys[i]))
			r = reconcile_look(reconciling, i, i + 1);
		if (r < 0)
			break;
		/* The array may move while others are added. */
		key = reconciling->keys[i];
		r = reconcile_one(reconciling, &key);
		if (r == 0)
			r = reconcile_neighbour(reconciling, &key);
	}
	if (r == 0)
		r = gather_settle(reconciling);
	if (r < 0)
		gather_drop(reconciling);
	for (size_t i = first; r == 0 && i < end; i++)
		if (!reconciling->keys[i].rowless)
			apart_end(reconciling, &reconciling->keys[i]);
	return r;
}

/* Whether it is an error that no single key has to do with; another mount may have taken in the
 * same. */
static bool fails_all(const struct reconciling *reconciling, int error)
{
	return !reconciling->view.backend || error == -ESTALE || error == -EROFS ||
	       error == -EBUSY || error == -ENOMEM;
}

static int take_in_each(struct reconciling *reconciling, size_t first, size_t end)
{
	int r = 0;

	for (size_t i = first; r == 0 && i < end; i++) {
		r = take_in(reconciling, i, i + 1);
		if (r < 0 && !fails_all(reconciling, r))
			r = apart_set(reconciling, &reconciling->keys[i], r);
	}
	return r;
}

int reconcile_take_in(struct reconciling *reconciling)
{
	size_t end;
	int r = 0;

	for (size_t first = 0; r == 0 && first < reconciling->count; first = end) {
		end = MIN(reconciling->count, first + LOOK_KEYS);
		r = reconcile_look(reconciling, first, end);
		if (r == 0)
			r = take_in(reconciling, first, end);
		if (r < 0 && !fails_all(reconciling, r))
			r = take_in_each(reconciling, first, end);
	}
	return r;
}

/* Any key may have changed: all that have rows, and then all that have files. */

struct page {
	struct reconciling *reconciling;
	size_t count;
	struct buf session, key; /* the last one of the page before */
	uint64_t ino;
};

static void page_done(struct page *page)
{
	buf_done(&page->session);
	buf_done(&page->key);
}

static int keep_row(void *arg, struct bytes session, struct bytes key,
		    const struct backend_key_stat *stat)
{
	struct page *page = arg;
	int r = keep_key(page->reconciling, session, key, stat);

	return r < 0 ? r : ++page->count == PAGE_KEYS;
}

static int keep_file(void *arg, const struct backend_node *node)
{
	struct page *page = arg;
	int r;

	page->ino = node->ino;
	if (!kind_is_state(node->kind) || !node->nlink)
		return 0;
	r = keep_row(page, node->session, node->key, NULL);
	if (r >= 0)
		page->reconciling->keys[page->count - 1].rowless = true;
	return r;
}

/* Those that were collected are done, and neighbours that have come behind them. */
static void page_turn(struct page *page)
{
	struct reconciling *reconciling = page->reconciling;

	page_done(page);
	page->session = page->key = (struct buf){ 0 };
	if (page->count) {
		struct changed_key *last = &reconciling->keys[page->count - 1];

		page->session = last->session;
		page->key = last->key;
		last->session = last->key = (struct buf){ 0 };
	}
	page->count = 0;
	reconcile_forget(reconciling);
}

static int take_in_all(struct reconciling *reconciling)
{
	_cleanup_(page_done) struct page page = { .reconciling = reconciling };
	struct view *view = &reconciling->view;
	int r = 0, more = 1;

	reconcile_forget(reconciling);
	while (r == 0 && more == 1) {
		more = ASK(view, key_list, buf_bytes(&page.session), buf_bytes(&page.key), keep_row,
			   &page);
		r = more < 0 ? more : reconcile_take_in(reconciling);
		page_turn(&page);
	}
	for (more = 1; r == 0 && more == 1;) {
		more = ASK(view, node_list, page.ino, false, keep_file, &page);
		r = more < 0 ? more : reconcile_take_in(reconciling);
		page_turn(&page);
	}
	return r;
}

/* Nothing of ours may be written: forget what is known, so that it is read again. */
static int reconcile_reload(struct reconciling *reconciling)
{
	struct tree *tree = reconciling->tree;
	struct view *view = &reconciling->view;
	struct inodes all = inodes_get(tree, NULL);

	tree->changes++;
	for (size_t i = 0; i < all.count; i++) {
		struct inode *inode = all.inode[i];
		struct backend_node node;

		if (ASK(view, node_get, inode->node.ino, &node) == 0)
			inode_set_node(inode, &node);
		inode_unload(inode);
		inode->version++;
		node_rewritten(&inode->node);
		if (inode_is_dir(inode))
			notes_dir(&reconciling->notes, inode->ino);
		else
			notes_change(&reconciling->notes, tree, inode, CHANGE_REPLACED, UINT64_MAX,
				     NULL);
	}
	inodes_forget(tree, &all);
	tree->rest.any = false;
	if (events_wanted(&tree->events))
		notes_lost(&reconciling->notes, tree);
	reconciling->more = false;
	return 0;
}

static int reconcile_all_done(struct reconciling *reconciling)
{
	_cleanup_(batch_done) struct batch batch = { 0 };
	struct bytes none = { 0 };

	batch_change_done(&batch, none, none, reconciling->all_stamp);
	/* Nobody needs the view any more. */
	return reconcile_commit(reconciling, &batch);
}

static int reconcile_locked(struct reconciling *reconciling)
{
	int r;

	WITH_WRITE_LOCK(reconciling->tree);
	r = digest_feed(reconciling->tree, &reconciling->notes);
	/* Who comes while the rest is committed believes that the kernel is told of it. */
	notes_queue(&reconciling->notes, reconciling->tree);
	if (r >= 0)
		r = reconcile_begin(reconciling);
	if (r == 0)
		r = reconcile_collect(reconciling);
	if (r == 0)
		r = reconcile_take_in(reconciling);
	if (r == 0)
		rest_settle(reconciling);
	if (reconciling->newest && backend_change_seen(reconciling->tree->backend, 0))
		reconciling->tree->unsettled.at = tick_now();
	if (r == 0 && reconciling->may_stay)
		backend_change_seen(reconciling->tree->backend, reconciling->newest);
	if (r == 0 && reconciling->all)
		r = take_in_all(reconciling);
	if (r == 0 && reconciling->all)
		r = reconcile_all_done(reconciling);
	if (r == -EROFS && reconciling->view.backend)
		r = reconcile_reload(reconciling);
	view_end(&reconciling->view);
	notes_queue(&reconciling->notes, reconciling->tree);
	return r;
}

void reconcile_free(struct reconciling *reconciling)
{
	reconcile_forget(reconciling);
	free(reconciling->keys);
	wanted_free(reconciling->asked);
}

/* One step: 1 when more waits. */
static int reconcile_step(struct tree *tree)
{
	struct reconciling reconciling = { .tree = tree };
	int r = reconcile_locked(&reconciling);

	reconcile_free(&reconciling);
	notes_send(&reconciling.notes, tree, NOTIFY_LATER);
	return r < 0 ? r : reconciling.more && !reconciling.all;
}

/* The same when others were quicker: they wait for this one step, and not for all that waits. */
static int reconcile_in_turn(struct tree *tree)
{
	int r = -ESTALE;

	backend_turn(tree->backend, true);
	for (int i = 0; r == -ESTALE && i < TURN_TRIES; i++)
		r = reconcile_step(tree);
	backend_turn(tree->backend, false);
	return r;
}

/* Whether what waited up to this stamp, if any, waits no more. */
static bool is_done_to(struct tree *tree, int64_t newest)
{
	int64_t oldest, now;

	return newest && backend_change_waiting(tree->backend, &oldest, &now) == 0 &&
	       oldest > newest;
}

int tree_reconcile(struct tree *tree)
{
	int64_t oldest, newest = 0;
	int r;

	for (;;) {
		r = reconcile_step(tree);
		if (r == -ESTALE)
			r = reconcile_in_turn(tree);
		if (r <= 0 || tree->stopping)
			break;
		taker_stepped(tree);
		/* Others may be quicker for ever: what comes from now on is not waited for. */
		if (is_done_to(tree, newest))
			break;
		if (!newest && backend_change_waiting(tree->backend, &oldest, &newest) < 0)
			newest = 0;
	}
	/* Every request says so, and the log once. */
	if (r < 0 && r != -ESTALE && atomic_exchange(&tree->reconcile_failed, r) != r)
		log_error("cannot process changes of another program: %s", strerror(-r));
	if (r >= 0)
		tree->reconcile_failed = 0;
	return r;
}
