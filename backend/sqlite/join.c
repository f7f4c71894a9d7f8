/* SPDX-License-Identifier: MIT */
/*
 * A layer below SQLite that joins the writes of a transaction, grows the WAL ahead of them, and
 * takes one lock for it.
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
 * whatever asks about the file or syncs it finds all written before.  What a transaction that was
 * rolled back has left is dropped when SQLite gives up the lock for writing: from then on another
 * process may write to the same place.
 *
 * The format of the WAL is described in https://www.sqlite.org/fileformat2.html#walformat .
 *
 * Growing
 *
 * To sync a file that has grown takes the filesystem half as long again, as it has to write where
 * the new bytes are as well.  So where commits are synced (sqlite_join_ahead), a WAL that a
 * transaction has made larger gets zeros behind it, for those that follow.  Who holds the lock for
 * writing may put there what he likes: it is behind the last frame, and zeros are no frame.
 *
 * Syncs
 *
 * The kernel says once that it could not write a page, and then takes the page for written; what is
 * read later may be what the disk had there before.  SQLite would try again, be told that all is
 * well, and copy that into the database.  So where the sync of a checkpoint has failed, all later
 * ones fail as well, and no checkpoint comes behind them.  Who opens the database next reads the
 * WAL up to the first frame that does not have its checksum.  The other sync there is, behind the
 * header of a WAL that is begun anew, may be tried again: SQLite writes the header again before it.
 *
 * Locks
 *
 * A transaction that writes takes and gives up three locks, with a system call each time: one of
 * the WAL's read marks, to move it to the present end; the same one again, as a reader; and the one
 * for writing.  Together they cost as much as writing the pages.  The last alone would do, if it
 * were the first: who holds it reads the end of the WAL, as nobody can write behind that; nobody
 * can begin the WAL anew; and a checkpoint may copy all that is there, since that is what he reads.
 * So the writer takes it before he begins (sqlite_join_lead), and then
 *
 *	what SQLite does with that lock only says whether SQLite has it;
 *	the lock of a reader is only noted, but for the one that SQLite takes when it has begun the
 *	WAL anew;
 *	a read mark cannot be had (SQLITE_BUSY), so it stays where it is, and SQLite takes the
 *	highest that is not too high.  To move it without a lock would take it away from a reader
 *	of another process who counts on it.  If SQLite asks for it again, or when it has begun
 *	the WAL anew, there may be none that is not too high, and it gets the lock;
 *	whatever else SQLite locks - all read marks at once, to begin the WAL anew - it locks.
 *
 * When SQLite has neither lock any more, the one for writing is given up.  What SQLite does behind
 * that, if it tries again for instance, is as it is without this layer.
 *
 * The locks are described in https://www.sqlite.org/walformat.html#locks .
 *
 * All other files, and all other calls, are those of SQLite's own layer: ours only puts other
 * methods in place of some of the file's, and its data behind the file's.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sqlite/internal.h"

enum {
	FRAME_HEADER = 24,
	FRAME_PAGES = 4, /* where a header tells the pages of the database, if it is the last */
	WRITE_LOCK = 0,	 /* the slot of the index's locks that who writes holds */
	READ_LOCKS = 3,	 /* the first of those of the read marks */
	JOIN_MOST = 120 << 10, /* bytes that are collected; SQLite cannot write 128 KiB at once */
	AHEAD = 512 << 10,     /* bytes of zeros behind a WAL that has grown */
};

/* Behind the file of SQLite's own layer. */
struct joined {
	const sqlite3_io_methods *real;
	sqlite3_io_methods methods;
	/* Of a database. */
	struct joined *wal;
	bool used;	/* the locks are there */
	bool leads;	/* the lock for writing was taken before SQLite asked for it; then */
	bool writes;	/* SQLite has it */
	unsigned reads; /* these slots SQLite has as a reader, a bit each */
	unsigned taken; /* some of them are more than noted */
	unsigned busy;	/* and these it was told it cannot have alone */
	/* Of a WAL. */
	struct joined *db;
	char *data; /* that is not written yet */
	int size;
	sqlite3_int64 offset; /* where it belongs in the file */
	bool last;	      /* the header before it was that of a last frame */
	bool ahead;	      /* grow it ahead */
	sqlite3_int64 room;   /* it is at least as large as this */
	bool header;	      /* the last write was that of its own header */
	int lost;	      /* why a sync of it failed */
};

