/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_INTERNAL_H
#define BACKEND_SQLITE_INTERNAL_H

/*
 * What the files of the SQLite backend share.  Nobody outside this folder includes it.
 *
 *   open.c    open and close: which mode, which refusals
 *   file.c    the file itself: finding, creating, its header, who owns it
 *   layout.c  the rows' table as we find it: may we use it, which columns has it
 *   schema.c  our tables, their versions, the triggers that log others' changes
 *   conn.c    one connection, its prepared statements; the pool of readers
 *   sql.c     every statement that runs more than once, as one table
 *   read.c    the reading half of backend.h
 *   commit.c  the writing half: group commit, operations
 *   changes.c others' changes: listing them, waiting for them
 *   join.c    a layer below SQLite: one write and one lock a transaction, a WAL that grows ahead
 *   keeper.c  the thread that syncs and checkpoints
 *   room.c    full disks: what may still be written, and the reserve for deletions
 *   check.c   space() and check()
 *   copy.c    a copy of one instant, and putting it in its place
 *   repair.c  a damaged store into a new one, with btree.c, image.c, salvage.c, repair-mend.c
 *   times.c   time stamps of rows
 *   error.c   SQLITE_* to -errno, and the sentences
 *
 * Lock order: queue.lock (or being the writer) before pool.lock before version_lock; keeper.lock
 * and keeper.sync_lock are leaves.
 */

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/backend.h"

enum {
	SQLITE_APPLICATION = 0x73657366, /* "sesf" in the file's header */
	SQLITE_SCHEMA_NEWEST = 1,
	SQLITE_PAGE = 8192, /* of a new store */
	SQLITE_ROWS = 16,   /* that one statement inserts */
	SQLITE_BUSY_MS = 10000,
	SQLITE_READERS = 16,
	SQLITE_READER_CACHE_KIB = 1024,
	SQLITE_WRITER_CACHE_KIB = 8192,
	SQLITE_WAL_KIB = 65536, /* a WAL is not to become much larger */
};

/* What we may write.  Chosen once, when the store is opened (open.c tells when which). */
enum sqlite_mode {
	MODE_WHOLE,	  /* everything */
	MODE_BOOKKEEPING, /* our tables, never the rows */
	MODE_ASIDE,	  /* nothing in the file; our tables are in a private file beside it */
	MODE_FROZEN,	  /* nothing */
};

/* --- sql.c -------------------------------------------------------------------------------------
 */

enum sqlite_sql {
	SQL_NONE, /* ends a list */
	SQL_BEGIN,
	SQL_BEGIN_IMMEDIATE,
	SQL_COMMIT,
	SQL_PENDING,
	SQL_DATA_VERSION,
	SQL_DIGESTED,
	SQL_TRIGGERS,
	SQL_NODE_GET,
	SQL_NODE_FIND_KEY,
	SQL_NODE_FIND_SESSION,
	SQL_NODE_LIST,
	SQL_NODE_LIST_ORPHANS,
	SQL_ENTRY_FIND,
	SQL_ENTRY_NAME,
	SQL_ENTRY_LIST,
	SQL_XATTR_GET,
	SQL_XATTR_LIST,
	SQL_CHUNK_READ,
	SQL_CHUNK_LIST,
	SQL_ROW_READ,
	SQL_KEY_FIRST,
	SQL_KEY_LAST,
	SQL_NEXT_SESSION,
	SQL_NEXT_KEY,
	SQL_SESSION_ROWS,
	SQL_SESSION_EMPTY,
	SQL_SESSION_STAT,
	SQL_DAY_LIST,
	SQL_PIECE_READ,
	SQL_MARK_FIND,
	SQL_MARK_FIND_INDEX,
	SQL_LAST_INO,
	SQL_LAST_ENTRY,
	SQL_PAGE_COUNT,
	SQL_CHANGE_LIST,
	SQL_CHANGE_EVERYTHING,
	SQL_ROW_INSERT,
	SQL_ROWS_INSERT, /* SQLITE_ROWS of them */
	SQL_ROW_PUT,
	SQL_ROW_SAME,
	SQL_ROW_UPDATE,
	SQL_ROW_ENSURE,
	SQL_ROW_DELETE,
	SQL_KEY_CLEAR_TARGET,
	SQL_KEY_MOVE,
	SQL_TRASH_MAKE,
	SQL_KEY_HIDE,
	SQL_KEY_HIDDEN,
	SQL_KEY_SHOW,
	SQL_KEY_SHOWN,
	SQL_HIDDEN_DELETE,
	SQL_NODE_TOUCH,
	SQL_NODE_PUT,
	SQL_NODE_DELETE,
	SQL_NODE_XATTRS_DELETE,
	SQL_NODE_CHUNKS_DELETE,
	SQL_NODE_PIECES_DELETE,
	SQL_NODE_MARKS_DELETE,
	SQL_ENTRY_PUT,
	SQL_ENTRY_DELETE,
	SQL_XATTR_PUT,
	SQL_XATTR_DELETE,
	SQL_CHUNK_PUT,
	SQL_CHUNK_DELETE,
	SQL_PIECE_PUT,
	SQL_PIECE_DELETE,
	SQL_MARK_PUT,
	SQL_MARK_DELETE,
	SQL_CHANGE_DONE,
	SQL_EVERYTHING_DONE,
	SQL_DIGESTED_SET,
	SQL_COUNT,
};

