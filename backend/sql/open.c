/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sql/conn.h"
#include "backend/sql/mounts.h"
#include "backend/sql/schema.h"
#include "backend/sql/triggers.h"
#include "backend/sql/slots.h"
#include "backend/sql/sql.h"
#include "backend/sql/watch.h"
#include "backend/url/url.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

enum { SECOND_MS = 5000 };

int sql_sync(struct backend *backend)
{
	/* What is committed is as durable as the server makes it. */
	return 0;
}

/* A server does not tell how much room it has. */
int sql_space(struct backend *backend, struct backend_space *ret_space)
{
	const uint64_t plenty = UINT64_C(1) << 50;
	struct sql *store = sql_of(backend);
	struct sql_cursor cursor = { .store = store };

	cursor.r = sql_aside(store, bytes_str(store->texts.driver->size), &cursor.answer);
	if (sql_cursor_only(&cursor, -EIO))
		*ret_space = (struct backend_space){
			.total = plenty + (uint64_t)sql_cursor_number(&cursor, 0),
			.free = plenty,
			.used = (uint64_t)sql_cursor_number(&cursor, 0),
		};
	return sql_cursor_end(&cursor);
}

static void sql_close(struct backend *backend)
{
	struct sql *store = sql_of(backend);

	sql_watch_stop(store);
	sql_mounts_leave(store);
	sql_pool_done(store);
	sql_disconnect(store, &store->writer.link);
	sql_disconnect(store, &store->aside.link);
	sql_texts_done(&store->texts);
	feed_notes_done(&store->state.waiting);
	sql_lanes_done(&store->state.seen);
	sql_lanes_done(&store->state.known);
	sql_lanes_done(&store->state.listed);
	uses_done(&store->state.uses);
	free(store->everything.ids);
	free(store->database);
	free(store->owner);
	url_done(store->url);
	free(store->url);
	pthread_mutex_destroy(&store->pool.lock);
	pthread_mutex_destroy(&store->queue.lock);
	pthread_mutex_destroy(&store->state.lock);
	pthread_mutex_destroy(&store->listing);
	pthread_mutex_destroy(&store->telling);
	pthread_mutex_destroy(&store->aside.lock);
	pthread_mutex_destroy(&store->watch.lock);
	pthread_mutex_destroy(&store->everything.lock);
	pthread_cond_destroy(&store->queue.moved);
	pthread_cond_destroy(&store->queue.came);
	pthread_cond_destroy(&store->state.moved);
	pthread_cond_destroy(&store->watch.stopped);
	free(store);
}

/* clang-format off */
#define CALL(slot, ...) .slot = sql_##slot,
#define READ CALL
#define READ_ROWS CALL
static const struct backend_scans sql_scans = { BACKEND_SCANS };

static const struct backend_joined sql_joined = { BACKEND_JOINED };

static const struct backend_changes sql_changes = {
	BACKEND_CHANGES
	.change_waiting = sql_change_waiting,
	.wake = sql_wake,
};

static const struct backend_shared sql_shared = {
	.is_shared = sql_is_shared,
	.on_duty = sql_on_duty,
	.turn = sql_turn,
	.hold = sql_hold,
	.lease = sql_lease,
	.use = sql_use,
	.feed_done = sql_feed_done,
	BACKEND_SHARED
};

static const struct backend_snapshots sql_snapshots = { .snapshot_begun = sql_snapshot_begun };

static const struct backend_history sql_history = { BACKEND_HISTORY };
static const struct backend_upkeep sql_upkeep = { BACKEND_UPKEEP };

static const struct backend_ops sql_ops = {
	.name = "sql",
	.close = sql_close,
	.snapshot_begin = sql_snapshot_begin,
	.snapshot_end = sql_snapshot_end,
	.commit = sql_commit,
	BACKEND_CALLS
	BACKEND_READS
	.scans = &sql_scans,
	.history = &sql_history,
	.joined = &sql_joined,
	.changes = &sql_changes,
	.shared = &sql_shared,
	.snapshots = &sql_snapshots,
	.upkeep = &sql_upkeep,
};
#undef CALL
#undef READ
#undef READ_ROWS
/* clang-format on */

