/* SPDX-License-Identifier: MIT */
/*
 * The thread that does what no request should wait for: checkpoints, and the sync that makes
 * everything durable a second after it was committed.
 *
 * Why a sync of the WAL is enough.  In WAL mode a commit is appended to the WAL and, with
 * synchronous=NORMAL, not synced.  A checkpoint syncs the WAL, copies its pages to the database,
 * syncs that, and only then may the WAL be written from its beginning again.  So at any time, all
 * that was committed is either in the database and durable, or in the WAL; syncing the WAL makes
 * the rest durable.
 *
 * The sync is done on a descriptor of ours.  Closing a descriptor of the database would drop
 * SQLite's POSIX locks on it (file.c), but there are none on the -wal file; and as long as one of
 * our connections is open, SQLite does not delete the -wal file or replace it.  SQLite makes the
 * directory durable when it syncs a new -wal file for the first time; as we sync in its place, we
 * do that too, once.
 *
 * Checkpoints do not wait, and no writer overtakes one (join.c).  Each costs two syncs, so there
 * is one when enough has gathered that none has copied, however large the WAL is.  While writes
 * never pause, they never reach the end of the WAL, which would grow for ever; so when it has
 * become large, the rest is copied while the writer is held.
 *
 * Of several mounts each syncs and checkpoints for itself: the kernel reports a failed sync to
 * processes that have the file open and ask, and the mount that promises fsync must know of it;
 * the commits of others must not depend on a mount that is stopped; and a checkpoint that finds
 * nothing to copy is done at once.  The mount on duty (mounts.c) does what only one should: it
 * gives room back, and has the reserve.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/conn.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/disk/keeper.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/disk/room.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/heap.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum {
	SYNC_MS = 400,	/* from a commit to its sync, at the most, and the sync itself */
	IDLE_MS = 3000, /* without a commit: empty the WAL; without a reader: give memory back */
	CHECKPOINT_KIB = 4096, /* of WAL make a checkpoint worth while */
	HURRY_KIB = 16384,     /* make it urgent */
	ROUNDS = 8,	       /* to come close to the writer before it is held */
	HOLD_MS = 50,	       /* how long it is held, about */
	ASKED_MS = 80,	       /* in which other mounts renew their snapshots, twice */
	ASKED_PAUSE_US = 4000, /* between two looks whether they have */
	SLOW_US = 20000,       /* a commit's delay when the WAL is twice as large as it should be */
	SLOWEST = 10,	       /* times that, when it has become much larger */
};

static int count_pages(void *arg, sqlite3 *db, const char *schema, int pages)
{
	struct sqlite *store = arg;

	/* Fewer: it begins anew. */
	if (pages < atomic_exchange(&store->keeper.wal_pages, pages)) {
		atomic_store(&store->keeper.wal_copied, 0);
		atomic_store(&store->keeper.wal_kept, 0);
	}
	return SQLITE_OK;
}

/* The directory holds the name of a new -wal file. */
static int sync_directory(const char *path)
{
	_cleanup_(freep) char *directory =
		bytes_dup(bytes_make(path, (size_t)(strrchr(path, '/') - path)));
	_cleanup_(closep) int fd = -1;
	int r;

	if (!directory)
		return -ENOMEM;
	fd = descriptor_open(*directory ? directory : "/", O_RDONLY | O_DIRECTORY, 0);
	/* Some filesystems have no sync for directories, and then need none. */
	r = fd >= 0 && fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
	if (fd < 0)
		log_warning("cannot sync the directory of %s: %s", path, strerror(errno));
	if (r < 0)
		log_error("cannot sync the directory of %s: %s", path, strerror(-r));
	return r;
}

static int open_wal(struct sqlite *store)
{
	_cleanup_(closep) int fd = -1;
	struct stat st;
	int r;

	fd = descriptor_open(BESIDE(store->place.path, "-wal"), O_RDONLY | O_NOFOLLOW, 0);
	r = fd < 0 ? -errno : sync_directory(store->place.path);
	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r < 0)
		return r;
	store->keeper.wal_device = st.st_dev;
	store->keeper.wal_inode = st.st_ino;
	atomic_store(&store->keeper.wal, fd);
	fd = -1;
	return 0;
}

/* The kernel reports a lost page once, to each descriptor that is open, and then forgets it: a
 * second sync would lie, and so would one on a descriptor that is opened later. */
