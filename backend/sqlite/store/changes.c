/* SPDX-License-Identifier: MIT */
/*
 * Others' changes: which keys, and when.
 *
 * "Which" is the table sessfs_change, filled by triggers.  "When" is a watch on the file and its
 * WAL: every commit of anybody writes to one of them, our own too, so a wake-up only says that
 * it is time to ask, and asking is limited to once in PAUSE_MS.  Where there is nothing to
 * watch (no inotify left, no WAL yet), it is asked every POLL_MS.
 *
 * Without triggers (MODE_ASIDE, MODE_FROZEN) all that can be known is data_version: another
 * connection has changed something.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/changes.h"
#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum { PAUSE_MS = 20, POLL_MS = 40 };

int sqlite_watch_start(struct sqlite *store)
{
	int r;

	store->watch.wal_watch = -1;
	store->watch.wake = descriptor_above(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (store->watch.wake < 0)
		return -errno;
	r = sqlite_conn_open(store, true, &store->watcher);
	if (r < 0)
		return r;
	/* Failing is no failure: then we poll. */
	store->watch.inotify = descriptor_above(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	if (store->watch.inotify >= 0 &&
	    inotify_add_watch(store->watch.inotify, store->place.path, IN_MODIFY) < 0) {
		close(store->watch.inotify);
		store->watch.inotify = -1;
	}
	return sqlite_version(store, &store->handed_out);
}

void sqlite_watch_stop(struct sqlite *store)
{
	sqlite_conn_close(&store->watcher);
	closep(&store->watch.inotify);
	closep(&store->watch.wake);
}

int sqlite_version(struct sqlite *store, int64_t *ret_version)
{
	WITH_MUTEX(&store->version_lock);

	return sqlite_conn_number(&store->watcher, SQL_DATA_VERSION, ret_version);
}

static int hand_out_everything(int64_t stamp, backend_change_fn *fn, void *arg)
{
	const struct backend_change change = { .rewritten = true, .stamp = stamp };

	return MIN(fn(arg, &change), 0);
}

static int list_everything(struct sqlite *store, struct backend_snapshot *snapshot,
			   backend_change_fn *fn, void *arg)
{
	bool moved = snapshot->everything;

	if (store->mode == MODE_FROZEN) {
		pthread_mutex_lock(&store->version_lock);
		moved = store->handed_out != snapshot->version;
		store->handed_out = snapshot->version;
		pthread_mutex_unlock(&store->version_lock);
	}
	return moved ? hand_out_everything(snapshot->version, fn, arg) : 0;
}

/* Whether the log has a change by these words, and can be told that it is done: some ids in UTF-16
 * are others once they have been UTF-8. */
static bool is_known(struct sqlite_conn *conn, const struct backend_change *change)
{
	struct cursor cursor =
		cursor_open(conn, SQL_CHANGE_GET,
			    SQL_VALUES(sql_given(change->session), sql_given(change->key)));

	cursor_only(&cursor, -ENOENT);
	return cursor_end(&cursor) == 0;
}

static int list_logged(struct backend_snapshot *snapshot, backend_change_fn *fn, void *arg)
{
	struct cursor cursor =
		cursor_open(&snapshot->conn, SQL_CHANGE_LIST,
			    SQL_VALUES(sql_number(atomic_load(&snapshot->conn.store->seen))));

	while (cursor_next(&cursor)) {
		const struct backend_change change = {
			.session = cursor_bytes(&cursor, 0),
			.key = cursor_bytes(&cursor, 1),
			.first = cursor_number(&cursor, 2),
			.deleted = cursor_number(&cursor, 3),
			.stamp = cursor_number(&cursor, 4),
			.apart = cursor_number(&cursor, 4) <= 0,
			.rewritten = cursor_number(&cursor, 5),
		};

		if (snapshot->conn.store->encoding != SQLITE_UTF8 &&
		    !is_known(&snapshot->conn, &change))
			cursor.r = hand_out_everything(change.stamp, fn, arg);
		else
			cursor.r = fn(arg, &change);
	}
	return cursor_end(&cursor);
}