struct sqlite_layout;

/* The text with the names of this store put in for {rows} and its like; sqlite3_free() it.  NULL
 * when there is no memory. */
char *sqlite_sql_expand(const char *text, const struct sqlite_layout *layout, const char *schema);
const char *sqlite_sql_text(enum sqlite_sql sql);

/* --- join.c -------------------------------------------------------------------------------------
 */

/* The VFS to open databases with; NULL: SQLite's own. */
const char *sqlite_join_name(void);
/* Before a transaction that will write: take the lock for writing first, and no other.  If that
 * cannot be, SQLite takes its own.  Given up when the transaction ends; or, where none began, by
 * sqlite_join_leave().  Only for the thread that uses the connection. */
void sqlite_join_lead(sqlite3 *db);
void sqlite_join_leave(sqlite3 *db);
/* Whether the WAL shall grow ahead of what is written, so that syncing it is quicker.  Only for the
 * thread that uses the connection. */
void sqlite_join_ahead(sqlite3 *db, bool ahead);

/* --- file.c ------------------------------------------------------------------------------------
 */

struct sqlite_file; /* the store's file, once a process however often it is opened */

struct sqlite_place {
	char *path;    /* without symbolic links; owned */
	bool created;  /* we made the file just now */
	bool writable; /* the system lets us write to it */
	struct sqlite_file *file;
};

int sqlite_place_find(const char *path, const struct backend_options *options,
		      struct sqlite_place *ret_place, char **ret_why);
/* Only when all connections are closed (file.c says why). */
/* Whether the path still leads to the file. */
bool sqlite_place_stands(const struct sqlite_place *place);
void sqlite_place_done(struct sqlite_place *place);
/* Become the owner until sqlite_place_done(); -EBUSY. */
int sqlite_file_own(struct sqlite_file *file);
void sqlite_file_disown(struct sqlite_file *file);
/* Own a file by its path, whatever is in it, and without a store; and give it up.  No connection to
 * it may be open then. */
int sqlite_file_take(const char *path, struct sqlite_file **ret_file);
void sqlite_file_leave(struct sqlite_file *file);
/* Does anybody, here or in another process, own it? */
bool sqlite_file_owned(struct sqlite_file *file);

/* --- conn.c ------------------------------------------------------------------------------------
 */

struct sqlite;

struct sqlite_conn {
	struct sqlite *store; /* borrowed */
	sqlite3 *db;
	sqlite3_stmt *statements[SQL_COUNT]; /* prepared when first used */
	unsigned generation;		     /* of the layout that they were prepared for */
};

struct backend_snapshot {
	struct sqlite_conn conn;
	struct backend_snapshot *next; /* in the pool */
	int64_t version;	       /* MODE_ASIDE, MODE_FROZEN: at least this is visible */
	bool everything;	       /* MODE_ASIDE, MODE_FROZEN: and that was not digested yet */
};

