/* SPDX-License-Identifier: MIT */

/* The connections that read. */

#include <errno.h>
#include <stdlib.h>

#include "backend/sqlite/store/conn.h"
#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/thread.h"

static int grow(struct sqlite *store, struct backend_snapshot **ret_snapshot)
{
	struct backend_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int r;

	if (!snapshot)
		return -ENOMEM;
	r = sqlite_conn_more(store, &snapshot->conn);
	if (r < 0) {
		free(snapshot);
		return r;
	}
	*ret_snapshot = snapshot;
	return 0;
}

int sqlite_pool_get(struct sqlite *store, bool at_once, struct backend_snapshot **ret_snapshot)
{
	struct backend_snapshot *snapshot;
	int r;

	pthread_mutex_lock(&store->pool.lock);
	/* Where a program's threads are not ours, those that have one may wait for those that want
	 * one. */
	if (at_once && !store->pool.idle && store->pool.count >= SQLITE_READERS) {
		pthread_mutex_unlock(&store->pool.lock);
		return -ESTALE;
	}
	while (!store->pool.idle && store->pool.count >= SQLITE_READERS && !store->rows_only)
		pthread_cond_wait(&store->pool.freed, &store->pool.lock);
	snapshot = store->pool.idle;
	if (snapshot)
		store->pool.idle = snapshot->next;
	else
		store->pool.count++;
	pthread_mutex_unlock(&store->pool.lock);
	if (snapshot) {
		*ret_snapshot = snapshot;
		return 0;
	}

	r = grow(store, ret_snapshot);
	if (r < 0 && !at_once) {
		/* Without another connection the one that is held longest serves. */
		sqlite_snapshot_kept(store, BACKEND_KEEP_NONE);
		pthread_mutex_lock(&store->pool.lock);
		*ret_snapshot = store->pool.idle;
		if (*ret_snapshot) {
			store->pool.idle = (*ret_snapshot)->next;
			store->pool.count--;
			r = 0;
		}
		pthread_mutex_unlock(&store->pool.lock);
	}
	if (r < 0) {
		pthread_mutex_lock(&store->pool.lock);
		store->pool.count--;
		pthread_cond_signal(&store->pool.freed);
		pthread_mutex_unlock(&store->pool.lock);
	}
	return r;
}

void sqlite_pool_put(struct sqlite *store, struct backend_snapshot *snapshot)
{
	bool surplus, read = !snapshot->at_once;

	pthread_mutex_lock(&store->pool.lock);
	/* One that was kept comes back after memory was given back.  Under the lock: or the keeper
	 * could pass between the question and the list. */
	if (!read && !atomic_load(&store->keeper.used))
		sqlite3_db_release_memory(snapshot->conn.db);
	surplus = store->pool.count > SQLITE_READERS;
	if (surplus) {
		store->pool.count--;
	} else {
		/* The one used last is taken first: its cache is warm. */
		snapshot->next = store->pool.idle;
		store->pool.idle = snapshot;
		pthread_cond_signal(&store->pool.freed);
	}
	pthread_mutex_unlock(&store->pool.lock);
	if (surplus) {
		sqlite_conn_close(&snapshot->conn);
		free(snapshot);
	}
	if (read)
		sqlite_keeper_used(store);
}

bool sqlite_pool_is_used(struct sqlite *store)
{
	unsigned idle = 0;
	WITH_MUTEX(&store->pool.lock);

	for (struct backend_snapshot *s = store->pool.idle; s; s = s->next)
		idle++;
	return idle < store->pool.count;
}

void sqlite_pool_trim(struct sqlite *store)
{
	WITH_MUTEX(&store->pool.lock);

	for (struct backend_snapshot *s = store->pool.idle; s; s = s->next)
		sqlite3_db_release_memory(s->conn.db);
}
