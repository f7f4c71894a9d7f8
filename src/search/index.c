/* SPDX-License-Identifier: MIT */
/*
 * The file of the index: the words (FTS5, without the texts themselves), and which item each is of.
 * Those of what nobody has said are in a column of their own, so that those of talk are found as
 * quickly as if there were no others.
 *
 * One process has it at a time: it locks the file before the update and until it has its answer.
 * An update is one transaction of SQLite, so a process that is killed in the middle leaves the
 * state before it.  A file that SQLite calls corrupt, or that has another identity, is emptied and
 * filled anew.  A file that never was an index is left alone.
 */
#include "src/search/index.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "src/user/stop.h"

/* The first bytes of a file that is an index: what SQLite writes, and "sesx". */
static const char magic[] = "SQLite format 3";
enum { HEADER = 100, APPLICATION_AT = 68, APPLICATION = 0x73657378 };

static const char schema[] =
	"PRAGMA application_id = 0x73657378;"
	"CREATE TABLE meta (identity BLOB NOT NULL, dead INTEGER NOT NULL, "
	"alive INTEGER NOT NULL);"
	"INSERT INTO meta VALUES ('', 0, 0);"
	"CREATE TABLE key (id INTEGER PRIMARY KEY, ino INTEGER UNIQUE, session BLOB NOT NULL, "
	"key BLOB NOT NULL, kind INTEGER NOT NULL, generation INTEGER NOT NULL, "
	"last INTEGER, created INTEGER, updated INTEGER);"
	"CREATE TABLE item (id INTEGER PRIMARY KEY, key INTEGER NOT NULL, item INTEGER NOT NULL, "
	"made INTEGER NOT NULL, role TEXT NOT NULL);"
	"CREATE INDEX item_key ON item (key);"
	"CREATE VIRTUAL TABLE said USING fts5 (talk, notes, content='', "
	"tokenize='unicode61 remove_diacritics 2');"
	"INSERT INTO said (said, rank) VALUES ('hashsize', 8388608);";

static const char *const texts[INDEX_TEXTS] = {
	[INDEX_META_GET] = "SELECT identity, dead, alive FROM meta",
	[INDEX_META_SET] = "UPDATE meta SET identity = ?1, dead = ?2, alive = ?3",
	[INDEX_KEY_BY_INO] = "SELECT id, session, key, kind, generation, last, created, updated "
			     "FROM key WHERE ino = ?1",
	[INDEX_KEY_ADD] = "INSERT INTO key (ino, session, key, kind, generation) "
			  "VALUES (?1, ?2, ?3, ?4, -1)",
	[INDEX_KEY_SET] = "UPDATE key SET generation = ?2, last = ?3, created = ?4, updated = ?5 "
			  "WHERE id = ?1",
	[INDEX_KEY_DROP] = "DELETE FROM key WHERE id = ?1",
	[INDEX_KEY_COUNT] = "SELECT count(*) FROM key",
	[INDEX_KEY_LOOSE] = "SELECT id FROM key WHERE ino IS NULL LIMIT 1",
	[INDEX_KEY_GET] = "SELECT ino, session, key, kind FROM key WHERE id = ?1",
	[INDEX_SEEN_ADD] = "INSERT OR IGNORE INTO seen (ino) VALUES (?1)",
	[INDEX_KEY_UNSEEN] = "SELECT id FROM key WHERE ino NOT IN (SELECT ino FROM seen) LIMIT 1",
	[INDEX_ITEM_ADD] = "INSERT INTO item (id, key, item, made, role) "
			   "VALUES (?1, ?2, ?3, ?4, ?5)",
	[INDEX_ITEM_DROP] = "DELETE FROM item WHERE key = ?1",
	[INDEX_ITEM_GET] = "SELECT key, item, made, role FROM item WHERE id = ?1",
	[INDEX_SAID_ADD] = "INSERT INTO said (rowid, talk, notes) VALUES (?1, ?2, ?3)",
	[INDEX_SAID_FIND] = "SELECT rowid, score(said) FROM said WHERE said MATCH ?1 "
			    "ORDER BY rowid DESC LIMIT ?2",
};