int sqlite_conn_open(struct sqlite *store, bool reader, struct sqlite_conn *conn);
/* Opened in vain or never: fine. */
void sqlite_conn_close(struct sqlite_conn *conn);
/* Forget the statements if the layout has changed; none may be under way. */
void sqlite_conn_renew(struct sqlite_conn *conn);
/* The statement, ready to be bound; NULL after a failure that was logged, *ret_error set. */
sqlite3_stmt *sqlite_conn_take(struct sqlite_conn *conn, enum sqlite_sql sql, int *ret_error);
/* Run one that has no parameters and whose result does not matter. */
int sqlite_conn_run(struct sqlite_conn *conn, enum sqlite_sql sql);
/* Run one that begins a transaction. */
int sqlite_conn_begin(struct sqlite_conn *conn, enum sqlite_sql sql);
/* One that yields one number. */
int sqlite_conn_number(struct sqlite_conn *conn, enum sqlite_sql sql, int64_t *ret_number);
/* End a transaction that may or may not be open, without a word. */
void sqlite_conn_rollback(struct sqlite_conn *conn);
/* Run a text once.  With ret_number the first column of the first row (fallback without one). */
int sqlite_conn_exec(struct sqlite_conn *conn, const char *text);
int sqlite_conn_query(struct sqlite_conn *conn, const char *text, int64_t fallback,
		      int64_t *ret_number);
/* Do others' changes wait?  *ret_cut says that the schema was changed under us in a way that
 * cut our triggers off: the caller has to mend it (sqlite_schema_mend). */
int sqlite_conn_pending(struct sqlite_conn *conn, bool *ret_pending, bool *ret_cut);

void sqlite_bind_text(sqlite3_stmt *statement, int index, struct bytes text);
void sqlite_bind_blob(sqlite3_stmt *statement, int index, struct bytes blob);
/* The bytes of a column of any type; data is never NULL unless the column is. */
struct bytes sqlite_column_bytes(const struct sqlite *store, sqlite3_stmt *statement, int index);

int sqlite_pool_get(struct sqlite *store, struct backend_snapshot **ret_snapshot);
void sqlite_pool_put(struct sqlite *store, struct backend_snapshot *snapshot);
/* Give the idle readers' page caches back to the system. */
void sqlite_pool_trim(struct sqlite *store);

/* --- layout.c ----------------------------------------------------------------------------------
 */

struct sqlite_layout {
	char *name;   /* of the rows' table; sqlite3_free() */
	char *quoted; /* the same as SQL wants it; sqlite3_free() */
	/* They may become false while the store is open: sqlite_schema_mend(). */
	atomic_bool has_created;
	atomic_bool has_updated;
};

int sqlite_layout_name(struct sqlite_layout *layout, const char *name);
void sqlite_layout_done(struct sqlite_layout *layout);
/* Look at the rows' table in conn.  0, or -ENOENT when there is none, or -EMEDIUMTYPE with a reason
 * why it cannot serve. */
int sqlite_layout_look(struct sqlite_conn *conn, struct sqlite_layout *layout, const char *path,
		       char **ret_why);

/* --- schema.c ----------------------------------------------------------------------------------
 */

/* The version of our tables; 0: there are none. */
int sqlite_schema_version(struct sqlite_conn *conn, int64_t *ret_version);
/* Make, adopt or migrate; in one transaction.  new_store: the file was empty. */
int sqlite_schema_bring(struct sqlite *store, int64_t from, bool new_store);
/* The same tables in the private file of MODE_ASIDE. */
int sqlite_schema_aside(struct sqlite *store);
/* Inside a write transaction: the rows' table was changed by another program in a way that cut our
 * triggers off.  Put them back, and log that anything may have changed. */
int sqlite_schema_mend(struct sqlite_conn *conn);
/* Are the triggers in place? */
int sqlite_schema_intact(struct sqlite_conn *conn, bool *ret_intact);
int sqlite_meta_put(struct sqlite_conn *conn, const char *key, const char *value);
/* *ret_value is NULL when there is none; free(). */
int sqlite_meta_get(struct sqlite_conn *conn, const char *key, char **ret_value);

/* --- the store ---------------------------------------------------------------------------------
 */

struct sqlite_request; /* a batch that waits for its turn: commit.c */

struct sqlite {
	struct backend backend; /* must be first */
	enum sqlite_mode mode;
	bool owner;	/* we hold the file's owner lock */
	bool guest;	/* not the owner: then our row changes are "others' changes" to the owner */
	bool rows_only; /* and they are so, too, when there is none */
	struct sqlite_place place;
	struct sqlite_layout layout;
	atomic_uint generation; /* moves when the layout loses a column */
	char *name;		/* what SQLite is told to open: a path or a URI; sqlite3_free() */
	char *aside;		/* MODE_ASIDE: path of the private file; free() */
	bool utf8;		/* text is stored as we hand it in and out */
	atomic_bool damaged;	/* SQLite has said so: nothing is written any more (error.c) */
	uint64_t max_size;