int sqlite_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_change_fn *fn, void *arg)
{
	struct sqlite *store = sqlite_of(backend);
	bool intact = true;
	int64_t stamp = 0;
	int r;

	if (store->mode == MODE_ASIDE || (store->mode == MODE_FROZEN && !store->log_only))
		return list_everything(store, snapshot, fn, arg);
	/* Where nobody can mend them. */
	r = store->mode == MODE_FROZEN ? sqlite_schema_intact(&snapshot->conn, &intact) : 0;
	if (r < 0)
		return r;
	if (!intact)
		return hand_out_everything(stamp, fn, arg);
	/* It stands for all others, so the stamp is the newest of any. */
	r = sqlite_conn_number(&snapshot->conn, SQL_CHANGE_EVERYTHING, &stamp);
	if (r == 0)
		return hand_out_everything(stamp, fn, arg);
	return r == -ENOENT ? list_logged(snapshot, fn, arg) : r;
}

static bool knows_keys(const struct sqlite *store)
{
	return store->mode != MODE_ASIDE && store->mode != MODE_FROZEN;
}

static int find(struct sqlite_conn *conn, struct bytes session, struct bytes key,
		struct backend_change *ret_change)
{
	struct cursor cursor = cursor_open(conn, key.data ? SQL_CHANGE_FIND : SQL_CHANGE_FIND_ANY,
					   SQL_VALUES(sql_given(session), sql_given(key)));

	if (cursor_only(&cursor, -ENOENT)) {
		bool any = cursor_number(&cursor, 3);

		*ret_change = (struct backend_change){
			.session = any ? (struct bytes){ 0 } : session,
			.key = any ? (struct bytes){ 0 } : key,
			.first = cursor_number(&cursor, 0),
			.deleted = cursor_number(&cursor, 1),
			.stamp = cursor_number(&cursor, 2),
			.rewritten = cursor_number(&cursor, 4),
			.seen = cursor_number(&cursor, 2) <= atomic_load(&conn->store->seen),
		};
	}
	return cursor_end(&cursor);
}

int sqlite_change_find(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, struct backend_change *ret_change)
{
	if (knows_keys(sqlite_of(backend)))
		return find(&snapshot->conn, session, key, ret_change);
	if (!snapshot->everything)
		return -ENOENT;
	*ret_change = (struct backend_change){ .rewritten = true, .stamp = snapshot->version };
	return 0;
}

static int judge(struct sqlite_conn *conn, struct bytes session, struct bytes key)
{
	struct backend_change change;
	int r;

	if (!session.data || !key.data)
		return 0;
	r = find(conn, session, key, &change);
	return r == 0 ? -ESTALE : r == -ENOENT ? 0 : r;
}

int sqlite_changes_judge(struct sqlite_conn *conn, const struct backend_op *op)
{
	int r;

	if (!knows_keys(conn->store))
		return -ESTALE;
	r = judge(conn, op->session, op->key);
	if (r == 0)
		r = judge(conn, op->session_to, op->key_to);
	if (r == 0 && op->node)
		r = judge(conn, op->node->session, op->node->key);
	return r;
}

static int query_stamp(struct sqlite_conn *conn, const char *which, int64_t seen,
		       int64_t *ret_stamp)
{
	static const char format[] = "SELECT %s(stamp) FROM sessfs_change WHERE stamp > %lld";

	return sqlite_conn_query_made(conn, sqlite3_mprintf(format, which, (long long)seen),
				      ret_stamp);
}

/* Who reads beside this mount does not wait for what was seen: its files are there. */
bool sqlite_change_seen(struct backend *backend, int64_t stamp)
{
	struct sqlite *store = sqlite_of(backend);

	if (!store->owner || !knows_keys(store) || store->mounts.fd < 0)
		return false;
	if (stamp > atomic_load(&store->seen)) {
		atomic_store(&store->seen, stamp);
		sqlite_mounts_see(store, stamp);
	}
	return true;
}

int sqlite_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest)
{
	struct sqlite *store = sqlite_of(backend);
	struct sqlite_conn *conn = &store->watcher;
	unsigned pending = 0;
	bool cut = false;
	int64_t seen;
	int r;

	*ret_oldest = *ret_newest = 0;
	/* Nothing is logged in what is not ours, and its files are made for each who reads. */
	if (store->mode == MODE_ASIDE)
		return 0;
	seen = store->owner ? atomic_load(&store->seen) : sqlite_mounts_seen(store);
	pthread_mutex_lock(&store->version_lock);
	r = sqlite_schema_pending(conn, false, &pending, &cut);
	pending &= SQLITE_PENDING_CHANGES;
	if (r == 0 && pending)
		r = query_stamp(conn, "min", seen, ret_oldest);
	if (r == 0 && pending)
		r = query_stamp(conn, "max", seen, ret_newest);
	pthread_mutex_unlock(&store->version_lock);
	if (cut) { /* and what was not logged meanwhile is not known */
		*ret_oldest = INT64_MIN;
		*ret_newest = INT64_MAX;
	}
	return r;
}

