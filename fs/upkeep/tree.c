/* SPDX-License-Identifier: MIT */

/* A tree over a store: opening it, the thread that keeps it, closing it. */

#include <errno.h>
#include <stdlib.h>

#include "fs/base/sound.h"
#include "fs/content/content.h"
#include "fs/inode/aparts.h"
#include "fs/inode/trashed.h"
#include "fs/inode/quota.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/inode/waiting.h"
#include "fs/share/share.h"
#include "fs/tree/tree.h"
#include "fs/upkeep/upkeep.h"
#include "fs/views/views.h"
#include "fs/write/write.h"
#include "backend/base/log-pause.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum { LOAD_TRIES = 100 };

static int tree_ghosts_wait(struct tree *tree, int limit)
{
	WITH_READ_LOCK(tree);

	return ghosts_wait(tree, limit);
}

static void tree_end_ghosts(struct tree *tree, bool now)
{
	bool any;
	int r;

	{
		WITH_READ_LOCK(tree);
		any = tree->ghosts;
	}
	if (!any)
		return;
	{
		WITH_WRITE_LOCK(tree);
		r = ghosts_end(tree, now, NULL);
	}
	if (r < 0 && r != -ESTALE && log_pause_over(&tree->upkeep->ghosts_fail, tick_now()))
		log_error("cannot delete the rows of unlinked files (%s); sessfs tries again",
			  strerror(-r));
}

/* Waits for changes of others and takes them in, also changed settings. */
static void *tree_take(void *arg)
{
	struct tree *tree = arg;
	uint64_t asked;
	bool more = false;

	while (!tree->stopping) {
		bool told = backend_change_wait(tree->backend, more ? 0 : TIMES_INTERVAL) > 0;
		bool due = taker_asked(tree, &asked) || told;

		if (tree->stopping)
			break;
		if (due || aparts_are_due(tree) || unsettled_are_due(tree))
			taker_has(tree, asked, tree_reconcile(tree));
		if (told)
			settings_look(tree);
		if (atomic_exchange(&tree->ttls_changed, false))
			expire_soon(tree);
		more = rest_step(tree);
	}
	return NULL;
}

/* Ends ghosts, publishes saves that pause, writes pending times. */
static void *tree_keep(void *arg)
{
	struct tree *tree = arg;
	int64_t times_at = tick_now();

	while (!tree->stopping) {
		int interval = tree_is_shared(tree) ? TIMES_INTERVAL_SHARED : TIMES_INTERVAL;

		tree_doze(tree, tree_ghosts_wait(tree, interval));
		if (tree->stopping)
			break;
		tree_end_ghosts(tree, false);
		handles_publish_paused(tree, tick_now());
		notify_missed(tree);
		if (tree->reader_snapshots.unwanted && reader_snapshot_held(tree))
			contents_keep(tree);
		reader_snapshot_renew(tree);
		following_look(tree);
		documents_age(tree, tick_now());
		if (tick_now() - times_at >= (int64_t)interval * 1000000) {
			tree_write_times(tree, false);
			tree_reap_orphans(tree);
			times_at = tick_now();
		}
	}
	return NULL;
}

/* Opening and closing. */

/* A damaged store is shown as far as it can be read: ignore errors of what only writing needs. */
static int unless_damaged(const struct tree *tree, int error)
{
	return error == -EIO && tree->backend->read_only ? 0 : error;
}

static int tree_load_root(struct tree *tree)
{
	_cleanup_(view_end) struct view view = { 0 };
	uint64_t last_ino = 0, last_entry = 0;
	int r;

	r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r < 0)
		return r;
	r = ASK(&view, last_ids, &last_ino, &last_entry);
	if (unless_damaged(tree, r) < 0)
		return r;
	if (!tree->options.read_only &&
	    (last_ino > SOUND_NUMBER_MAX || last_entry > SOUND_NUMBER_MAX)) {
		log_error("inode numbers or ids of entries are out of range, so you cannot make "
			  "files: 'sessfs check --repair' makes a store that you can write to");
		return -EIO;
	}
	tree->numbers.ino = tree->numbers.end_ino = last_ino;
	tree->numbers.entry = tree->numbers.end_entry = last_entry;
	tree->list_end = last_entry;
	r = inode_get(tree, &view, BACKEND_ROOT, &tree->root);
	tree->shown = tree->root;
	return r;
}

static int tree_load(struct tree *tree, char **ret_why)
{
	int r = unless_damaged(tree, settings_obey(tree, ret_why));

	if (r == 0 && !tree->options.read_only)
		r = unless_damaged(tree, tree_delete_orphans(tree, true));
	return r == 0 ? tree_load_root(tree) : r;
}

static int take_in_first(struct tree *tree)
{
	int r = tree_reconcile(tree);

	/* Others were quicker again and again: a key is taken in when it is wanted. */
	return r == -ESTALE && !tree->options.whole ? 0 : r;
}