	struct {
		pthread_mutex_t lock;
		pthread_cond_t freed;
		struct backend_snapshot *idle;
		unsigned count; /* idle or not */
	} pool;

	struct {
		pthread_mutex_t lock;
		struct sqlite_request *first;
		struct sqlite_request **last;
		bool writing; /* somebody is the writer: he alone uses the connection below */
		bool crowded; /* the writer's: when he took what waited, it was not his alone */
	} queue;
	struct sqlite_conn writer;
	bool writer_triggers; /* as last set on the writer */
	bool writer_ahead;    /* and whether the WAL grows ahead */

	/* The writer's.  Bytes. */
	struct {
		int fd;		    /* of the reserve, -1 */
		uint64_t size;	    /* that it shall have */
		uint64_t held;	    /* that it has */
		uint64_t had;	    /* before it was given up */
		uint64_t page;	    /* of the database */
		uint64_t written;   /* by the transaction, and perhaps in memory only; about */
		uint64_t allowance; /* that may be written before the disk is looked at again */
		int64_t taken;	    /* pages in use before the transaction, if above the quota */
		bool lent;	    /* to the transaction that is under way */
		bool nearly_full;   /* as of the last look */
	} room;

	/* Memory that outlives us: beside.c. */
	struct {
		pthread_mutex_t lock;
		struct kept *memory;
		size_t size;
	} keep;

	/* data_version is a number of one connection, so one connection answers for all. */
	pthread_mutex_t version_lock;
	struct sqlite_conn watcher;
	int64_t handed_out; /* MODE_FROZEN: the version that change_list() last told about */

	struct {
		int inotify; /* -1: poll */
		int wal_watch;
		int wake; /* an eventfd */
	} watch;

	struct {
		pthread_t thread;
		bool running;
		pthread_mutex_t lock;
		pthread_cond_t moved;
		bool stop;
		bool dirty;	  /* commits since the last sync */
		atomic_bool used; /* page caches have been filled since memory was given back */
		bool hurry;	  /* and the WAL has grown a lot */
		int hurry_pages;  /* that is so many; constant */
		atomic_uint_fast64_t commits;
		atomic_int wal_pages;  /* in the WAL, as of the last commit */
		atomic_int wal_copied; /* of these into the database, by the last checkpoint */
		pthread_mutex_t sync_lock;
		uint64_t synced;   /* commits that are durable */
		atomic_int failed; /* why a sync failed: what it lost stays lost */
		atomic_bool asked; /* somebody has asked for a sync */
		atomic_int wal;	   /* descriptor of the -wal file, -1; set once */
		struct sqlite_conn conn;
	} keeper;
};

static inline struct sqlite *sqlite_of(struct backend *backend)
{
	return (struct sqlite *)backend;
}

/* --- read.c ------------------------------------------------------------------------------------
 */

int sqlite_snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot);
void sqlite_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot);
int sqlite_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct backend_node *ret_node);
int sqlite_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct backend_node *ret_node);
int sqlite_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		     bool orphans_only, backend_node_fn *fn, void *arg);
int sqlite_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      struct bytes name, uint64_t *ret_id, struct backend_node *ret_node);
int sqlite_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t id, struct buf *name);
int sqlite_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		      uint64_t after, backend_entry_fn *fn, void *arg);
int sqlite_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     struct bytes name, struct buf *value);
int sqlite_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      backend_name_fn *fn, void *arg);
int sqlite_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_fn *fn, void *arg);
int sqlite_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg);
int sqlite_row_read(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
		    void *arg);
int sqlite_key_stat(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_key_stat *ret_stat);
int sqlite_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		    void *arg);
int sqlite_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_session_fn *fn, void *arg);
int sqlite_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct backend_session_stat *ret_stat);
int sqlite_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		    void *arg);
int sqlite_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg);
int sqlite_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     uint64_t offset, struct backend_mark *ret_mark);
int sqlite_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			   int64_t index, struct backend_mark *ret_mark);
int sqlite_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		    uint64_t *ret_entry);

/* --- commit.c ----------------------------------------------------------------------------------
 */

int sqlite_commit(struct backend *backend, struct backend_batch *batch, unsigned flags);
/* Be the writer, who alone uses store->writer; waits for the present one. */
void sqlite_writer_take(struct sqlite *store);
void sqlite_writer_give(struct sqlite *store);
/* Take the writer and mend the schema. */
int sqlite_writer_mend(struct sqlite *store);

/* --- changes.c ---------------------------------------------------------------------------------
 */

