/* SPDX-License-Identifier: MIT */
/*
 * Which files are in use on which mounts.
 *
 * A mount that has a file in use has a shared lock of its open file description on a byte of
 * STORE-mounts, one for each inode number; the kernel drops it with the process.  A transaction
 * that removes files locks the same bytes exclusively until its end.  It fails if a file is in
 * use; a mount that wants to use one meanwhile fails, and finds it removed when it tries again.
 * So the files of a mount that is stopped are in use, too.
 *
 * To the kernel, the locks of a file are a list: to take one costs half a microsecond, 6 when 1,000
 * files are in use whose numbers do not follow each other, 150 when 10,000 are.
 *
 * A mount that is alone has a shared lock of all these bytes instead, and to open a file costs it
 * no call of the system.  As soon as it sees another mount it gives up the bytes of the files that
 * it does not use.  Until then the other one cannot know (-EAGAIN).
 */
#include <errno.h>
#include <fcntl.h>

#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/schema/schema.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/thread.h"

enum { FIRST_BYTE = 4096 }; /* mounts.c has those before it */

static off_t byte_of(uint64_t ino)
{
	return FIRST_BYTE + (off_t)MIN(ino, (uint64_t)INT64_MAX - FIRST_BYTE - 1);
}

static int lock_file(const struct sqlite *store, short type, uint64_t ino)
{
	return descriptor_lock(store->mounts.fd, type, byte_of(ino), 1, false);
}

void sqlite_uses_init(struct sqlite *store)
{
	pthread_mutex_init(&store->uses.lock, NULL);
}

void sqlite_uses_done(struct sqlite *store)
{
	uses_done(&store->uses.own);
	uses_done(&store->uses.removing);
	pthread_mutex_destroy(&store->uses.lock);
}

/* Others see from now on which files are in use. */
static void tell_each(struct sqlite *store)
{
	const struct uses *own = &store->uses.own;
	off_t from = FIRST_BYTE;

	for (size_t i = 0; i < own->count; i++) {
		off_t byte = byte_of(own->ino[i]);

		if (byte > from)
			descriptor_lock(store->mounts.fd, F_UNLCK, from, byte - from, false);
		from = byte + 1;
	}
	descriptor_lock(store->mounts.fd, F_UNLCK, from, 0, false);
	store->uses.any = store->uses.known = false;
}

/* From now on nobody can remove anything; what was removed before may wait to be digested. */
static void tell_any(struct sqlite *store)
{
	store->uses.any = descriptor_lock(store->mounts.fd, F_RDLCK, FIRST_BYTE, 0, false) == 0;
	store->uses.known = false;
}

void sqlite_uses_look(struct sqlite *store, bool nothing_waits)
{
	bool alone;

	if (store->mounts.fd < 0)
		return;
	alone = !sqlite_mounts_shared(store);
	WITH_MUTEX(&store->uses.lock);
	if (alone && store->uses.any)
		store->uses.known |= nothing_waits;
	else if (alone && !store->uses.removing.count)
		tell_any(store);
	else if (!alone && store->uses.any && !store->uses.removing.count)
		tell_each(store);
}

/* *ret_known: that nobody has removed it. */
static int begin_use(struct sqlite *store, uint64_t ino, bool *ret_known)
{
	int r;
	WITH_MUTEX(&store->uses.lock);

	*ret_known = store->uses.known;
	r = uses_has(&store->uses.removing, ino) ? -EAGAIN : uses_add(&store->uses.own, ino);
	if (r == 0 && !store->uses.any) {
		r = lock_file(store, F_RDLCK, ino);
		if (r < 0)
			uses_remove(&store->uses.own, ino);
	}
	return r == -EAGAIN || r == -EACCES ? -ESTALE : r;
}

static void end_use(struct sqlite *store, uint64_t ino)
{
	WITH_MUTEX(&store->uses.lock);

	uses_remove(&store->uses.own, ino);
	if (!store->uses.any)
		lock_file(store, F_UNLCK, ino);
}

/* -ESTALE: other mounts have left something that was not digested; 1: another program has. */
static int uses_look(struct sqlite *store)
{
	unsigned pending = 0;
	bool cut = false;
	int r;

	pthread_mutex_lock(&store->version_lock);
	r = sqlite_schema_pending(&store->watcher, false, &pending, &cut);
	pthread_mutex_unlock(&store->version_lock);
	/* The reconciler finds out by itself that triggers were cut off. */
	if (r == 0 && ((pending & SQLITE_PENDING_FEED) || cut))
		r = -ESTALE;
	return r < 0 ? r : pending != 0;
}

int sqlite_use(struct backend *backend, uint64_t ino, bool on)
{
	struct sqlite *store = sqlite_of(backend);
	bool known = true;
	int r = 0;

	if (store->mounts.fd < 0)
		return on;
	if (on)
		r = begin_use(store, ino, &known);
	else
		end_use(store, ino);
	if (r < 0 || known || store->damaged)
		return r < 0 ? r : on;
	r = uses_look(store);
	if (r < 0)
		end_use(store, ino);
	return r;
}

/* The lock in the way tells whether it is that of a mount which was alone. */
static int why_not(const struct sqlite *store, uint64_t ino)
{
	const struct flock lock = descriptor_lock_of_others(store->mounts.fd, byte_of(ino), 1);

	return lock.l_type != F_UNLCK && lock.l_len != 0 ? -EBUSY : -EAGAIN;
}

bool sqlite_uses_any(struct sqlite *store, uint64_t ino)
{
	bool own;

	if (store->mounts.fd < 0)
		return false;
	pthread_mutex_lock(&store->uses.lock);
	own = uses_has(&store->uses.own, ino);
	pthread_mutex_unlock(&store->uses.lock);
	return own || descriptor_is_locked(store->mounts.fd, byte_of(ino), 1);
}

int sqlite_uses_exclude(struct sqlite *store, uint64_t ino)
{
	int r;
	WITH_MUTEX(&store->uses.lock);

	if (uses_has(&store->uses.own, ino))
		return -EBUSY;
	if (!store->mounts.shared)
		return 0;
	r = uses_add(&store->uses.removing, ino);
	if (r == 0)
		r = lock_file(store, F_WRLCK, ino);
	return r == -EAGAIN || r == -EACCES ? why_not(store, ino) : r;
}

void sqlite_uses_admit(struct sqlite *store)
{
	struct uses *removing = &store->uses.removing;
	WITH_MUTEX(&store->uses.lock);

	while (removing->count)
		lock_file(store, store->uses.any ? F_RDLCK : F_UNLCK,
			  removing->ino[--removing->count]);
}