static void tree_free(struct tree *tree)
{
	pthread_rwlock_destroy(&tree->lock);
	pthread_rwlock_destroy(&tree->change);
	pthread_mutex_destroy(&tree->turn);
	pthread_mutex_destroy(&tree->table_lock);
	documents_done(tree);
	pthread_mutex_destroy(&tree->times_lock);
	pthread_mutex_destroy(&tree->upkeep->trash_lock);
	pthread_mutex_destroy(&tree->upkeep->lock);
	pthread_mutex_destroy(&tree->reader_snapshots.lock);
	quotas_done(tree);
	pthread_cond_destroy(&tree->upkeep->changed);
	cache_done(tree);
	events_done(&tree->events);
	rest_done(tree);
	waiting_done(tree);
	inodes_done(tree);
	ghosts_done(tree);
	aparts_done(tree);
	free(tree->upkeep);
	free(tree);
}

static struct tree *tree_alloc(struct backend *backend, const struct tree_options *options)
{
	pthread_rwlockattr_t attr;
	pthread_mutexattr_t recursive;
	struct tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	tree->upkeep = calloc(1, sizeof(*tree->upkeep));
	if (!tree->upkeep || inodes_init(tree) < 0 || cache_init(tree) < 0 ||
	    documents_init(tree) < 0) {
		cache_done(tree);
		free(tree->inodes.slots);
		free(tree->upkeep);
		free(tree);
		return NULL;
	}
	tree->backend = backend;
	tree->options = *options;
	tree->views = &views;
	tree->take_in = tree_reconcile;
	tree->digest_now = tree_digest_now;
	tree->give_room = trash_give;
	pthread_rwlockattr_init(&attr);
	/* A stream of readers must not starve renames and the taker. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&tree->lock, &attr);
	pthread_rwlock_init(&tree->change, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&tree->turn, &recursive);
	pthread_mutexattr_destroy(&recursive);
	waiting_init(tree);
	pthread_mutex_init(&tree->table_lock, NULL);
	pthread_mutex_init(&tree->times_lock, NULL);
	pthread_mutex_init(&tree->upkeep->trash_lock, NULL);
	pthread_mutex_init(&tree->upkeep->lock, NULL);
	pthread_mutex_init(&tree->reader_snapshots.lock, NULL);
	tick_cond_init(&tree->upkeep->changed);
	quotas_init(tree);
	events_init(&tree->events);
	return tree;
}

static int tree_start(struct tree *tree)
{
	int r;

	reader_snapshot_start(tree);
	r = notifiers_start(tree);
	if (r < 0)
		return r;
	r = taker_start(tree, tree_take);
	if (r == 0)
		r = thread_start(&tree->upkeep->keeper, tree_keep, tree);
	if (r < 0) {
		tree->stopping = true;
		taker_stop(tree);
		notifiers_stop(tree);
		return r;
	}
	/* Without it sessions stay too long, until the next mount. */
	if (expire_start(tree) < 0)
		log_warning("cannot create a thread, so sessions stay when their time is over");
	return 0;
}

int tree_open(struct backend *backend, const struct tree_options *options, struct tree **ret_tree,
	      char **ret_why)
{
	struct tree *tree = tree_alloc(backend, options);
	_cleanup_(freep) char *reason = NULL;
	int r = tree ? -ESTALE : -ENOMEM;

	/* A store that cannot show a past state is read again when others change it. */
	for (int tries = 0; r == -ESTALE && tries < LOAD_TRIES; tries++)
		r = tree_load(tree, &reason);
	if (r == 0 && options->view)
		r = root_shown_through(tree, options->view, &reason);
	if (r == 0 && backend_change_seen(backend, 0))
		tree->unsettled.at = tick_now();
	if (r == 0)
		r = unless_damaged(tree, take_in_first(tree));
	if (r == 0 && options->whole)
		r = rest_take_in(tree);
	if (r == 0)
		r = tree_start(tree);
	if (r < 0) {
		if (ret_why)
			*ret_why = reason ? steal_ptr(reason) :
					    str_printf("cannot read the store's tree: %s",
						       strerror(-r));
		if (tree) {
			reader_snapshot_end(tree);
			tree_free(tree);
		}
		return r;
	}
	*ret_tree = tree;
	return 0;
}

void tree_close(struct tree *tree)
{
	struct backend *backend;
	int r;

	if (!tree)
		return;
	tree->stopping = true;
	expire_stop(tree);
	taker_stop(tree);
	pthread_join(tree->upkeep->keeper, NULL);
	reader_snapshot_end(tree);
	notifiers_stop(tree);
	notify_missed(tree);
	backend = tree->backend;
	if (!backend->read_only) {
		if (unsettled_are_due(tree))
			(void)tree_reconcile(tree);
		tree_end_ghosts(tree, true);
		r = tree_write_times(tree, true);
		if (r >= 0)
			tree_delete_orphans(tree, false);
		if (r >= 0)
			r = backend->ops->sync(backend);
		if (r < 0)
			log_error("cannot sync the last changes: %s", strerror(-r));
	}
	tree_free(tree);
	backend_close(backend);
}
