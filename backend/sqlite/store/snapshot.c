/* SPDX-License-Identifier: MIT */
/*
 * A snapshot is a reader's connection with a read transaction: its first statement asks
 * whether others' changes wait and thereby fixes what all later ones see.
 *
 * SQLite keeps no page of a connection over a commit of another one.  So a brief snapshot is the
 * writer's own connection, if that is idle: it has the pages that the last commits have changed,
 * and reads nothing again.  Where nobody has committed since one of the pool was used, that one has
 * its pages, too, and no commit waits for it.
 */
#include <errno.h>
#include <stddef.h>

#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/store/changes.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/store/writer.h"

/*
 * MODE_ASIDE: the rows are in one file, what we know of them in another, and no transaction spans
 * both.  Our file holds the number that the watcher's data_version had before the rows were read
 * that it describes.  Our file is fixed first, then the rows, then the watcher is asked: if
 * its number is still the one in our file, the rows did not change in between.
 */
static int begin_aside(struct backend_snapshot *snapshot, unsigned *ret_pending)
{
	struct sqlite *store = snapshot->conn.store;
	int64_t digested = -1, ignored = 0, version = 0;
	int r = sqlite_version(store, &snapshot->version);

	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_DIGESTED, &digested);
	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_DATA_VERSION, &ignored);
	if (r == 0)
		r = sqlite_version(store, &version);
	if (r < 0)
		return r;
	snapshot->everything = version != digested;
	*ret_pending = snapshot->everything ? SQLITE_PENDING_CHANGES : 0;
	return 0;
}

/* Nothing can be digested, so nobody is made to; change_list() tells once that something moved. */
static int begin_frozen(struct backend_snapshot *snapshot, unsigned *ret_pending)
{
	int64_t ignored = 0;
	int r = sqlite_version(snapshot->conn.store, &snapshot->version);

	if (r == 0)
		r = sqlite_conn_number(&snapshot->conn, SQL_DATA_VERSION, &ignored);
	if (r == 0)
		*ret_pending = 0;
	return r;
}

static int begin(struct backend_snapshot *snapshot, unsigned *ret_pending, bool *ret_cut)
{
	int r = sqlite_conn_begin(&snapshot->conn, SQL_BEGIN);

	if (r < 0)
		return r;
	switch (snapshot->conn.store->mode) {
	case MODE_ASIDE:
		r = begin_aside(snapshot, ret_pending);
		break;
	case MODE_FROZEN:
		r = begin_frozen(snapshot, ret_pending);
		break;
	default:
		r = sqlite_schema_pending(&snapshot->conn, false, ret_pending, ret_cut);
	}
	if (r < 0)
		sqlite_conn_rollback(&snapshot->conn);
	return r;
}

static void end(struct backend_snapshot *snapshot)
{
	if (sqlite_conn_run(&snapshot->conn, SQL_COMMIT) < 0)
		sqlite_conn_rollback(&snapshot->conn);
}

_Static_assert(offsetof(struct backend_snapshot, conn) == 0, "store->brief.conn is the writer");

/* By the writer's connection.  If anything is in the way, one of the pool will say what. */
static bool begin_brief(struct sqlite *store)
{
	struct backend_snapshot *snapshot = &store->brief;
	unsigned pending = 0;
	bool cut = false;
	int r;

	/* A guest's writer may run what is in the schema. */
	if (store->mode != MODE_WHOLE || store->guest || store->damaged ||
	    atomic_load(&store->pool.commits) == atomic_load(&store->keeper.commits) ||
	    !sqlite_writer_try(store))
		return false;
	snapshot->at_once = false;
	r = begin(snapshot, &pending, &cut);
	if (r == 0 && !pending && !cut)
		return true;
	if (r == 0)
		end(snapshot);
	/* The next transaction has to find out once more what has become of the schema. */
	if (r < 0 || cut) {
		sqlite3_finalize(snapshot->conn.statements[SQL_PENDING]);
		snapshot->conn.statements[SQL_PENDING] = NULL;
	}
	sqlite_writer_give(store);
	return false;
}

int sqlite_snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot)
{
	struct sqlite *store = sqlite_of(backend);
	struct backend_snapshot *snapshot;
	unsigned pending = 0;
	bool cut = false;
	int r;

	if (flags == BACKEND_BRIEF && begin_brief(store)) {
		*ret_snapshot = &store->brief;
		return 0;
	}
	r = sqlite_pool_get(store, flags & BACKEND_AT_ONCE, &snapshot);
	if (r < 0)
		return r;
	atomic_store(&store->pool.commits, atomic_load(&store->keeper.commits));
	snapshot->at_once = flags & BACKEND_AT_ONCE;
	r = begin(snapshot, &pending, &cut);
	if (r == 0 && cut) {
		end(snapshot);
		r = flags & BACKEND_AT_ONCE ? -ESTALE : sqlite_writer_mend(store);
		if (r == 0)
			r = begin(snapshot, &pending, &cut);
	}
	if ((flags & BACKEND_PAST) && store->mode != MODE_ASIDE && store->mode != MODE_FROZEN)
		pending &= ~(unsigned)SQLITE_PENDING_CHANGES;
	/* In a damaged store nothing can be taken in any more. */
	if (r == 0 && pending && !(flags & BACKEND_ANYWAY) && !store->damaged) {
		end(snapshot);
		r = -ESTALE;
	}
	if (r < 0) {
		sqlite_pool_put(store, snapshot);
		return r;
	}
	*ret_snapshot = snapshot;
	return 0;
}

void sqlite_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct sqlite *store = sqlite_of(backend);

	end(snapshot);
	if (snapshot != &store->brief) {
		sqlite_pool_put(store, snapshot);
		return;
	}
	sqlite_writer_give(store);
	sqlite_keeper_used(store);
}
