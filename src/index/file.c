/* SPDX-License-Identifier: MIT */
/*
 * The file of an index: a database of SQLite, of which a kind of index says what is in it.
 *
 * It is written without a journal, since it can be made anew at any time.  So it must be told when
 * that is due: when its writer has died in the middle, when it is of another store or of another
 * version, or when anybody else has changed it.  Who has written the file whole *seals* it: writes
 * into it when it was last changed, to the second, syncs it, and sets the time of its last change
 * to that.  Whatever is written to it later moves that time.  A file that is not sealed is emptied.
 * What its disk has made of it tells itself (pages.c).
 *
 * One process has it at a time, by a lock of the file.  A file that never was an index is left
 * alone.
 */
#include "src/index/index.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "backend/base/moment.h"
#include "src/user/stop.h"

/* At the beginning of a file that is an index: what SQLite writes, and the number of its kind. */
static const char magic[] = "SQLite format 3";
enum { HEADER = 100, APPLICATION_AT = 68 };

static const char meta[] = "PRAGMA application_id = %" PRIu32 ";"
			   "CREATE TABLE meta (name TEXT PRIMARY KEY, value);";

int index_error(const struct index *index, int code)
{
	(void)index;
	switch (code & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_INTERRUPT:
		return -EINTR;
	case SQLITE_IOERR:
		return code == SQLITE_IOERR_SHORT_READ || code == SQLITE_IOERR_CORRUPTFS ?
			       -EUCLEAN :
			       -EIO;
	default:
		return -EUCLEAN;
	}
}

sqlite3_stmt *index_say(struct index *index, unsigned text, int *ret_error)
{
	sqlite3_stmt **statement = &index->statements[text];
	int code = SQLITE_OK;

	if (*statement)
		sqlite3_reset(*statement);
	else
		code = sqlite3_prepare_v3(index->db, index->kind->texts[text], -1,
					  SQLITE_PREPARE_PERSISTENT, statement, NULL);
	if (code != SQLITE_OK)
		*ret_error = index_error(index, code);
	return code == SQLITE_OK ? *statement : NULL;
}

int index_step(struct index *index, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);

	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : index_error(index, code);
}

int index_run(struct index *index, sqlite3_stmt *statement)
{
	int r = index_step(index, statement);

	sqlite3_reset(statement);
	return MIN(r, 0);
}

void index_bind_bytes(sqlite3_stmt *statement, int place, struct bytes bytes)
{
	sqlite3_bind_blob64(statement, place, bytes.data ? bytes.data : "", bytes.size,
			    SQLITE_STATIC);
}

struct bytes index_bytes(sqlite3_stmt *statement, int column)
{
	return bytes_make(sqlite3_column_blob(statement, column),
			  (size_t)sqlite3_column_bytes(statement, column));
}

int index_exec(struct index *index, const char *sql)
{
	int code = sqlite3_exec(index->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : index_error(index, code);
}

int64_t index_sum(struct bytes data)
{
	static const uint8_t key[16] = "sessfs search";
	uint8_t digest[DIGEST_SIZE];
	int64_t sum;

	digest_make(key, data, digest);
	memcpy(&sum, digest, sizeof(sum));
	return sum;
}

/* ---- Notes about the file ---- */

static int meta_put(struct index *index, const char *name, struct bytes value)
{
	int r = 0;
	sqlite3_stmt *put = index_say(index, INDEX_META_PUT, &r);

	if (!put)
		return r;
	sqlite3_bind_text(put, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_blob64(put, 2, value.data, value.size, SQLITE_STATIC);
	return index_run(index, put);
}

static int meta_put_number(struct index *index, const char *name, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, number);
	return meta_put(index, name, bytes_str(text));
}

static bool meta_is(struct index *index, const char *name, struct bytes wanted)
{
	int r = 0;
	sqlite3_stmt *get = index_say(index, INDEX_META_GET, &r);
	bool is = false;

	if (!get)
		return false;
	sqlite3_bind_text(get, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(get) == SQLITE_ROW)
		is = bytes_equal(index_bytes(get, 0), wanted);
	sqlite3_reset(get);
	return is;
}

static int64_t meta_number(struct index *index, const char *name)
{
	int r = 0;
	sqlite3_stmt *get = index_say(index, INDEX_META_GET, &r);
	int64_t number = 0;

	if (!get)
		return 0;
	sqlite3_bind_text(get, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(get) == SQLITE_ROW)
		number = sqlite3_column_int64(get, 0);
	sqlite3_reset(get);
	return number;
}

static int set_changed(const struct index *index, int64_t seconds)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = seconds } };

	return futimens(index->fd, times) < 0 ? -errno : 0;
}

int index_unseal(struct index *index)
{
	struct timespec now[] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
	int r;

	if (!index->sealed)
		return 0;
	index->sealed = false;
	if (futimens(index->fd, now) < 0 || fsync(index->fd) < 0)
		return -errno;
	r = meta_put_number(index, "sealed", -1);
	return r;
}

