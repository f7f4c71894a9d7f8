/* SPDX-License-Identifier: MIT */

/*
 * Sessions that expire.
 *
 * A thread checks them when the first may be due by its last check: a change makes a session due
 * later only, and setting a ttl calls expire_soon().  Other programs may add rows with old times,
 * so it checks at least once an hour; and at most every five seconds, also if ttls are set.  It is
 * a thread of its own, so that nothing else waits for it.  Of several mounts the one on duty does
 * it, and learns of ttls that are set on others (tree.ttls_changed).
 *
 * A check reads the ttl of each session, and lists the files of those that have one; rows are read
 * only of those that seem to be due.  It holds no lock, and its views are short.  tree_trash()
 * checks once more, alone, whether a session is due.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/api/trash.h"
#include "fs/base/entries.h"
#include "fs/base/ttl.h"
#include "fs/upkeep/upkeep.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum {
	PART = 64,	   /* sessions looked at in one view */
	SECONDS_LEAST = 5, /* between two looks */
	SECONDS_MOST = 3600,
	SECONDS_AGAIN = 60, /* when one could not go */
	SECONDS_THIN = 60,
	SECONDS_WAIT = 60,
};

static const int64_t second = 1000000000;

struct expiring {
	struct tree *tree;
	struct view view;
	int64_t now;
	int64_t next;
	struct homes homes;   /* that are still to be checked */
	struct entries found; /* some of them, called by their paths */
	int64_t ttl[PART];
	int64_t due[PART]; /* INT64_MAX: never, or not known */
	int error;	   /* the last error of checking one, or 0 */
};

/* Whether an error is not that of one session only. */
static bool fails_all(int error)
{
	return error == -EBUSY || error == -EROFS || error == -ESTALE || error == -ENOMEM ||
	       error == -ENOTCONN;
}

static void look_again(struct expiring *expiring, int64_t at)
{
	expiring->next = MIN(expiring->next, at);
}

static int keep_home(void *arg, struct bytes path, const struct backend_node *node)
{
	struct expiring *expiring = arg;

	return entries_add(&expiring->found, &(struct backend_entry){ .name = path }, node);
}

/* Its own, or the mount's; 0: it lives for ever. */
static int find_ttl(struct expiring *expiring, const struct backend_node *node, int64_t *ret_ttl)
{
	struct view *view = &expiring->view;
	_cleanup_(buf_done) struct buf text = { 0 };
	const uint64_t layout = expiring->tree->layout;
	int r = layout ? session_ttl(view->backend, view->snapshot, layout, node->session, &text) :
			 ASK(view, xattr_get, node->ino, BYTES(TRASH_TTL), &text);

	*ret_ttl = expiring->tree->ttl;
	if (r == 0)
		ttl_parse(buf_bytes(&text), ret_ttl);
	return r == -ENODATA ? 0 : r;
}

/* When a session is due, if ever.  First without its rows, which matter only when its files are
 * old. */
static int find_due(struct expiring *expiring, size_t i)
{
	const struct backend_node *node = &expiring->found.item[i].node;
	static const struct backend_session_stat none = { 0 };
	struct view *view = &expiring->view;
	const uint64_t layout = expiring->tree->layout;
	struct session_look look;
	int r = find_ttl(expiring, node, &expiring->ttl[i]);
	int64_t ttl = expiring->ttl[i];

	expiring->due[i] = INT64_MAX;
	if (r < 0 || !ttl)
		return r;
	r = session_look(view->backend, view->snapshot, layout, node, &none, &look);
	if (r == 0 && look.changed <= expiring->now - ttl)
		r = session_look(view->backend, view->snapshot, layout, node, NULL, &look);
	if (r == 0 && look.changed < INT64_MAX - ttl)
		expiring->due[i] = look.changed + ttl;
	return r;
}

