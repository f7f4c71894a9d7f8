/* SPDX-License-Identifier: MIT */
#include "fs/inode/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "fs/base/ttl.h"
#include "fs/inode/inodes.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

/* A stale count is good for so many times as long as counting takes, and so long at most; for once
 * that long where the quota is nearly reached. */
static const int64_t STALE_NS = 1000000000;
enum { STALE_COST = 10, NEARLY = 8, NEARLY_BYTES = 1 << 20, ATTEMPTS = 3 };

int quota_parse(struct bytes text, int64_t *ret_quota)
{
	return MIN(amount_parse(text, units_of_size, true, ret_quota), 0);
}

/* ---- What is known of a session ---- */

static _Atomic uint64_t *others_of(struct tree *tree, struct bytes session)
{
	uint64_t hash = bytes_hash(BYTES_HASH, session);

	hash ^= hash >> 32;
	return &tree->quota.others[hash % ARRAY_SIZE(tree->quota.others)];
}

void quota_stale(struct tree *tree, struct bytes session)
{
	if (session.data)
		++*others_of(tree, session);
	else
		tree->quota.others_all++;
}

static uint64_t others_now(struct tree *tree, const struct inode *home)
{
	return tree->quota.others_all + *others_of(tree, home->node.session);
}

void quota_look_again(struct tree *tree, struct inode *dir)
{
	WITH_MUTEX(&tree->quota.lock);

	if (dir->quota) {
		dir->quota->looked = false;
		dir->quota->asked++;
	}
}

/* The session's directory, counted, with what is known of it; *ret_home NULL: there is none. */
static int find_home(struct tree *tree, struct view *view, uint64_t dir, struct inode **ret_home)
{
	struct inode *inode = dir ? inode_known(tree, dir) : NULL, *home;
	int r = 0;

	*ret_home = NULL;
	if (!dir)
		return 0;
	if (!inode && !view->backend)
		r = view_begin(tree, BACKEND_ANYWAY, view);
	if (r == 0 && !inode)
		r = inode_get_dir(tree, view, dir, &inode);
	if (r < 0)
		return r;
	home = inode_is_dir(inode) ? inode_session(inode) : NULL;
	if (home)
		inode_ref(tree, home);
	inode_forget(tree, inode, 1);
	if (!home)
		return 0;
	pthread_mutex_lock(&tree->quota.lock);
	if (!home->quota)
		home->quota = calloc(1, sizeof(*home->quota));
	pthread_mutex_unlock(&tree->quota.lock);
	if (!home->quota) {
		inode_forget(tree, home, 1);
		return -ENOMEM;
	}
	*ret_home = home;
	return 0;
}

/* 0: without a limit. */
static int find_limit(struct tree *tree, struct view *view, struct inode *home, uint64_t *ret_limit)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	struct quota *quota = home->quota;
	int64_t own = -1;
	uint64_t asked;
	bool looked;
	int r;

	pthread_mutex_lock(&tree->quota.lock);
	looked = quota->looked;
	asked = quota->asked;
	if (looked)
		own = quota->own;
	pthread_mutex_unlock(&tree->quota.lock);
	if (!looked) {
		/* A new view: the setting as it is now. */
		view_end(view);
		r = view_begin(tree, BACKEND_ANYWAY | BACKEND_BEGUN, view);
		if (r == 0)
			r = ASK(view, xattr_get, home->ino, BYTES(QUOTA_ATTRIBUTE), &value);
		if (r < 0 && r != -ENODATA)
			return r;
		if (r == 0 && quota_parse(buf_bytes(&value), &own) < 0)
			own = -1;
		pthread_mutex_lock(&tree->quota.lock);
		quota->own = own;
		quota->looked = quota->asked == asked;
		pthread_mutex_unlock(&tree->quota.lock);
	}
	*ret_limit = own >= 0 ? (uint64_t)own : tree->quota.each;
	return 0;
}

/* ---- Counting ---- */

