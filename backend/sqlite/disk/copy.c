/* SPDX-License-Identifier: MIT */
/*
 * Copying a store as it is at one instant, and putting a copy in its place.
 *
 * The copy is made by SQLite's backup, page by page.  That begins anew whenever another connection
 * commits, so beside a mount under load it might never end - unless the connection that it reads by
 * holds a read transaction of its own: then every page is that of the one snapshot, in a store
 * with a write-ahead log other connections do not wait for us, and the log keeps what they write
 * meanwhile, and grows for so long.
 *
 * A copy has no log: the one file is all of it, to be moved or sent, and it can be read where
 * nothing can be written beside it.  The first mount gives it a log again.
 *
 * What lies beside a name belongs to the file that has the name.  A log that is left beside another
 * file would be taken for that file's own, and be written into it: so what it holds is brought into
 * the old file before the new one comes, and it goes when that is in its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/disk/join.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

enum { STEP_BYTES = 1 << 20, STEP_WAIT_US = 20000 };

/* Where SQLite locks a database. */
enum { LOCKS = 0x40000000, LOCKS_COUNT = 512 };

struct copying {
	struct sqlite_conn from;
	sqlite3 *to;
	const char *path; /* of the copy */
	const struct backend_copy *copy;
	int64_t page;
};

static int answer(sqlite3 *db, int code, const char *path)
{
	return code == SQLITE_OK || code == SQLITE_DONE ? 0 : sqlite_error(db, code, path);
}

/* The snapshot is there with the first read. */
static int hold_snapshot(struct copying *copying)
{
	int64_t tables = 0;
	int r = sqlite_conn_exec(&copying->from, "BEGIN");

	if (r == 0)
		r = sqlite_conn_query(&copying->from, "SELECT count(*) FROM main.sqlite_schema", 0,
				      &tables);
	if (r == 0)
		r = sqlite_conn_query(&copying->from, "PRAGMA main.page_size", SQLITE_PAGE,
				      &copying->page);
	return r;
}

/* It is thrown away if anything fails, so it needs no journal, and it is synced at the end. */
static int open_target(struct copying *copying)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
	int code = sqlite3_open_v2(copying->path, &copying->to, flags, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_exec(copying->to,
				    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", NULL,
				    NULL, NULL);
	return answer(copying->to, code, copying->path);
}

static int copy_pages(struct copying *copying)
{
	int pages = (int)MAX(STEP_BYTES / copying->page, 1);
	sqlite3_backup *backup = sqlite3_backup_init(copying->to, "main", copying->from.db, "main");
	uint64_t total, left;
	int code, r = 0;

	if (!backup)
		return sqlite_error(copying->to, sqlite3_errcode(copying->to), copying->path);
	do {
		code = sqlite3_backup_step(backup, pages);
		if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
			usleep(STEP_WAIT_US);
		else if (code != SQLITE_OK)
			break;
		total = (uint64_t)sqlite3_backup_pagecount(backup) * (uint64_t)copying->page;
		left = (uint64_t)sqlite3_backup_remaining(backup) * (uint64_t)copying->page;
		if (copying->copy->progress)
			r = copying->copy->progress(copying->copy->arg, total - left, total);
	} while (r == 0);
	code = sqlite3_backup_finish(backup);
	return r < 0 ? r : answer(copying->to, code, copying->path);
}