static void say_removed(struct bytes name, int64_t ttl, int64_t grace, bool is_kept)
{
	const int64_t hour = 3600 * second;
	char back[80] = "";

	if (!is_kept)
		snprintf(back, sizeof(back), "; there was no room to keep it");
	else if (grace)
		snprintf(back, sizeof(back),
			 "; 'sessfs gc --undo' can restore it for %" PRId64 " %s",
			 grace / (grace < hour ? second : hour), grace < hour ? "s" : "h");
	log_info("session %.*s was removed: nothing in it has changed for %" PRId64 " s%s",
		 (int)name.size, name.data, ttl / second, back);
}

static void remove_session(struct expiring *expiring, size_t i)
{
	struct tree *tree = expiring->tree;
	struct bytes name = entry_name(&expiring->found.item[i]);
	int64_t ttl = expiring->ttl[i];
	const int64_t grace = tree->grace;
	int r = tree_trash(tree, name, expiring->now - ttl, grace);
	const bool is_kept = r != -ENOSPC || !grace;

	/* Or a full store would stay full. */
	if (!is_kept)
		r = tree_trash(tree, name, expiring->now - ttl, 0);
	if (r == 0) {
		say_removed(name, ttl, grace, is_kept);
		return;
	}
	look_again(expiring, expiring->now + SECONDS_AGAIN * second);
	if (r != -ECANCELED && r != -EBUSY && r != -ENOENT)
		log_warning("cannot remove session %.*s, although its time is over: %s",
			    (int)name.size, name.data, strerror(-r));
}

/* Some sessions; 1 when there are more. */
static int expire_part(struct expiring *expiring)
{
	struct tree *tree = expiring->tree;
	int more = view_begin(tree, BACKEND_ANYWAY, &expiring->view), r;

	if (more == 0)
		more = homes_next(&expiring->homes, tree->backend, expiring->view.snapshot, PART,
				  keep_home, expiring);
	r = MIN(more, 0);
	for (size_t i = 0; r == 0 && i < expiring->found.count; i++) {
		r = find_due(expiring, i);
		if (r < 0 && !fails_all(r)) {
			expiring->error = r;
			r = 0;
		}
	}
	view_end(&expiring->view);
	for (size_t i = 0; r == 0 && i < expiring->found.count && !tree->stopping; i++) {
		if (expiring->due[i] <= expiring->now)
			remove_session(expiring, i);
		else
			look_again(expiring, expiring->due[i]);
	}
	entries_done(&expiring->found);
	return r < 0 ? r : more;
}

struct purging {
	struct expiring *expiring;
	uint64_t after; /* those up to this one have been tried */
	uint64_t id[PART];
	size_t count;
	int error; /* the last error of removing one, or 0 */
};

static int keep_overdue(void *arg, const struct trash_item *item)
{
	struct purging *purging = arg;

	if (item->id <= purging->after)
		return 0;
	if (item->until > purging->expiring->now)
		look_again(purging->expiring, item->until);
	else
		purging->id[purging->count++] = item->id;
	return purging->count == PART;
}

/* Some of what is over; 1 when there is more. */
static int purge_part(struct purging *purging)
{
	struct expiring *expiring = purging->expiring;
	struct tree *tree = expiring->tree;
	int r = view_begin(tree, BACKEND_ANYWAY, &expiring->view);

	purging->count = 0;
	if (r == 0)
		r = trash_list(tree->backend, expiring->view.snapshot, keep_overdue, purging);
	view_end(&expiring->view);
	for (size_t i = 0; r == 0 && i < purging->count && !tree->stopping; i++) {
		int error = tree_trash_purge(tree, purging->id[i]);

		purging->after = purging->id[i];
		/* -ENOENT: another thread or mount has removed it. */
		if (error == 0 || error == -ENOENT)
			continue;
		purging->error = error;
		if (fails_all(error))
			return 0;
	}
	return r < 0 ? r : purging->count == PART;
}