/* A commit during the count may or may not be in it; held bytes may be in it twice. */
static int count_now(struct tree *tree, struct view *view, struct inode *home)
{
	struct quota *quota = home->quota, before;
	const uint64_t others = others_now(tree, home), voided = tree->quota.voided,
		       freed = tree->quota.freed, stores = tree->quota.stores;
	const int64_t start = tick_now();
	uint64_t bytes = 0, held, late;
	bool storing;
	int r;

	pthread_mutex_lock(&tree->quota.lock);
	before = *quota;
	pthread_mutex_unlock(&tree->quota.lock);
	held = quota_held(tree, home->ino);
	storing = tree->quota.storing;
	view_end(view);
	r = view_begin(tree, BACKEND_ANYWAY | BACKEND_BEGUN, view);
	if (r == 0)
		r = quota_count(tree, view, home->ino, &bytes);
	if (r < 0)
		return r;
	pthread_mutex_lock(&tree->quota.lock);
	late = before.pending + (quota->begun - before.begun);
	quota->used = (int64_t)MIN(bytes + held + late, (uint64_t)INT64_MAX);
	quota->exact = !late && !storing && stores == tree->quota.stores &&
		       quota->lessened == before.lessened;
	quota->counted = true;
	quota->counted_at = tick_now();
	quota->cost = quota->counted_at - start;
	quota->others = others;
	quota->voided = voided;
	quota->freed = freed;
	quota->counts++;
	pthread_mutex_unlock(&tree->quota.lock);
	return 0;
}

/* One at a time; after waiting, the count may not be needed any more. */
static int count(struct tree *tree, struct view *view, struct inode *home, uint64_t counts)
{
	WITH_MUTEX(&tree->quota.counting);

	return home->quota->counts == counts ? count_now(tree, view, home) : 0;
}

/* Four under tree.quota.lock: whether there is a count to go by, whether it is right, whether
 * something fits, and whether it does so narrowly at most. */
static bool is_counted(struct tree *tree, const struct inode *home, bool nearly)
{
	const struct quota *quota = home->quota;
	const int64_t good = quota->cost * (nearly ? 1 : STALE_COST);

	if (!quota->counted || quota->voided != tree->quota.voided)
		return false;
	return quota->others == others_now(tree, home) ||
	       tick_now() - quota->counted_at < MIN(STALE_NS, good);
}

static bool is_exact(struct tree *tree, const struct inode *home)
{
	const struct quota *quota = home->quota;

	return quota->counted && quota->exact && quota->voided == tree->quota.voided &&
	       quota->freed == tree->quota.freed && quota->others == others_now(tree, home);
}

static bool fits(const struct quota *quota, uint64_t limit, int64_t by)
{
	return quota->used <= (int64_t)MIN(limit, (uint64_t)INT64_MAX) &&
	       (uint64_t)by <= limit - (uint64_t)quota->used;
}

static bool fits_nearly(const struct quota *quota, uint64_t limit, int64_t by)
{
	return !fits(quota, limit - MIN(limit, MAX(limit / NEARLY, (uint64_t)NEARLY_BYTES)), by);
}

enum taking { TAKE_LOOK, TAKE_PENDING, TAKE_HELD };

static void say_full(struct tree *tree, const struct inode *home, uint64_t limit)
{
	bool say;

	pthread_mutex_lock(&tree->quota.lock);
	say = log_pause_over(&home->quota->warned, tick_now());
	pthread_mutex_unlock(&tree->quota.lock);
	if (say)
		log_warning("session %.*s has a quota of %" PRIu64
			    " bytes, and a change that would exceed it failed",
			    (int)home->node.session.size, home->node.session.data, limit);
}

/* Where the quota is nearly reached: what other mounts have written is taken in first. */
static int heed_others(struct tree *tree, struct view *view, const struct inode *home,
		       uint64_t limit, int64_t by)
{
	bool nearly;

	if (!backend_is_shared(tree->backend))
		return 0;
	pthread_mutex_lock(&tree->quota.lock);
	nearly = fits_nearly(home->quota, limit, by);
	pthread_mutex_unlock(&tree->quota.lock);
	if (!nearly)
		return 0;
	view_end(view);
	return view_begin(tree, BACKEND_BEGUN, view);
}

/* Of one session, which becomes larger. */
static int quota_take_of(struct tree *tree, struct view *view, struct inode *home, int64_t by,
			 enum taking how, struct inode *holder)
{
	struct quota *quota = home->quota;
	uint64_t limit, counts;
	int r = find_limit(tree, view, home, &limit);

