/* SPDX-License-Identifier: MIT */
/*
 * A layer below SQLite that joins the writes of a transaction, grows the WAL ahead of them,
 * remembers a sync that has failed, and keeps checkpoints apart from writers: from those that begin
 * the WAL anew, and from the blocks of the others.
 *
 * Writes
 *
 * SQLite appends each page of a transaction to the WAL with two calls, one for the 24 bytes of the
 * frame's header and one for the page.  This layer collects what is appended and writes it with one
 * call, when the page of the transaction's last frame comes: its header says that it is the last.
 * So the error, if there is one, is still that of a write of this transaction.  Nobody else reads a
 * frame before the WAL's index says that it is there, which SQLite writes later.
 *
 * What is not appended (SQLite also corrects frames that a long transaction had written early) and
 * any call that asks about the file or syncs it finds all written before.  What a transaction that
 * was rolled back has left is dropped when SQLite gives up the lock for writing: from then on
 * another process may write to the same place.
 *
 * The format of the WAL is described in https://www.sqlite.org/fileformat2.html#walformat .
 *
 * Growing
 *
 * To sync a file that has grown takes the filesystem half as long again, as it has to write where
 * the new bytes are as well.  So where commits are synced (sqlite_join_ahead), a WAL that a
 * transaction has made larger gets zeros behind it, for those that follow.  The lock for writing
 * allows that: they are behind the last frame, and zeros never look like a frame.
 *
 * Syncs
 *
 * The kernel says once that it could not write a page, and then takes the page for written; what is
 * read later may be what the disk had there before.  SQLite would try again, be told that all is
 * well, and copy that into the database.  So where the sync of a checkpoint has failed, all later
 * ones fail as well, and no checkpoint comes behind them.  The next process that opens the
 * database reads the WAL up to the first frame that does not have its checksum.  The other sync
 * there is, behind the header of a WAL that is begun anew, may be tried again: SQLite writes the
 * header again before it.
 *
 * Checkpoints
 *
 * A checkpoint of SQLite's, from 3.7.0 to 3.51.2, reads how long the WAL is, and may be overtaken
 * by a writer that begins it anew before that is compared with what was copied.  Then the length of
 * the old WAL is noted as what was copied of the new one, and the next checkpoint leaves so much
 * out: it is lost (https://www.sqlite.org/wal.html#walresetbug).  This can happen to each but that
 * of the last connection when it is closed, which has the database for itself.  So two things are
 * done here, which all checkpoints of this process pass:
 *
 *   - A writer that begins the WAL anew takes the lock of checkpoints first.  If that is held, it
 *     appends to the WAL instead: the next writer behind a checkpoint that has copied all begins
 *     it anew.  So no writer of ours overtakes a checkpoint, also one of another program's.
 *   - A checkpoint of ours copies, and notes what it has copied, with the lock of readers of the
 *     database alone, which a writer that begins the WAL anew has shared.  When it gets that, the
 *     WAL has to be the one that there was when it took its own lock, before it read the length.
 *     If another program has begun it anew meanwhile, the checkpoint ends: SQLITE_BUSY_SNAPSHOT.
 *
 * Which locks there are, and where the index of the WAL says which WAL it is, is in
 * https://www.sqlite.org/walformat.html .
 *
 * A checkpoint that has copied all cuts the database to the size of what is committed.  That takes
 * the blocks behind its end as well, also where the file stays as long as it was; but a transaction
 * that is under way may have been given these on a full disk, or rely on those that the file has
 * (room.c).  So only a checkpoint that has the lock for writing, too, cuts; a file that is too long
 * is nothing to SQLite, as there is one after each crash in front of the cut.
 *
 * All other files, and all other calls, are those of SQLite's own layer: ours only puts other
 * methods in place of some of the file's, and its data behind the file's.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sqlite/repair/image.h"
#include "backend/sqlite/disk/join.h"
#include "backend/base/cleanup.h"
#include "backend/base/tick.h"

enum {
	FRAME_PAGES = 4, /* where a header tells the pages of the database, if it is the last */
	/* Slots of the index's locks: of the writer, of a checkpoint, of readers of the database
	 * alone, and the first of those of readers of the WAL; a writer that begins the WAL anew
	 * takes all of these last ones. */
	WRITE_LOCK = 0,
	CHECKPOINT_LOCK = 1,
	DATABASE_LOCK = 3,
	WAL_LOCKS = 4,
	INDEX_BLOCK = 32 << 10, /* bytes in which the index is mapped */
	SALTS_AT = 32,		/* where it tells this WAL from those before */
	SALTS = 8,
	JOIN_MOST = 120 << 10, /* bytes that are collected; SQLite cannot write 128 KiB at once */
	AHEAD = 512 << 10,     /* bytes of zeros behind a WAL that has grown */
};