static int sync_path(const char *path, int flags)
{
	_cleanup_(closep) int fd = descriptor_open(path, flags, 0);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int copy_all(struct copying *copying)
{
	int r = hold_snapshot(copying);

	if (r == 0)
		r = open_target(copying);
	if (r == 0)
		r = copy_pages(copying);
	if (r == 0) {
		r = sqlite3_close(copying->to) == SQLITE_OK ? 0 : -EIO;
		copying->to = NULL;
	}
	/* The log goes by a connection of its own, which reads from the file that it has one. */
	if (r == 0)
		r = open_target(copying);
	if (r == 0)
		r = answer(copying->to,
			   sqlite3_exec(copying->to, "PRAGMA journal_mode = DELETE", NULL, NULL,
					NULL),
			   copying->path);
	return r;
}

int sqlite_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy)
{
	struct copying copying = { .path = new_store, .copy = copy };
	int r = sqlite_conn_more(sqlite_of(backend), &copying.from);

	if (r == 0)
		r = copy_all(&copying);
	if (copying.to)
		sqlite3_close(copying.to);
	sqlite_conn_rollback(&copying.from);
	sqlite_conn_close(&copying.from);
	/* Behind the last close of SQLite, whose locks would go with this descriptor. */
	return r < 0 ? r : sync_path(new_store, O_RDWR | O_NOFOLLOW);
}

/* ---- putting a store in its place ---- */

/* What another store of that name has left. */
static int clear_beside(const char *path)
{
	static const char *const files[] = { "-wal", "-shm", "-journal" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (unlink(BESIDE(path, files[i])) < 0 && errno != ENOENT)
			return -errno;
	sqlite_beside_remove(path);
	return 0;
}

/* Whether something is left in the log beside a file. */
static bool has_log(const char *path)
{
	return sqlite_beside_size(path, "-wal") || sqlite_beside_size(path, "-journal");
}

/*
 * Bring the content of the old file's log into it, and keep others from adding to it: *ret_db has
 * the lock for writing then.  A commit that waits for the lock finds another file in the place of
 * its own, and fails.  A file that is not a database has no log, and a damaged one is left alone:
 * -EUCLEAN.
 */
static int hold_old(const char *path, sqlite3 **ret_db)
{
	enum { TRIES = 50, PATIENCE_MS = 1000 };
	sqlite3 *db = NULL;
	int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
				   sqlite_join_name());

	sqlite3_busy_timeout(db, PATIENCE_MS);
	for (int i = 0; code == SQLITE_OK && i < TRIES; i++) {
		code = sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
		if (code == SQLITE_OK)
			code = sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL);
		/* Another process may have committed in between. */
		if (code == SQLITE_OK && !has_log(path))
			break;
		if (code == SQLITE_OK)
			code = sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	}
	*ret_db = db;
	if (code != SQLITE_OK)
		return (code & 0xff) == SQLITE_BUSY ? -EBUSY : has_log(path) ? -EUCLEAN : 0;
	return has_log(path) ? -EBUSY : 0;
}

/* As the one that it replaces. */
static int dress(const char *new_path, const struct stat *old)
{
	struct stat st;

	if (stat(new_path, &st) < 0)
		return -errno;
	if ((st.st_uid != old->st_uid || st.st_gid != old->st_gid) &&
	    chown(new_path, old->st_uid, old->st_gid) < 0)
		return -errno;
	return chmod(new_path, old->st_mode & 07777) < 0 ? -errno : 0;
}

static int sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *folder = NULL;

	if (!slash)
		return sync_path(".", O_RDONLY | O_DIRECTORY);
	folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	return folder ? sync_path(folder, O_RDONLY | O_DIRECTORY) : -ENOMEM;
}

static int install_new(const char *new_path, const char *path)
{
	int r = clear_beside(path);

	if (r == 0 && renameat2(AT_FDCWD, new_path, AT_FDCWD, path, RENAME_NOREPLACE) < 0)
		r = -errno;
	/* A filesystem that cannot do it. */
	if (r == -EINVAL && access(path, F_OK) < 0 && errno == ENOENT)
		r = rename(new_path, path) < 0 ? -errno : 0;
	return r;
}

/* Keep everybody from what is in a file until it is closed: as SQLite does, where its locks are
 * (https://www.sqlite.org/c3ref/io_methods.html), with a lock that no close of another descriptor
 * drops. */
static int lock_new(const char *path, int *ret_fd)
{
	*ret_fd = descriptor_open(path, O_RDWR | O_NOFOLLOW, 0);
	return *ret_fd < 0 ? -errno : descriptor_lock(*ret_fd, F_WRLCK, LOCKS, LOCKS_COUNT, false);
}