	if (r < 0)
		return r;
	if (!limit) {
		/* It may get a quota, whose count would miss this. */
		pthread_mutex_lock(&tree->quota.lock);
		quota->counted = false;
		pthread_mutex_unlock(&tree->quota.lock);
		return 1;
	}
	r = heed_others(tree, view, home, limit, by);
	for (int i = 0; r == 0; i++) {
		bool fit, refused;

		pthread_mutex_lock(&tree->quota.lock);
		counts = quota->counts;
		fit = fits(quota, limit, by) &&
		      is_counted(tree, home, fits_nearly(quota, limit, by));
		refused = !fit && (i == ATTEMPTS || is_exact(tree, home));
		if (fit && how != TAKE_LOOK) {
			quota->used += by;
			quota->begun += (uint64_t)by;
			if (how == TAKE_PENDING)
				quota->pending += (uint64_t)by;
			else
				holder->held += (uint64_t)by;
		}
		pthread_mutex_unlock(&tree->quota.lock);
		if (fit)
			return 0;
		if (refused)
			break;
		r = count(tree, view, home, counts);
	}
	if (r < 0)
		return r;
	say_full(tree, home, limit);
	return -EDQUOT;
}

/* ---- Batches ---- */

static void drop_home(struct tree *tree, struct batch_growth *growth)
{
	inode_forget(tree, growth->home, 1);
	growth->home = NULL;
}

/* Add up what the batch does to a session, in one growth. */
static void put_together(struct tree *tree, struct batch *batch)
{
	for (size_t i = 0; i < batch->growths; i++)
		for (size_t j = i + 1; j < batch->growths; j++) {
			struct batch_growth *a = &batch->growth[i], *b = &batch->growth[j];

			if (!a->home || a->home != b->home)
				continue;
			a->less |= b->less;
			a->net += b->net;
			drop_home(tree, b);
		}
}

static int begin_growth(struct tree *tree, struct view *view, struct batch_growth *growth)
{
	struct inode *home = NULL;
	int r = find_home(tree, view, growth->dir, &home);

	growth->home = home;
	growth->taken = false;
	growth->less = growth->by == QUOTA_LESS;
	growth->net = growth->less ? 0 : growth->by;
	if (home) {
		pthread_mutex_lock(&tree->quota.lock);
		growth->counts = home->quota->counts;
		pthread_mutex_unlock(&tree->quota.lock);
	}
	if (r == 0 || growth->by > 0)
		return r;
	/* The session that becomes smaller is not known. */
	quota_void(tree);
	return 0;
}

static void settle(struct quota *quota, const struct batch_growth *growth, int r)
{
	if (growth->taken) {
		quota->pending -= (uint64_t)growth->net;
		if (r < 0)
			quota->used = MAX(quota->used - growth->net, 0);
	}
	if (r < 0 || (growth->net >= 0 && !growth->less))
		return;
	quota->lessened++;
	/* A count that was made meanwhile may include it already. */
	if (growth->net < 0 && growth->counts == quota->counts)
		quota->used = MAX(quota->used + growth->net, 0);
	else
		quota->exact = false;
}

static void quota_settle(struct tree *tree, struct batch *batch, int r)
{
	for (size_t i = 0; batch && i < batch->growths; i++) {
		struct batch_growth *growth = &batch->growth[i];
		struct inode *home = growth->home;

		if (growth->unsure)
			quota_void(tree);
		if (!home)
			continue;
		pthread_mutex_lock(&tree->quota.lock);
		settle(home->quota, growth, r);
		pthread_mutex_unlock(&tree->quota.lock);
		drop_home(tree, growth);
	}
}

static int quota_take(struct tree *tree, struct batch *batch)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = 0;

	if (!batch || !batch->growths || !quota_on(tree))
		return 0;
	for (size_t i = 0; r == 0 && i < batch->growths; i++)
		r = begin_growth(tree, &view, &batch->growth[i]);
	put_together(tree, batch);
	for (size_t i = 0; r == 0 && i < batch->growths; i++) {
		struct batch_growth *growth = &batch->growth[i];

		if (!growth->home || growth->net <= 0)
			continue;
		r = quota_take_of(tree, &view, growth->home, growth->net, TAKE_PENDING, NULL);
		growth->taken = r == 0;
		r = MIN(r, 0);
	}
	view_end(&view);
	if (r < 0)
		quota_settle(tree, batch, r);
	return r;
}

