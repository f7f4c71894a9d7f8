/* SPDX-License-Identifier: MIT */
/*
 * What mounts leave for each other, files that one has removed and another has open, and locks.
 *
 * Notes have dense numbers in the order of the commits.  A mount remembers the last that it knows
 * (its cursor): its own, and those of others that it has digested.  What all know is deleted, but
 * for the last one, which keeps the numbers rising.  A mount that is stopped for long would have
 * them pile up: then the oldest go, and a cursor before them says "anything".
 */
#include <errno.h>
#include <unistd.h>

#include "backend/sqlite/rows/cursor.h"
#include "backend/sqlite/store/feed.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/rows/read.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/moment.h"

enum {
	TRIM_EVERY = 64,     /* notes */
	KEPT_MOST = 1 << 20, /* notes */
};

/* Joining. */

int sqlite_feed_number(struct sqlite *store)
{
	static const char next[] =
		"INSERT INTO sessfs_meta (key, value) VALUES ('mount', 1) ON CONFLICT (key) DO "
		"UPDATE SET value = CAST(value AS INTEGER) + 1";
	struct sqlite_conn *conn = &store->writer;
	int64_t number = 0;
	int r = sqlite_conn_exec(conn, "BEGIN IMMEDIATE");

	if (r == 0)
		r = sqlite_conn_exec(conn, next);
	if (r == 0)
		r = sqlite_conn_query(conn, "SELECT value FROM sessfs_meta WHERE key = 'mount'", 0,
				      &number);
	store->mounts.number = (uint64_t)number;
	return sqlite_conn_end(conn, r);
}

int sqlite_feed_begin(struct sqlite *store)
{
	struct sqlite_conn *conn = &store->writer;
	uint64_t last = 0;
	int r = sqlite_conn_exec(conn, "BEGIN IMMEDIATE");

	if (r == 0)
		r = sqlite_feed_last(conn, &last);
	/* What those have left that have ended. */
	if (r == 0 && !sqlite_mounts_shared(store))
		r = sqlite_conn_exec(conn, "DELETE FROM sessfs_lock");
	r = sqlite_conn_end(conn, r);
	if (r == 0)
		sqlite_feed_known(store, last);
	return r;
}

/* The state before an operation. */

static int node_before(void *arg, uint64_t ino, struct backend_node *ret_node)
{
	return sqlite_read_node(arg, ino, ret_node);
}

static int entry_before(void *arg, uint64_t parent, int64_t id, struct buf *name,
			uint64_t *ret_node)
{
	return sqlite_read_entry(arg, parent, (uint64_t)id, name, ret_node);
}

static int change_before(void *arg, const struct backend_op *op, struct backend_change *ret_change)
{
	struct cursor cursor = cursor_open(arg, SQL_CHANGE_GET,
					   SQL_VALUES(sql_given(op->session), sql_given(op->key)));

	if (cursor_only(&cursor, -ENOENT))
		*ret_change = (struct backend_change){ .first = cursor_number(&cursor, 0),
						       .deleted = cursor_number(&cursor, 1),
						       .stamp = cursor_number(&cursor, 2),
						       .rewritten = cursor_number(&cursor, 3) };
	return cursor_end(&cursor);
}

struct feed_state sqlite_feed_state(struct sqlite_conn *conn)
{
	return (struct feed_state){
		.node = node_before,
		.entry = entry_before,
		.change = conn->store->mode == MODE_ASIDE ? NULL : change_before,
		.arg = conn,
	};
}

/* Reading. */

static struct backend_feed feed_at(struct cursor *cursor)
{
	struct backend_feed feed = {
		.n = (uint64_t)cursor_number(cursor, 0),
		.what = (enum backend_feed_what)cursor_number(cursor, 1),
		.ino = (uint64_t)cursor_number(cursor, 2),
		.first = cursor_number(cursor, 4),
		.session = cursor_bytes(cursor, 5),
		.key = cursor_bytes(cursor, 6),
		.name = cursor_bytes(cursor, 7),
		.mount = (uint64_t)cursor_number(cursor, 8),
		.pid = cursor_number(cursor, 9),
		.at = cursor_number(cursor, 10),
		.count = (uint64_t)cursor_number(cursor, 11),
		.deleted = cursor_number(cursor, 12),
		.end = cursor_number(cursor, 13),
		.node = (uint64_t)cursor_number(cursor, 14),
		.parent = (uint64_t)cursor_number(cursor, 15),
		.path = cursor_bytes(cursor, 16),
	};

