/* SPDX-License-Identifier: MIT */

/*
 * History does not grow for ever (backend/history.h).
 *
 * The mount on duty looks after it each minute.  Of changes of a key that are older than a
 * minute, one a minute stays; of those older than an hour one in ten minutes, of those older than
 * a day one an hour.  What goes is not rows but the times between: the changes of such a part
 * count as one, at the time of the last, and of an index only what was there before the first is
 * kept.  So what can be seen are states that were there.  Each minute it looks at what has come
 * into an age since, and now and then at all.
 *
 * A list that is saved all the time may leave millions of rows in a minute, and a commit holds up
 * all others.  So neighbours become one first, in commits of a few thousand records, round after
 * round until each part is one change.
 *
 * Likewise files that were removed: one that was made and removed within one part goes, unless it
 * is the last one of its name.
 *
 * What is older than the setting says goes, and the oldest first if there is more than a share of
 * the store.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fs/api/trash.h"
#include "fs/base/batch.h"
#include "fs/inode/commit.h"
#include "fs/upkeep/session-keys.h"
#include "fs/upkeep/upkeep.h"
#include "backend/base/array.h"
#include "backend/base/log.h"

static const int64_t minute = 60 * INT64_C(1000000000);
static const int64_t hour = 3600 * INT64_C(1000000000);

enum {
	SHARE = 4,		/* of the store */
	SHARE_LEAST = 64 << 20, /* bytes, of a small one */
	TOGETHER = 4096,	/* records in one commit, unless one change has more */
};

/* A change. */
struct kept {
	int64_t until;
	uint64_t bytes;
	uint64_t records;
};

struct thinning {
	struct tree *tree;
	int64_t now;
	int64_t since; /* looks at what ended behind this */
	int64_t purge; /* what ended then or before goes */
	struct backend_past_key key;
	struct batch batch;
	uint64_t records; /* that the batch is about */
	/* Times of changes of a key, the newest first, and the same of all keys. */
	struct kept *time;
	size_t count, room;
	struct kept *all;
	size_t all_count, all_room;
	struct session_keys keys; /* for after the read */
};

static void thinning_done(struct thinning *thinning)
{
	batch_done(&thinning->batch);
	session_keys_done(&thinning->keys);
	free(thinning->time);
	free(thinning->all);
}

static int keep_time(void *arg, const struct backend_past *past)
{
	struct thinning *thinning = arg;

	if (ARRAY_ROOM(thinning->time, thinning->count, thinning->room) < 0)
		return -ENOMEM;
	thinning->time[thinning->count++] =
		(struct kept){ past->until, past->bytes, (uint64_t)past->n };
	return 0;
}

/* How long the part is that a time of this age lies in; 0: each change stays. */
static int64_t part_of(int64_t age)
{
	return age < minute ? 0 : age < hour ? minute : age < 24 * hour ? 10 * minute : hour;
}

static int commit(struct thinning *thinning)
{
	int r = thinning->batch.count ? batch_commit(&thinning->batch, thinning->tree->backend,
						     BACKEND_ANYWAY | BACKEND_FREES) :
					thinning->batch.error;

	batch_clear(&thinning->batch);
	thinning->records = 0;
	return r;
}

/* From a time to another one, with so many records. */
static int change_past(struct thinning *thinning, enum backend_op_type type, int64_t at, int64_t to,
		       uint64_t records)
{
	int r = thinning->records && thinning->records + records > TOGETHER ? commit(thinning) : 0;

	if (r < 0)
		return r;
	BATCH_PUT(&thinning->batch, type, .ino = thinning->key.ino,
		  .session = thinning->key.session, .key = thinning->key.key, .at = at, .to = to);
	thinning->records += records;
	return thinning->batch.error;
}

static int by_time(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->until < y->until) - (x->until > y->until);
}

