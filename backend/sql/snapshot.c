/* SPDX-License-Identifier: MIT */
/* A snapshot is a connection with a transaction that reads, which begins with the first question
 * in it; they go to the server together. */
#include <errno.h>
#include <stdlib.h>

#include "backend/sql/cursor.h"
#include "backend/sql/slots.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum { REST_MS = 500 }; /* that the transaction of a snapshot may outlive it */

static struct backend_snapshot *snapshot_take(struct sql *store)
{
	struct backend_snapshot *snapshot;

	pthread_mutex_lock(&store->pool.lock);
	snapshot = store->pool.idle;
	if (snapshot) {
		store->pool.idle = snapshot->next;
		store->pool.count--;
	}
	pthread_mutex_unlock(&store->pool.lock);
	return snapshot ? snapshot : calloc(1, sizeof(*snapshot));
}

static void done(struct sql *store, struct backend_snapshot *snapshot)
{
	sql_disconnect(store, &snapshot->link);
	free(snapshot);
}

static void give(struct sql *store, struct backend_snapshot *snapshot)
{
	bool keep;

	pthread_mutex_lock(&store->pool.lock);
	keep = snapshot->link && store->pool.count < SQL_READERS;
	if (keep) {
		snapshot->next = store->pool.idle;
		store->pool.idle = snapshot;
		store->pool.count++;
	}
	pthread_mutex_unlock(&store->pool.lock);
	if (!keep)
		done(store, snapshot);
}

/* The answer of the end is read when the connection is used again. */
void sql_pool_rest(struct sql *store)
{
	int64_t before = tick_ms() - REST_MS;
	WITH_MUTEX(&store->pool.lock);

	for (struct backend_snapshot *idle = store->pool.idle; idle; idle = idle->next)
		if (idle->ended_at && idle->ended_at < before) {
			idle->ended_at = 0;
			if (store->texts.driver->send(idle->link, BYTES("COMMIT")) < 0)
				sql_disconnect(store, &idle->link);
		}
}

void sql_pool_done(struct sql *store)
{
	struct backend_snapshot *snapshot;

	while (store->pool.idle) {
		snapshot = store->pool.idle;
		store->pool.idle = snapshot->next;
		done(store, snapshot);
	}
}

int sql_snapshot_begin(struct backend *backend, unsigned flags,
		       struct backend_snapshot **ret_snapshot)
{
	struct sql *store = sql_of(backend);
	struct backend_snapshot *snapshot = snapshot_take(store);
	int r = 0;

	if (!snapshot)
		return -ENOMEM;
	*snapshot = (struct backend_snapshot){
		.store = store,
		.link = snapshot->link,
		.flags = flags,
		.open = snapshot->ended_at,
	};
	if (flags & (BACKEND_BEGUN | BACKEND_AT_ONCE))
		r = sql_snapshot_begin_now(snapshot);
	if (r < 0)
		sql_snapshot_end(backend, snapshot);
	else
		*ret_snapshot = snapshot;
	return r;
}

/* The transaction ends when the next one on this connection begins, or soon (sql_pool_rest()). */
void sql_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct sql *store = sql_of(backend);

	snapshot->ended_at = snapshot->begun || snapshot->open ? tick_ms() : 0;
	/* One that could not begin is in no state to go on from. */
	if (!snapshot->begun && snapshot->error < 0)
		sql_disconnect(store, &snapshot->link);
	give(store, snapshot);
}

int sql_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_begun_fn *fn, void *arg)
{
	if (snapshot->begun)
		return snapshot->error < 0 ? snapshot->error : fn(arg);
	snapshot->begin = fn;
	snapshot->arg = arg;
	return 0;
}