static sqlite3_vfs join_vfs;
static sqlite3_vfs *real_vfs;
static pthread_once_t join_once = PTHREAD_ONCE_INIT;

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

/* False: it cannot be collected. */
static bool join_has_room(struct joined *joined, int size)
{
	if (!joined->data)
		joined->data = malloc(JOIN_MOST);
	return joined->data && size <= JOIN_MOST;
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
	if (offset != joined->offset + joined->size)
		return join_through(file, joined, data, size, offset);
	if (!join_has_room(joined, size))
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

	return code == SQLITE_OK ? joined_of(file)->real->xRead(file, data, size, offset) : code;
}

static int join_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int code = join_flush(file, joined_of(file));

	joined_of(file)->room = 0;
	return code == SQLITE_OK ? joined_of(file)->real->xTruncate(file, size) : code;
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

static void stop_leading(sqlite3_file *file)
{
	struct joined *joined = joined_of(file);

	joined->leads = false;
	joined->real->xShmLock(file, WRITE_LOCK, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
}

/* A reader's lock.  In the middle of a transaction it is for a WAL that was begun anew, and taken:
 * nobody shall take that for the one before. */
static int read_while_leading(sqlite3_file *file, int slot, int flags)
{
	struct joined *joined = joined_of(file);
	unsigned bit = 1u << slot;
	bool locks = flags & SQLITE_SHM_LOCK;
	int code = SQLITE_OK;

	if (locks ? joined->writes : (joined->taken & bit) != 0)
		code = joined->real->xShmLock(file, slot, 1, flags);
	if (locks && code != SQLITE_OK)
		return code;
	joined->reads = locks ? joined->reads | bit : joined->reads & ~bit;
	joined->taken = locks && joined->writes ? joined->taken | bit : joined->taken & ~bit;
	return code;
}

static int lock_while_leading(sqlite3_file *file, int slot, int count, int flags)
{
	struct joined *joined = joined_of(file);
	unsigned bit = 1u << slot;
	int code = SQLITE_OK;

	if (slot == WRITE_LOCK) {
		joined->writes = flags & SQLITE_SHM_LOCK;
	} else if (slot >= READ_LOCKS && (flags & SQLITE_SHM_SHARED)) {
		code = read_while_leading(file, slot, flags);
	} else if (slot >= READ_LOCKS && count == 1 && (flags & SQLITE_SHM_LOCK) &&
		   !joined->writes && !(joined->busy & bit)) {
		joined->busy |= bit;
		return SQLITE_BUSY;
	} else {
		return joined->real->xShmLock(file, slot, count, flags);
	}
	if (!joined->writes && !joined->reads)
		stop_leading(file);
	return code;
}

static int join_shm_lock(sqlite3_file *file, int slot, int count, int flags)
{
	struct joined *joined = joined_of(file);
	int code;

	if (joined->wal && slot == WRITE_LOCK && (flags & SQLITE_SHM_UNLOCK)) {
		joined->wal->size = 0;
		joined->wal->last = false;
	}
	if (joined->leads)
		return lock_while_leading(file, slot, count, flags);
	code = joined->real->xShmLock(file, slot, count, flags);
	joined->used |= code == SQLITE_OK;
	return code;
}

static int join_shm_unmap(sqlite3_file *file, int delete)
{
	joined_of(file)->used = false;
	return joined_of(file)->real->xShmUnmap(file, delete);
}

/* The file of a connection's database, if it goes through this layer. */
static sqlite3_file *file_of(sqlite3 *db)
{
	sqlite3_file *file = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
	    !file || !file->pMethods || file->pMethods->xShmLock != join_shm_lock)
		return NULL;
	return file;
}