/*
 * Until the new file is in its place the old one is whole, with its log, after any failure; and
 * from then on its log is empty, so that it can stay there for a moment, or after a kill.
 * Meanwhile the new file cannot be opened, so that the old one's log is not taken for its own.
 */
static int put_over(const char *new_path, const char *path)
{
	_cleanup_(closep) int lock = -1;
	int r = lock_new(new_path, &lock);

	if (r == 0 && rename(new_path, path) < 0)
		/* It is a mount point, a file of its own. */
		r = errno == EBUSY ? -EXDEV : -errno;
	return r < 0 ? r : clear_beside(path);
}

/* What a service has read of a row in the old one is not what the new one has there.  A table
 * without versions, or one that does not take these, stays as it is. */
static int raise_versions(const char *new_path)
{
	static const char table[] = "SELECT coalesce((SELECT value FROM sessfs_meta WHERE "
				    "key = 'table'), '')";
	static const char raise[] =
		"UPDATE main.\"%w\" SET version = max(version + 1, "
		"strftime('%%s', 'now') * 1000000) WHERE typeof(version) = "
		"'integer' AND version BETWEEN 1 AND 9223372036854775806 AND " SQLITE_SINGLES;
	sqlite3_stmt *statement = NULL;
	char *text = NULL;
	sqlite3 *db = NULL;
	int code, r;

	code = sqlite3_open_v2(new_path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL);
	if (code == SQLITE_OK) {
		sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
		sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
		sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
		code = sqlite3_prepare_v2(db, table, -1, &statement, NULL);
	}
	if (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
		text = sqlite3_mprintf(raise, sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	if (text)
		code = sqlite3_exec(db, text, NULL, NULL, NULL);
	sqlite3_free(text);
	r = code == SQLITE_ERROR || code == SQLITE_CONSTRAINT ? 0 : answer(db, code, new_path);
	sqlite3_close(db);
	return r;
}

static int install_over(const char *new_path, const char *path, const struct stat *old)
{
	struct sqlite_file *file;
	sqlite3 *db = NULL;
	int r = sqlite_file_take(path, &file);

	if (r < 0)
		return r;
	r = hold_old(path, &db);
	if (r == 0)
		r = raise_versions(new_path);
	if (r == 0)
		r = dress(new_path, old);
	if (r == 0)
		r = put_over(new_path, path);
	sqlite3_close(db);
	sqlite_file_leave(file);
	return r;
}

int sqlite_backend_install(const char *new_path, const char *path, bool replace, char **ret_why)
{
	struct stat old;
	bool there = lstat(path, &old) == 0;
	int r;

	/* What it has as a store that was open. */
	sqlite_beside_remove(new_path);
	/* A store that could not be closed well. */
	if (has_log(new_path))
		return str_explain(ret_why, -EIO,
				   "cannot put %s in its place: its write-ahead log is still there",
				   path);
	if (there && !replace)
		r = -EEXIST;
	else if (there && !S_ISREG(old.st_mode))
		return str_explain(ret_why, -EEXIST, "%s exists and is not a regular file", path);
	else
		r = there ? install_over(new_path, path, &old) : install_new(new_path, path);
	if (r == 0)
		r = sync_folder(path);
	if (r == -EBUSY)
		return str_explain(ret_why, r, "%s is mounted or in use; unmount it first", path);
	if (r == -EEXIST)
		return str_explain(ret_why, r, "%s exists already; --force replaces it", path);
	if (r == -EXDEV)
		return str_explain(ret_why, r,
				   "cannot replace %s: it is a mount of that single file, or is "
				   "on another filesystem; replace it where it really is",
				   path);
	if (r == -EUCLEAN)
		return str_explain(ret_why, r,
				   "%s is damaged, and its log has newer data; to replace it, "
				   "move both away (%s and %s-wal)",
				   path, path, path);
	return r < 0 ? str_explain(ret_why, r, "cannot put %s in its place: %s", path,
				   strerror(-r)) :
		       0;
}