/* Check all sessions; returns when to check again. */
static int64_t expire_all(struct tree *tree)
{
	struct expiring expiring = { .tree = tree,
				     .now = time_now(),
				     .homes = { .layout = tree->layout } };
	struct purging purging = { .expiring = &expiring };
	int r;

	expiring.next = expiring.now + SECONDS_MOST * second;
	/* A session that is removed from now on is due then. */
	if (tree->history && tree->history < SECONDS_MOST * second)
		look_again(&expiring, expiring.now + tree->history);
	do
		r = expire_part(&expiring);
	while (r > 0 && !tree->stopping);
	homes_done(&expiring.homes);
	while (r >= 0 && !tree->stopping && (r = purge_part(&purging)) > 0)
		;
	if (r == 0)
		r = expiring.error;
	/* What was changed meanwhile is looked at again. */
	if (r < 0 && r != -ESTALE)
		log_warning("cannot find out which sessions to remove: %s", strerror(-r));
	if (purging.error && purging.error != -ESTALE)
		log_warning("cannot delete what is in the trash, although its time is over: %s",
			    strerror(-purging.error));
	if (r < 0 || purging.error)
		look_again(&expiring, expiring.now + SECONDS_AGAIN * second);
	return MAX(expiring.next, expiring.now + SECONDS_LEAST * second);
}

static void *expire(void *arg)
{
	struct tree *tree = arg;
	int64_t thin_at = tick_now() + SECONDS_THIN * second;

	pthread_mutex_lock(&tree->upkeep->lock);
	while (!tree->stopping) {
		int64_t next, wait = tree->upkeep->expire_at - time_now();

		/* Longer than any wait is: the clock was set back. */
		if (wait > 0 && wait <= SECONDS_MOST * second) {
			/* Not for long at a time, since the clock may be set. */
			tick_cond_wait(&tree->upkeep->changed, &tree->upkeep->lock,
				       tick_now() + MIN(wait, SECONDS_WAIT * second));
			if (tick_now() < thin_at || tree->stopping)
				continue;
			thin_at = tick_now() + SECONDS_THIN * second;
			pthread_mutex_unlock(&tree->upkeep->lock);
			if (!tree->backend->read_only && backend_on_duty(tree->backend))
				history_look_after(tree, time_now());
			pthread_mutex_lock(&tree->upkeep->lock);
			continue;
		}
		/* A ttl that is set during the check counts. */
		tree->upkeep->expire_at = INT64_MAX;
		pthread_mutex_unlock(&tree->upkeep->lock);
		/* This mount expires if it is on duty; otherwise it may come to be. */
		if (tree->backend->read_only)
			next = time_now() + SECONDS_MOST * second;
		else if (backend_on_duty(tree->backend))
			next = expire_all(tree);
		else
			next = time_now() + SECONDS_LEAST * second;
		pthread_mutex_lock(&tree->upkeep->lock);
		tree->upkeep->expire_at = MIN(tree->upkeep->expire_at, next);
	}
	pthread_mutex_unlock(&tree->upkeep->lock);
	return NULL;
}

void expire_soon(struct tree *tree)
{
	WITH_MUTEX(&tree->upkeep->lock);

	tree->upkeep->expire_at = MIN(tree->upkeep->expire_at, time_now() + SECONDS_LEAST * second);
	pthread_cond_signal(&tree->upkeep->changed);
}

int expire_start(struct tree *tree)
{
	int r = 0;

	if (tree->options.expires && !tree->options.read_only)
		r = thread_start(&tree->upkeep->expirer, expire, tree);
	if (r < 0)
		tree->options.expires = false;
	return r;
}

void expire_stop(struct tree *tree)
{
	if (!tree->options.expires || tree->options.read_only)
		return;
	pthread_mutex_lock(&tree->upkeep->lock);
	pthread_cond_signal(&tree->upkeep->changed);
	pthread_mutex_unlock(&tree->upkeep->lock);
	pthread_join(tree->upkeep->expirer, NULL);
}
