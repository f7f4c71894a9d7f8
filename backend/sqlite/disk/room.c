/* SPDX-License-Identifier: MIT */
/*
 * Full disks.
 *
 * The trouble with a full disk is that deleting needs room as well: a deletion is a commit, a
 * commit is appended to the WAL, and what is in the WAL has to fit into the database before the WAL
 * can be written from its beginning again.  So three things are done:
 *
 *   - A transaction that could not be brought into the database any more is not committed
 *     (sqlite_room_check).  So a checkpoint always succeeds, however full the disk is, unless
 *     another program has filled it meanwhile; and after it, the WAL can be cut to nothing.
 *   - The blocks that a deletion needs are not left to other programs: the WAL has
 *     SQLITE_WAL_LEAST of blocks of its own, always, and on a disk that is nearly full, the
 *     database has the blocks that it is going to grow by before a transaction is committed.
 *     shed.c makes deletions so small that they fit into that.
 *   - More room is kept in reserve, as a file of allocated blocks beside the store (reserve.c).
 *     Its blocks go to the WAL for a transaction that frees (BACKEND_FREES) and would fail
 *     otherwise, and to the database for a checkpoint; then it is allocated again.  Nothing else
 *     of ours ever gets it, but another program may get some of it on the way: then what frees has
 *     to do with the rest.
 *   - Where others fill the disk before it was seen to be nearly full, the reserve has to be
 *     enough for the database to grow by what was committed meanwhile (keeper.c).
 *   - Pages that are free in the database go back to the filesystem, in small slices: at once when
 *     the reserve was needed, and when nobody is writing.  This works in stores that sessfs has
 *     made (auto_vacuum); in others free pages are used again by what is written next.
 *
 * Only a fresh commit needs the WAL to be long, so it is always tried to empty it first.  Readers
 * and checkpoints of other processes may keep it from being emptied; we do not wait long for them.
 * Readers of our own have soon ended.
 *
 * With a quota the same holds for pages: a transaction that frees may have some above it for the
 * moment.  SQLite keeps the file from growing; but where it is larger than the quota already,
 * because that was larger once, its free pages do not count as room, and a transaction that would
 * take some is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/conn.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/disk/reserve.h"
#include "backend/sqlite/disk/room.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/store/store.h"
#include "backend/sqlite/store/writer.h"
#include "backend/base/cleanup.h"
#include "backend/base/log-pause.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum {
	QUOTA_EXTRA = 64, /* pages above the quota for a transaction that frees */
	SLACK = 64 << 10, /* for the commit itself and the WAL's index */
	ALLOWANCE_MAX = 16 << 20,
	CHECKPOINT_TRIES = 20, /* while readers, or checkpoints of other programs, are under way */
	CHECKPOINT_MS = 10,    /* that each of them waits for readers, and between two */
	OWN_READERS_MS = 4000, /* in which none counts while readers of ours are under way */
	SLICE_PAGES = 16,      /* given back in one transaction, at least */
	SLICE_PART = 8,	       /* or this part of the reserve */
	SLICES_AT_ONCE = 32,
	UNUSED_PAGES = 64,   /* not worth giving back as long as there is room */
	UNUSED_PART = 16,    /* nor one in so many */
	RECORD_ROOM = 65536, /* for the ids and numbers beside the data in one record */
};

struct room {
	uint64_t free;	 /* bytes that the filesystem has for us */
	uint64_t growth; /* that the next checkpoint needs of them */
};

static bool room_look(struct sqlite *store, struct room *room)
{
	uint64_t limit = sqlite_reserve_limit(), total, has;
	int64_t pages = 0;
	struct stat st;

	if (!sqlite_reserve_free(store, &total, &room->free) || stat(store->place.path, &st) < 0 ||
	    sqlite_conn_number(&store->writer, SQL_PAGE_COUNT, &pages) < 0)
		return false;
	has = MAX((uint64_t)st.st_size, store->room.grown);
	room->free = MIN(room->free, limit - MIN(limit, has));
	room->growth = (uint64_t)pages * store->room.page;
	room->growth -= MIN(room->growth, has);
	return true;
}