/* Of several names only the newest is known, and that has gone. */
static bool is_unsure(const struct inode *inode)
{
	return inode->node.nlink && !inode->node.parent;
}

uint64_t quota_dir(const struct inode *inode)
{
	if (inode->node.parent)
		return inode->node.parent;
	if (inode->left_dir)
		return inode->left_dir;
	return inode->node.nlink ? inode->called_parent : 0;
}

/* 1: without a limit. */
static int take_in(struct tree *tree, uint64_t dir, int64_t by, enum taking how,
		   struct inode *holder)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *home;
	int r;

	if (!quota_on(tree) || by <= 0)
		return 1;
	r = find_home(tree, &view, dir, &home);
	if (r == 0)
		r = home ? quota_take_of(tree, &view, home, by, how, holder) : 1;
	view_end(&view);
	inode_forget(tree, home, 1);
	return r;
}

int quota_room(struct tree *tree, uint64_t dir, int64_t by)
{
	return MIN(take_in(tree, dir, by, TAKE_LOOK, NULL), 0);
}

int quota_charge(struct tree *tree, struct inode *inode, int64_t by)
{
	int r = take_in(tree, quota_dir(inode), by, TAKE_HELD, inode);

	/* It may get a quota later. */
	if (r > 0)
		inode->held += (uint64_t)by;
	if (is_unsure(inode))
		quota_void(tree);
	return MIN(r, 0);
}

void quota_storing(struct tree *tree)
{
	tree->quota.storing++;
	tree->quota.stores++;
}

void quota_stored(struct tree *tree)
{
	tree->quota.storing--;
}

void quota_grows(const struct inode *inode, int64_t by, struct batch *batch)
{
	const size_t growths = batch->growths;

	batch_grows(batch, quota_dir(inode), by);
	if (batch->growths > growths)
		batch->growth[growths].unsure = is_unsure(inode);
}

/* The exact size, or else that of the last count. */
static int count_exactly(struct tree *tree, struct view *view, struct inode *home,
			 uint64_t *ret_used)
{
	for (int i = 0;; i++) {
		uint64_t counts;
		bool exact;
		int r;

		pthread_mutex_lock(&tree->quota.lock);
		exact = is_exact(tree, home) || i == ATTEMPTS;
		*ret_used = (uint64_t)home->quota->used;
		counts = home->quota->counts;
		pthread_mutex_unlock(&tree->quota.lock);
		if (exact)
			return 0;
		r = count(tree, view, home, counts);
		if (r < 0)
			return r;
	}
}

int quota_stat(struct tree *tree, uint64_t dir, bool always, uint64_t *ret_limit,
	       uint64_t *ret_used)
{
	_cleanup_(view_end) struct view view = { 0 };
	struct inode *home;
	int r = find_home(tree, &view, dir, &home);

	if (r < 0 || !home)
		return r < 0 ? r : -ENODATA;
	r = find_limit(tree, &view, home, ret_limit);
	if (r == 0 && *ret_limit)
		r = count_exactly(tree, &view, home, ret_used);
	else if (r == 0 && always && !view.backend)
		r = view_begin(tree, BACKEND_ANYWAY, &view);
	if (r == 0 && !*ret_limit && always) {
		r = quota_count(tree, &view, home->ino, ret_used);
		*ret_used += quota_held(tree, home->ino);
	}
	view_end(&view);
	inode_forget(tree, home, 1);
	return r;
}

void quotas_init(struct tree *tree)
{
	tree->quota.take = quota_take;
	tree->quota.settle = quota_settle;
	pthread_mutex_init(&tree->quota.lock, NULL);
	pthread_mutex_init(&tree->quota.counting, NULL);
}

void quotas_done(struct tree *tree)
{
	pthread_mutex_destroy(&tree->quota.lock);
	pthread_mutex_destroy(&tree->quota.counting);
}
