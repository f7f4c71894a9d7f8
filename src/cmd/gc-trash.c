/* SPDX-License-Identifier: MIT */

/* The trash: list it, bring sessions back from it, delete them for good. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/store/access.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "src/user/stop.h"
#include "src/cmd/gc.h"

enum { AWAIT_TIMES = 60, AWAIT_PAUSE_US = 25000 };

static int keep_item(void *arg, const struct trash_item *trashed)
{
	struct gc *gc = arg;
	_cleanup_(freep) char *name = bytes_dup(trashed->name);
	_cleanup_(freep) char *session = NULL;

	if (trashed->session.data)
		session = bytes_dup(trashed->session);
	if (!name || (trashed->session.data && !session) ||
	    ARRAY_ROOM(gc->items, gc->n_items, gc->items_room) < 0)
		return -ENOMEM;
	gc->items[gc->n_items] =
		(struct item){ *trashed, steal_ptr(name), steal_ptr(session), false };
	gc->items[gc->n_items].trashed.name = bytes_str(gc->items[gc->n_items].name);
	gc->n_items++;
	return 0;
}

/* A file unlinked less than 300 ms ago is not in the trash yet; poll for it. */
static void await_trash(struct gc *gc)
{
	for (int i = 0; i < AWAIT_TIMES && !stop_wanted(); i++) {
		_cleanup_(store_look_done) struct store_look look = { 0 };

		if (store_look(gc->backend, BACKEND_LATEST, &look) < 0 ||
		    trash_awaits(gc->backend, look.snapshot) <= 0)
			return;
		store_look_done(&look);
		usleep(AWAIT_PAUSE_US);
	}
}

void gc_forget_items(struct gc *gc)
{
	for (size_t i = 0; i < gc->n_items; i++) {
		free(gc->items[i].name);
		free(gc->items[i].session);
	}
	gc->n_items = 0;
}

static int read_trash(struct gc *gc)
{
	_cleanup_(store_look_done) struct store_look look = { 0 };
	int r = store_look(gc->backend, BACKEND_LATEST, &look);

	gc_forget_items(gc);
	return r < 0 ? r : trash_list(gc->backend, look.snapshot, keep_item, gc);
}

void gc_say_wrong(struct gc *gc, const char *name, const char *sentence)
{
	log_error("%s: %s", name, sentence);
	gc->failed = true;
}

void gc_say_failed(struct gc *gc, const char *name, int error)
{
	static const struct {
		int error;
		const char *sentence;
	} sentences[] = {
		{ -ENOENT, "it can no longer be restored" },
		{ -EEXIST, "something of that name or id exists; rename or remove it first" },
		{ -EBUSY, "a program has it open since before it was removed" },
		{ -EINVAL, "its path means something else by now" },
		{ -EROFS, "the mount is read-only" },
		{ -EACCES, "only users who may write to the root of the mount can do that" },
		{ -EPERM, "only users who may write to the root of the mount can do that" },
		{ -ENOSPC, "there is no space left" },
		{ -EOPNOTSUPP, "the mount runs an older version of sessfs; mount it again" },
	};
	const char *sentence = strerror(-error);

	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++)
		if (sentences[i].error == error)
			sentence = sentences[i].sentence;
	gc_say_wrong(gc, name, sentence);
}

int gc_give(struct gc *gc, const struct buf *order, int made)
{
	return made < 0 || gc->report.dry_run ? made : access_order(gc->access, buf_bytes(order));
}

int gc_purge_overdue(struct gc *gc)
{
	/* Now, since what was removed without grace is over at once. */
	int r = read_trash(gc);
	const int64_t now = MAX(gc->now, time_now());

	for (size_t i = 0; r == 0 && i < gc->n_items && !stop_wanted(); i++) {
		_cleanup_(buf_done) struct buf text = { 0 };
		const struct item *item = &gc->items[i];
		int given;

		if (item->trashed.until > now)
			continue;
		given = gc_give(gc, &text, order_purge(&text, item->trashed.id));
		if (given == 0)
			gc_report_trashed(&gc->report, &item->trashed, "purge");
		else if (given != -ENOENT)
			gc_say_failed(gc, item->name, given);
	}
	return r;
}

static void undo_item(struct gc *gc, struct item *item)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	int r = gc_give(gc, &text, order_undo(&text, item->trashed.id));

	item->undone = true;
	if (r == 0)
		gc_report_trashed(&gc->report, &item->trashed, "undo");
	else if (r != -EISDIR &&
		 (r != -ENOENT || !gc->layout)) /* it may have come back with its session */
		gc_say_failed(gc, item->name, r);
}

