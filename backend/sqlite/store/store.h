/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_STORE_H
#define BACKEND_SQLITE_STORE_H

/*
 * A store in SQLite.  Each file does one thing for it:
 *
 *   open.c    open and close: which mode
 *   judge.c   what kind of database it is, and the refusals
 *   file.c    the file itself: finding, creating, its header, its owner
 *   beside.c  files of ours beside it
 *   layout.c  the rows' table as we find it: may we use it, which columns has it
 *   schema.c  our tables and triggers, and with schema-look.c what others make of the rows' table
 *   conn.c  pool.c   one connection, its prepared statements; those that read
 *   sql.c     every statement that runs more than once, as one table (sql-texts.h)
 *   snapshot.c  read.c  sessions.c  cursor.c   the reading half of backend.h
 *   kept.c    the snapshot that the tree keeps, when it is in the way
 *   commit.c  writer.c   the writing half: group commit; the queue for the writer's connection
 *   apply.c  changes.c   operations as SQL; others' changes
 *   mounts.c  uses.c   which mounts have the store; which files are in use on which
 *   setting.c  feed.c   what the store says for all mounts; what these leave for each other
 *   join.c    a layer below SQLite: one write a transaction, a WAL that grows ahead
 *   keeper.c  the thread that syncs and checkpoints
 *   room.c  reserve.c   full disks: what may still be written; blocks kept for deletions
 *   check.c  copy.c   space() and check(); a copy of one instant, and putting it in its place
 *   repair.c  a damaged store into a new one, with image.c, salvage*.c, repair-mend.c
 *   older.c   tables of an older layout, to be read once
 *   times.c  error.c   time stamps of rows; SQLITE_* to -errno, and the sentences
 *
 * Lock order: queue.lock (or being the writer) before kept.lock before pool.lock before
 * version_lock; uses.lock, keeper.lock, keeper.sync_lock and keeper.checkpoint_lock are leaves.
 * With kept.lock held the tree begins and ends snapshots.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/feed/feed.h"
#include "backend/sqlite/store/conn.h"
#include "backend/sqlite/disk/file.h"
#include "backend/sqlite/schema/layout.h"
#include "backend/sqlite/owner/uses.h"
#include "backend/base/log-pause.h"

enum {
	SQLITE_APPLICATION = 0x73657366, /* "sesf" in the file's header */
	SQLITE_SCHEMA_FORMAT = 7,
	SQLITE_PAGE = 8192,		/* of a new store */
	SQLITE_ROWS = 16,		/* that one statement inserts */
	SQLITE_BUSY_MS = 10000,		/* for another program that writes */
	SQLITE_READERS = 16,		/* connections that the pool keeps */
	SQLITE_READER_CACHE_KIB = 1024, /* of each */
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

struct backend_snapshot;
struct sqlite_request; /* a batch that waits for its turn: writer.c */

struct sqlite {
	struct backend backend; /* must be first */
	enum sqlite_mode mode;
	bool owner;   /* we hold the file's owner lock */
	bool guest;   /* not the owner: then our row changes are "others' changes" to the owner */
	bool opening; /* the caller reports what fails */
	bool rows_only, log_only; /* as in struct backend_options */
	struct sqlite_place place;
	struct sqlite_layout layout;
	atomic_uint generation; /* moves when the layout loses a column */
	char *name;		/* what SQLite is told to open: a path or a URI; sqlite3_free() */
	char *aside;		/* MODE_ASIDE: path of the private file; free() */
	unsigned char encoding; /* of text as it is stored, by SQLite's number */
	atomic_bool damaged;	/* SQLite has said so: nothing is written any more (error.c) */
	atomic_bool gone;	/* sqlite_file_there() has said that the file is not there */
	atomic_bool log_gone;	/* and sqlite_file_durable(), that the log is not */
	_Atomic uint64_t max_size; /* the quota in bytes; 0: none */

	struct {
		pthread_mutex_t lock;
		pthread_cond_t freed;	       /* a connection has come back, or may be made */
		struct backend_snapshot *idle; /* the one used last is the first */
		unsigned count;		       /* idle or not */
		atomic_uint_fast64_t commits;  /* keeper.commits when one was last used */
	} pool;

	struct {
		pthread_mutex_t lock;
		backend_keep_fn *keep;
		void *arg;
	} kept; /* snapshot_keep() */

