/* SPDX-License-Identifier: MIT */
/* Changes of other programs, as the script has logged them. */
#include <errno.h>

#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"

/*
 * One: its name, which is as KEY_ROW, stamp, first, deleted or "-", whether rows were rewritten,
 * end, and whether it was set apart.
 */
static int hand_change(const struct reply *logged, backend_change_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf session = { 0 }, key = { 0 };
	struct backend_change change = {
		.stamp = reply_number(reply_at(logged, 1)),
		.first = reply_number(reply_at(logged, 2)),
		.deleted = reply_is(reply_at(logged, 3), "-") ? INT64_MAX :
								reply_number(reply_at(logged, 3)),
		.rewritten = reply_is(reply_at(logged, 4), "1"),
		.end = reply_number(reply_at(logged, 5)),
		.apart = reply_is(reply_at(logged, 6), "1"),
	};
	struct bytes name = reply_bytes(reply_at(logged, 0));
	int r;

	name = bytes_make(name.data + 1, name.size - 1);
	r = key_take_text(&name, &session);
	if (r == 0)
		r = key_take_text(&name, &key);
	change.session = buf_given(&session);
	change.key = buf_given(&key);
	return r < 0 ? r : fn(arg, &change);
}

int redis_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		      backend_change_fn *fn, void *arg)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	const struct reply *found;
	int r = reading_one(&reading, "changes", OP(.ino = 0), 0, NULL);

	found = reading_answer(&reading, 0);
	for (size_t i = 0; r == 0 && i < found->count; i++)
		r = hand_change(reply_at(found, i), fn, arg);
	return MIN(r, 0);
}

static int keep_change(void *arg, const struct backend_change *change)
{
	*(struct backend_change *)arg = *change;
	return 0;
}

int redis_change_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	int r;

	if (!session.data)
		return -ENOENT; /* each key is told by itself */
	r = reading_one(&reading, key.data ? "change [Rk] 1" : "change [RS] 0",
			OP(.session = session, .key = key), 0, NULL);
	if (r == 0)
		r = reading_answer(&reading, 0)->count ?
			    hand_change(reading_answer(&reading, 0), keep_change, ret_change) :
			    -ENOENT;
	ret_change->session = session;
	ret_change->key = key;
	return r;
}

int redis_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest)
{
	struct backend_snapshot snapshot = { .flags = BACKEND_ANYWAY, .n = -1 };
	_cleanup_(reading_done) struct reading reading = reading_in(backend, &snapshot);
	int r = reading_one(&reading, "waiting", OP(.ino = 0), 0, NULL);

	*ret_oldest = reply_number(reply_at(reading_answer(&reading, 0), 0));
	*ret_newest = reply_number(reply_at(reading_answer(&reading, 0), 1));
	return r;
}