/* What ended at a time or before goes, the oldest first. */
static int forget(struct thinning *thinning, int64_t until)
{
	uint64_t records = 0;
	int r = 0;

	for (size_t i = thinning->count; r == 0 && i; i--) {
		const struct kept *kept = &thinning->time[i - 1];
		const bool last = i == 1 || thinning->time[i - 2].until > until;

		if (kept->until > until)
			break;
		records += kept->records;
		if (!last && records + thinning->time[i - 2].records <= TOGETHER)
			continue;
		r = change_past(thinning, BACKEND_PAST_FORGET, last ? until : kept->until, 0,
				records);
		records = 0;
	}
	return r;
}

/* Whether a change and the one before it are to count as one. */
static bool belong_together(const struct thinning *thinning, const struct kept *time)
{
	const int64_t part = part_of(thinning->now - time[0].until);

	return part && part == part_of(thinning->now - time[1].until) &&
	       time[0].until / part == time[1].until / part && time[1].until > thinning->purge;
}

/* One round: 1 when there is another one. */
static int thin_round(struct thinning *thinning)
{
	const struct kept *time = thinning->time;
	const size_t count = thinning->count;
	int more = 0, r = 0;

	for (size_t end = 0, i; r == 0 && end < count && time[end].until > thinning->purge;
	     end = i + 1) {
		uint64_t records = time[end].records;

		for (i = end; i + 1 < count && belong_together(thinning, &time[i]); i++) {
			if (i > end && records + time[i + 1].records > TOGETHER) {
				more = 1;
				break;
			}
			records += time[i + 1].records;
		}
		if (i > end)
			r = change_past(thinning, BACKEND_PAST_MERGE, time[i].until,
					time[end].until, records);
	}
	return r < 0 ? r : more;
}

static int read_key(struct thinning *thinning)
{
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin_plain(thinning->tree->backend, &view);

	thinning->count = 0;
	return r < 0 ? r :
		       backend_past_times(view.backend, view.snapshot, &thinning->key,
					  thinning->since, keep_time, thinning);
}

static int thin_key(struct thinning *thinning)
{
	int r, committed;

	do {
		r = read_key(thinning);
		if (r == 0)
			r = thin_round(thinning);
		committed = commit(thinning);
		r = r < 0 || committed == 0 ? r : committed;
	} while (r == 1 && !thinning->tree->stopping);
	if (r == 0)
		r = forget(thinning, thinning->purge);
	for (size_t i = 0; r == 0 && i < thinning->count; i++) {
		if (thinning->time[i].until <= thinning->purge)
			break;
		if (ARRAY_ROOM(thinning->all, thinning->all_count, thinning->all_room) < 0)
			return -ENOMEM;
		thinning->all[thinning->all_count++] = thinning->time[i];
	}
	return r < 0 ? r : commit(thinning);
}

/* The oldest go, until the rest is small enough: until when. */
static int64_t too_old(struct thinning *thinning, uint64_t most)
{
	uint64_t sum = 0;

	if (thinning->all_count)
		qsort(thinning->all, thinning->all_count, sizeof(*thinning->all), by_time);
	for (size_t i = 0; i < thinning->all_count; i++) {
		sum += thinning->all[i].bytes;
		if (sum > most)
			return thinning->all[i].until;
	}
	return INT64_MIN;
}

static int find_most(struct tree *tree, uint64_t *ret_most)
{
	struct backend_space space = { 0 };
	int r;

	*ret_most = tree->upkeep->history_size;
	if (*ret_most)
		return 0;
	r = tree->backend->ops->space(tree->backend, &space);
	*ret_most = MAX(space.used / SHARE, (uint64_t)SHARE_LEAST);
	return r;
}

static int thin(struct thinning *thinning, bool whole, uint64_t bytes)
{
	uint64_t most;
	int64_t until;
	int r = find_most(thinning->tree, &most);

	for (size_t i = 0; r == 0 && i < thinning->keys.count && !thinning->tree->stopping; i++) {
		thinning->key = thinning->keys.item[i];
		r = thin_key(thinning);
	}
	if (r < 0 || !whole || bytes <= most)
		return r;
	until = too_old(thinning, most - most / 10);
	for (size_t i = 0; r == 0 && i < thinning->keys.count && until > INT64_MIN; i++) {
		thinning->key = thinning->keys.item[i];
		r = read_key(thinning);
		if (r == 0)
			r = forget(thinning, until);
		if (r == 0)
			r = commit(thinning);
	}
	return r;
}

