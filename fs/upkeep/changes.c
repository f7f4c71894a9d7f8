/* SPDX-License-Identifier: MIT */

/*
 * The changes of a session, as its history tells them (fs/api/history.h): what was kept at one time
 * is one change, and so are rows that were made at one time.
 */

#include "fs/api/history.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/inode/view.h"
#include "fs/upkeep/session-keys.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

static const int64_t MILLISECOND = 1000000;

/* Rows that SQL has inserted; the table's own time of them may have seconds alone. */
struct came {
	int64_t time;
	int64_t first;
};

struct came_list {
	struct came *item; /* owned */
	size_t count;
	size_t room;
	size_t next;
};

struct changes {
	struct history_change *item;
	size_t count;
	size_t room;
	struct bytes key;
	size_t most;
	size_t begin; /* of those of this key */
	/* Of this key: one row each, and first with all behind it; by falling first and time. */
	struct came_list came, came_on;
};

/* The change that the key has at this time, to the millisecond: rows have no finer times. */
static struct history_change *change_at(struct changes *changes, int64_t time)
{
	time -= time % MILLISECOND;
	for (size_t i = changes->begin; i < changes->count; i++)
		if (changes->item[i].time == time)
			return &changes->item[i];
	if (ARRAY_ROOM(changes->item, changes->count, changes->room) < 0)
		return NULL;
	changes->item[changes->count] = (struct history_change){
		.key = changes->key,
		.time = time,
		.what = HISTORY_APPEND,
		.first = INT64_MAX,
		.last = INT64_MIN,
		.pid = -1,
	};
	return &changes->item[changes->count++];
}

static void touch(struct history_change *change, int64_t first, int64_t last)
{
	change->first = MIN(change->first, first);
	change->last = MAX(change->last, last);
}

/* Newest first.  Of rows that a newer one has, too, an older one says nothing. */
static int add_came(struct changes *changes, const struct backend_past *past)
{
	const bool on = past->last != past->index;
	struct came_list *list = on ? &changes->came_on : &changes->came;

	if (on && list->count && list->item[list->count - 1].first <= past->index)
		return 0;
	if (ARRAY_ROOM(list->item, list->count, list->room) < 0)
		return -ENOMEM;
	list->item[list->count++] = (struct came){ past->until, past->index };
	return 0;
}

static int compare_came(const void *a, const void *b)
{
	const struct came *x = a, *y = b;
	int r = (x->first < y->first) - (x->first > y->first);

	return r ? r : (x->time < y->time) - (x->time > y->time);
}

/* The first one that does not begin behind the row.  Rows are asked for from the last on. */
static const struct came *next_came(struct came_list *list, int64_t index)
{
	while (list->next < list->count && list->item[list->next].first > index)
		list->next++;
	return list->next < list->count ? &list->item[list->next] : NULL;
}

/* When SQL has inserted the row, or one that was there before it, or 0. */
static int64_t came_at(struct changes *changes, int64_t index)
{
	const struct came *one = next_came(&changes->came, index);
	const struct came *on = next_came(&changes->came_on, index);
	int64_t time = one && one->first == index ? one->time : 0;

	return on ? MAX(time, on->time) : time;
}

static int on_past(void *arg, const struct backend_past *past)
{
	struct changes *changes = arg;
	struct history_change *change;

	if (past->what == PAST_NONE && past->pid == 0)
		return add_came(changes, past);
	change = change_at(changes, past->until);
	if (!change)
		return -ENOMEM;
	change->pid = past->pid;
	switch (past->what) {
	case PAST_ROW:
		if (change->what == HISTORY_APPEND)
			change->what = HISTORY_SAVE;
		change->items++;
		change->bytes += past->bytes;
		touch(change, past->index, past->last);
		break;
	case PAST_MOVED:
		if (change->what < HISTORY_MOVE)
			change->what = HISTORY_MOVE;
		change->by = past->last;
		break;
	case PAST_UNDONE:
		change->what = HISTORY_UNDO;
		change->to = past->index;
		break;
	case PAST_MERGED:
		change->what = change->what == HISTORY_UNDO ? HISTORY_UNDO : HISTORY_MERGED;
		break;
	case PAST_GONE:
		change->what = HISTORY_RETURN;
		break;
	case PAST_NONE:
		break;
	}
	return 0;
}

/* Falling: the newest come first. */
static int on_row(void *arg, int64_t index, struct backend_times times, struct bytes data)
{
	struct changes *changes = arg;
	const int64_t came = came_at(changes, index), time = MAX(came, times.created);
	struct history_change *change;

	(void)data;
	if (!time)
		return 0;
	change = change_at(changes, time);
	if (!change)
		return -ENOMEM;
	change->pid = time == came ? 0 : change->pid;
	change->added++;
	if (change->what == HISTORY_APPEND)
		touch(change, index, index);
	return changes->count - changes->begin > changes->most;
}

static int newest_first(const void *a, const void *b)
{
	const struct history_change *x = a, *y = b;
	int r = (x->time < y->time) - (x->time > y->time);

	return r ? r : bytes_compare(x->key, y->key);
}

static int of_key(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		  struct changes *changes)
{
	const struct backend_past_key key = { 0, session, changes->key };
	int r;

	changes->begin = changes->count;
	changes->came.count = changes->came_on.count = 0;
	changes->came.next = changes->came_on.next = 0;
	r = backend_past_list(backend, snapshot, &key, INT64_MIN, on_past, changes);
	if (changes->came.count)
		qsort(changes->came.item, changes->came.count, sizeof(struct came), compare_came);
	return r < 0 ? r :
		       backend_row_read_times(backend, snapshot, session, changes->key, INT64_MAX,
					      true, UINT64_MAX, on_row, changes);
}

int history_changes(struct backend *backend, struct bytes session, struct bytes key, size_t most,
		    history_change_fn *fn, void *arg)
{
	_cleanup_(session_keys_done) struct session_keys keys = { 0 };
	struct changes changes = { .most = most };
	_cleanup_(view_end) struct view view = { 0 };
	int r = view_begin_plain(backend, &view);

	if (r == 0)
		r = session_keys_find(backend, view.snapshot, session, key, &keys);
	for (size_t i = 0; r == 0 && i < keys.count; i++) {
		changes.key = keys.item[i].key;
		r = of_key(backend, view.snapshot, session, &changes);
	}
	view_end(&view);
	if (changes.count)
		qsort(changes.item, changes.count, sizeof(*changes.item), newest_first);
	for (size_t i = 0; r == 0 && i < MIN(changes.count, most); i++)
		r = fn(arg, &changes.item[i]);
	free(changes.came.item);
	free(changes.came_on.item);
	free(changes.item);
	return MIN(r, 0);
}