static void sync_failed(struct sqlite *store, int error)
{
	atomic_store(&store->keeper.failed, error);
	sqlite_mounts_fail(store);
	log_error("cannot sync %s-wal: %s; what came after the last sync may not survive a power "
		  "failure, and no sync succeeds until the store is mounted again",
		  store->place.path, strerror(-error));
}

int sqlite_keeper_failed(struct sqlite *store)
{
	int none = 0;

	if (!sqlite_mounts_failed(store) ||
	    !atomic_compare_exchange_strong(&store->keeper.failed, &none, -EIO))
		return atomic_load(&store->keeper.failed);
	sqlite_mounts_fail(store);
	log_error("another mount could not sync %s-wal; what came after the last sync may not "
		  "survive a power failure, and no sync succeeds until no mount is left",
		  store->place.path);
	return -EIO;
}

static int sync_wal(struct sqlite *store)
{
	int r = sqlite_keeper_failed(store);

	if (r < 0)
		return r;
	if (store->keeper.wal < 0) {
		r = open_wal(store);
		if (r < 0)
			return r;
	}
	if (fdatasync(store->keeper.wal) == 0)
		return 0;
	r = -errno;
	if (r != -EINTR)
		sync_failed(store, r);
	return r;
}

static int sync_commits(struct sqlite *store)
{
	uint64_t commits = atomic_load(&store->keeper.commits);
	int r;

	if (store->mode == MODE_ASIDE || store->mode == MODE_FROZEN)
		return 0;
	/* Durability in a file that no path leads to does not count. */
	r = sqlite_file_durable(store);
	if (r < 0)
		return r;
	WITH_MUTEX(&store->keeper.sync_lock);
	/* The sync for which we have waited may have done it. */
	if (store->keeper.synced < commits) {
		commits = atomic_load(&store->keeper.commits);
		r = sync_wal(store);
		if (r == 0)
			store->keeper.synced = commits;
	}
	return r;
}

int sqlite_sync(struct backend *backend)
{
	struct sqlite *store = sqlite_of(backend);

	atomic_store_explicit(&store->keeper.asked, true, memory_order_relaxed);
	return sync_commits(store);
}