/* Let the database have the blocks now that the next checkpoint fills, if need be those of the
 * reserve. */
static int grow_ahead(struct sqlite *store, const struct room *room, bool lend)
{
	int64_t pages = 0;
	uint64_t size;
	int r;

	if (!room->growth || store->room.no_blocks ||
	    sqlite_conn_number(&store->writer, SQL_PAGE_COUNT, &pages) < 0)
		return 0;
	size = (uint64_t)pages * store->room.page;
	r = lend ? sqlite_reserve_to_database(store, size - room->growth, size) :
		   sqlite_file_allocate(store->place.file, size);
	if (r == 0)
		store->room.grown = size;
	store->room.no_blocks = r == -EOPNOTSUPP;
	return r == -ENOSPC ? r : 0;
}

static bool has_database(const struct sqlite *store)
{
	return store->mode == MODE_WHOLE || store->mode == MODE_BOOKKEEPING;
}

void sqlite_room_open(struct sqlite *store)
{
	if (store->mode == MODE_WHOLE && store->owner)
		sqlite_reserve_open(store);
}

/* Closing the last connection is a checkpoint, too. */
void sqlite_room_ending(struct sqlite *store)
{
	struct room room;

	if (store->room.fd >= 0 && store->writer.db && room_look(store, &room) &&
	    room.free < room.growth + SLACK && grow_ahead(store, &room, true) < 0)
		sqlite_reserve_give_up(store);
}

/* With what is in memory only brought into the WAL, there is nothing to be guessed. */
static int check_closely(struct sqlite *store, struct room *room)
{
	int code = sqlite3_db_cacheflush(store->writer.db);

	if (code != SQLITE_OK && code != SQLITE_BUSY)
		return sqlite_result(&store->writer, code);
	store->room.written = 0;
	if (!room_look(store, room) || room->free >= room->growth + SLACK)
		return 0;
	if (!log_pause_over(&store->room.full, tick_now()))
		return -ENOSPC;
	log_error("%s: its filesystem is full, or the limit on the size of a file is reached (%llu "
		  "KiB are free, the write-ahead log needs %llu)",
		  store->place.path, (unsigned long long)room->free >> 10,
		  (unsigned long long)room->growth >> 10);
	return -ENOSPC;
}

/* Pages that are in use, if there are more than the quota allows; otherwise 0. */
static int64_t over_quota(struct sqlite *store)
{
	int64_t pages = 0, free_pages = 0, limit;

	if (!store->max_size || !has_database(store) ||
	    sqlite_conn_number(&store->writer, SQL_PAGE_COUNT, &pages) < 0)
		return 0;
	limit = (int64_t)MAX(store->max_size / store->room.page, 1);
	if (pages <= limit ||
	    sqlite_conn_query(&store->writer, "PRAGMA main.freelist_count", 0, &free_pages) < 0)
		return 0;
	return pages - free_pages > limit ? pages - free_pages : 0;
}

void sqlite_room_begin(struct sqlite *store)
{
	int64_t pages = 0;

	store->room.taken = over_quota(store);
	/* The next cut takes what a transaction that failed was given behind the end. */
	if (store->room.grown && sqlite_conn_number(&store->writer, SQL_PAGE_COUNT, &pages) == 0)
		store->room.grown = MIN(store->room.grown, (uint64_t)pages * store->room.page);
}

static int check_quota(struct sqlite *store)
{
	int64_t taken = over_quota(store);

	if (taken <= store->room.taken)
		return 0;
	if (!log_pause_over(&store->room.full, tick_now()))
		return -ENOSPC;
	log_error("%s: its quota is full (%llu of %llu KiB are in use)", store->place.path,
		  (unsigned long long)taken * store->room.page >> 10,
		  (unsigned long long)store->max_size >> 10);
	return -ENOSPC;
}

/* What may be written before the room is looked at again.  Without a reserve of its own, a mount is
 * one of several. */
static uint64_t allowance(const struct sqlite *store, uint64_t spare)
{
	return MIN(spare / (store->room.fd < 0 ? 4 * SQLITE_MOUNTS : 4), (uint64_t)ALLOWANCE_MAX);
}

