/* SPDX-License-Identifier: MIT */
/* Changes of other programs, as the script has logged them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/redis/feed.h"
#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

struct logged {
	struct buf session, key;
	struct backend_change change;
};

struct logged_list {
	struct logged *items;
	size_t count, room;
};

static void logged_done(struct logged_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		buf_done(&list->items[i].session);
		buf_done(&list->items[i].key);
	}
	free(list->items);
}

/* "stamp first deleted rewritten end"; -EIO: it is none. */
static int parse_change(const struct reply *value, struct backend_change *ret_change)
{
	long long stamp, first, end;
	char deleted[24];
	int rewritten;

	if (!value->text.data || sscanf(value->text.data, "%lld %lld %23s %d %lld", &stamp, &first,
					deleted, &rewritten, &end) != 5)
		return -EIO;
	*ret_change = (struct backend_change){
		.first = first,
		.deleted = *deleted == '-' ? INT64_MAX : strtoll(deleted, NULL, 10),
		.rewritten = rewritten,
		.stamp = stamp,
		.end = end,
	};
	return 0;
}

static int parse_apart(const struct reply *value, struct backend_change *ret_change)
{
	long long stamp, first;

	if (!value->text.data || sscanf(value->text.data, "%lld %lld", &stamp, &first) != 2)
		return -EIO;
	*ret_change = (struct backend_change){
		.first = first, .deleted = first, .rewritten = true, .stamp = stamp, .apart = true
	};
	return 0;
}

static int take_logged(struct logged_list *list, const struct reply *pairs,
		       int (*parse)(const struct reply *, struct backend_change *))
{
	int r = 0;

	for (size_t i = 0; r == 0 && i + 1 < pairs->count; i += 2) {
		struct logged *logged;

		if (ARRAY_ROOM(list->items, list->count, list->room) < 0)
			return -ENOMEM;
		logged = &list->items[list->count++];
		*logged = (struct logged){ 0 };
		r = parse(reply_at(pairs, i + 1), &logged->change);
		if (r == 0)
			r = call_unname(reply_bytes(reply_at(pairs, i)), &logged->session,
					&logged->key);
		logged->change.session =
			bytes_make(logged->session.data ? logged->session.data : "",
				   logged->session.size);
		logged->change.key =
			bytes_make(logged->key.data ? logged->key.data : "", logged->key.size);
	}
	return r;
}

static int compare_logged(const void *a, const void *b)
{
	const struct backend_change *one = &((const struct logged *)a)->change;
	const struct backend_change *two = &((const struct logged *)b)->change;
	int order = one->apart - two->apart;

	if (!order)
		order = bytes_compare(one->session, two->session);
	return order ? order : bytes_compare(one->key, two->key);
}

static int read_log(struct backend *backend, struct backend_snapshot *snapshot,
		    struct logged_list *list)
{
	struct reading reading = reading_in(backend, snapshot);
	int r;

	call_request(&reading.call, "changes");
	call_request(&reading.call, "apart");
	r = reading_ask(&reading);
	if (r == 0)
		r = take_logged(list, reading_answer(&reading, 0), parse_change);
	if (r == 0)
		r = take_logged(list, reading_answer(&reading, 1), parse_apart);
	reading_done(&reading);
	if (r == 0 && list->count)
		qsort(list->items, list->count, sizeof(*list->items), compare_logged);
	return r;
}

int redis_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		      backend_change_fn *fn, void *arg)
{
	_cleanup_(logged_done) struct logged_list list = { 0 };
	int r = read_log(backend, snapshot, &list);

	for (size_t i = 0; r == 0 && i < list.count; i++)
		r = fn(arg, &list.items[i].change);
	return MIN(r, 0);
}

static int find_change(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	_cleanup_(key_done) struct key name = call_name(session, key);
	struct reading reading = reading_in(backend, snapshot);
	int r;

	call_request(&reading.call, "change");
	call_words(&reading.call, key_bytes(&name));
	r = name.error < 0 ? name.error : reading_ask(&reading);
	if (r == 0 && reading_answer(&reading, 0)->type != REPLY_TEXT)
		r = -ENOENT;
	if (r == 0)
		r = parse_change(reading_answer(&reading, 0), ret_change);
	reading_done(&reading);
	if (r == 0) {
		ret_change->session = session;
		ret_change->key = key;
	}
	return r;
}

int redis_change_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	_cleanup_(logged_done) struct logged_list list = { 0 };
	int r;

	if (!session.data)
		return -ENOENT; /* each key is told by itself */
	if (key.data)
		return find_change(backend, snapshot, session, key, ret_change);
	r = read_log(backend, snapshot, &list);
	for (size_t i = 0; r == 0 && i < list.count; i++)
		if (!list.items[i].change.apart &&
		    bytes_equal(list.items[i].change.session, session)) {
			*ret_change = list.items[i].change;
			ret_change->session = session;
			ret_change->key = key;
			return 0;
		}
	return r < 0 ? r : -ENOENT;
}

int redis_change_known(struct redis *store, struct bytes session, struct bytes key,
		       struct backend_change *ret_change)
{
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };

	return find_change(&store->backend, &snapshot, session, key, ret_change);
}

int redis_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest)
{
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	_cleanup_(logged_done) struct logged_list list = { 0 };
	int r = read_log(backend, &snapshot, &list);

	*ret_oldest = *ret_newest = 0;
	for (size_t i = 0; r == 0 && i < list.count; i++) {
		const int64_t stamp = list.items[i].change.stamp;

		if (list.items[i].change.apart)
			continue;
		*ret_oldest = *ret_oldest ? MIN(*ret_oldest, stamp) : stamp;
		*ret_newest = MAX(*ret_newest, stamp);
	}
	return r;
}