int index_commit(struct index *index)
{
	int r = 0;

	if (sqlite3_total_changes(index->rows.db))
		r = ROWS_ASK(&index->rows, INDEX_META_SET, rows_blob(buf_bytes(&index->identity)),
			     rows_number(index->dead), rows_number(index->alive));
	return r < 0 ? r : rows_exec(&index->rows, "COMMIT; BEGIN");
}

/* ---- Opening ---- */

static int db_open(struct index *index)
{
	static const char settings[] = "PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY; "
				       "PRAGMA cell_size_check = ON; BEGIN";

	_Static_assert((int)INDEX_TEXTS <= (int)ROWS_TEXTS, "questions");
	return rows_open(&index->rows, index->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW,
			 texts, settings);
}

/* 1: it is that of this store; 0: of another one, or nothing yet. */
static int is_ours(struct index *index)
{
	int r = db_open(index);

	if (r == 0)
		r = rows_ask(&index->rows, INDEX_META_GET, NULL);
	if (r <= 0)
		return index->rows.damaged ? 0 : r;
	if (!bytes_equal(rows_column_bytes(&index->rows, INDEX_META_GET, 0),
			 buf_bytes(&index->identity)))
		return 0;
	index->dead = rows_column(&index->rows, INDEX_META_GET, 1);
	index->alive = rows_column(&index->rows, INDEX_META_GET, 2);
	return 1;
}

static void drop_snapshot(struct index *index)
{
	if (index->snapshot)
		index->backend->ops->snapshot_end(index->backend, index->snapshot);
	index->snapshot = NULL;
}

/* SQLite deletes a journal that lies beside an empty file. */
int index_anew(struct index *index)
{
	int r;

	drop_snapshot(index);
	rows_close(&index->rows);
	index->rows.damaged = false;
	index->dead = index->alive = 0;
	if (ftruncate(index->fd, 0) < 0)
		return -errno;
	r = db_open(index);
	if (r == 0)
		r = rows_exec(&index->rows, schema);
	/* From here on, even after a crash, the file can be recognised as an index. */
	return r < 0 ? r : index_commit(index);
}

/* Also when a signal comes. */
static int lock_file(const struct index *index)
{
	while (flock(index->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (stop_wanted())
			return -EINTR;
		usleep(20000);
	}
	return 0;
}

/* It may have been deleted while we waited. */
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
	const uint32_t application = htobe32(APPLICATION);
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

int index_open(const char *path, struct bytes identity, bool ours, struct index **ret_index,
	       char **ret_why)
{
	_cleanup_(index_closep) struct index *index = calloc(1, sizeof(*index));
	int r;

	*ret_why = NULL;
	if (!index)
		return -ENOMEM;
	index->fd = -1;
	index->path = bytes_dup(bytes_str(path));
	r = index->path ? buf_append_bytes(&index->identity, identity) : -ENOMEM;
	if (r == 0)
		r = open_file(index, ours);
	if (r == 0) {
		r = is_ours(index);
		r = r == 0 ? index_anew(index) : MIN(r, 0);
	}
	if (r < 0)
		return str_explain(ret_why, r, "the index %s cannot be used: %s", path,
				   strerror(-r));
	*ret_index = steal_ptr(index);
	return 0;
}

/* Close SQLite first: closing the descriptor would release SQLite's locks. */
void index_release(struct index *index)
{
	rows_close(&index->rows);
	closep(&index->fd);
	index->fd = -1;
}

void index_close(struct index *index)
{
	if (!index)
		return;
	drop_snapshot(index);
	index_release(index);
	free(index->path);
	buf_done(&index->identity);
	free(index);
}