int sqlite_room_check(struct sqlite *store, uint64_t bytes)
{
	struct room room;
	uint64_t need;
	bool kept;

	if (!has_database(store))
		return 0;
	if (store->room.lent)
		return room_look(store, &room) ? grow_ahead(store, &room, true) : 0;
	if (check_quota(store) < 0)
		return -ENOSPC;
	bytes += store->room.kept_bytes;
	store->room.kept_bytes = 0;
	store->room.written += bytes;
	kept = store->room.kept;
	store->room.kept = false;
	if (bytes < store->room.allowance && !kept) {
		store->room.allowance -= bytes;
		return 0;
	}
	store->room.allowance = 0;
	if (!room_look(store, &room))
		return 0;
	/* A copy is in new pages, which the log gets first. */
	need = room.growth + store->room.written + (kept ? room.growth : 0) + SLACK;
	store->room.nearly_full =
		room.free < need + SQLITE_WRITER_CACHE_KIB * 1024ULL + store->room.size;
	if (store->room.nearly_full && room.free < need && check_closely(store, &room) < 0)
		return -ENOSPC;
	if (store->room.nearly_full)
		return grow_ahead(store, &room, false);
	if (store->room.fd >= 0 && store->room.held < store->room.size)
		sqlite_reserve_build(store);
	else
		store->room.allowance = allowance(store, room.free - need);
	return 0;
}

/*
 * SQLite waits for readers, but for no other checkpoint.  The keeper's is waited for with a lock,
 * however long it takes; others' are tried again for a while.  A snapshot that the tree begins to
 * keep meanwhile goes with the next try.
 */
static int checkpoint(struct sqlite *store, int mode)
{
	const int64_t until = tick_ms() + OWN_READERS_MS;
	sqlite3 *db = store->writer.db;
	int code, tries = 0;

	sqlite_conn_set_patience(&store->writer, CHECKPOINT_MS);
	for (;;) {
		sqlite_snapshot_kept(store, BACKEND_KEEP_NONE);
		pthread_mutex_lock(&store->keeper.checkpoint_lock);
		code = sqlite3_wal_checkpoint_v2(db, "main", mode, NULL, NULL);
		pthread_mutex_unlock(&store->keeper.checkpoint_lock);
		tries += !sqlite_pool_is_used(store) || tick_ms() > until;
		if ((code & 0xff) != SQLITE_BUSY || tries == CHECKPOINT_TRIES)
			break;
		usleep(CHECKPOINT_MS * 1000);
	}
	sqlite_conn_set_patience(&store->writer, SQLITE_BUSY_MS);
	return code;
}

/* A stamp is never used twice, and may be left out. */
static void commit_something(struct sqlite *store)
{
	sqlite3_exec(store->writer.db,
		     "UPDATE sessfs_meta SET value = value + 1 WHERE key = 'stamp'", NULL, NULL,
		     NULL);
}

/*
 * So that it is written from its beginning.  On a disk that is nearly full it keeps its first
 * blocks: once given back, other programs could take them.  On others it gets them again.
 */
static int empty_wal(struct sqlite *store)
{
	bool keep = store->room.nearly_full;
	/* How much of the WAL stays when it is begun anew. */
	const long long size = keep ? SQLITE_WAL_LEAST : SQLITE_WAL_KIB * 1024LL;
	int code;

	if (store->room.wal_limit != size &&
	    sqlite_conn_exec_made(&store->writer,
				  sqlite3_mprintf("PRAGMA main.journal_size_limit = %lld", size)) ==
		    0)
		store->room.wal_limit = size;
	code = checkpoint(store, keep ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_TRUNCATE);
	/* SQLite cuts a WAL that is begun anew at the first commit into it. */
	if (keep && code == SQLITE_OK &&
	    sqlite_beside_size(store->place.path, "-wal") > SQLITE_WAL_LEAST)
		commit_something(store);
	sqlite_reserve_keep_wal(store);
	return code;
}