/* Behind the file of SQLite's own layer. */
struct joined {
	const sqlite3_io_methods *real;
	sqlite3_io_methods methods;
	struct joined *wal; /* of a database */
	struct joined *db;  /* of a WAL, and so are the following */
	char *data;	    /* that is not written yet */
	int size;
	sqlite3_int64 offset; /* where it belongs in the file */
	bool last;	      /* the header before it was that of a last frame */
	bool ahead;	      /* grow it ahead */
	sqlite3_int64 room;   /* it is at least as large as this */
	bool header;	      /* the last write was that of its own header */
	int lost;	      /* why a sync of it failed */
	/* Of a database. */
	bool checkpoints; /* SQLite has the lock of checkpoints */
	bool writes;	  /* and that for writing */
	bool begins;	  /* we have it, to begin the WAL anew */
	bool known;	  /* the WAL that is checkpointed: */
	char salts[SALTS];
};

static const char join_name[] = "sessfs";
static sqlite3_vfs join_vfs;
static sqlite3_vfs *real_vfs;

static size_t joined_offset(void)
{
	size_t align = _Alignof(struct joined);

	return ((size_t)real_vfs->szOsFile + align - 1) / align * align;
}

static struct joined *joined_of(sqlite3_file *file)
{
	return (struct joined *)(void *)((char *)file + joined_offset());
}

/* Collecting. */

static int join_flush(sqlite3_file *file, struct joined *joined)
{
	int size = joined->size;

	if (!size)
		return SQLITE_OK;
	joined->offset += size;
	joined->size = 0;
	return joined->real->xWrite(file, joined->data, size, joined->offset - size);
}

static bool is_last_frame(const void *header)
{
	static const char none[4];

	return memcmp((const char *)header + FRAME_PAGES, none, sizeof(none)) != 0;
}

/* Behind the end of a transaction. */
static void grow_ahead(sqlite3_file *file, struct joined *joined)
{
	static const char zeros[64 << 10];
	sqlite3_int64 size = 0;

	if (!joined->ahead || joined->offset <= joined->room)
		return;
	if (joined->real->xFileSize(file, &size) != SQLITE_OK)
		return;
	/* Larger: it was begun anew. */
	if (size == joined->offset)
		for (int i = 0; i < AHEAD / (int)sizeof(zeros); i++)
			if (joined->real->xWrite(file, zeros, sizeof(zeros),
						 size + i * (int)sizeof(zeros)) != SQLITE_OK)
				break;
	joined->room = size == joined->offset ? size + AHEAD : size;
}

static int join_through(sqlite3_file *file, struct joined *joined, const void *data, int size,
			sqlite3_int64 offset)
{
	int code = join_flush(file, joined);

	joined->offset = offset + size;
	return code == SQLITE_OK ? joined->real->xWrite(file, data, size, offset) : code;
}

static int join_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
	struct joined *joined = joined_of(file);
	bool ends = joined->last && size != FRAME_HEADER;
	int code;

	joined->last = size == FRAME_HEADER && is_last_frame(data);
	joined->header = offset == 0;
	if (!joined->data)
		joined->data = malloc(JOIN_MOST);
	if (!joined->data || size > JOIN_MOST || offset != joined->offset + joined->size)
		return join_through(file, joined, data, size, offset);
	code = joined->size + size > JOIN_MOST ? join_flush(file, joined) : SQLITE_OK;
	if (code != SQLITE_OK)
		return code;
	memcpy(joined->data + joined->size, data, (size_t)size);
	joined->size += size;
	if (!ends)
		return SQLITE_OK;
	code = join_flush(file, joined);
	if (code == SQLITE_OK)
		grow_ahead(file, joined);
	return code;
}

