/* SPDX-License-Identifier: MIT */

/* The snapshot that the tree keeps, seen from the store: it may be in the way. */

#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/thread.h"

/* In another program's file, which may have no write-ahead log, it would keep that from writing. */
bool sqlite_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg)
{
	struct sqlite *store = sqlite_of(backend);
	WITH_MUTEX(&store->kept.lock);

	store->kept.keep = keep;
	store->kept.arg = arg;
	return store->mode == MODE_WHOLE || store->mode == MODE_BOOKKEEPING;
}

void sqlite_snapshot_kept(struct sqlite *store, enum backend_keep how)
{
	WITH_MUTEX(&store->kept.lock);

	if (store->kept.keep)
		store->kept.keep(store->kept.arg, how);
}