/* 1 when others have changed something that was not digested, or a setting. */
static int ask(struct sqlite *store, int64_t *version)
{
	int64_t digested = 0, now = 0;
	bool cut = false, settings = false;
	unsigned pending = 0;
	int r;

	pthread_mutex_lock(&store->version_lock);
	switch (store->mode) {
	case MODE_ASIDE:
		r = sqlite_conn_number(&store->watcher, SQL_DATA_VERSION, &now);
		if (r == 0)
			r = sqlite_conn_number(&store->watcher, SQL_DIGESTED, &digested);
		pending = now != digested;
		break;
	case MODE_FROZEN:
		r = sqlite_conn_number(&store->watcher, SQL_DATA_VERSION, &now);
		pending = now != *version;
		*version = now;
		break;
	default:
		r = sqlite_schema_pending(&store->watcher, false, &pending, &cut);
		if (r == 0)
			r = sqlite_conn_number(&store->watcher, SQL_SETTINGS, &now);
		settings = r == 0 && now != store->watch.settings;
		if (settings)
			store->watch.settings = now;
	}
	pthread_mutex_unlock(&store->version_lock);
	return r < 0 ? r : pending || cut || settings;
}

/* Sleep for so long or until wake(), then 1; with files also until one of them was written. */
static int doze(struct sqlite *store, int64_t timeout, bool files)
{
	struct pollfd polls[2] = {
		{ .fd = store->watch.wake, .events = POLLIN },
		{ .fd = files ? store->watch.inotify : -1, .events = POLLIN },
	};
	char events[4096];
	uint64_t count;

	if (poll(polls, ARRAY_SIZE(polls), (int)MIN(timeout, INT_MAX)) <= 0)
		return 0;
	if (polls[1].revents)
		while (read(store->watch.inotify, events, sizeof(events)) > 0)
			;
	return polls[0].revents && read(store->watch.wake, &count, sizeof(count)) > 0;
}

int sqlite_change_wait(struct backend *backend, int timeout_ms)
{
	struct sqlite *store = sqlite_of(backend);
	int64_t deadline = tick_ms() + timeout_ms, rest = timeout_ms;
	int64_t version = 0;
	bool large;
	int r;

	if (store->owner)
		sqlite_file_there(store);
	sqlite_mounts_sweep(store);
	sqlite_keeper_failed(store);
	/* Another program's commits begin the log anew only while nobody has a snapshot in it. */
	large = sqlite_beside_size(store->place.path, "-wal") > 2 * SQLITE_WAL_KIB * UINT64_C(1024);
	sqlite_snapshot_kept(store, large ? BACKEND_KEEP_CONTENT : BACKEND_KEEP_AGAIN);
	pthread_mutex_lock(&store->version_lock);
	version = store->handed_out;
	pthread_mutex_unlock(&store->version_lock);
	for (;;) {
		/* First of all the pause: so a caller in a loop never spins, whatever we answer. */
		if (doze(store, MIN(rest, PAUSE_MS), false))
			return 1;
		if (sqlite_mounts_asked(store))
			sqlite_snapshot_kept(store, BACKEND_KEEP_NEWER);
		r = ask(store, &version);
		sqlite_uses_look(store, r == 0);
		if (r > 0)
			sqlite_keeper_others(store);
		if (r)
			return r;
		rest = deadline - tick_ms();
		if (rest <= 0)
			return 0;
		/* The WAL comes and goes with the connections that use it; while one of ours has it
		 * open, it is always the same file. */
		if (store->watch.inotify >= 0 && store->watch.wal_watch < 0)
			store->watch.wal_watch =
				inotify_add_watch(store->watch.inotify,
						  BESIDE(store->place.path, "-wal"), IN_MODIFY);
		if (store->watch.wal_watch < 0)
			rest = MIN(rest, POLL_MS);
		if (doze(store, rest, true))
			return 1;
		rest = MAX(deadline - tick_ms(), 0);
	}
}

void sqlite_wake(struct backend *backend)
{
	const uint64_t one = 1;

	/* It only fails when the counter is full, and then the waiter is awake already. */
	(void)!write(sqlite_of(backend)->watch.wake, &one, sizeof(one));
}
