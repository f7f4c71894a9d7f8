/* SPDX-License-Identifier: MIT */
/*
 * The file of an index: a database of SQLite with the words (FTS5, without the texts themselves),
 * and with which item each is of.
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
#include "src/search/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "src/base/cleanup.h"
#include "src/base/digest.h"
#include "src/base/moment.h"
#include "src/user/stop.h"

static const char format[] = "1";

/* At the beginning of a file that is an index: what SQLite writes, and our number. */
static const char magic[] = "SQLite format 3", application[] = "sesx";
enum { HEADER = 100, APPLICATION_AT = 68 };

static const char schema[] =
	"PRAGMA application_id = 0x73657378;"
	"CREATE TABLE meta (name TEXT PRIMARY KEY, value);"
	"CREATE TABLE key (id INTEGER PRIMARY KEY, ino INTEGER UNIQUE, session BLOB NOT NULL, "
	"key BLOB NOT NULL, kind INTEGER NOT NULL, generation INTEGER NOT NULL, "
	"last INTEGER, created INTEGER, updated INTEGER);"
	"CREATE TABLE item (id INTEGER PRIMARY KEY, key INTEGER NOT NULL, item INTEGER NOT NULL, "
	"made INTEGER NOT NULL, sum INTEGER NOT NULL, role TEXT NOT NULL);"
	"CREATE INDEX item_key ON item (key);"
	"CREATE VIRTUAL TABLE said USING fts5 (words, content='', tokenize='unicode61');"
	"INSERT INTO said (said, rank) VALUES ('hashsize', 8388608);";

static const char *const texts[SEARCH_TEXTS] = {
	[TEXT_META_GET] = "SELECT value FROM meta WHERE name = ?1",
	[TEXT_META_PUT] = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)",
	[TEXT_KEY_BY_INO] = "SELECT id, session, key, kind, generation, last, created, updated "
			    "FROM key WHERE ino = ?1",
	[TEXT_KEY_ADD] = "INSERT INTO key (ino, session, key, kind, generation) "
			 "VALUES (?1, ?2, ?3, ?4, -1)",
	[TEXT_KEY_SET] = "UPDATE key SET generation = ?2, last = ?3, created = ?4, updated = ?5 "
			 "WHERE id = ?1",
	[TEXT_KEY_DROP] = "DELETE FROM key WHERE id = ?1",
	[TEXT_KEY_COUNT] = "SELECT count(*) FROM key",
	[TEXT_KEY_LOOSE] = "SELECT id FROM key WHERE ino IS NULL",
	[TEXT_KEY_GET] = "SELECT ino, session, key, kind FROM key WHERE id = ?1",
	[TEXT_SEEN_ADD] = "INSERT OR IGNORE INTO seen (ino) VALUES (?1)",
	[TEXT_KEY_UNSEEN] = "SELECT id FROM key WHERE ino NOT IN (SELECT ino FROM seen)",
	[TEXT_ITEM_ADD] = "INSERT INTO item (id, key, item, made, sum, role) "
			  "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
	[TEXT_ITEM_DROP] = "DELETE FROM item WHERE key = ?1",
	[TEXT_ITEM_GET] = "SELECT key, item, made, sum, role FROM item WHERE id = ?1",
	[TEXT_SAID_ADD] = "INSERT INTO said (rowid, words) VALUES (?1, ?2)",
	[TEXT_SAID_FIND] = "SELECT rowid, bm25(said) FROM said WHERE said MATCH ?1 "
			   "ORDER BY rowid DESC LIMIT ?2",
};

int search_error(const struct search *search, int code)
{
	(void)search;
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

sqlite3_stmt *search_say(struct search *search, enum search_text text, int *ret_error)
{
	sqlite3_stmt **statement = &search->statements[text];
	int code = SQLITE_OK;

	if (*statement)
		sqlite3_reset(*statement);
	else
		code = sqlite3_prepare_v3(search->db, texts[text], -1, SQLITE_PREPARE_PERSISTENT,
					  statement, NULL);
	if (code != SQLITE_OK)
		*ret_error = search_error(search, code);
	return code == SQLITE_OK ? *statement : NULL;
}

int search_step(struct search *search, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);

	return code == SQLITE_ROW ? 1 : code == SQLITE_DONE ? 0 : search_error(search, code);
}