/* The same, with the reserve for the database where others have left it no room to grow into. */
static int empty_wal_surely(struct sqlite *store)
{
	int code = empty_wal(store);
	struct room room;

	if (code == SQLITE_OK)
		return code;
	if ((code & 0xff) == SQLITE_BUSY) {
		/* What could be copied was copied. */
		if (log_pause_over(&store->room.in_use, tick_now()))
			log_warning("%s: its write-ahead log is in use and cannot be begun anew",
				    store->place.path);
		return SQLITE_OK;
	}
	if (room_look(store, &room) && room.growth && grow_ahead(store, &room, true) == 0)
		code = empty_wal(store);
	if (code != SQLITE_OK && sqlite_reserve_give_up(store))
		code = empty_wal(store);
	sqlite_reserve_build(store);
	return code;
}

bool sqlite_room_make(struct sqlite *store)
{
	if (!has_database(store))
		return false;
	/* The disk may have had room before, but is full now. */
	store->room.nearly_full = true;
	store->room.allowance = 0;
	if (empty_wal_surely(store) != SQLITE_OK)
		return false;
	sqlite_reserve_yield(store);
	return true;
}

/* A transaction that fails leaves its pages in the WAL, and then the database may lack room for
 * those that are to be copied out of it: on a disk that is nearly full, copy before. */
void sqlite_room_prepare(struct sqlite *store, uint64_t bytes)
{
	struct room room;

	if (store->room.nearly_full && has_database(store) && room_look(store, &room) &&
	    room.growth && (bytes > room.free || room.free - bytes < room.growth + SLACK))
		empty_wal(store);
}

static void set_quota(struct sqlite *store, unsigned extra)
{
	uint64_t pages = store->max_size ? MAX(store->max_size / store->room.page, 1) + extra :
					   (uint64_t)store->room.pages_most;

	/* Without a quota there never was one, unless it is known what to go back to. */
	if (pages && has_database(store))
		sqlite_conn_exec_made(&store->writer,
				      sqlite3_mprintf("PRAGMA main.max_page_count = %llu",
						      (unsigned long long)pages));
}

void sqlite_room_quota(struct sqlite *store, uint64_t max_size)
{
	const uint64_t record =
		(uint64_t)sqlite3_limit(store->writer.db, SQLITE_LIMIT_LENGTH, -1) - RECORD_ROOM;
	int64_t page = SQLITE_PAGE;

	sqlite_conn_query(&store->writer, "PRAGMA main.page_size", page, &page);
	store->room.page = (uint64_t)page;
	if (max_size && !store->room.pages_most)
		sqlite_conn_query(&store->writer, "PRAGMA main.max_page_count", 0,
				  &store->room.pages_most);
	store->max_size = max_size;
	store->backend.max_item =
		max_size ? MIN(record, MAX(max_size, (uint64_t)BACKEND_ITEM_LEAST)) : record;
	set_quota(store, 0);
}

void sqlite_set_quota(struct backend *backend, uint64_t max_size)
{
	struct sqlite *store = sqlite_of(backend);

	sqlite_writer_take(store);
	sqlite_room_quota(store, max_size);
	sqlite_writer_give(store);
}