int index_seal(struct index *index)
{
	const int64_t when = time_now() / INT64_C(1000000000);
	int r;

	if (index->sealed)
		return 0;
	r = meta_put_number(index, "dead", index->dead);
	if (r == 0)
		r = meta_put_number(index, "alive", index->alive);
	if (r == 0)
		r = meta_put_number(index, "sealed", when);
	if (r == 0)
		r = index_exec(index, "COMMIT; BEGIN");
	if (r == 0 && fsync(index->fd) < 0)
		r = -errno;
	if (r == 0)
		r = set_changed(index, when);
	index->sealed = r == 0;
	return r;
}

/* ---- Opening ---- */

static void db_close(struct index *index)
{
	for (size_t i = 0; i < index->kind->count; i++) {
		sqlite3_finalize(index->statements[i]);
		index->statements[i] = NULL;
	}
	sqlite3_close(index->db);
	index->db = NULL;
}

static int db_open(struct index *index)
{
	static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF;"
				       "PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
				       "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON";
	int code = index_open_pages(index->path, &index->db);
	int r = code == SQLITE_OK ? 0 : index_error(index, code);

	if (r == 0)
		r = index_exec(index, settings);
	return r == 0 ? index_exec(index, "BEGIN") : r;
}

/* What is there is as its last writer has left it. */
static bool is_whole(struct index *index)
{
	struct stat st;

	return fstat(index->fd, &st) == 0 && st.st_size && st.st_mtim.tv_nsec == 0 &&
	       db_open(index) == 0 && meta_is(index, "format", bytes_str(index->kind->format)) &&
	       meta_is(index, "identity", buf_bytes(&index->identity)) &&
	       meta_number(index, "sealed") == st.st_mtim.tv_sec;
}

int index_empty(struct index *index)
{
	db_close(index);
	index->sealed = false;
	index->dead = index->alive = 0;
	return ftruncate(index->fd, 0) < 0 ? -errno : 0;
}

int index_anew(struct index *index)
{
	char sql[sizeof(meta) + 16];
	int r = index_empty(index);

	snprintf(sql, sizeof(sql), meta, index->kind->application);
	if (r == 0)
		r = db_open(index);
	if (r == 0)
		r = index_exec(index, sql);
	if (r == 0)
		r = index_exec(index, index->kind->schema);
	if (r == 0)
		r = meta_put(index, "format", bytes_str(index->kind->format));
	if (r == 0)
		r = meta_put(index, "identity", buf_bytes(&index->identity));
	/* From here on it can be told what it is, whatever happens. */
	return r < 0 ? r : index_exec(index, "COMMIT; BEGIN");
}

/* Also when a signal comes. */
static int lock_file(const struct index *index)
{
	const struct timespec step = { .tv_nsec = 20000000 };

	while (flock(index->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (stop_wanted())
			return -EINTR;
		nanosleep(&step, NULL);
	}
	return 0;
}

/* Somebody may have deleted it while we have waited. */
static bool is_there(const struct index *index)
{
	struct stat ours, there;

	return fstat(index->fd, &ours) == 0 && lstat(index->path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* An index, or nothing yet. */
static bool is_index(const struct index *index)
{
	unsigned char header[HEADER];
	const uint32_t application = htobe32(index->kind->application);
	ssize_t size = pread(index->fd, header, sizeof(header), 0);

	return size == 0 ||
	       (size == HEADER && memcmp(header, magic, sizeof(magic)) == 0 &&
		memcmp(header + APPLICATION_AT, &application, sizeof(application)) == 0);
}

static int open_file(struct index *index, bool ours)
{
	struct stat st;
	int r;

	do {
		closep(&index->fd);
		index->fd = open(index->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (index->fd < 0)
			return -errno;
		r = lock_file(index);
	} while (r == 0 && !is_there(index));
	if (r == 0 && (fstat(index->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
		       st.st_uid != geteuid()))
		r = -EACCES;
	return r == 0 && !ours && !is_index(index) ? -EEXIST : r;
}

int index_open(const struct index_kind *kind, const char *path, struct bytes identity, bool ours,
	       struct index **ret_index, char **ret_why)
{
	_cleanup_(index_closep) struct index *index = calloc(1, sizeof(*index));
	int r;

	*ret_why = NULL;
	if (!index)
		return -ENOMEM;
	index->kind = kind;
	index->fd = -1;
	index->path = bytes_dup(bytes_str(path));
	index->statements = calloc(kind->count, sizeof(*index->statements));
	r = index->path && index->statements ? buf_append_bytes(&index->identity, identity) :
					       -ENOMEM;
	if (r == 0)
		r = open_file(index, ours);
	if (r == 0 && !is_whole(index)) {
		r = index_anew(index);
	} else if (r == 0) {
		index->sealed = true;
		index->dead = meta_number(index, "dead");
		index->alive = meta_number(index, "alive");
	}
	if (r < 0)
		return str_explain(ret_why, r, "the index %s cannot be used: %s", path,
				   strerror(-r));
	*ret_index = steal_ptr(index);
	return 0;
}

void index_release(struct index *index)
{
	db_close(index);
	closep(&index->fd);
	index->fd = -1;
}

void index_close(struct index *index)
{
	if (!index)
		return;
	if (index->snapshot)
		index->backend->ops->snapshot_end(index->backend, index->snapshot);
	index_release(index);
	free(index->statements);
	free(index->path);
	buf_done(&index->identity);
	free(index);
}