	feed_set_flags(&feed, cursor_number(cursor, 3));
	return feed;
}

/* Some that were not digested have gone. */
static int each_lost(struct sqlite_conn *conn, uint64_t cursor, bool *ret_lost, backend_feed_fn *fn,
		     void *arg)
{
	int64_t first = 0;
	struct backend_feed anything = { .what = BACKEND_FEED_ANYTHING };
	int r = sqlite_conn_number(conn, SQL_FEED_FIRST, &first);

	*ret_lost = r == 0 && first > 0 && (uint64_t)first > cursor + 1;
	if (r < 0 || !*ret_lost)
		return r;
	r = sqlite_feed_last(conn, &anything.n);
	return r < 0 ? r : fn(arg, &anything);
}

static int each_behind(struct sqlite_conn *conn, uint64_t last, backend_feed_fn *fn, void *arg)
{
	struct cursor cursor;
	bool lost = false;
	int r = each_lost(conn, last, &lost, fn, arg);

	if (r < 0 || lost)
		return MIN(r, 0);
	cursor = cursor_open(conn, SQL_FEED_LIST,
			     SQL_VALUES(sql_id(last), sql_id(conn->store->mounts.number)));
	while (cursor_next(&cursor)) {
		const struct backend_feed feed = feed_at(&cursor);

		cursor.r = fn(arg, &feed);
	}
	return cursor_end(&cursor);
}

int sqlite_feed_list(struct backend *backend, struct backend_snapshot *snapshot,
		     backend_feed_fn *fn, void *arg)
{
	return each_behind(&snapshot->conn, atomic_load(&sqlite_of(backend)->mounts.cursor), fn,
			   arg);
}

/* As long as the cursor stays, each is read once: there may be many, and many transactions. */
int sqlite_feed_collect(struct sqlite *store)
{
	const uint64_t cursor = atomic_load(&store->mounts.cursor);
	struct feed_notes *notes = &store->mounts.waiting;

	if (store->mounts.cursor_before != cursor)
		feed_notes_done(notes);
	store->mounts.cursor_before = cursor;
	return each_behind(&store->writer, MAX(cursor, notes->last), feed_add, notes);
}

void sqlite_feed_known(struct sqlite *store, uint64_t n)
{
	uint64_t known = atomic_load(&store->mounts.cursor);

	while (known < n && !atomic_compare_exchange_weak(&store->mounts.cursor, &known, n))
		;
	sqlite_mounts_tell(store, atomic_load(&store->mounts.cursor));
}

void sqlite_feed_done(struct backend *backend, uint64_t n)
{
	sqlite_feed_known(sqlite_of(backend), n);
}

bool sqlite_is_shared(struct backend *backend)
{
	return sqlite_mounts_shared(sqlite_of(backend));
}

void sqlite_turn(struct backend *backend, bool take)
{
	struct sqlite *store = sqlite_of(backend);

	if (store->mounts.fd < 0)
		return;
	if (take)
		sqlite_mounts_turn_begin(store);
	else
		sqlite_mounts_turn_end(store);
}

/* Writing. */

int sqlite_feed_last(struct sqlite_conn *conn, uint64_t *ret_last)
{
	int64_t last = 0;
	int r = sqlite_conn_number(conn, SQL_FEED_LAST, &last);

	*ret_last = MAX((uint64_t)MAX(last, 0), atomic_load(&conn->store->mounts.cursor));
	return r;
}

struct putting {
	struct sqlite_conn *conn;
	uint64_t n;
	int64_t at;
};