/* What asks about the file, or ends it. */

static int join_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
	int code = join_flush(file, joined_of(file));

	tick(0); /* a check of a store is one long statement */
	return code == SQLITE_OK ? joined_of(file)->real->xRead(file, data, size, offset) : code;
}

static int join_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int code = join_flush(file, joined_of(file));

	joined_of(file)->room = 0;
	return code == SQLITE_OK ? joined_of(file)->real->xTruncate(file, size) : code;
}

static int cut_database(sqlite3_file *file, sqlite3_int64 size)
{
	struct joined *joined = joined_of(file);

	return joined->checkpoints && !joined->writes ? SQLITE_OK :
							joined->real->xTruncate(file, size);
}

static int join_sync(sqlite3_file *file, int flags)
{
	struct joined *joined = joined_of(file);
	int code = joined->lost && !joined->header ? joined->lost : join_flush(file, joined);

	if (code != SQLITE_OK)
		return code;
	code = joined->real->xSync(file, flags);
	if (!joined->header)
		joined->lost = code;
	return code;
}

static int join_file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	int code = join_flush(file, joined_of(file));

	return code == SQLITE_OK ? joined_of(file)->real->xFileSize(file, ret_size) : code;
}

static int join_close(sqlite3_file *file)
{
	struct joined *joined = joined_of(file);

	if (joined->db)
		joined->db->wal = NULL;
	if (joined->wal)
		joined->wal->db = NULL;
	free(joined->data);
	return joined->real->xClose(file);
}

/* Locks. */

static bool read_salts(sqlite3_file *file, char salts[SALTS])
{
	void volatile *index = NULL;

	if (joined_of(file)->real->xShmMap(file, 0, INDEX_BLOCK, 0, &index) != SQLITE_OK || !index)
		return false;
	for (int i = 0; i < SALTS; i++)
		salts[i] = ((const char volatile *)index)[SALTS_AT + i];
	return true;
}

enum {
	LOCK = SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE,
	UNLOCK = SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE,
};

static int lock_to_begin_anew(sqlite3_file *file, int count)
{
	struct joined *joined = joined_of(file);
	int code = joined->real->xShmLock(file, CHECKPOINT_LOCK, 1, LOCK);

	if (code != SQLITE_OK)
		return code;
	code = joined->real->xShmLock(file, WAL_LOCKS, count, LOCK);
	joined->begins = code == SQLITE_OK;
	if (!joined->begins)
		joined->real->xShmLock(file, CHECKPOINT_LOCK, 1, UNLOCK);
	return code;
}

static int lock_exclusive(sqlite3_file *file, int slot, int count)
{
	struct joined *joined = joined_of(file);
	char salts[SALTS];
	int code;

	if (slot == WAL_LOCKS && count > 1 && !joined->checkpoints)
		return lock_to_begin_anew(file, count);
	code = joined->real->xShmLock(file, slot, count, LOCK);
	if (code != SQLITE_OK)
		return code;
	joined->checkpoints |= slot == CHECKPOINT_LOCK && count == 1;
	joined->writes |= slot == WRITE_LOCK;
	if (!joined->checkpoints)
		return SQLITE_OK;
	/* A checkpoint that has the lock for writing reads the length behind that. */
	if (slot == CHECKPOINT_LOCK || slot == WRITE_LOCK)
		joined->known = read_salts(file, joined->salts);
	if (slot != DATABASE_LOCK ||
	    (joined->known && read_salts(file, salts) && memcmp(salts, joined->salts, SALTS) == 0))
		return SQLITE_OK;
	joined->real->xShmLock(file, slot, count, UNLOCK);
	return SQLITE_BUSY_SNAPSHOT;
}