void sqlite_join_lead(sqlite3 *db)
{
	sqlite3_file *file = file_of(db);
	struct joined *joined = file ? joined_of(file) : NULL;

	if (!joined || !joined->used || joined->leads)
		return;
	/* If another program writes, SQLite will wait for it. */
	joined->leads = joined->real->xShmLock(file, WRITE_LOCK, 1,
					       SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) == SQLITE_OK;
	joined->writes = false;
	joined->reads = joined->taken = joined->busy = 0;
}

void sqlite_join_leave(sqlite3 *db)
{
	sqlite3_file *file = file_of(db);
	struct joined *joined = file ? joined_of(file) : NULL;

	if (joined && joined->leads && !joined->writes && !joined->reads)
		stop_leading(file);
}

void sqlite_join_ahead(sqlite3 *db, bool ahead)
{
	sqlite3_file *file = file_of(db);

	if (file && joined_of(file)->wal)
		joined_of(file)->wal->ahead = ahead;
}

/* Opening. */

static void join_file(sqlite3_file *file, struct joined *joined)
{
	*joined = (struct joined){ .real = file->pMethods, .methods = *file->pMethods };
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

	(void)vfs;
	if (code != SQLITE_OK)
		return code;
	if ((flags & SQLITE_OPEN_MAIN_DB) && file->pMethods->iVersion >= 2) {
		join_file(file, joined_of(file));
		joined_of(file)->methods.xShmLock = join_shm_lock;
		joined_of(file)->methods.xShmUnmap = join_shm_unmap;
	} else if (flags & SQLITE_OPEN_WAL) {
		sqlite3_file *db = sqlite3_database_file_object(name);

		if (db->pMethods->xShmLock == join_shm_lock)
			join_wal(file, db);
	}
	return SQLITE_OK;
}

/* The rest is SQLite's own. */

static int join_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	return real_vfs->xDelete(real_vfs, name, sync);
}

static int join_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	(void)vfs;
	return real_vfs->xAccess(real_vfs, name, flags, ret);
}

static int join_full_name(sqlite3_vfs *vfs, const char *name, int room, char *ret)
{
	(void)vfs;
	return real_vfs->xFullPathname(real_vfs, name, room, ret);
}

static int join_random(sqlite3_vfs *vfs, int size, char *ret)
{
	(void)vfs;
	return real_vfs->xRandomness(real_vfs, size, ret);
}

static int join_sleep(sqlite3_vfs *vfs, int microseconds)
{
	(void)vfs;
	return real_vfs->xSleep(real_vfs, microseconds);
}

static int join_time(sqlite3_vfs *vfs, double *ret)
{
	(void)vfs;
	return real_vfs->xCurrentTime(real_vfs, ret);
}

static int join_error(sqlite3_vfs *vfs, int room, char *ret)
{
	(void)vfs;
	return real_vfs->xGetLastError(real_vfs, room, ret);
}

static int join_time64(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
	(void)vfs;
	return real_vfs->xCurrentTimeInt64(real_vfs, ret);
}

static void join_register(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	if (!real_vfs || real_vfs->iVersion < 2)
		return;
	join_vfs = (sqlite3_vfs){
		.iVersion = 2,
		.szOsFile = (int)(joined_offset() + sizeof(struct joined)),
		.mxPathname = real_vfs->mxPathname,
		.zName = "sessfs",
		.xOpen = join_open,
		.xDelete = join_delete,
		.xAccess = join_access,
		.xFullPathname = join_full_name,
		.xRandomness = join_random,
		.xSleep = join_sleep,
		.xCurrentTime = join_time,
		.xGetLastError = join_error,
		.xCurrentTimeInt64 = join_time64,
	};
	if (sqlite3_vfs_register(&join_vfs, 0) != SQLITE_OK)
		join_vfs.zName = NULL;
}

const char *sqlite_join_name(void)
{
	pthread_once(&join_once, join_register);
	return join_vfs.zName;
}