/* Without auto_vacuum nothing that is deleted would be given back. */
void sqlite_room_let_shrink(struct sqlite *store, const char *path)
{
	enum { MOST = 256 << 20 };
	static const char text[] = "PRAGMA main.page_size = %d; "
				   "PRAGMA main.auto_vacuum = INCREMENTAL; "
				   "PRAGMA temp_store = FILE; VACUUM main";
	sqlite3 *db = store->writer.db;
	int64_t kind = 0, pages = 0;
	char *made;

	if (sqlite_conn_query(&store->writer, "PRAGMA main.auto_vacuum", 0, &kind) < 0 || kind ||
	    sqlite_conn_query(&store->writer, "PRAGMA main.page_count", 0, &pages) < 0)
		return;
	made = pages > MOST / SQLITE_PAGE ? NULL : sqlite3_mprintf(text, SQLITE_PAGE);
	if (!made || sqlite3_exec(db, made, NULL, NULL, NULL) != SQLITE_OK)
		log_warning("%s was copied as SQL text, so its file does not shrink; to change "
			    "that, unmount it and run: sqlite3 %s 'PRAGMA auto_vacuum = "
			    "INCREMENTAL; VACUUM'",
			    path, path);
	sqlite3_free(made);
	sqlite3_exec(db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
}

/* Enough for the reserve and for the next transactions. */
static bool has_room(struct sqlite *store)
{
	struct room room;

	return !room_look(store, &room) || room.free > room.growth + 2 * store->room.size;
}

bool sqlite_room_lend(struct sqlite *store)
{
	if (!has_database(store))
		return false;
	if (!has_room(store))
		sqlite_reserve_to_wal(store);
	set_quota(store, QUOTA_EXTRA);
	store->room.lent = true;
	return true;
}

/* Unused pages of the database. */
static uint64_t unused(struct sqlite *store, uint64_t *ret_pages)
{
	int64_t count = 0, pages = 0, kind = 0;

	/* 2: incremental.  The others have nothing to give, or give by themselves. */
	if (sqlite_conn_query(&store->writer, "PRAGMA main.auto_vacuum", 0, &kind) < 0 ||
	    kind != 2 ||
	    sqlite_conn_query(&store->writer, "PRAGMA main.freelist_count", 0, &count) < 0 ||
	    sqlite_conn_number(&store->writer, SQL_PAGE_COUNT, &pages) < 0)
		return 0;
	*ret_pages = (uint64_t)pages;
	return (uint64_t)count;
}

/* How many pages are given back in one transaction: as long as no room is free, what fits into the
 * WAL. */
static uint64_t slice_pages(struct sqlite *store)
{
	uint64_t slice = store->room.size / SLICE_PART;
	struct room room;

	if (room_look(store, &room))
		slice = MIN(slice, (room.free - MIN(room.free, room.growth)) / SLICE_PART);
	return MAX(slice / store->room.page, SLICE_PAGES);
}

/* Give some pages back.  True when there are more. */
static bool give_back(struct sqlite *store)
{
	uint64_t pages = 0, count = unused(store, &pages), slice = slice_pages(store);
	char text[64];

	if (!count || (!store->room.nearly_full && count < MAX(pages / UNUSED_PART, UNUSED_PAGES)))
		return false;
	snprintf(text, sizeof(text), "PRAGMA main.incremental_vacuum(%llu)",
		 (unsigned long long)slice);
	return sqlite3_exec(store->writer.db, text, NULL, NULL, NULL) == SQLITE_OK;
}

void sqlite_room_return(struct sqlite *store)
{
	store->room.lent = false;
	set_quota(store, 0);
	/* What was freed becomes room, which first of all the reserve needs. */
	store->room.nearly_full = true;
	empty_wal_surely(store);
	sqlite_reserve_build(store);
	for (int i = 0; i < SLICES_AT_ONCE && !has_room(store) && give_back(store); i++)
		if (empty_wal(store) != SQLITE_OK)
			break;
	sqlite_reserve_build(store);
}

static bool is_wanted(struct sqlite *store)
{
	WITH_MUTEX(&store->keeper.lock);

	return store->keeper.stop || store->keeper.dirty;
}

/* The database is longer than what is committed: a checkpoint beside writers has left it so.  One
 * with nothing to copy would not cut it either. */
static void cut_database(struct sqlite *store)
{
	int64_t pages = 0;
	struct stat st;

	if (stat(store->place.path, &st) < 0 ||
	    sqlite_conn_number(&store->writer, SQL_PAGE_COUNT, &pages) < 0 ||
	    (uint64_t)st.st_size <= (uint64_t)pages * store->room.page)
		return;
	commit_something(store);
	empty_wal(store);
}

void sqlite_room_tidy(struct sqlite *store)
{
	bool more = true, owned;

	while (more && !store->damaged && !is_wanted(store)) {
		sqlite_writer_take(store);
		owned = store->mode == MODE_WHOLE && store->owner;
		/* The mount that had the reserve may have ended. */
		if (owned)
			sqlite_reserve_open(store);
		more = owned && give_back(store);
		if (!more && store->room.nearly_full)
			empty_wal(store);
		if (!more && owned)
			cut_database(store);
		if (!more) {
			sqlite_reserve_keep_wal(store);
			sqlite_reserve_build(store);
		}
		sqlite_writer_give(store);
	}
}
