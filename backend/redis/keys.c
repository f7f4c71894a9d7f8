/* SPDX-License-Identifier: MIT */
/* Which keys there are, and their rows. */
#include <errno.h>
#include <stdlib.h>

#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"

enum { SCAN_COUNT = 10000, SESSIONS_PAGE = 128, KEYS_PAGE = 1000, ROWS_BYTES = 1 << 20 };

/* Rows. */

struct rows_wanted {
	int64_t from;
	bool back;
	uint64_t most;
};

static int ask_rows(struct reading *reading, struct bytes session, struct bytes key,
		    const struct rows_wanted *wanted)
{
	/* Numbers of Lua are exact so far, and no list has more. */
	const int64_t exact = INT64_C(1) << 53;

	call_say(&reading->call, "rows ^k @c #v #a #t #s #p",
		 OP(.session = session, .key = key, .version = wanted->back ? -1 : 1,
		    .at = MAX(MIN(wanted->from, exact), -exact),
		    .to = (int64_t)MIN(wanted->most, (uint64_t)exact), .seq = ROWS_BYTES,
		    .parent = (uint64_t)snapshot_clip(reading->snapshot, session, key)));
	return reading_ask(reading);
}

/* One page of them; *ret_next: where the next one begins, as long as there is more. */
static int hand_rows(struct reading *reading, struct bytes session, struct bytes key,
		     struct rows_wanted *wanted, bool *ret_more, backend_row_fn *fn, void *arg)
{
	const struct reply *found = reading_answer(reading, 0);
	const int64_t size =
		snapshot_see(reading->snapshot, session, key, reply_number(reply_at(found, 1)));
	int64_t at = wanted->back ? MIN(wanted->from, size - 1) : MAX(wanted->from, 0);
	const size_t count = found->count > 2 ? found->count - 2 : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct reply *row = reply_at(found, i + 2);

		if (row->type != REPLY_TEXT)
			break;
		r = fn(arg, at, reply_bytes(row));
		at += wanted->back ? -1 : 1;
		wanted->most--;
	}
	wanted->from = at;
	*ret_more = r == 0 && count && wanted->most && at >= 0 && at < size &&
		    !reply_is(reply_at(found, 0), "s");
	return r;
}

static int read_rows(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct rows_wanted wanted,
		     backend_row_fn *fn, void *arg)
{
	bool more = wanted.most > 0;
	int r = 0;

	for (bool goes_on = false; r == 0 && more; goes_on = true) {
		_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);

		reading.goes_on = goes_on;
		r = ask_rows(&reading, session, key, &wanted);
		if (r == 0)
			r = hand_rows(&reading, session, key, &wanted, &more, fn, arg);
	}
	return MIN(r, 0);
}

int redis_row_read(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		   struct bytes key, int64_t first, backend_row_fn *fn, void *arg)
{
	return read_rows(backend, snapshot, session, key,
			 (struct rows_wanted){ .from = first, .most = UINT64_MAX }, fn, arg);
}

int redis_row_read_back(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, int64_t last, uint64_t most,
			backend_row_fn *fn, void *arg)
{
	if (last < 0)
		return 0;
	return read_rows(backend, snapshot, session, key,
			 (struct rows_wanted){ .from = last, .back = true, .most = most }, fn, arg);
}

bool redis_take_stat(struct backend_snapshot *snapshot, const struct reply *found,
		     struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	int64_t size = reply_number(reply_at(found, 1));
	bool list = reply_is(reply_at(found, 0), "l");

	if (list)
		size = snapshot_see(snapshot, session, key, size);
	*ret_stat = (struct backend_key_stat){ .last = size - 1, .list = list };
	return size > 0;
}

int redis_key_stat(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		   struct bytes key, struct backend_key_stat *ret_stat)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	int r = reading_one(&reading, "stat ^k @c", OP(.session = session, .key = key), 0, NULL);

	if (r == 0 &&
	    !redis_take_stat(snapshot, reading_answer(&reading, 0), session, key, ret_stat))
		r = -ENOENT;
	return r;
}