int search_run(struct search *search, sqlite3_stmt *statement)
{
	int r = search_step(search, statement);

	sqlite3_reset(statement);
	return MIN(r, 0);
}

int search_exec(struct search *search, const char *sql)
{
	int code = sqlite3_exec(search->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : search_error(search, code);
}

int64_t search_sum(struct bytes data)
{
	static const uint8_t key[16] = "sessfs search";
	uint8_t digest[DIGEST_SIZE];
	int64_t sum;

	digest_make(key, data, digest);
	memcpy(&sum, digest, sizeof(sum));
	return sum;
}

/* ---- Notes about the file ---- */

static int meta_put(struct search *search, const char *name, struct bytes value)
{
	int r = 0;
	sqlite3_stmt *put = search_say(search, TEXT_META_PUT, &r);

	if (!put)
		return r;
	sqlite3_bind_text(put, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_blob64(put, 2, value.data, value.size, SQLITE_STATIC);
	return search_run(search, put);
}

static int meta_put_number(struct search *search, const char *name, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, number);
	return meta_put(search, name, bytes_str(text));
}

static bool meta_is(struct search *search, const char *name, struct bytes wanted)
{
	int r = 0;
	sqlite3_stmt *get = search_say(search, TEXT_META_GET, &r);
	bool is = false;

	if (!get)
		return false;
	sqlite3_bind_text(get, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(get) == SQLITE_ROW)
		is = bytes_equal(bytes_make(sqlite3_column_blob(get, 0),
					    (size_t)sqlite3_column_bytes(get, 0)),
				 wanted);
	sqlite3_reset(get);
	return is;
}

static int64_t meta_number(struct search *search, const char *name)
{
	int r = 0;
	sqlite3_stmt *get = search_say(search, TEXT_META_GET, &r);
	int64_t number = 0;

	if (!get)
		return 0;
	sqlite3_bind_text(get, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(get) == SQLITE_ROW)
		number = sqlite3_column_int64(get, 0);
	sqlite3_reset(get);
	return number;
}

static int set_changed(const struct search *search, int64_t seconds)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = seconds } };

	return futimens(search->fd, times) < 0 ? -errno : 0;
}

int search_unseal(struct search *search)
{
	struct timespec now[] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
	int r;

	if (!search->sealed)
		return 0;
	search->sealed = false;
	if (futimens(search->fd, now) < 0 || fsync(search->fd) < 0)
		return -errno;
	r = meta_put_number(search, "sealed", -1);
	return r;
}

int search_seal(struct search *search)
{
	const int64_t when = time_now() / INT64_C(1000000000);
	int r;

	if (search->sealed)
		return 0;
	r = meta_put_number(search, "dead", search->dead);
	if (r == 0)
		r = meta_put_number(search, "alive", search->alive);
	if (r == 0)
		r = meta_put_number(search, "sealed", when);
	if (r == 0)
		r = search_exec(search, "COMMIT; BEGIN");
	if (r == 0 && fsync(search->fd) < 0)
		r = -errno;
	if (r == 0)
		r = set_changed(search, when);
	search->sealed = r == 0;
	return r;
}

/* ---- Opening ---- */

static void db_close(struct search *search)
{
	for (size_t i = 0; i < SEARCH_TEXTS; i++) {
		sqlite3_finalize(search->statements[i]);
		search->statements[i] = NULL;
	}
	sqlite3_close(search->db);
	search->db = NULL;
}

static int db_open(struct search *search)
{
	static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF;"
				       "PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;"
				       "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON";
	int code = search_open_pages(search->path, &search->db);
	int r = code == SQLITE_OK ? 0 : search_error(search, code);

	if (r == 0)
		r = search_exec(search, settings);
	return r == 0 ? search_exec(search, "BEGIN") : r;
}