static struct sql *new_store(const struct sql_driver *driver, const struct url *url,
			     const struct backend_options *options)
{
	struct sql *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	backend_init(&store->backend, &sql_ops);
	store->backend.read_only = options->read_only;
	store->texts.driver = driver;
	store->guest = !options->owner;
	store->rows_only = options->rows_only;
	store->setup = url->setup;
	store->timeout = url->timeout ? url->timeout : 30;
	store->writer.silent = 1;
	store->state.alone = true;
	store->queue.last = &store->queue.first;
	pthread_mutex_init(&store->pool.lock, NULL);
	pthread_mutex_init(&store->queue.lock, NULL);
	pthread_mutex_init(&store->state.lock, NULL);
	pthread_mutex_init(&store->listing, NULL);
	pthread_mutex_init(&store->telling, NULL);
	pthread_mutex_init(&store->aside.lock, NULL);
	pthread_mutex_init(&store->watch.lock, NULL);
	pthread_mutex_init(&store->everything.lock, NULL);
	tick_cond_init(&store->queue.moved);
	tick_cond_init(&store->queue.came);
	tick_cond_init(&store->state.moved);
	tick_cond_init(&store->watch.stopped);
	store->database = str_printf("%s", url->database ? url->database : "the database");
	store->url = calloc(1, sizeof(*store->url));
	if (options->owner)
		store->owner = strdup(options->owner);
	if ((store->owner || !options->owner) && store->database && store->url &&
	    url_copy(url, store->url) == 0)
		return store;
	sql_close(&store->backend);
	return NULL;
}

/* The server's settings decide whether a commit outlives a crash of its machine. */
static int judge_server(struct sql *store, char **ret_careless, char **ret_why)
{
	int r = sql_schema_text(store, store->texts.driver->careless, NULL, 0, ret_careless);

	return r == 0 && *ret_careless && **ret_careless && store->url->durable ?
		       str_explain(ret_why, -EOPNOTSUPP,
				   "%s: durable is not possible: the server may lose commits when "
				   "its machine crashes (%s)",
				   store->database, *ret_careless) :
		       r;
}

/* The first of those that come after the writer's.  A server that was there a moment ago and has
 * no second one for a mount is not away. */
static int connect_second(struct sql *store, int64_t took, char **ret_why)
{
	_cleanup_(freep) char *why = NULL;
	int64_t until = MIN(SECOND_MS + 4 * took, store->timeout * INT64_C(1000));
	int r = sql_connect(store, true, tick_ms() + until, &store->watch.link, &why);

	if (!sql_is_passing(r))
		return r;
	return str_explain(ret_why, r == -EUSERS ? r : -ECONNREFUSED,
			   "%s: the server accepts no second connection, and sessfs needs at least "
			   "five (%s)",
			   store->database, why ? why : "it does not answer");
}

static int connect_and_join(struct sql *store, const struct backend_options *options,
			    char **ret_why)
{
	const struct sql_driver *driver = store->texts.driver;
	_cleanup_(freep) char *careless = NULL;
	const int64_t begun = tick_ms();
	int64_t took;
	uint64_t packet;
	int r = sql_connect(store, true, sql_until(store), &store->writer.link, ret_why);

	took = tick_ms() - begun;
	if (r == 0)
		r = judge_server(store, &careless, ret_why);
	if (r == 0)
		r = sql_schema_open(store, options, ret_why);
	if (r < 0 || store->setup)
		return r;
	store->tables = true;
	packet = driver->packet(store->writer.link);
	if (!packet)
		return -ENOTCONN;
	store->most_packet = packet;
	/* Bytes that have to be escaped take two. */
	store->backend.max_item = MAX(packet / 2, (uint64_t)1 << 16) - (1 << 16);
	r = connect_second(store, took, ret_why);
	if (r < 0)
		return r;
	/* A read-only mount keeps no other mount out, unless it has come to take in changes. */
	if (options->owner || !options->read_only)
		r = sql_mounts_join(store,
				    options->shared || (options->read_only && !options->must_own),
				    ret_why);
	/* From before anything is read of the rows. */
	if (r == 0 && options->owner && !options->read_only)
		r = sql_triggers_watch(store);
	if (r == 0 && options->owner && careless && *careless)
		log_warning("%s: the server may lose commits when its machine crashes: %s",
			    store->database, careless);
	return r < 0 ? r : sql_watch_start(store);
}

int sql_backend_open(const struct sql_driver *driver, const struct url *url,
		     const struct backend_options *options, struct backend **ret_backend,
		     char **ret_why)
{
	struct sql *store = new_store(driver, url, options);
	char *why = NULL;
	int r = store ? connect_and_join(store, options, &why) : -ENOMEM;

	if (r == 0 && !url->setup) {
		*ret_backend = &store->backend;
		return 0;
	}
	if (r == 0) {
		sql_close(&store->backend);
		return 0;
	}
	if (ret_why && !why && store)
		why = str_printf("%s: %s", store->database,
				 store->writer.link ? driver->sentence(store->writer.link) :
						      strerror(-r));
	if (ret_why)
		*ret_why = why;
	else
		free(why);
	if (store)
		sql_close(&store->backend);
	return r;
}