void sqlite_sync_soon(struct sqlite *store)
{
	int wal = atomic_load(&store->keeper.wal);

	/* This only starts writing; the sync that follows reports failures. */
	if (wal >= 0)
		sync_file_range(wal, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* How many pages of the WAL are not in the database yet, but for those that the last checkpoint had
 * to leave. */
static int pages_to_copy(struct sqlite *store)
{
	int pages = atomic_load(&store->keeper.wal_pages);
	int seen = atomic_load(&store->keeper.wal_copied) + atomic_load(&store->keeper.wal_kept);

	/* More than there are: they were those of the WAL before. */
	return seen > pages ? pages : pages - seen;
}

/* How large the WAL may become. */
static int pages_most(const struct sqlite *store)
{
	return SQLITE_WAL_KIB / HURRY_KIB * store->keeper.hurry_pages;
}

/*
 * A medium that is slower than the writer has to slow the writer down in the end.  Better a little
 * at each commit than seconds at once, when the WAL is as large as it may be.  What a snapshot
 * keeps in the WAL is not the medium's fault.  The one that the tree keeps goes when others'
 * changes are taken in, which is not to be slowed down.
 */
static void slow_down(struct sqlite *store)
{
	int64_t limit = pages_most(store);
	int64_t pages =
		atomic_load(&store->keeper.wal_pages) - atomic_load(&store->keeper.wal_kept);
	int64_t delay = (pages - limit) * SLOW_US / limit;

	if (delay > 0)
		usleep((useconds_t)MIN(delay, SLOW_US * SLOWEST));
}

void sqlite_keeper_committed(struct sqlite *store)
{
	bool urgent = store->keeper.running && pages_to_copy(store) > store->keeper.hurry_pages;

	atomic_fetch_add(&store->keeper.commits, 1);
	pthread_mutex_lock(&store->keeper.lock);
	if (!store->keeper.dirty || (urgent && !store->keeper.hurry))
		pthread_cond_signal(&store->keeper.moved);
	store->keeper.dirty = true;
	store->keeper.hurry |= urgent;
	pthread_mutex_unlock(&store->keeper.lock);
	if (store->keeper.running)
		slow_down(store);
}

void sqlite_keeper_others(struct sqlite *store)
{
	if (!sqlite_mounts_shared(store) || !sqlite_mounts_duty(store))
		return;
	WITH_MUTEX(&store->keeper.lock);
	if (!store->keeper.dirty)
		pthread_cond_signal(&store->keeper.moved);
	store->keeper.dirty = true;
}

void sqlite_keeper_used(struct sqlite *store)
{
	if (atomic_load_explicit(&store->keeper.used, memory_order_relaxed))
		return;
	WITH_MUTEX(&store->keeper.lock);
	atomic_store(&store->keeper.used, true);
	pthread_cond_signal(&store->keeper.moved);
}

/* Returns whether all was done that such a checkpoint does, without waiting for anybody. */
static bool checkpoint(struct sqlite *store, int mode)
{
	sqlite3 *db = store->keeper.conn.db;
	int pages = 0, copied = 0, code;

	/* A log of that name may be another store's by now. */
	if (sqlite_keeper_failed(store) < 0 || sqlite_file_there(store) < 0)
		return false;
	/* It copies no further than the oldest snapshot goes. */
	sqlite_snapshot_kept(store, BACKEND_KEEP_NEWER);
	pthread_mutex_lock(&store->keeper.checkpoint_lock);
	sqlite_conn_set_patience(&store->keeper.conn, 0);
	code = sqlite3_wal_checkpoint_v2(db, "main", mode, &pages, &copied);
	sqlite_conn_set_patience(&store->keeper.conn, SQLITE_BUSY_MS);
	pthread_mutex_unlock(&store->keeper.checkpoint_lock);
	/* Busy: another program is doing it, has a snapshot of the WAL, or has begun it anew. */
	if ((code & 0xff) != SQLITE_BUSY && sqlite_result(&store->keeper.conn, code) == 0) {
		atomic_store(&store->keeper.wal_copied, copied);
		atomic_store(&store->keeper.wal_kept, pages - copied);
	}
	if (code == SQLITE_IOERR_FSYNC)
		sync_failed(store, -EIO);
	return code == SQLITE_OK;
}

/* One of several checkpoints; returns whether the next one would be a short one, going by this. */
static bool come_closer(struct sqlite *store)
{
	int pages = pages_to_copy(store);
	int64_t begin = tick_ms();

	checkpoint(store, SQLITE_CHECKPOINT_PASSIVE);
	return (tick_ms() - begin) * pages_to_copy(store) <= (int64_t)HOLD_MS * pages;
}

/* Other mounts write, too, and keep snapshots.  With the turn taken, those are renewed so that all
 * of the WAL can be copied, and once more so that none needs it: if there are any. */
static void empty_shared(struct sqlite *store)
{
	int64_t until = tick_ms() + ASKED_MS;

	sqlite_mounts_turn(store);
	while (!checkpoint(store, SQLITE_CHECKPOINT_RESTART) && tick_ms() < until) {
		sqlite_mounts_ask(store);
		usleep(ASKED_PAUSE_US);
	}
	sqlite_mounts_turn_end(store);
}

/*
 * Copy what is in the WAL.  When it will soon be larger than it may be, go after the writer until
 * the rest is small, if need be while it is slowed down; and then copy that while the writer has
 * to wait.  The writer will begin the WAL anew.
 */
static void empty_wal(struct sqlite *store)
{
	bool close = come_closer(store);

	if (atomic_load(&store->keeper.wal_pages) <= pages_most(store) / 4 * 3)
		return;
	for (int round = 0; round < ROUNDS && !close; round++)
		close = come_closer(store);
	sqlite_writer_take(store);
	if (sqlite_mounts_shared(store))
		empty_shared(store);
	checkpoint(store, SQLITE_CHECKPOINT_PASSIVE);
	/* One that is begun now needs nothing of the WAL. */
	sqlite_snapshot_kept(store, BACKEND_KEEP_NEWER);
	sqlite_writer_give(store);
}

/* The moment so long from now, for tick_cond_wait(). */
static int64_t after(int milliseconds)
{
	return tick_now() + milliseconds * INT64_C(1000000);
}

/*
 * Wait for a first commit, that long; or, below 0, without end for a commit or a reader.  False
 * when it is time to stop.
 */
static bool wait_for_use(struct sqlite *store, int timeout_ms, bool *ret_dirty)
{
	const int64_t until = after(timeout_ms);
	bool also_read = timeout_ms < 0, stop;
	int r = 0;

	pthread_mutex_lock(&store->keeper.lock);
	while (!store->keeper.stop && !store->keeper.dirty && r != -ETIMEDOUT &&
	       !(also_read && atomic_load(&store->keeper.used))) {
		if (timeout_ms < 0)
			pthread_cond_wait(&store->keeper.moved, &store->keeper.lock);
		else
			r = tick_cond_wait(&store->keeper.moved, &store->keeper.lock, until);
	}
	*ret_dirty = store->keeper.dirty;
	stop = store->keeper.stop;
	pthread_mutex_unlock(&store->keeper.lock);
	return !stop;
}

/* Let commits gather, unless it is urgent or time to stop. */
static void gather(struct sqlite *store)
{
	const int64_t until = after(SYNC_MS);
	WITH_MUTEX(&store->keeper.lock);

	while (!store->keeper.stop && !store->keeper.hurry)
		if (tick_cond_wait(&store->keeper.moved, &store->keeper.lock, until) == -ETIMEDOUT)
			break;
	store->keeper.dirty = store->keeper.hurry = false;
}

/* Page caches, which fill again soon enough when they are needed.  A guest's heap is the program's.
 */
static void give_memory_back(struct sqlite *store)
{
	sqlite_pool_trim(store);
	sqlite_writer_take(store);
	sqlite3_db_release_memory(store->writer.db);
	sqlite_writer_give(store);
	sqlite3_db_release_memory(store->keeper.conn.db);
	if (!store->guest)
		heap_give_back();
}

static void *keep(void *arg)
{
	struct sqlite *store = arg;
	int hurry = store->keeper.hurry_pages, some = hurry / (HURRY_KIB / CHECKPOINT_KIB);
	int half = (int)(store->room.size / store->room.page / 2);
	bool dirty, tidy = true, idle = true;

	/* If another program fills the disk, the reserve has to be enough for the next checkpoint.
	 */
	if (half)
		some = MIN(some, half);
	while (wait_for_use(store, idle ? -1 : IDLE_MS, &dirty)) {
		if (dirty) {
			gather(store);
			if (pages_to_copy(store) > some)
				empty_wal(store);
			/* A checkpoint has synced most of it. */
			sync_commits(store);
			tidy = idle = false;
		} else if (idle) {
			/* A reader is active. */
			idle = false;
		} else {
			if (!tidy) {
				checkpoint(store, SQLITE_CHECKPOINT_PASSIVE);
				if (sqlite_mounts_duty(store))
					sqlite_room_tidy(store);
				tidy = true;
			}
			idle = !atomic_exchange(&store->keeper.used, false);
			if (idle)
				give_memory_back(store);
		}
	}
	return NULL;
}

int sqlite_keeper_start(struct sqlite *store)
{
	int64_t page = SQLITE_PAGE;
	int r;

	if (store->mode == MODE_ASIDE || store->mode == MODE_FROZEN)
		return 0;
	sqlite_keeper_failed(store);
	r = sqlite_conn_open(store, false, &store->keeper.conn);
	if (r == 0)
		r = sqlite_conn_query(&store->keeper.conn, "PRAGMA main.page_size", page, &page);
	if (r < 0)
		return r;
	store->keeper.hurry_pages = (int)(HURRY_KIB * 1024 / page);
	sqlite3_wal_hook(store->writer.db, count_pages, store);
	r = thread_start(&store->keeper.thread, keep, store);
	store->keeper.running = r == 0;
	/* The owner may have made or changed the store when it was opened. */
	if (store->owner)
		sqlite_keeper_committed(store);
	return r;
}

void sqlite_keeper_stop(struct sqlite *store)
{
	if (store->keeper.running) {
		pthread_mutex_lock(&store->keeper.lock);
		store->keeper.stop = true;
		pthread_cond_signal(&store->keeper.moved);
		pthread_mutex_unlock(&store->keeper.lock);
		pthread_join(store->keeper.thread, NULL);
		store->keeper.running = false;
	}
	sqlite_conn_close(&store->keeper.conn);
	if (store->keeper.wal >= 0)
		close(store->keeper.wal);
	store->keeper.wal = -1;
}