int history_thin(struct tree *tree, int64_t now, bool whole)
{
	_cleanup_(thinning_done) struct thinning thinning = { .tree = tree, .now = now };
	_cleanup_(view_end) struct view view = { 0 };
	uint64_t bytes, most;
	int64_t last = 0;
	int r = view_begin_plain(tree->backend, &view);

	if (r == 0)
		r = backend_past_size(view.backend, view.snapshot, &bytes, &last);
	if (r == 0 && last)
		r = backend_past_keys(view.backend, view.snapshot, NULL, session_keys_add,
				      &thinning.keys);
	view_end(&view);
	if (r == 0)
		r = find_most(tree, &most);
	if (r < 0 || !last)
		return r;
	whole |= bytes > most || tree->history < hour;
	thinning.since = whole ? INT64_MIN : now - hour - 11 * minute;
	thinning.purge = tree->history && tree->history < now ? now - tree->history : INT64_MIN;
	return thin(&thinning, whole, bytes);
}

struct gone {
	uint64_t id;
	uint64_t ino;
	int64_t made;
	int64_t removed;
	char *path;
};

struct gone_list {
	struct gone *item;
	size_t count, room;
};

static int keep_gone(void *arg, const struct trash_item *item)
{
	struct gone_list *list = arg;
	struct gone gone = { item->id, item->ino, item->made, item->removed, NULL };

	if (!item->single || !item->until)
		return 0;
	if (ARRAY_ROOM(list->item, list->count, list->room) < 0)
		return -ENOMEM;
	gone.path = bytes_dup(item->name);
	list->item[list->count++] = gone;
	return gone.path ? 0 : -ENOMEM;
}

static int by_path(const void *a, const void *b)
{
	const struct gone *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	return r ? r : (x->removed > y->removed) - (x->removed < y->removed);
}

/* Whether a file had rows at a time: they may be older than the file. */
static int had_rows(struct tree *tree, uint64_t ino, int64_t time)
{
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	_cleanup_(view_end) struct view view = { 0 };
	bool any = false;
	int r = view_begin(tree, BACKEND_ANYWAY, &view);

	if (r == 0)
		r = ASK(&view, node_get, ino, &node);
	if (r == 0 && node.key.data)
		r = as_of_any(view.backend, view.snapshot,
			      &(struct backend_past_key){ ino, node.session, node.key }, time,
			      false, &any);
	return r < 0 ? r : any;
}

int history_thin_removed(struct tree *tree, int64_t now)
{
	struct gone_list list = { 0 };
	struct view view = { 0 };
	int r = view_begin_plain(tree->backend, &view);

	if (r == 0)
		r = trash_list(view.backend, view.snapshot, keep_gone, &list);
	view_end(&view);
	if (r == 0 && list.count)
		qsort(list.item, list.count, sizeof(*list.item), by_path);
	for (size_t i = 0; r == 0 && i + 1 < list.count && !tree->stopping; i++) {
		const struct gone *gone = &list.item[i];
		const int64_t part = part_of(now - gone->removed);

		if (!part || gone->made / part != gone->removed / part ||
		    strcmp(gone->path, gone[1].path) != 0)
			continue;
		r = had_rows(tree, gone->ino, gone->removed / part * part - 1);
		if (r == 0)
			r = tree_trash_purge(tree, gone->id);
		r = r == -ENOENT ? 0 : MIN(r, 0);
	}
	for (size_t i = 0; i < list.count; i++)
		free(list.item[i].path);
	free(list.item);
	return r;
}

void history_look_after(struct tree *tree, int64_t now)
{
	const bool whole = now - tree->upkeep->thinned >= hour || now < tree->upkeep->thinned;
	int r;

	if (tree->options.read_only || !tree->history)
		return;
	r = history_thin(tree, now, whole);
	if (r == 0 && whole)
		r = history_thin_removed(tree, now);
	if (r == 0 && whole)
		tree->upkeep->thinned = now;
	if (r < 0 && r != -ESTALE && r != -EBUSY)
		log_warning("cannot thin the history: %s", strerror(-r));
}