/* What is there is as its last writer has left it. */
static bool is_whole(struct search *search)
{
	struct stat st;

	return fstat(search->fd, &st) == 0 && st.st_size && st.st_mtim.tv_nsec == 0 &&
	       db_open(search) == 0 && meta_is(search, "format", bytes_str(format)) &&
	       meta_is(search, "identity", buf_bytes(&search->identity)) &&
	       meta_number(search, "sealed") == st.st_mtim.tv_sec;
}

int search_empty(struct search *search)
{
	db_close(search);
	search->sealed = false;
	search->dead = search->alive = 0;
	return ftruncate(search->fd, 0) < 0 ? -errno : 0;
}

int search_anew(struct search *search)
{
	int r = search_empty(search);

	if (r == 0)
		r = db_open(search);
	if (r == 0)
		r = search_exec(search, schema);
	if (r == 0)
		r = meta_put(search, "format", bytes_str(format));
	if (r == 0)
		r = meta_put(search, "identity", buf_bytes(&search->identity));
	/* From here on it can be told what it is, whatever happens. */
	return r < 0 ? r : search_exec(search, "COMMIT; BEGIN");
}

/* Also when a signal comes. */
static int lock_file(const struct search *search)
{
	const struct timespec step = { .tv_nsec = 20000000 };

	while (flock(search->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (stop_wanted())
			return -EINTR;
		nanosleep(&step, NULL);
	}
	return 0;
}

/* Somebody may have deleted it while we have waited. */
static bool is_there(const struct search *search)
{
	struct stat ours, there;

	return fstat(search->fd, &ours) == 0 && lstat(search->path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* An index, or nothing yet. */
static bool is_index(const struct search *search)
{
	unsigned char header[HEADER];
	ssize_t size = pread(search->fd, header, sizeof(header), 0);

	return size == 0 ||
	       (size == HEADER && memcmp(header, magic, sizeof(magic)) == 0 &&
		memcmp(header + APPLICATION_AT, application, strlen(application)) == 0);
}

static int open_file(struct search *search, bool ours)
{
	struct stat st;
	int r;

	do {
		closep(&search->fd);
		search->fd = open(search->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (search->fd < 0)
			return -errno;
		r = lock_file(search);
	} while (r == 0 && !is_there(search));
	if (r == 0 && (fstat(search->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
		       st.st_uid != geteuid()))
		r = -EACCES;
	return r == 0 && !ours && !is_index(search) ? -EEXIST : r;
}

int search_open(const char *path, struct bytes identity, bool ours, struct search **ret_search,
		char **ret_why)
{
	_cleanup_(search_closep) struct search *search = calloc(1, sizeof(*search));
	int r;

	*ret_why = NULL;
	if (!search)
		return -ENOMEM;
	search->fd = -1;
	search->path = bytes_dup(bytes_str(path));
	r = search->path ? buf_append_bytes(&search->identity, identity) : -ENOMEM;
	if (r == 0)
		r = open_file(search, ours);
	if (r == 0 && !is_whole(search)) {
		r = search_anew(search);
	} else if (r == 0) {
		search->sealed = true;
		search->dead = meta_number(search, "dead");
		search->alive = meta_number(search, "alive");
	}
	if (r < 0)
		return str_explain(ret_why, r, "the index %s cannot be used: %s", path,
				   strerror(-r));
	*ret_search = steal_ptr(search);
	return 0;
}

void search_release(struct search *search)
{
	db_close(search);
	closep(&search->fd);
	search->fd = -1;
}

struct backend_snapshot *search_snapshot(const struct search *search)
{
	return search->snapshot;
}

void search_close(struct search *search)
{
	if (!search)
		return;
	if (search->snapshot)
		search->backend->ops->snapshot_end(search->backend, search->snapshot);
	search_release(search);
	free(search->path);
	buf_done(&search->identity);
	free(search);
}