	struct {
		pthread_mutex_t lock;
		struct sqlite_request *first;
		struct sqlite_request **last;
		bool writing; /* a thread is the writer: it alone uses the connection below */
		bool crowded; /* the writer's: when it took what waited, there were others */
	} queue;
	union {
		struct sqlite_conn writer;
		struct backend_snapshot brief; /* the same, for a reader (snapshot.c) */
	};
	bool writer_triggers, writer_ahead; /* as last set on the writer: the WAL grows ahead */
	bool writer_forgets; /* there is no room to keep what this transaction takes away */
	uint64_t ino_noted;  /* the writer's: inode numbers so far are noted as used */

	/* The writer's.  Bytes. */
	struct {
		int fd;		    /* of the reserve, -1 */
		uint64_t borrowed;  /* from it, by a store that is open to read only */
		uint64_t size;	    /* that it shall have */
		uint64_t held;	    /* that it has */
		uint64_t had;	    /* before it was given up */
		uint64_t page;	    /* of the database */
		int64_t pages_most; /* that SQLite allows without a quota */
		uint64_t written;   /* by the transaction, and perhaps in memory only; about */
		uint64_t allowance; /* that may be written before the disk is looked at again */
		int64_t taken;	    /* pages in use before the transaction, if above the quota */
		bool lent, kept; /* to the transaction; by it, for the history, of unknown size */
		uint64_t kept_bytes; /* by it, for the history, of a size that is known */
		bool nearly_full;    /* as of the last look */
		uint64_t grown;	     /* size up to which the database has its blocks already */
		bool no_blocks;	     /* the filesystem promises none */
		struct log_pause full, in_use; /* of what says that there is no room, and why */
		int64_t wal_limit; /* bytes that the WAL keeps when it is begun anew; 0: not set */
	} room;

	struct {
		int fd;			 /* of STORE-mounts, -1: this is the only mount, or none */
		unsigned slot;		 /* in it */
		uint64_t number;	 /* of this mount, never used again in the store; 0: none */
		_Atomic uint64_t cursor; /* notes so far are known here */
		uint64_t cursor_before;	 /* as of the last transaction that had any to wait for */
		struct feed_notes waiting; /* the writer's: those of others that it had read then */
		bool shared;	  /* the writer's: there were others at the last transaction */
		int64_t sweep_at; /* the keeper's: when to look for mounts that have ended */
		uint64_t asked;	  /* the same: how often it was asked for its snapshot */
		pthread_mutex_t lock;
		unsigned turns;	 /* threads that have the turn, which the mount has then */
		int64_t turn_at; /* since when */
	} mounts;
	struct sqlite_uses uses;

	/* data_version is a number of one connection, so one connection answers for all. */
	pthread_mutex_t version_lock;
	struct sqlite_conn watcher;
	int64_t handed_out;   /* MODE_FROZEN: the version that change_list() last told about */
	_Atomic int64_t seen; /* stamp, for change_seen() */
	struct {
		int inotify;	  /* -1: poll */
		int wal_watch;	  /* of the log, by inotify; -1: there is no log yet */
		int wake;	  /* an eventfd: wake() was called */
		int64_t settings; /* how often one was changed, as far as it was told */
	} watch;

	struct {
		pthread_t thread;
		bool running;
		pthread_mutex_t lock;
		pthread_cond_t moved; /* what follows, so that the thread looks at it */
		bool stop;
		bool dirty;	  /* commits since the last sync */
		atomic_bool used; /* page caches have been filled since memory was given back */
		bool hurry;	  /* and the WAL has grown a lot */
		int hurry_pages;  /* that is so many; constant */
		atomic_uint_fast64_t commits;	 /* so far */
		atomic_int wal_pages;		 /* in the WAL, as of the last commit */
		atomic_int wal_copied, wal_kept; /* the last checkpoint could, and could not */
		pthread_mutex_t checkpoint_lock; /* one of ours at a time: SQLite waits for none */
		pthread_mutex_t sync_lock;	 /* one sync at a time; of synced */
		uint64_t synced;		 /* commits that are durable */
		atomic_int failed;		 /* why a sync failed: what it lost stays lost */
		atomic_bool asked;		 /* somebody has asked for a sync */
		dev_t wal_device;		 /* of the -wal file, by which it is known again */
		ino_t wal_inode;
		atomic_int wal; /* descriptor of the -wal file, -1; set once, after these */
		struct sqlite_conn conn; /* that checkpoints */
	} keeper;
};

static inline struct sqlite *sqlite_of(struct backend *backend)
{
	return (struct sqlite *)backend;
}

/* What shall become of the snapshot that is kept (snapshot_keep()). */
void sqlite_snapshot_kept(struct sqlite *store, enum backend_keep how);

#endif