/* Names. */

static int keep_name(void *arg, struct bytes session)
{
	struct names *names = arg;
	struct buf name = { 0 };
	int r = buf_reserve(&name, session.size + 1);

	if (r == 0)
		r = buf_append_bytes(&name, session);
	if (r < 0 || ARRAY_ROOM(names->items, names->count, names->room) < 0) {
		buf_done(&name);
		return -ENOMEM;
	}
	names->items[names->count++] = name;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return bytes_compare(buf_bytes(a), buf_bytes(b));
}

/* In their order, each once. */
static void names_sort(struct names *names)
{
	size_t kept = 0;

	if (names->count)
		qsort(names->items, names->count, sizeof(*names->items), compare_names);
	for (size_t i = 0; i < names->count; i++)
		if (kept && compare_names(&names->items[kept - 1], &names->items[i]) == 0)
			buf_done(&names->items[i]);
		else
			names->items[kept++] = names->items[i];
	names->count = kept;
}

/* Sessions. */

/* A text in which nothing stands for something else. */
static int append_escaped(struct buf *buf, const char *text)
{
	int r = 0;

	for (; r == 0 && *text; text++) {
		if (strchr("*?[]\\^", *text))
			r = buf_append_byte(buf, '\\');
		if (r == 0)
			r = buf_append_byte(buf, *text);
	}
	return r;
}

int redis_scan(struct redis *store, const char *begin, struct bytes end, backend_name_fn *fn,
	       void *arg)
{
	const size_t before = strlen(begin), around = before + end.size;
	_cleanup_(buf_done) struct buf pattern = { 0 }, cursor = { 0 };
	int r = append_escaped(&pattern, begin);

	if (r == 0)
		r = buf_printf(&pattern, "*%.*s", (int)end.size, end.data);
	if (r == 0)
		r = buf_append_str(&cursor, "0");
	do {
		_cleanup_(reply_done) struct reply reply = { 0 };
		const struct reply *keys;

		if (r == 0)
			r = redis_ask(store, &reply, "SCAN $n MATCH $d COUNT #t",
				      OP(.name = buf_bytes(&cursor), .data = buf_bytes(&pattern),
					 .to = SCAN_COUNT));
		keys = reply_at(&reply, 1);
		for (size_t i = 0; r == 0 && i < keys->count; i++) {
			const struct bytes key = reply_bytes(reply_at(keys, i));

			if (key.size >= around)
				r = fn(arg, bytes_make(key.data + before, key.size - around));
		}
		buf_clear(&cursor);
		if (r == 0)
			r = buf_append_bytes(&cursor, reply_bytes(reply_at(&reply, 0)));
	} while (r == 0 && !bytes_equal(buf_bytes(&cursor), BYTES("0")));
	return r;
}

/* Of a sidecar: it may be all that a session has. */
static int keep_session_of(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(buf_done) struct buf session = { 0 };
	int r = key_take_text(&key, &session);

	(void)value;
	return r < 0 ? r : keep_name(arg, buf_bytes(&session));
}

int redis_session_names(struct backend *backend, backend_name_fn *fn, void *arg)
{
	return redis_scan(redis_of(backend), redis_of(backend)->prefix, BYTES(":_keys"), fn, arg);
}

/* continues: one of before has begun to tell of them, and those that have come since are told as
 * changes are. */
static int find_sessions(struct backend *backend, struct backend_snapshot *snapshot, bool continues)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	struct redis *store = redis_of(backend);
	int r = reading_ask(&reading); /* that it has begun */

	if (r < 0 || snapshot->listed)
		return r;
	pthread_mutex_lock(&store->state.lock);
	if (continues) {
		snapshot->sessions = store->state.sessions;
		store->state.sessions = (struct names){ 0 };
	}
	pthread_mutex_unlock(&store->state.lock);
	if (!snapshot->sessions.count) {
		const struct range hashes = { "range", "", "[K]", "[K>", 0, { 0 } };

		r = redis_session_names(backend, keep_name, &snapshot->sessions);
		if (r == 0)
			r = redis_range(backend, snapshot, &hashes, keep_session_of,
					&snapshot->sessions);
		names_sort(&snapshot->sessions);
	}
	snapshot->listed = r == 0;
	return r;
}