static int put_one(void *arg, const struct backend_feed *feed)
{
	struct putting *putting = arg;
	const struct sqlite *store = putting->conn->store;

	return sqlite_conn_ask(putting->conn, SQL_FEED_PUT,
			       SQL_VALUES(sql_id(++putting->n), sql_id(store->mounts.number),
					  sql_number(feed->what), sql_id(feed->ino),
					  sql_number(feed_flags(feed)), sql_number(feed->first),
					  sql_text(feed->session), sql_text(feed->key),
					  sql_blob(feed->name), sql_number(getpid()),
					  sql_number(putting->at), sql_id(feed->count),
					  sql_number(feed->deleted), sql_id(feed->node),
					  sql_number(store->encoding == SQLITE_UTF8)),
			       NULL);
}

static int trim(struct sqlite_conn *conn, uint64_t last)
{
	uint64_t least = sqlite_mounts_least(conn->store);

	if (last > KEPT_MOST)
		least = MAX(least, last - KEPT_MOST);
	return sqlite_conn_ask(conn, SQL_FEED_TRIM, SQL_VALUES(sql_id(least)), NULL);
}

int sqlite_feed_put(struct sqlite_conn *conn, const struct feed_notes *notes, uint64_t *ret_last)
{
	struct putting putting = { .conn = conn, .at = time_now() };
	uint64_t before;
	int r = sqlite_feed_last(conn, &before);

	putting.n = before;
	if (r == 0)
		r = feed_each(notes, put_one, &putting);
	if (r == 0 && before / TRIM_EVERY != putting.n / TRIM_EVERY)
		r = trim(conn, putting.n);
	*ret_last = putting.n;
	return r;
}

/* Files without a name, and locks. */

typedef bool lock_fn(void *arg, struct bytes locks);

/* The locks of each other mount, until fn returns true: *ret_found. */
static int each_lock(struct sqlite_conn *conn, uint64_t ino, lock_fn *fn, void *arg,
		     bool *ret_found)
{
	struct cursor cursor =
		cursor_open(conn, SQL_LOCK_LIST,
			    SQL_VALUES(sql_id(ino), sql_id(conn->store->mounts.number)));

	*ret_found = false;
	while (!*ret_found && cursor_next(&cursor))
		*ret_found =
			sqlite_mounts_lives(conn->store, (uint64_t)cursor_number(&cursor, 0)) &&
			fn(arg, cursor_bytes(&cursor, 1));
	return cursor_end(&cursor);
}

static bool clash(void *arg, struct bytes locks)
{
	return backend_locks_clash(*(const struct bytes *)arg, locks);
}

int sqlite_locks_judge(struct sqlite_conn *conn, uint64_t ino, struct bytes locks)
{
	bool found;
	int r = each_lock(conn, ino, clash, &locks, &found);

	if (r < 0)
		return r;
	return found || sqlite_mounts_untold(conn->store) ? -EAGAIN : 0;
}

struct finding {
	const struct backend_lock *wanted;
	struct backend_lock *found;
};

static bool find(void *arg, struct bytes locks)
{
	const struct finding *finding = arg;

	return backend_lock_in(locks, finding->wanted, finding->found);
}

int sqlite_lock_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     const struct backend_lock *lock, struct backend_lock *ret_lock)
{
	struct finding finding = { .wanted = lock, .found = ret_lock };
	bool found;
	int r = each_lock(&snapshot->conn, ino, find, &finding, &found);

	return r < 0 ? r : found ? 0 : -ENOENT;
}

int sqlite_hold(struct backend *backend, bool untold)
{
	struct sqlite *store = sqlite_of(backend);

	if (store->mounts.fd < 0)
		return 0;
	sqlite_mounts_hold(store, untold);
	return 1;
}

struct listing {
	struct sqlite *store;
	backend_node_fn *fn;
	void *arg;
};

static int list_unused(void *arg, const struct backend_node *node)
{
	const struct listing *listing = arg;

	return sqlite_uses_any(listing->store, node->ino) ? 0 : listing->fn(listing->arg, node);
}

int sqlite_orphan_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_node_fn *fn, void *arg)
{
	struct listing listing = { .store = sqlite_of(backend), .fn = fn, .arg = arg };

	return sqlite_node_list(backend, snapshot, 0, true, list_unused, &listing);
}

int sqlite_orphan_find(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	return sqlite_read_orphan(&snapshot->conn, session, key, ret_node);
}
