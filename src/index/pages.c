/* SPDX-License-Identifier: MIT */
/*
 * Pages that tell whether they are damaged: the last bytes of each are a sum of the others and of
 * where the page is.  A page that is not what was written is an error of SQLite's, SQLITE_CORRUPT.
 *
 * SQLite leaves these bytes alone when it is told so before it makes a database, and reads and
 * writes whole pages, but for the header, which it reads first to know how large they are.
 */
#include <stdbool.h>
#include <string.h>

#include "src/index/index.h"

enum { PAGE = 4096, SUM = sizeof(int64_t) };

struct paged {
	sqlite3_file head; /* what SQLite sees */
	bool pages;	   /* it is a database */
	char page[PAGE];
	sqlite3_file below[];
};

static sqlite3_file *below(sqlite3_file *file)
{
	return ((struct paged *)file)->below;
}

#define BELOW(method, file, ...) below(file)->pMethods->method(below(file), ##__VA_ARGS__)

static int64_t sum_of(const char *page, sqlite3_int64 offset)
{
	return index_sum(bytes_make(page, PAGE - SUM)) ^ offset;
}

static int page_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
	const char *page = data;
	int code = BELOW(xRead, file, data, size, offset);
	int64_t sum;

	if (code != SQLITE_OK || size != PAGE || !((struct paged *)file)->pages)
		return code;
	memcpy(&sum, page + PAGE - SUM, SUM);
	return sum == sum_of(page, offset) ? SQLITE_OK : SQLITE_CORRUPT;
}

static int page_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
	struct paged *paged = (struct paged *)file;
	int64_t sum;

	if (size == PAGE && paged->pages) {
		memcpy(paged->page, data, PAGE);
		sum = sum_of(paged->page, offset);
		memcpy(paged->page + PAGE - SUM, &sum, SUM);
		data = paged->page;
	}
	return BELOW(xWrite, file, data, size, offset);
}

static int page_close(sqlite3_file *file)
{
	return BELOW(xClose, file);
}

static int page_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return BELOW(xTruncate, file, size);
}

static int page_sync(sqlite3_file *file, int flags)
{
	return BELOW(xSync, file, flags);
}

static int page_size(sqlite3_file *file, sqlite3_int64 *size)
{
	return BELOW(xFileSize, file, size);
}

static int page_lock(sqlite3_file *file, int lock)
{
	return BELOW(xLock, file, lock);
}

static int page_unlock(sqlite3_file *file, int lock)
{
	return BELOW(xUnlock, file, lock);
}

static int page_is_reserved(sqlite3_file *file, int *is)
{
	return BELOW(xCheckReservedLock, file, is);
}

static int page_control(sqlite3_file *file, int what, void *arg)
{
	return BELOW(xFileControl, file, what, arg);
}

static int page_sector(sqlite3_file *file)
{
	return BELOW(xSectorSize, file);
}

static int page_device(sqlite3_file *file)
{
	return BELOW(xDeviceCharacteristics, file);
}

/* Of version 1: without mapped memory and without a log, which go past what is here. */
static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = page_close,
	.xRead = page_read,
	.xWrite = page_write,
	.xTruncate = page_truncate,
	.xSync = page_sync,
	.xFileSize = page_size,
	.xLock = page_lock,
	.xUnlock = page_unlock,
	.xCheckReservedLock = page_is_reserved,
	.xFileControl = page_control,
	.xSectorSize = page_sector,
	.xDeviceCharacteristics = page_device,
};

static int page_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *got)
{
	struct paged *paged = (struct paged *)file;
	sqlite3_vfs *system = vfs->pAppData;
	int code;

	memset(paged, 0, sizeof(*paged));
	paged->pages = flags & SQLITE_OPEN_MAIN_DB;
	code = system->xOpen(system, name, paged->below, flags, got);
	if (paged->below->pMethods)
		paged->head.pMethods = &methods;
	return code;
}

int index_open_pages(const char *path, sqlite3 **ret_db)
{
	static const char name[] = "sessfs-index";
	static sqlite3_vfs vfs;
	int reserved = SUM, code = SQLITE_OK;

	if (!vfs.zName) {
		vfs = *sqlite3_vfs_find(NULL);
		vfs.pAppData = sqlite3_vfs_find(NULL);
		vfs.szOsFile += (int)sizeof(struct paged);
		vfs.xOpen = page_open;
		vfs.zName = name;
		code = sqlite3_vfs_register(&vfs, 0);
	}
	if (code == SQLITE_OK)
		code = sqlite3_open_v2(path, ret_db,
				       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW |
					       SQLITE_OPEN_NOMUTEX,
				       name);
	if (code == SQLITE_OK)
		code = sqlite3_exec(*ret_db, "PRAGMA page_size = 4096", NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_file_control(*ret_db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
	return code;
}