int sqlite_watch_start(struct sqlite *store);
void sqlite_watch_stop(struct sqlite *store);
/* A number that moves when another connection changed the file. */
int sqlite_version(struct sqlite *store, int64_t *ret_version);
int sqlite_change_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_change_fn *fn, void *arg);
int sqlite_change_wait(struct backend *backend, int timeout_ms);
void sqlite_wake(struct backend *backend);

/* --- keeper.c ----------------------------------------------------------------------------------
 */

int sqlite_keeper_start(struct sqlite *store);
void sqlite_keeper_stop(struct sqlite *store);
/* A commit has succeeded: have it synced within a second. */
void sqlite_keeper_committed(struct sqlite *store);
/* A snapshot was read: when nobody has read or written for a while, give its memory back. */
void sqlite_keeper_used(struct sqlite *store);
int sqlite_sync(struct backend *backend);
/* What is committed and not synced shall be on its way to the disk. */
void sqlite_sync_soon(struct sqlite *store);

/* --- beside.c: files of ours beside the store ---------------------------------------------------
 */

/* The file with this ending, if it begins with the sentence or is empty, opened with further flags;
 * -EEXIST when it is somebody else's. */
int sqlite_beside_open(const char *path, const char *ending, const char *sentence, int flags);
/* Take away those files that are ours by their sentences. */
void sqlite_beside_remove(const char *path);
int sqlite_keep(struct backend *backend, bool make, size_t size, void **ret_memory);
void sqlite_keep_close(struct sqlite *store);

/* --- room.c ------------------------------------------------------------------------------------
 *
 * Only who is the writer calls these, or nobody else knows the store yet or any more.
 */

/* Find or make the reserve, if this store is to have one. */
void sqlite_room_open(struct sqlite *store);
extern const char sqlite_reserve_ending[], sqlite_reserve_sentence[];
/* Before and after the connections are closed. */
void sqlite_room_ending(struct sqlite *store);
void sqlite_room_close(struct sqlite *store);
/* The store could not be opened for want of room: true when there was a reserve to give up. */
bool sqlite_room_lend_unopened(const char *path);
/* Before a transaction that will write about so many bytes. */
void sqlite_room_prepare(struct sqlite *store, uint64_t bytes);
/* At the beginning of one. */
void sqlite_room_begin(struct sqlite *store);
/* Inside a write transaction that has written about so many bytes since the last call, and before
 * it commits: 0 to go on, -ENOSPC when what it has written could not be brought into the database
 * any more. */
int sqlite_room_check(struct sqlite *store, uint64_t bytes);
/* Outside of one, after -ENOSPC: empty the WAL.  True when that may have helped. */
bool sqlite_room_make(struct sqlite *store);
/* Let the next transaction have the reserve; false when there is none.  And take it back. */
bool sqlite_room_lend(struct sqlite *store);
void sqlite_room_return(struct sqlite *store);
/* For idle times: give unused pages back to the filesystem.  Takes the writer by itself. */
void sqlite_room_tidy(struct sqlite *store);

/* --- check.c -----------------------------------------------------------------------------------
 */

int sqlite_space(struct backend *backend, struct backend_space *ret_space);
int sqlite_check(struct backend *backend, backend_report_fn *report, void *arg);

/* --- copy.c ------------------------------------------------------------------------------------
 */

int sqlite_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy);

/* --- times.c -----------------------------------------------------------------------------------
 */

enum { SQLITE_STAMP = 32 }; /* bytes of room for a time stamp */

/* For waiting: of a clock that nobody sets. */
int64_t sqlite_milliseconds(void);
/* Now, as the rows have it: "2026-01-31 23:59:59.123", UTC. */
void sqlite_stamp_now(char stamp[SQLITE_STAMP]);
/* Nanoseconds since 1970 of what any program may have put there; 0 when it is no time. */
int64_t sqlite_stamp_read(sqlite3_stmt *statement, int index);

/* --- error.c -----------------------------------------------------------------------------------
 */

/* The one place where SQLITE_* becomes -errno.  Logs SQLite's sentence where the header of
 * backend.h promises it. */
int sqlite_error(sqlite3 *db, int code, const char *path);
/* The same for a connection, and 0 for SQLITE_OK, SQLITE_ROW and SQLITE_DONE. */
int sqlite_result(struct sqlite_conn *conn, int code);
/* Put a sentence in *ret_why (unless ret_why is NULL) and return error. */
int sqlite_refuse(char **ret_why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