/* Keys of some sessions. */

struct listing {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	backend_key_fn *fn;
	void *arg;
};

static void warn_of(const struct redis *store, struct bytes session, struct bytes key,
		    const struct reply *flag)
{
	if (reply_is(flag, "a"))
		log_warning("%s: the key %.*s:%.*s is that of two sessions, or of two keys; it is "
			    "not shown",
			    store->place, (int)session.size, session.data, (int)key.size, key.data);
	if (reply_is(flag, "b"))
		log_warning(
			"%s: the session %.*s has a list and a single state %.*s; only the list "
			"is shown",
			store->place, (int)session.size, session.data, (int)key.size, key.data);
}

static int hand_keys(const struct listing *listing, struct bytes session, const struct reply *found)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < found->count; i++) {
		const struct bytes key = reply_bytes(reply_at(reply_at(found, i), 0));
		const struct reply *stat = reply_at(reply_at(found, i), 1);
		struct backend_key_stat there;

		warn_of(redis_of(listing->backend), session, key, reply_at(stat, 2));
		if (redis_take_stat(listing->snapshot, stat, session, key, &there))
			r = listing->fn(listing->arg, session, key, &there);
	}
	return r;
}

/* The keys of some sessions; of the first one those behind a key, unless that is NULL. */
static int list_some(const struct listing *listing, const struct buf *sessions, size_t count,
		     struct bytes after)
{
	_cleanup_(reading_done) struct reading reading =
		reading_in(listing->backend, listing->snapshot);
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		_cleanup_(key_done) struct key behind = { 0 };

		if (i == 0 && after.data)
			key_add_text(&behind, after);
		call_say(&reading.call, "keys $n $d #t",
			 OP(.name = buf_bytes(&sessions[i]), .data = key_bytes(&behind),
			    .to = KEYS_PAGE));
		r = behind.error < 0 ? behind.error : r;
	}
	if (r == 0)
		r = reading_ask(&reading);
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct reply *found = reading_answer(&reading, i);

		r = hand_keys(listing, buf_bytes(&sessions[i]), found);
		if (r == 0 && found->count == KEYS_PAGE)
			r = list_some(listing, &sessions[i], 1,
				      reply_bytes(reply_at(reply_at(found, KEYS_PAGE - 1), 0)));
	}
	return r;
}

int redis_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		   struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		   void *arg)
{
	const struct listing listing = { backend, snapshot, fn, arg };
	const struct names *found = &snapshot->sessions;
	int r = snapshot->listed ? 0 : find_sessions(backend, snapshot, after_session.data);
	size_t i = 0, count;

	if (r < 0)
		return r;
	while (after_session.data && i < found->count &&
	       bytes_compare(buf_bytes(&found->items[i]), after_session) < 0)
		i++;
	if (i < found->count && !bytes_equal(buf_bytes(&found->items[i]), after_session))
		after_key = (struct bytes){ 0 };
	for (; r == 0 && i < found->count; i += count, after_key.data = NULL) {
		count = MIN(found->count - i, (size_t)SESSIONS_PAGE);
		r = list_some(&listing, found->items + i, count, after_key);
	}
	return MIN(r, 0);
}

int redis_session_keys(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes after_key, backend_key_fn *fn, void *arg)
{
	const struct listing listing = { backend, snapshot, fn, arg };
	_cleanup_(buf_done) struct buf one = { 0 };
	int r = buf_reserve(&one, session.size + 1);

	if (r == 0)
		r = buf_append_bytes(&one, session);
	return MIN(r < 0 ? r : list_some(&listing, &one, 1, after_key), 0);
}