static int unlock(sqlite3_file *file, int slot, int count, int flags)
{
	struct joined *joined = joined_of(file);
	int code;

	/* What a transaction that was rolled back has left is dropped. */
	if (joined->wal && slot == WRITE_LOCK) {
		joined->wal->size = 0;
		joined->wal->last = false;
	}
	code = joined->real->xShmLock(file, slot, count, flags);
	if (slot == CHECKPOINT_LOCK)
		joined->checkpoints = false;
	if (slot == WRITE_LOCK)
		joined->writes = false;
	if (slot == WAL_LOCKS && joined->begins) {
		joined->begins = false;
		joined->real->xShmLock(file, CHECKPOINT_LOCK, 1, UNLOCK);
	}
	return code;
}

static int join_shm_lock(sqlite3_file *file, int slot, int count, int flags)
{
	if (flags & SQLITE_SHM_UNLOCK)
		return unlock(file, slot, count, flags);
	if (flags & SQLITE_SHM_EXCLUSIVE)
		return lock_exclusive(file, slot, count);
	return joined_of(file)->real->xShmLock(file, slot, count, flags);
}

/* The repair of 3.51.3 was made in two older lines as well. */
bool sqlite_join_mends(int version)
{
	return version >= 3007000 && version < 3051003 &&
	       !(version >= 3044006 && version < 3045000) &&
	       !(version >= 3050007 && version < 3051000);
}

void sqlite_join_ahead(sqlite3 *db, bool ahead)
{
	sqlite3_file *file = NULL;

	/* The database may not go through this layer. */
	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
	    file && file->pMethods && file->pMethods->xShmLock == join_shm_lock &&
	    joined_of(file)->wal)
		joined_of(file)->wal->ahead = ahead;
}

/* Opening. */

/* How much of the methods the SQLite that runs has: an older one than that of the headers has
 * fewer. */
static size_t methods_size(int version)
{
	if (version < 2)
		return offsetof(sqlite3_io_methods, xShmMap);
	return version < 3 ? offsetof(sqlite3_io_methods, xFetch) : sizeof(sqlite3_io_methods);
}

static void join_file(sqlite3_file *file, struct joined *joined)
{
	*joined = (struct joined){ .real = file->pMethods };
	memcpy(&joined->methods, joined->real, methods_size(joined->real->iVersion));
	joined->methods.iVersion = MIN(joined->real->iVersion, 3);
	joined->methods.xClose = join_close;
	file->pMethods = &joined->methods;
}

static void join_wal(sqlite3_file *file, sqlite3_file *db)
{
	struct joined *joined = joined_of(file);

	join_file(file, joined);
	joined->db = joined_of(db);
	joined->db->wal = joined;
	joined->methods.xRead = join_read;
	joined->methods.xWrite = join_write;
	joined->methods.xTruncate = join_truncate;
	joined->methods.xSync = join_sync;
	joined->methods.xFileSize = join_file_size;
}

static int join_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		     int *ret_flags)
{
	int code = real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);

	if (code != SQLITE_OK)
		return code;
	if ((flags & SQLITE_OPEN_MAIN_DB) && file->pMethods->iVersion >= 2) {
		join_file(file, joined_of(file));
		joined_of(file)->methods.xShmLock = join_shm_lock;
		joined_of(file)->methods.xTruncate = cut_database;
	} else if (flags & SQLITE_OPEN_WAL) {
		sqlite3_file *db = sqlite3_database_file_object(name);

		if (db->pMethods->xShmLock == join_shm_lock)
			join_wal(file, db);
	}
	return SQLITE_OK;
}

static bool join_register(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	if (!real_vfs)
		return false;
	/* All but opening is as it is there.  Nothing calls what it has behind these members. */
	memcpy(&join_vfs, real_vfs, offsetof(sqlite3_vfs, xSetSystemCall));
	join_vfs.iVersion = MIN(real_vfs->iVersion, 2);
	join_vfs.szOsFile = (int)(joined_offset() + sizeof(struct joined));
	join_vfs.zName = join_name;
	join_vfs.xOpen = join_open;
	return sqlite3_vfs_register(&join_vfs, 0) == SQLITE_OK;
}

const char *sqlite_join_name(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool registered;

	pthread_mutex_lock(&lock);
	if (!registered)
		registered = join_register();
	pthread_mutex_unlock(&lock);
	/* Without memory there is none of that name, and nothing is opened. */
	return join_name;
}
