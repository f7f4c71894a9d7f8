/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/log-pause.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

struct meaning {
	int code; /* an extended code is looked for before its primary one */
	int error;
	bool quiet; /* an answer, not a failure */
};

static const struct meaning meanings[] = {
	/* The -shm file could not be grown; the system's number is lost behind it. */
	{ SQLITE_IOERR_SHMSIZE, -ENOSPC, false },
	{ SQLITE_CONSTRAINT_PRIMARYKEY, -EEXIST, true },
	{ SQLITE_CONSTRAINT_UNIQUE, -EEXIST, true },
	{ SQLITE_CONSTRAINT_ROWID, -EEXIST, true },
	{ SQLITE_IOERR_NOMEM, -ENOMEM, false },
	{ SQLITE_IOERR_CORRUPTFS, -EIO, false },
	{ SQLITE_BUSY, -EBUSY, false },
	{ SQLITE_LOCKED, -EBUSY, false },
	{ SQLITE_PROTOCOL, -EBUSY, false },
	{ SQLITE_FULL, -ENOSPC, false },
	{ SQLITE_TOOBIG, -EFBIG, true },
	{ SQLITE_READONLY, -EROFS, false },
	{ SQLITE_NOMEM, -ENOMEM, false },
	{ SQLITE_CONSTRAINT, -EINVAL, false },
	{ SQLITE_MISMATCH, -EINVAL, false },
	{ SQLITE_PERM, -EACCES, false },
	{ SQLITE_AUTH, -EACCES, false },
	{ SQLITE_NOTADB, -EIO, false },
	{ SQLITE_CORRUPT, -EIO, false },
	{ SQLITE_IOERR, -EIO, false },
};

static const struct meaning *meaning_of(int code)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].code == code)
			return &meanings[i];
	return NULL;
}

/* Filesystems without a limit on the number of files count 0 of them. */
bool sqlite_lacks_inodes(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 && fs.f_files && !fs.f_favail;
}

static int last_errno(sqlite3_file *file)
{
	int number = 0;

	if (file && file->pMethods)
		file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &number);
	return number;
}

/* Why a write to the database or its log failed.  What SQLite calls after the write, such as giving
 * up a lock, hides it from sqlite3_system_errno(). */
static int write_errno(sqlite3 *db)
{
	sqlite3_file *file = NULL, *log = NULL;
	int number;

	sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
	sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
	number = last_errno(log);
	return number ? number : last_errno(file);
}

/* SQLite says SQLITE_IOERR where it grows the -shm file on a full disk, and SQLITE_CANTOPEN
 * where it has run out of descriptors; the system's own number knows better.  But where the -wal
 * or -shm file could not be made, that is the number of a second try, which found none. */
static int better(sqlite3 *db, int code, const char *path, int error)
{
	int system = db ? sqlite3_system_errno(db) : 0;

	if (db && (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_TRUNCATE))
		system = write_errno(db);
	if ((code & 0xff) != SQLITE_IOERR && (code & 0xff) != SQLITE_CANTOPEN)
		return error;
	switch (system) {
	case ENOENT:
		return sqlite_lacks_inodes(path) ? -ENOSPC : error;
	case ENOSPC:
	case EDQUOT:
		return -ENOSPC;
	case EFBIG: /* a limit on the size of files, ulimit -f */
	case ENOMEM:
	case EACCES:
	case EROFS:
	case EMFILE:
	case ENFILE:
		return -system;
	default:
		return error;
	}
}

/* The connection's own sentence says more, if it is about this failure: some calls leave none. */
static const char *sentence(sqlite3 *db, int code)
{
	return db && (sqlite3_errcode(db) & 0xff) == (code & 0xff) ? sqlite3_errmsg(db) :
								     sqlite3_errstr(code);
}

/* A full disk says the same of every call, so that one is said with pauses, and nothing while a
 * store is opened: the caller gets the sentence, if the reserve does not help. */
static int error_of(sqlite3 *db, int code, const char *path, struct log_pause *full, bool opening)
{
	const struct meaning *meaning = meaning_of(code);
	int error;

	if (!meaning)
		meaning = meaning_of(code & 0xff);
	error = better(db, code, path, meaning ? meaning->error : -EIO);
	if (error == -ENOSPC && opening)
		return error;
	if (error == -ENOSPC && full && !log_pause_over(full, tick_now()))
		return error;
	if (error == -ENOSPC && sqlite_lacks_inodes(path))
		log_error("%s: its filesystem has no room for one more file (no free inodes)",
			  path);
	else if (error == -EFBIG && (!meaning || !meaning->quiet))
		log_error("%s: %s: a limit on the size of files (ulimit -f)", path,
			  strerror(EFBIG));
	else if (code == SQLITE_IOERR_SHMSIZE)
		log_error("%s: %s (SQLite error %d)", path, sqlite3_errstr(SQLITE_FULL), code);
	else if (!meaning || !meaning->quiet)
		log_error("%s: %s (SQLite error %d)", path, sentence(db, code), code);
	return error;
}

int sqlite_error(sqlite3 *db, int code, const char *path)
{
	return error_of(db, code, path, NULL, false);
}

int sqlite_result(struct sqlite_conn *conn, int code)
{
	struct sqlite *store = conn->store;
	int r;

	if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE)
		return 0;
	r = error_of(conn->db, code, store->place.path,
		     conn == &store->writer ? &store->room.full : NULL, store->opening);
	/*
	 * Writing to a database of which a part is damaged makes it worse: a page that two trees
	 * believe to have is overwritten, a list of free pages that is not true hands out rows as
	 * room.  So a store that is found damaged is read-only from then on, as a disk filesystem
	 * mounted with errors=remount-ro; what can be read is served.  Nobody looks for damage
	 * beforehand: that would be to read all of the store.
	 */
	if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB) {
		store->backend.read_only = true;
		if (!atomic_exchange(&store->damaged, true) && store->owner)
			log_error("%s is damaged and now read-only; unmount it, then rescue what "
				  "is left with 'sessfs check --repair'",
				  store->place.path);
	}
	return r;
}

void sqlite_tell(backend_report_fn *report, void *arg, const char *format, ...)
{
	char sentence[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	report(arg, sentence);
}