/* Directories before what is in them. */
static int compare_names(const void *a, const void *b)
{
	const struct item *left = a, *right = b;
	int r = strcmp(left->name, right->name);

	return r ? r :
		   (left->trashed.removed > right->trashed.removed) -
			       (left->trashed.removed < right->trashed.removed);
}

/* The first one of which the name is not before this one; they are in the order of names. */
static size_t first_from(const struct gc *gc, const char *name)
{
	size_t low = 0, high = gc->n_items;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(gc->items[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of several with one name the one that was removed last. */
static struct item *find_newest(struct gc *gc, const char *name)
{
	struct item *newest = NULL;

	for (size_t i = first_from(gc, name); i < gc->n_items; i++) {
		struct item *item = &gc->items[i];

		if (strcmp(item->name, name) != 0)
			break;
		if (!item->trashed.until || item->undone)
			continue;
		if (newest)
			newest->undone = true;
		newest = item;
	}
	return newest;
}

static bool lies_below(const char *name, const char *dir)
{
	size_t size = strlen(dir);

	return strncmp(name, dir, size) == 0 && name[size] == '/';
}

/* What was removed by itself from a directory: since it was made, if that is there itself. */
static bool undo_below(struct gc *gc, const char *dir, const struct item *itself)
{
	_cleanup_(freep) char *first = str_printf("%s/", dir);
	bool any = false;

	for (size_t i = first ? first_from(gc, first) : 0; i < gc->n_items && !stop_wanted(); i++) {
		struct item *item = &gc->items[i];

		if (first && !lies_below(item->name, dir))
			break;
		if (!item->trashed.single || item->undone || !lies_below(item->name, dir) ||
		    (itself && (item->trashed.removed < itself->trashed.made ||
				item->trashed.removed > itself->trashed.removed)))
			continue;
		undo_item(gc, item);
		any = true;
	}
	return any;
}

static bool undo_path(struct gc *gc, const char *name)
{
	struct item *item = find_newest(gc, name);

	if (item)
		undo_item(gc, item);
	return ((!item || item->trashed.single) && undo_below(gc, name, item)) || item;
}

/* By its id: its directory with what was in it, or else what there is of it.  In a store with a
 * layout it has files elsewhere, too: those that were removed by themselves since it was made. */
static bool undo_session(struct gc *gc, const char *id)
{
	const struct item *dir = NULL;
	bool any = false;

	for (int homes = 1; homes >= 0 && (!any || (dir && dir->trashed.single)); homes--)
		for (size_t i = 0; i < gc->n_items && !stop_wanted(); i++) {
			struct item *item = &gc->items[i];

			if (item->trashed.home != homes || !item->session ||
			    strcmp(item->session, id) != 0 || item->undone)
				continue;
			if (homes)
				dir = find_newest(gc, item->name);
			else if (dir && (item->trashed.removed < dir->trashed.made ||
					 lies_below(item->name, dir->name)))
				continue;
			any |= undo_path(gc, item->name);
		}
	return any;
}

static void undo_name(struct gc *gc, const char *name)
{
	_cleanup_(freep) char *path = NULL;
	bool any =
		access_clean(name, &path) == 0 && (undo_path(gc, path) || undo_session(gc, path));

	if (any || undo_session(gc, name))
		return;
	log_error("%s: nothing of that name can be restored; see 'sessfs gc --list %s'", name,
		  gc->store);
	gc->failed = true;
}

int gc_undo(struct gc *gc, char **names)
{
	int r;

	await_trash(gc);
	r = read_trash(gc);
	if (r < 0)
		return r;
	if (gc->n_items)
		qsort(gc->items, gc->n_items, sizeof(*gc->items), compare_names);
	for (size_t i = 0; !*names && i < gc->n_items && !stop_wanted(); i++) {
		struct item *item = gc->items[i].undone ? NULL : find_newest(gc, gc->items[i].name);

		if (item)
			undo_item(gc, item);
	}
	for (; *names && !stop_wanted(); names++)
		undo_name(gc, *names);
	return 0;
}

int gc_list(struct gc *gc)
{
	int r;

	await_trash(gc);
	r = read_trash(gc);

	for (size_t i = 0; r == 0 && i < gc->n_items; i++)
		gc_report_trashed(&gc->report, &gc->items[i].trashed,
				  gc->items[i].trashed.until ? "trash" : "purge");
	gc_report_sum(&gc->report);
	return r;
}
