/* SPDX-License-Identifier: MIT */
/*
 * A layer below SQLite that joins the writes of a transaction.
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
	JOIN_MOST = 120 << 10, /* bytes that are collected; SQLite cannot write 128 KiB at once */
};

/* Behind the file of SQLite's own layer. */
struct joined {
	const sqlite3_io_methods *real;
	sqlite3_io_methods methods;
	struct joined *wal; /* of a database */
	struct joined *db;  /* of a WAL */
	char *data;	    /* that is not written yet */
	int size;
	sqlite3_int64 offset; /* where it belongs in the file */
	bool last;	      /* the header before it was that of a last frame */
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
	if (offset != joined->offset + joined->size)
		return join_through(file, joined, data, size, offset);
	if (!join_has_room(joined, size))
		return join_through(file, joined, data, size, offset);
	code = joined->size + size > JOIN_MOST ? join_flush(file, joined) : SQLITE_OK;
	if (code != SQLITE_OK)
		return code;
	memcpy(joined->data + joined->size, data, (size_t)size);
	joined->size += size;
	return ends ? join_flush(file, joined) : SQLITE_OK;
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

	return code == SQLITE_OK ? joined_of(file)->real->xTruncate(file, size) : code;
}

static int join_sync(sqlite3_file *file, int flags)
{
	int code = join_flush(file, joined_of(file));

	return code == SQLITE_OK ? joined_of(file)->real->xSync(file, flags) : code;
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

static int join_shm_lock(sqlite3_file *file, int slot, int count, int flags)
{
	struct joined *wal = joined_of(file)->wal;

	if (wal && slot == WRITE_LOCK && (flags & SQLITE_SHM_UNLOCK)) {
		wal->size = 0;
		wal->last = false;
	}
	return joined_of(file)->real->xShmLock(file, slot, count, flags);
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
