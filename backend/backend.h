/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

/*
 * The contract between the filesystem and a store.
 *
 * A store keeps opaque bytes under (session, key, index) - the *rows*, which other programs read
 * and write too - and beside them what a filesystem must remember: nodes (one a file, by inode
 * number), entries (names in directories), extended attributes, chunks (the bytes of ordinary files
 * and of drafts), pieces (bytes of a list that are not rows) and marks (a sparse index from an
 * offset in a list to an item index).  The store does not know what a path or a line is, nor what
 * JSON is; the tree (fs/) decides that and says it in operations.
 *
 * Shape of the interface
 *
 *   Reads are made in a snapshot: all reads in one snapshot see one committed state of the store.
 *   A snapshot may begin with its first read, so that it costs a network store nothing.
 *   A store that cannot show a past state answers -ESTALE in the middle of a snapshot when what is
 *   read was changed since it began, and so do all reads that follow in it; rows that were only
 *   added since are left out.  Lists of all keys, nodes or orphans may then be of several states.
 *   Writes are made in a batch: an array of operations, applied whole or not at all, in order.
 *   A network store can send a batch in one round trip and a range of rows in one answer.
 *
 * Others' changes
 *
 *   Other programs may change rows at any time (they never touch the rest).  The store keeps a log
 *   of the keys that others have changed, until the tree has taken these changes in
 *   (BACKEND_CHANGE_DONE).  While keys are pending, snapshot_begin() answers -ESTALE unless it is
 *   called with BACKEND_ANYWAY, and commit() when the batch names one of them: so a reader never
 *   combines its marks and pieces with rows that it does not know, and a writer never overwrites a
 *   change that it has not seen.  Where a snapshot begins with its first read, that answers
 *   -ESTALE, before anything is handed out, and so do all that follow in it.  The caller then
 *   takes the changes in and tries again.  Where many are pending, it may skip them
 *   (BACKEND_PAST), and asks about each key that it uses (change_find()).  What it has taken
 *   in without having to write anything may stay in the log (change_seen()).  A key that it cannot
 *   take in is quarantined (BACKEND_CHANGE_APART); the caller makes sure that it is not used.
 *
 * Other mounts
 *
 *   Several mounts may have one store, each with a handle of its own, and each remembers what it
 *   has read.  While there are several, a commit leaves notes for the other mounts: which nodes,
 *   names and rows it has changed (struct backend_feed).  A mount digests what the others have
 *   left, in the order of their commits, and tells the store how far it is (feed_done()).
 *   snapshot_begin() answers -ESTALE while there is something to digest, unless it is called with
 *   BACKEND_ANYWAY.  commit() answers -ESTALE, with any flags, when a note that was not digested
 *   is about something that the batch changes or depends on (BACKEND_GUARD); it ignores other
 *   notes.  So a batch is applied only to the state that its caller has seen.
 *
 *   A file that one mount removes may be open on others.  Its node becomes an orphan then, and is
 *   deleted when no mount has it in use (orphan_list()).  Removals by ttl or gc leave open files
 *   alone, too: each mount marks a file as in use before it is opened (use()), and a batch may
 *   depend on no mount using it (BACKEND_UNUSED).
 *
 * Conventions
 *
 *   Every function returns 0 (or a count where it says so) or -errno:
 *     -ENOENT  nothing there              -EEXIST  a row, node, entry is there already
 *     -ESTALE  others changed keys        -ENOSPC  no room on the medium, or quota reached
 *     -EFBIG   larger than max_item       -EROFS   the store was opened read-only
 *     -EBUSY   another program holds the store's lock for too long (ten seconds)
 *     -EIO     the medium failed (or the store is damaged); -ENOMEM
 *   For -EIO, -ENOSPC and -EBUSY the store has written the sentence of its own library to the log.
 *   Inputs are borrowed for the call.  Bytes handed to a callback live until it returns.  A
 *   callback returns 0 to go on, a positive number to stop (the function then returns 0), -errno to
 *   stop with that error.  It may read with the same snapshot, but not end it.
 *
 * Threads
 *
 *   All functions may be called from any thread.  A snapshot is used by one thread at a time.
 *   Commits of several threads may be gathered into one transaction of the store; each batch is
 *   still whole or absent for itself, and commit() returns when it is durable against a crash of
 *   this process.  Only sync() makes it durable against power loss.
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/base/buf.h"

/* Bytes of one chunk of an ordinary file or a draft. */
enum { BACKEND_CHUNK = 32768 };
/* What any store takes as one row or piece, unless it is full. */
enum { BACKEND_ITEM_LEAST = 1 << 20 };

/* A setting that a store has which was made beside rows: some of them may have no nodes yet, and no
 * change is told of that.  The model takes it away when all have. */
#define BACKEND_UNADOPTED "unadopted"
/* Its value, once each session has its node: only nodes of files are missing. */
#define BACKEND_UNADOPTED_KEYS "keys"

enum { BACKEND_ROOT = 1 }; /* the inode number of the root; its node always exists */
/* For BACKEND_CHANGE_DONE: no change has this stamp. */
enum { BACKEND_STAMP_APART = 0 };
/* The inode number of a directory that no name leads to, where the model keeps what was removed and
 * may come back; node_list() leaves it out. */
enum { BACKEND_TRASH = 0 };

/* What a node is to the model; written to the store, so numbers never change. */
enum backend_kind {
	BACKEND_ORDINARY = 0, /* outside sessions or without a key, symlinks, directories, ... */
	BACKEND_SESSION = 1,  /* a directory at the root; session is set */
	BACKEND_SINGLE = 2,   /* one state: row (session, key, 0) */
	BACKEND_LIST = 3,     /* a list state: rows (session, key, 0 ... n-1) and pieces */
	BACKEND_HASH = 4,     /* a sidecar: row (session, key, 0), plain text */
};

enum backend_node_flags {
	/* The file's bytes are in chunks, node.size of them; the rows are the last valid state. */
	BACKEND_DRAFT = 1 << 0,
	/* The last line of the list is a row and has no newline. */
	BACKEND_NO_NEWLINE = 1 << 1,
	/* The node was made for rows that another program wrote; no save of ours has decided on its
	 * name yet. */
	BACKEND_ADOPTED = 1 << 2,
	/* An ordinary file that may have holes: its chunks tell how much is stored. */
	BACKEND_SPARSE = 1 << 3,
};

/* What can be set by itself. */
enum backend_fields {
	BACKEND_ATIME = 1 << 0,
	BACKEND_MTIME = 1 << 1,
	BACKEND_CTIME = 1 << 2,
	BACKEND_MODE = 1 << 3,
	BACKEND_UID = 1 << 4,
	BACKEND_GID = 1 << 5,
	BACKEND_GENERATION = 1 << 6,
};

struct backend_node {
	uint64_t ino;	 /* 1 to INT64_MAX; what was deleted is not used again (last_ids) */
	uint64_t parent; /* directory that holds the node's entry (the newest, if several) */
	uint64_t entry;	 /* id of that entry; 0 for the root, orphans, a name that has gone */
	uint32_t kind;	 /* enum backend_kind */
	uint32_t flags;	 /* enum backend_node_flags */
	uint32_t mode;	 /* type and permissions, as st_mode */
	uint32_t uid;
	uint32_t gid;
	uint32_t nlink; /* entries; 0: an orphan, to be deleted.  A directory counts as stat does */
	uint64_t rdev;
	uint64_t size; /* of an ordinary file or draft; otherwise 0: it follows from the rows */
	int64_t atime; /* nanoseconds since 1970, as the other three */
	int64_t mtime;
	int64_t ctime;
	int64_t btime;
	/* Of what the file has, at most INT64_MAX.  The model moves it, to a number that the node
	 * has not had before, in every batch that changes rows, pieces or a draft of a list
	 * otherwise than by adding some behind what there is. */
	uint64_t generation;
	/* Borrowed when handed in; owned by the struct when handed out (backend_node_done). */
	struct bytes session; /* data NULL when the node has none */
	struct bytes key;     /* data NULL when the node has none; may be the empty string */
	struct bytes target;  /* of a symbolic link */
	void *owned;	      /* memory behind the three, or NULL */
};

struct backend_entry {
	uint64_t parent;
	uint64_t id; /* > 0, never used again in its directory: the position in a listing */
	struct bytes name;
	uint64_t ino;
};

/* A position in a list: the segment that begins at offset is the pieces before row index, then
 * that row. */
struct backend_mark {
	uint64_t offset;
	int64_t index;
};

struct backend_key_stat {
	int64_t first; /* lowest and highest index */
	int64_t last;
	int64_t created; /* of the highest row, in nanoseconds; 0 when the store does not know */
	int64_t updated;
	bool list; /* where the store knows it: a list, however few rows it has */
};

struct backend_space {
	uint64_t total; /* bytes, of the medium or the quota */
	uint64_t free;	/* bytes that an unprivileged user may still write */
	uint64_t used;	/* bytes that the store itself takes */
};

enum backend_op_type {
	/* Rows.  created and updated are the store's business: it sets both on insert, and updated
	 * when the data changes; to the times of the operation if it has any, otherwise to now. */
	BACKEND_ROW_INSERT, /* session, key, at = index, data; -EEXIST when there is one */
	BACKEND_ROW_PUT,    /* session, key, at = index, data; does not touch a row that is equal */
	BACKEND_ROW_DELETE, /* session, key, at = first index, to = last index (inclusive); with
			     * created only those that were made later */
	BACKEND_KEY_MOVE,   /* session, key -> session_to, key_to: all rows, with their times; rows
			     * that were there before are deleted */
	BACKEND_ROWS_SHIFT, /* session, key, at = first index, to = by how much, down if negative:
			      * the rows from there on go to other indexes, with their data and
			      * times; and with ino those of its pieces and marks that have such an
			      * index, seq being by how many bytes the marks go.  Before a shift
			      * down, delete the rows that are in the way: -EEXIST.  -EFBIG: an
			      * index or an offset would be out of range */
	/* Hidden rows of a node: no read of a key shows them, and they keep their times. */
	BACKEND_KEY_HIDE,      /* session, key, ino: all rows of the key go there */
	BACKEND_KEY_SHOW,      /* session, key, ino: and back; -EEXIST when the key has such rows */
	BACKEND_HIDDEN_DELETE, /* ino, at = first index, to = last index (inclusive) */
	/* Nodes. */
	BACKEND_NODE_PUT, /* node: insert or replace; -EEXIST when another live node (nlink > 0)
			      * is the session's directory or the key's state file already */
	BACKEND_NODE_SET, /* node, at = enum backend_fields: these fields of an existing node become
			   * those of node; to is added to its links, which stay above 0.  Other
			   * fields stay as they are, so such batches may come in any order */
	BACKEND_NODE_DELETE, /* ino: the node, its attributes, chunks, pieces, marks; no rows, be
			      * they hidden or not */
	/* Entries. */
	BACKEND_ENTRY_PUT,    /* ino, parent, at = id, name; -EEXIST when the name or id is taken */
	BACKEND_ENTRY_DELETE, /* parent, at = id; deleting what is not there is no error, here and
			       * in all deletes */
	/* Extended attributes. */
	BACKEND_XATTR_PUT,    /* ino, name, data */
	BACKEND_XATTR_DELETE, /* ino, name */
	/* Chunks: at = chunk number.  Bytes missing at a chunk's end, and missing chunks, read as
	 * zeros. */
	BACKEND_CHUNK_PUT,    /* ino, at, data (at most BACKEND_CHUNK bytes) */
	BACKEND_CHUNK_DELETE, /* ino, at = first, to = last (inclusive) */
	/* Pieces: the bytes that stand before row index at; several with rising seq stand in that
	 * order. */
	BACKEND_PIECE_PUT,    /* ino, at = index, seq, data; insert or replace */
	BACKEND_PIECE_DELETE, /* ino, at = first index, to = last index (inclusive), every seq >=
			       * seq of index at, and every seq of the following */
	/* Marks. */
	BACKEND_MARK_PUT,    /* ino, at = index, offset */
	BACKEND_MARK_DELETE, /* ino, offset: every mark at or behind it; with to, before that one */
	/* Others' changes. */
	BACKEND_CHANGE_DONE,  /* session, key, at = stamp: digested, unless it has moved on;
			      * BACKEND_STAMP_APART: only what was set apart; session.data NULL:
			      * everything up to the stamp, but for what was set apart */
	BACKEND_CHANGE_APART, /* session, key, at = stamp, to = first index: logged as a change with
			       * a stamp of its own that is never pending, for any mount, until the
			       * key is changed again; not if it has moved on */
	/* Other mounts. */
	BACKEND_GUARD, /* ino, at: the batch depends on a node, on what it is and where it lies,
			  * with at = 1 on everything about it, with BACKEND_UNUSED also on no mount
			  * having it in use; or, with session and key, on the rows of a key, what
			  * lies between them and which file has them, and with at = 1 on no orphan
			  * having it, -EEXIST if one has; with nothing of these on this mount being
			  * alone, -ESTALE if it is not */
	BACKEND_LEASE, /* ino, at, to: so many inode numbers and ids of entries (to) as come behind
			  * these two (last_ids) are this mount's alone; -ESTALE when others' are */
	BACKEND_LOCK, /* ino, data, at: what this mount holds of a file is from now on this array of
		       * struct backend_lock; with at = 1 -EAGAIN when one of them is in the way of
		       * another mount's, or it is not known what another one holds (hold()) */
	/* What the store says for all its mounts. */
	BACKEND_SETTING, /* name, data: a setting; without data none.  Wakes change_wait().  Where
			  * there are tables, that of the rows is a setting, "table", that is always
			  * set.  Only the sole owner of the store can change it, and must close the
			  * store then: -EBUSY, -EINVAL when the name cannot be used, -ENOTEMPTY
			  * when there are rows */
	/* History (backend/history.h). */
	BACKEND_PAST_COPY,  /* session, key, at = first n, to = last n, session_to, key_to, seq: the
			      * kept rows between these become rows again, the first one with the
			      * index seq, with the times that they had; with created only those
			      * that were made until then; -EEXIST */
	BACKEND_ROWS_COPY,  /* session, key, at = first index, to = last index, seq = by how much
			      * further, session_to, key_to, created: the same of rows */
	BACKEND_PAST_NOTE,  /* session, key, parent = enum backend_past_what, at, to: remember that;
			      * such a note of its own takes nothing away */
	BACKEND_PAST_MERGE, /* ino, session, key, at, to: what was changed at times between these,
			      * both inclusive, counts as one change, at the last one */
	BACKEND_PAST_SAME,  /* session, key, at, to, seq: -ESTALE unless what was kept until later
			      * than that are to records, seq being the number of the newest or 0,
			      * as as_of_find() has found them */
	BACKEND_PAST_FORGET, /* ino, session, key, at: what was kept until then or before goes, and
			      * with INT64_MAX also that there was any; to: but for so many of the
			      * oldest records, on SQLite, where a full disk may need that.  These
			      * and notes come to stores without a history, too: nothing is done */
	BACKEND_OP_TYPES,
};

/* What BACKEND_GUARD says in at.  -EBUSY: a mount has the file in use (use()).  -EAGAIN: one that
 * was alone until now has not told which it has, and will within a second if it is not stopped. */
enum { BACKEND_UNUSED = 2 };

struct backend_op {
	enum backend_op_type type;
	uint64_t ino;
	uint64_t parent;
	uint64_t offset;
	int64_t at;
	int64_t to;
	int64_t seq;
	int64_t created; /* of a row that is inserted or put: nanoseconds since 1970, 0: now */
	int64_t updated;
	/* Of a row that is inserted or put, and of a key that moves, is hidden or shown: 0, or it
	 * is a single state.  If the rows' table has the column version, by which services compare
	 * and swap, that of the row rises then, to this at least. */
	int64_t version;
	bool behind; /* for other mounts: the batch leaves the bytes of the file that it is of as
		      * they are and where they are, and adds others behind them */
	struct bytes session;
	struct bytes key;
	struct bytes session_to;
	struct bytes key_to;
	struct bytes name;
	struct bytes data;
	const struct backend_node *node;
};

/*
 * A batch that does nothing to a list but insert rows behind its last one.  It depends on none of
 * the rows that are there: where other mounts have done the same since, its rows come behind
 * theirs, each by as many indexes further on, and its marks are left out, since their offsets are
 * those of other bytes.
 */
struct backend_append {
	struct bytes session;
	struct bytes key;
	uint64_t ino;	  /* of the list */
	int64_t expected; /* the index of its first row, as far as the model knows */
	/* Once the batch is committed: */
	int64_t first;	/* what it has become */
	uint64_t bytes; /* of the rows between the two, each with a newline */
};

/*
 * A batch: ops[0 ... count-1], then, if more is set, the operations that it puts there until it
 * returns 0.  more() is called while the store holds its write lock: it must not call the store
 * and should not wait; it returns 1 with new ops and count, 0 at the end, -errno to give the whole
 * batch up.  Its operations are ticked off (backend/base/tick.h).
 *
 * A batch may be applied again from its start, as often as need be, after a lost connection for
 * instance.  So a batch with more() has rewind(), too: it is called under the same conditions, and
 * puts ops and count back to their first values.  The same operations come again.
 */
struct backend_batch {
	const struct backend_op *ops;
	size_t count;
	struct backend_append *append; /* or NULL; not with more() */
	int (*more)(struct backend_batch *batch);
	void (*rewind)(struct backend_batch *batch);
	void *arg;
	/* Called before a snapshot may show the batch, in the thread that commits and at each
	 * attempt; may be NULL.  It must neither wait nor call the store. */
	void (*visible)(void *arg);
	void *visible_arg;
};

enum backend_flags {
	/* Do not mind others' changes that were not digested yet. */
	BACKEND_ANYWAY = 1 << 0,
	/* In the end this takes no more room than before: on a full medium it may use what the
	 * store keeps in reserve for that. */
	BACKEND_FREES = 1 << 1,
	/* sync() will soon be called for it: what it has written may be on its way then. */
	BACKEND_SYNC_SOON = 1 << 2,
	/* A snapshot now, without waiting, or -ESTALE; a commit, or -EBUSY without a word. */
	BACKEND_AT_ONCE = 1 << 3,
	/* A snapshot even while changes of other programs are pending, but not while those of other
	 * mounts are.  A store that does not know the keys of the changes still answers -ESTALE. */
	BACKEND_PAST = 1 << 4,
	/* A snapshot that has begun when it is returned, and not with its first read, as with
	 * BACKEND_AT_ONCE: to ask whether changes wait, or to keep what there is now. */
	BACKEND_BEGUN = 1 << 5,
	/* A snapshot for lists and sums, with BACKEND_ANYWAY: where a store cannot show a past
	 * state, each read may be of a later one than the read before.  -ESTALE only in the middle
	 * of rows that were replaced, and then for these alone. */
	BACKEND_LATEST = 1 << 7,
	/* A snapshot that ends at once: until then its thread asks it, takes no lock that is held
	 * over a call of the store, and calls the store for nothing else.  Commits may have to wait
	 * for it. */
	BACKEND_BRIEF = 1 << 8,
};

typedef int backend_row_fn(void *arg, int64_t index, struct bytes data);
typedef int backend_entry_fn(void *arg, const struct backend_entry *entry,
			     const struct backend_node *node);
typedef int backend_name_fn(void *arg, struct bytes name);
typedef int backend_chunk_fn(void *arg, int64_t chunk, struct bytes data);
typedef int backend_piece_fn(void *arg, int64_t index, int64_t seq, struct bytes data);
typedef int backend_key_fn(void *arg, struct bytes session, struct bytes key,
			   const struct backend_key_stat *stat);
typedef int backend_node_fn(void *arg, const struct backend_node *node);
typedef int backend_setting_fn(void *arg, struct bytes name, struct bytes data);

struct backend;
struct backend_snapshot; /* each backend's own */

/*
 * What every store has.  A store keeps this table of functions behind the head of its own struct
 * (struct backend), which backend_init() fills.
 */
struct backend_ops {
	const char *name;

	void (*close)(struct backend *backend);

	/* A view of the last committed state, as it is then, or at the first read (BACKEND_BEGUN).
	 * -ESTALE while others' changes wait (see above).  Cheap; hold it for one request, not
	 * longer, but for one that is kept (snapshot_keep()).  Ended with snapshot_end(). */
	int (*snapshot_begin)(struct backend *backend, unsigned flags,
			      struct backend_snapshot **ret_snapshot);
	void (*snapshot_end)(struct backend *backend, struct backend_snapshot *snapshot);

	/* Apply a batch whole or not at all.  -ESTALE while others' changes wait. */
	int (*commit)(struct backend *backend, struct backend_batch *batch, unsigned flags);
	/* All that was committed before the call survives power loss when this returns. */
	int (*sync)(struct backend *backend);
	int (*space)(struct backend *backend, struct backend_space *ret_space);

	/* The node with this number; free with backend_node_done().  -ENOENT. */
	int (*node_get)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			struct backend_node *ret_node);
	/* The state file of a key, or with key.data NULL the directory of a session; orphans are
	 * not found.  -ENOENT. */
	int (*node_find)(struct backend *backend, struct backend_snapshot *snapshot,
			 struct bytes session, struct bytes key, struct backend_node *ret_node);
	/* All nodes in the order of their numbers, from ino after + 1 on; or only the orphans. */
	int (*node_list)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
			 bool orphans_only, backend_node_fn *fn, void *arg);

	/* The entry of a name: its id, and the node behind it.  -ENOENT. */
	int (*entry_find)(struct backend *backend, struct backend_snapshot *snapshot,
			  uint64_t parent, struct bytes name, uint64_t *ret_id,
			  struct backend_node *ret_node);
	/* The name of an entry by its id.  -ENOENT.  The buffer is appended to. */
	int (*entry_name)(struct backend *backend, struct backend_snapshot *snapshot,
			  uint64_t parent, uint64_t id, struct buf *name);
	/* Entries of a directory with ids above after, in rising order of id, each with its
	 * node. */
	int (*entry_list)(struct backend *backend, struct backend_snapshot *snapshot,
			  uint64_t parent, uint64_t after, backend_entry_fn *fn, void *arg);

	/* The value is appended to the buffer.  -ENODATA. */
	int (*xattr_get)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			 struct bytes name, struct buf *value);
	/* In the order of their names. */
	int (*xattr_list)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  backend_name_fn *fn, void *arg);

	/* Chunks that exist with first <= number <= last, in rising order. */
	int (*chunk_read)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  int64_t first, int64_t last, backend_chunk_fn *fn, void *arg);

	/* Rows with index >= first, in rising order, until fn stops. */
	int (*row_read)(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, int64_t first, backend_row_fn *fn,
			void *arg);
	/* Rows with index <= last, in falling order, most of them at the most, until fn stops.
	 * Costs what these cost, however many there are before them. */
	int (*row_read_back)(struct backend *backend, struct backend_snapshot *snapshot,
			     struct bytes session, struct bytes key, int64_t last, uint64_t most,
			     backend_row_fn *fn, void *arg);
	/* -ENOENT when the key has no row. */
	int (*key_stat)(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, struct backend_key_stat *ret_stat);
	/* All keys that have rows, in the order of (session, key), behind (after_session,
	 * after_key); with after_session.data NULL from the beginning.  Costs a seek a key, not a
	 * scan of the rows. */
	int (*key_list)(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
			void *arg);

	/* Pieces from (first, first_seq) on, in rising order of (index, seq): those that stand
	 * before rows of index >= first, without those before first of which seq < first_seq. */
	int (*piece_read)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg);
	/* The mark with the highest offset <= offset.  -ENOENT. */
	int (*mark_find)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			 uint64_t offset, struct backend_mark *ret_mark);
	/* The mark with the highest index <= index.  -ENOENT. */
	int (*mark_find_index)(struct backend *backend, struct backend_snapshot *snapshot,
			       uint64_t ino, int64_t index, struct backend_mark *ret_mark);

	/* The highest entry id in use, and an inode number that is as high as the highest that ever
	 * was, in a node that is there or was deleted: what is above it is new.  It may be a little
	 * higher. */
	int (*last_ids)(struct backend *backend, struct backend_snapshot *snapshot,
			uint64_t *ret_ino, uint64_t *ret_entry);

	/* The settings of the store that are set (BACKEND_SETTING). */
	int (*setting_list)(struct backend *backend, struct backend_snapshot *snapshot,
			    backend_setting_fn *fn, void *arg);

	/* What a store need not have: each may be NULL, and so may each of its slots.  Other code
	 * calls backend_SLOT(), which is always there. */
	const struct backend_scans *scans;
	const struct backend_joined *joined;
	const struct backend_changes *changes;
	const struct backend_shared *shared;
	const struct backend_snapshots *snapshots;
	const struct backend_upkeep *upkeep;
	const struct backend_history *history; /* backend/history.h */
};

/*
 * Scans: answers that need not all bytes, or times.  Without them all rows are read, and have no
 * times.
 */

/* What the rows of a session come to. */
struct backend_session_stat {
	uint64_t keys;
	uint64_t items;
	uint64_t bytes;	 /* of the data, as the store encodes it */
	int64_t created; /* of the oldest row, in nanoseconds; 0 when the store does not know */
	int64_t updated; /* the last change of a row; of the directory, if there is no row */
};

/* Of a row, in nanoseconds since 1970; 0 when the store does not know. */
struct backend_times {
	int64_t created;
	int64_t updated;
};

/* The rows that were made on one day. */
struct backend_day {
	int64_t day; /* since 1970, UTC */
	uint64_t items;
	uint64_t bytes;
};

/* The same with the times of the row. */
typedef int backend_row_time_fn(void *arg, int64_t index, struct backend_times times,
				struct bytes data);
typedef int backend_chunk_size_fn(void *arg, int64_t chunk, size_t size);
typedef int backend_session_fn(void *arg, struct bytes session,
			       const struct backend_session_stat *stat);
typedef int backend_day_fn(void *arg, const struct backend_day *day);

struct backend_scans {
	/* The same, but only how many bytes each has; the bytes are not read. */
	int (*chunk_list)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg);
	/* Either of them with the times of the rows: from an index on, rising or (with back)
	 * falling, most of them at the most, until fn stops. */
	int (*row_read_times)(struct backend *backend, struct backend_snapshot *snapshot,
			      struct bytes session, struct bytes key, int64_t from, bool back,
			      uint64_t most, backend_row_time_fn *fn, void *arg);

	/* Every session that has a directory or rows, in the order of their ids.  Costs one scan of
	 * the rows, however many sessions they are of. */
	int (*session_list)(struct backend *backend, struct backend_snapshot *snapshot,
			    backend_session_fn *fn, void *arg);
	/* The same of one session; -ENOENT when it has no rows.  Costs a scan of these. */
	int (*session_stat)(struct backend *backend, struct backend_snapshot *snapshot,
			    struct bytes session, struct backend_session_stat *ret_stat);
	/* The days on which rows were made that are still there, in their order; rows of which the
	 * store does not know when are left out.  Costs a scan as well. */
	int (*day_list)(struct backend *backend, struct backend_snapshot *snapshot,
			backend_day_fn *fn, void *arg);
};

/*
 * Joined reads: the answers of several reads in one, for a store where each costs a round trip.
 * Without them, one read follows the other.
 */

/* What stands behind the last mark of a state file; of a document, its row. */
struct backend_tail {
	bool known;		  /* false: it was not wanted, and the rest is not set */
	bool pieces;		  /* there are pieces, too */
	struct backend_mark mark; /* offset 0, index INT64_MIN: there is none */
	uint64_t rows;		  /* with index >= that of the mark, */
	uint64_t bytes;		  /* of all of these, */
	uint64_t last_bytes;	  /* of the last one, */
	int64_t last;		  /* and its index */
};

/* What is wanted of a node's file beside the node itself. */
enum backend_wanted {
	BACKEND_TAIL = 1 << 0,	/* the tail of a state file, unless it is a draft */
	BACKEND_WHOLE = 1 << 1, /* all bytes of one chunk or row; see backend_looked */
};
/* Says it, of enum backend_wanted; a store that has it anyway need not ask. */
typedef unsigned backend_wanted_fn(void *arg, const struct backend_node *node);
typedef int backend_tail_fn(void *arg, const struct backend_entry *entry,
			    const struct backend_node *node, const struct backend_tail *tail);

/* An entry that is looked for by its name. */
struct backend_looked {
	uint64_t parent;
	struct bytes name;
	backend_wanted_fn *wanted; /* NULL: nothing is */
	void *arg;
	/* What was found: */
	int error;   /* 0, or -ENOENT, and the rest is not set */
	uint64_t id; /* and ... */
	struct backend_node node;
	struct backend_tail tail;
	/* bytes has all that is stored of the content: of an ordinary file of one chunk that chunk,
	 * of a document its row, if there is one of not more than BACKEND_ITEM_LEAST bytes. */
	bool whole;
	struct buf bytes;
};

/* What there is of a key, or with key.data NULL of a session. */
enum backend_key_wanted {
	BACKEND_KEY_ROWS = 1 << 0,   /* key_stat() */
	BACKEND_KEY_NODE = 1 << 1,   /* node_find() */
	BACKEND_KEY_ORPHAN = 1 << 2, /* orphan_find() */
};

struct backend_key_looked {
	struct bytes session, key;
	unsigned wanted;	      /* of backend_key_wanted */
	unsigned found;		      /* of these */
	struct backend_key_stat stat; /* if there are rows */
};

struct backend_joined {
	/* The tail of a state file's node, unless it is a draft. */
	int (*tail_get)(struct backend *backend, struct backend_snapshot *snapshot,
			const struct backend_node *node, struct backend_tail *ret_tail);
	/* entry_find() of some names, with what is wanted of each; free with
	 * backend_looked_done(). */
	int (*entry_look)(struct backend *backend, struct backend_snapshot *snapshot,
			  struct backend_looked *looked, size_t count);
	/* key_list() of one session, and of no other: behind a key; with after_key.data NULL from
	 * the first.  Where the server takes several ids for one, key_list() has keys of others
	 * between them. */
	int (*session_keys)(struct backend *backend, struct backend_snapshot *snapshot,
			    struct bytes session, struct bytes after_key, backend_key_fn *fn,
			    void *arg);
	/* What there is of some keys. */
	int (*key_look)(struct backend *backend, struct backend_snapshot *snapshot,
			struct backend_key_looked *looked, size_t count);
	/* entry_list(), at most so many, with the tail of each such node that is wanted. */
	int (*entry_list_tails)(struct backend *backend, struct backend_snapshot *snapshot,
				uint64_t parent, uint64_t after, uint64_t most,
				backend_wanted_fn *wanted, backend_tail_fn *fn, void *arg);
};

/*
 * Changes by other programs, see "Others' changes" above.  Without them other programs change
 * nothing.
 */

/* A key that others changed since the model last digested it. */
struct backend_change {
	struct bytes session; /* data NULL: any key may have changed */
	struct bytes key;
	int64_t first;	 /* lowest index that was inserted, updated or deleted */
	int64_t deleted; /* lowest index that was deleted; INT64_MAX: none */
	bool rewritten;	 /* false: rows were inserted behind the last one, and nothing else */
	int64_t stamp;	 /* moves with each further change of this key; for BACKEND_CHANGE_DONE */
	int64_t end;	 /* the index behind the last row then; 0: not said */
	bool apart;	 /* it was quarantined, and is not pending */
	bool seen;	 /* change_seen() was told of it */
};

typedef int backend_change_fn(void *arg, const struct backend_change *change);

struct backend_changes {
	/* The waiting changes of others.  One change with session.data NULL says: anything may have
	 * changed (just adopted, or a store that cannot log).  It stays until a BACKEND_CHANGE_DONE
	 * with session.data NULL and its stamp is committed, which covers all changes up to then;
	 * only where every commit answers -EROFS it counts as digested once handed out. */
	int (*change_list)(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_change_fn *fn, void *arg);
	/* The pending change of one key (the bytes are those that were handed in), or, with
	 * session.data NULL, that anything may have changed.  With key.data NULL that of any key of
	 * the session.  -ENOENT: none is pending.  Costs a seek or two. */
	int (*change_find)(struct backend *backend, struct backend_snapshot *snapshot,
			   struct bytes session, struct bytes key,
			   struct backend_change *ret_change);
	/* The stamps of the oldest and the newest change that the store's owner has not taken in
	 * yet; 0 without one.  Once the oldest is newer than an earlier answer's newest, all
	 * changes of that answer were taken in.  May be NULL: backend_change_waiting(). */
	int (*change_waiting)(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest);
	/* Wait until others may have changed something, wake() was called (both return 1), or the
	 * time has passed (returns 0).  May return 1 too often, never too seldom by more than 50
	 * ms. */
	int (*change_wait)(struct backend *backend, int timeout_ms);
	void (*wake)(struct backend *backend);
	/* The model knows of all changes up to this stamp and needs no commit for those that are in
	 * the log still: they are pending no more, and change_list() leaves them out.  They stay in
	 * the log until BACKEND_CHANGE_DONE, and until then commit() answers -ESTALE when a batch
	 * names one of their keys.  For the time of this handle, and while no other mount is there.
	 * With 0 nothing changes.  false, or NULL: the store cannot. */
	bool (*change_seen)(struct backend *backend, int64_t stamp);
	/* The sessions that have rows, of now, in any order and perhaps twice, much sooner than
	 * key_list() tells them.  -EOPNOTSUPP, or NULL: the store cannot. */
	int (*session_names)(struct backend *backend, backend_name_fn *fn, void *arg);
};

/*
 * Several mounts, see "Other mounts" above.  Without them a store has one mount at a time: an inode
 * is in use when the mount says so, other mounts hold no locks, and nothing waits to be digested.
 */

/* What a commit of another mount has changed. */
enum backend_feed_what {
	BACKEND_FEED_NODE,     /* a node, or what is kept under its number */
	BACKEND_FEED_ENTRY,    /* where a name leads */
	BACKEND_FEED_ROWS,     /* rows of a key */
	BACKEND_FEED_ANYTHING, /* anything: it was not told in time, or cannot be told */
};

struct backend_feed {
	uint64_t n; /* rises from commit to commit; for feed_done() */
	enum backend_feed_what what;
	uint64_t ino; /* of the node; of an entry: of its directory */
	/* Of a node: what it is or where it lies has changed (kind, flags, parent, entry, session,
	 * key; of a directory also mode and group, which it hands down), or it was made, unlinked
	 * or deleted.  Of rows: all of them have another key now, with the file that has them, or
	 * are hidden, or are back, and are what they were. */
	bool moved;
	bool bytes;  /* its chunks, pieces or marks have changed, too */
	bool added;  /* of rows: nothing but that some were inserted */
	bool behind; /* and what has changed of the file's bytes was added behind those before */
	/* Fields of a node have changed, too: of the one that has the rows; of an entry: of its
	 * directory. */
	bool dated;
	unsigned fields; /* enum backend_fields: those that were set, of that node or this one */
	int64_t first;	 /* of rows: the lowest index that was changed */
	struct bytes session; /* of rows, and of a node that has them; data NULL: none */
	struct bytes key;
	struct bytes name; /* of an entry */

	/* For events.  An unknown value is 0, or its data is NULL. */
	uint64_t mount;	 /* number of the mount whose commit it was; none is given twice */
	int64_t pid;	 /* its process */
	int64_t at;	 /* when, in nanoseconds since 1970 */
	bool foreign;	 /* another program had done it, and the mount has digested that */
	bool waits;	 /* that: there is more of it by now, and all of it will be told again */
	bool gone;	 /* a node that has no name any more, or an entry that went */
	bool content;	 /* of a node: its chunks or pieces have changed, */
	bool attributes; /* and its extended attributes */
	uint64_t count;	 /* of rows: how many were inserted or put; foreign: the change's stamp */
	int64_t deleted; /* of rows: lowest index that was deleted; INT64_MAX: none */
	int64_t end;	 /* of rows: the index behind the last one, after the commit */
	uint64_t
		node; /* the file: of an entry, to which it leads, or led; of rows, that has them */
	uint64_t parent;   /* of an entry: its directory */
	struct bytes path; /* and its path after the commit, without '/' in front */
};

/* backend_lock.whole, if neither 0 (a range) nor 1 (the whole file): the right to map the file
 * shared and writable, which is exclusive.  It is in the way of any lock that another mount asks
 * for; of those that others hold already, only the same right is in its way. */
enum { BACKEND_MAPPED = 2 };

/* A lock that a mount holds of a file, for any owner; whole files and ranges know nothing of each
 * other.  As it is written to the store: zeros where there is nothing, but a right to map ends at
 * INT64_MAX. */
struct backend_lock {
	uint64_t start;
	uint64_t end; /* inclusive */
	int64_t pid;  /* of a range: its owner */
	uint32_t whole;
	uint32_t exclusive;
};

typedef int backend_feed_fn(void *arg, const struct backend_feed *feed);

struct backend_shared {
	/* Whether other mounts have the store now.  NULL: never, as the nine that follow, which
	 * may be called through backend_...() then. */
	bool (*is_shared)(struct backend *backend);
	/* Whether it is this mount that does what one mount at a time has to do, such as removing
	 * what has lived for long enough: one that asks is on duty from when nobody else is until
	 * it ends, however that comes.  NULL: it is. */
	bool (*on_duty)(struct backend *backend);
	/* No other mount commits until this mount gives the turn back: for a batch that has failed
	 * with -ESTALE again and again. */
	void (*turn)(struct backend *backend, bool take);
	/* Whether this mount holds locks that it has not told (BACKEND_LOCK): until it is not alone
	 * it need not.  While it says so, nobody else is granted one.  1, and is_shared() knows of
	 * all mounts that have come before; 0: none can; -EAGAIN: others have ended this mount,
	 * which joins again. */
	int (*hold)(struct backend *backend, bool untold);
	/* This mount uses a file from now on, or (on is false) no longer; call it once for each
	 * change.  While it does, no batch of any mount is applied that depends on the file being
	 * unused (BACKEND_UNUSED).  0: and nothing waits to be digested, as if a snapshot had
	 * begun; 1: it is in use, but something may wait; -ESTALE, and it is not in use: other
	 * mounts have left something that was not digested, or are about to, which may be that it
	 * was removed.  It waits for no other mount, and costs one that is alone next to nothing.
	 * NULL: 1. */
	int (*use)(struct backend *backend, uint64_t ino, bool on);
	/* A number that moves when this mount was silent for so long that the others have ended it:
	 * its locks are gone, and what is remembered may be wrong (BACKEND_FEED_ANYTHING).  NULL:
	 * that does not happen. */
	uint64_t (*lease)(struct backend *backend);
	/* One of another mount that is in the way of a lock.  -ENOENT. */
	int (*lock_find)(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			 const struct backend_lock *lock, struct backend_lock *ret_lock);
	/* What other mounts have committed and this one has not digested, in the order of commits.
	 * The snapshot was begun with BACKEND_ANYWAY. */
	int (*feed_list)(struct backend *backend, struct backend_snapshot *snapshot,
			 backend_feed_fn *fn, void *arg);
	/* All up to and with this one is digested. */
	void (*feed_done)(struct backend *backend, uint64_t n);
	/* The orphans that no mount has in use, as far as they have told by now. */
	int (*orphan_list)(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_node_fn *fn, void *arg);
	/* An orphan that has the session and key.  -ENOENT. */
	int (*orphan_find)(struct backend *backend, struct backend_snapshot *snapshot,
			   struct bytes session, struct bytes key, struct backend_node *ret_node);
};

/* Snapshots that begin with their first read, or are kept. */

/* A snapshot has begun; -errno: it is of no use. */
typedef int backend_begun_fn(void *arg);
/* What is to be done with the snapshot that is kept. */
enum backend_keep {
	BACKEND_KEEP_NEWER,
	BACKEND_KEEP_NONE,
	BACKEND_KEEP_CONTENT, /* none soon, and none is begun: content is kept for readers */
	BACKEND_KEEP_AGAIN,   /* one may be kept again */
};
typedef void backend_keep_fn(void *arg, enum backend_keep how);

struct backend_snapshots {
	/* Call fn once the snapshot has begun, and before it hands anything out: now, or in the
	 * first read, which then answers what fn does if that is negative, and so do all that
	 * follow.  It must not call the store.  NULL, as in a store of which snapshots begin when
	 * they are returned: backend_snapshot_begun(). */
	int (*snapshot_begun)(struct backend *backend, struct backend_snapshot *snapshot,
			      backend_begun_fn *fn, void *arg);

	/* One snapshot is going to be kept for about a second, renewed, and kept on, so that what
	 * others replace can be seen.  Whether that is of use and in nobody's way.  If so, keep is
	 * called from any thread when the one that is kept is in the store's way, which would do
	 * with a newer one, begun with BACKEND_AT_ONCE before the other is ended, or wants none.
	 * It waits for nothing; a snapshot that is just being used stays.  NULL: no more.  May be
	 * NULL: backend_snapshot_keep(). */
	bool (*snapshot_keep)(struct backend *backend, backend_keep_fn *keep, void *arg);
};

/* Quota, check, copy.  Without them: no quota, nothing is broken, -EOPNOTSUPP. */

typedef void backend_report_fn(void *arg, const char *sentence);

/* How far a copy is, in bytes; a negative result stops it and is what copy() returns. */
struct backend_copy {
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

struct backend_upkeep {
	/* The quota of this handle from now on, in bytes; 0: none.  May be NULL, for a store
	 * without quotas: backend_set_quota(). */
	void (*set_quota)(struct backend *backend, uint64_t max_size);

	/* The store's own invariants, a sentence for each that is broken.  Returns how many; of
	 * these, *ret_damage are damage, and not rows or triggers that another program has added or
	 * removed. */
	int (*check)(struct backend *backend, backend_report_fn *report, void *arg,
		     uint64_t *ret_damage);

	/* Write all that was committed before the call, and at one instant, into the empty file
	 * new_store, which is a store of its own then and durable.  Writers do not wait for it.
	 * Commits that come in between may or may not be in it.  May be NULL: backend_copy(). */
	int (*copy)(struct backend *backend, const char *new_store,
		    const struct backend_copy *copy);
};

#include "backend/history.h"

/* The head of every backend's own struct. */
struct backend {
	const struct backend_ops *ops;
	/* Bytes of one row, piece or chunk at the most, not above a quota; a quota that is smaller
	 * than BACKEND_ITEM_LEAST does not lower it further. */
	_Atomic uint64_t max_item;
	/* It was opened so, or the store was found damaged: then nothing is written any more, every
	 * commit answers -EROFS, and what can be read is served. */
	atomic_bool read_only;
	/* Moves whenever settings may have changed; 0: where that is not known. */
	_Atomic uint64_t settings;
	/* As backend_init() has filled them. */
	struct backend_scans scans;
	struct backend_joined joined;
	struct backend_changes changes;
	struct backend_shared shared;
	struct backend_snapshots snapshots;
	struct backend_upkeep upkeep;
	struct backend_history history;
	/* What this handle takes away is not kept (backend/history.h). */
	atomic_bool forgets;
	sem_t woken; /* of a store without changes: backend_wake() */
};

/* Fill the head of a store, whose max_item and read_only it leaves alone. */
void backend_init(struct backend *backend, const struct backend_ops *ops);

struct backend_options {
	/* The name of the rows' table; NULL: the one that the store serves, agentscope_sessions in
	 * a new one. */
	const char *table;
	bool read_only; /* no row is changed, nothing added to what is not ours: sqlite/open.c */
	bool create;	/* make the store when there is none */
	/* Be a mount that writes; the name of the owner in messages of a second one, such as
	 * "process 812 for /home/a/sessions".  NULL: be a guest, which may still commit. */
	const char *owner;
	/* With an owner that writes: other owners with the same flag may have the store as well. */
	bool shared;
	/* With read_only and an owner: open the store only if it can be owned; the error is why
	 * not.  Otherwise it is read as it is then. */
	bool must_own;
	/* Be one of the other programs (owner is NULL): change rows and nothing else, and have each
	 * change logged, for the present mount or the next one.  For programs that keep no nodes.
	 */
	bool rows_only;
	/* With read_only and without an owner: change_list() answers all that the log holds in the
	 * snapshot, even if it was reported before, and not that anything may have changed since.
	 * For callers that remember nothing. */
	bool log_only;
	uint64_t max_size; /* quota of the store in bytes; 0: none */
	bool durable;	   /* refuse a server that may lose what it has committed */
	/* Of this store: what backend_prepare() has found, borrowed.  NULL: find it now. */
	const struct backend_prepared *prepared;
};

/*
 * A store on a server, before it is opened: its driver is loaded, its password read.  So it can be
 * opened, and connect again, after the process has given up the right to load code and to read
 * files.
 */
struct backend_prepared {
	unsigned port;	  /* of TCP, that is connected to; 0: a socket of this machine */
	const char *file; /* what is read whenever it connects; NULL: nothing */
};

/* For a store of another kind, *ret_prepared is NULL.  0, or -errno and a sentence. */
int backend_prepare(const char *store, struct backend_prepared **ret_prepared, char **ret_why);
void backend_prepared_free(struct backend_prepared *prepared); /* NULL is fine */

/*
 * Open a store by its name: "memory:", the path of a SQLite file, or a URL (url/url.h).  On failure
 * *ret_why (when ret_why is not NULL) is a sentence for the user that says what to do, owned by the
 * caller:
 *   -ENOENT none there   -EBUSY held by another writer-mount   -EMEDIUMTYPE not a store of ours
 *   -EACCES, -EROFS, -EISDIR ... as the system said            -EPROTONOSUPPORT newer format
 */
int backend_open(const char *store, const struct backend_options *options,
		 struct backend **ret_backend, char **ret_why);
void backend_close(struct backend *backend); /* NULL is fine */
/* The slots that a store need not have. */
int backend_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_begun_fn *fn, void *arg);
bool backend_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg);
int backend_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest);
int backend_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy);
int backend_tail_get(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct backend_node *node, struct backend_tail *ret_tail);
int backend_entry_look(struct backend *backend, struct backend_snapshot *snapshot,
		       struct backend_looked *looked, size_t count);
int backend_session_keys(struct backend *backend, struct backend_snapshot *snapshot,
			 struct bytes session, struct bytes after_key, backend_key_fn *fn,
			 void *arg);
int backend_key_look(struct backend *backend, struct backend_snapshot *snapshot,
		     struct backend_key_looked *looked, size_t count);
int backend_entry_list_tails(struct backend *backend, struct backend_snapshot *snapshot,
			     uint64_t parent, uint64_t after, uint64_t most,
			     backend_wanted_fn *wanted, backend_tail_fn *fn, void *arg);
int backend_chunk_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		       int64_t first, int64_t last, backend_chunk_size_fn *fn, void *arg);
int backend_row_read_times(struct backend *backend, struct backend_snapshot *snapshot,
			   struct bytes session, struct bytes key, int64_t from, bool back,
			   uint64_t most, backend_row_time_fn *fn, void *arg);
int backend_session_list(struct backend *backend, struct backend_snapshot *snapshot,
			 backend_session_fn *fn, void *arg);
int backend_session_stat(struct backend *backend, struct backend_snapshot *snapshot,
			 struct bytes session, struct backend_session_stat *ret_stat);
int backend_day_list(struct backend *backend, struct backend_snapshot *snapshot, backend_day_fn *fn,
		     void *arg);
int backend_change_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_change_fn *fn, void *arg);
int backend_change_find(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, struct backend_change *ret_change);
int backend_change_wait(struct backend *backend, int timeout_ms);
void backend_wake(struct backend *backend);
bool backend_change_seen(struct backend *backend, int64_t stamp);
int backend_session_names(struct backend *backend, backend_name_fn *fn, void *arg);
int backend_check(struct backend *backend, backend_report_fn *report, void *arg,
		  uint64_t *ret_damage);
bool backend_has_quota(const struct backend *backend);
void backend_set_quota(struct backend *backend, uint64_t max_size);
bool backend_is_shared(struct backend *backend);
bool backend_on_duty(struct backend *backend);
int backend_feed_list(struct backend *backend, struct backend_snapshot *snapshot,
		      backend_feed_fn *fn, void *arg);
void backend_turn(struct backend *backend, bool take);
int backend_hold(struct backend *backend, bool untold);
uint64_t backend_lease(struct backend *backend);
int backend_use(struct backend *backend, uint64_t ino, bool on);
int backend_lock_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      const struct backend_lock *lock, struct backend_lock *ret_lock);
/* Of the locks of another mount, the first that is in the way of a lock; false: none is. */
bool backend_lock_in(struct bytes locks, const struct backend_lock *lock,
		     struct backend_lock *ret_lock);
/* The same of one of several. */
bool backend_locks_clash(struct bytes locks, struct bytes others);
void backend_feed_done(struct backend *backend, uint64_t n);
int backend_orphan_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_node_fn *fn, void *arg);
int backend_orphan_find(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, struct backend_node *ret_node);
/* Whether the name is a path, of a store that others can open too. */
bool backend_has_path(const char *store);
/* Whether the store is in the process that has opened it and nowhere else. */
bool backend_is_private(const char *store);
/* What to call a store, owned by the caller: a path as it is; a URL without what says no more than
 * how to connect, and in one spelling.  Does not connect.  0; or -errno, and a sentence when it is
 * not the URL of a store; ret_why may be NULL. */
int backend_name(const char *store, char **ret_name, char **ret_why);
/* The owner of a store in a file has an OFD lock on this byte, which /proc/PID/fdinfo shows. */
#define BACKEND_OWNER_BYTE 0x7365737366ULL
/* Whether a writer-mount, in any process, holds the store; for waiting until one has ended. */
bool backend_is_owned(const char *store);
/* The version of SQLite, which keeps stores in files.  *ret_flawed, unless that is NULL: two other
 * programs with such a version can lose what they commit to one (sqlite/join.c). */
const char *backend_library(bool *ret_flawed);
static inline void backend_closep(struct backend **backend)
{
	backend_close(*backend);
}

/*
 * Repair: what can be rescued of a damaged store, in a new one.
 *
 * This is not an operation of struct backend, since a damaged store may be impossible to open: it
 * stands beside backend_open(), and each kind of store reads the remains in its own way.  The work
 * is divided as everywhere.  The store knows records: it hands every one that is whole over to a
 * new store, where no key is there twice, no item of a list is missing between two others (those
 * behind a gap move up), no piece, chunk, entry or attribute is without its node, and there are no
 * marks, which follow from the rows.  A node of which nothing but references is left is made anew,
 * of kind BACKEND_ORDINARY and without a name if none leads to it; it keeps the session and key if
 * they are known from elsewhere.  What such nodes are, what their names shall be and whether every
 * node can be reached from the root is up to the tree (fs/api/repair.h), which then works on the
 * new store as on any other.
 *
 * A store of rows that are JSON asks is_row() about each.  Records that are not in the new store
 * are told in sentences: which keys and items, or between which, as far as that is known.
 *
 * The damaged store is opened for reading only and stays as it is, byte for byte.  new_store is an
 * empty file of the caller's, to be renamed when all is done (backend_install()), or removed.
 * Memory does not grow with the store, but for some bytes for each of its pages.
 */
struct backend_repair {
	const char *table;  /* as in backend_options */
	bool (*stop)(void); /* whether to give up, with -EINTR; may be NULL */
	bool (*is_row)(void *arg, struct bytes session, struct bytes key, struct bytes data);
	backend_report_fn *report;
	void *arg;
};

struct backend_repaired {
	uint64_t records; /* that are in the new store */
	uint64_t rows;	  /* of these: rows of the rows' table */
	uint64_t found;	  /* of these: on pages that nothing led to any more */
	uint64_t old;	  /* of these: of an older state than the last */
	uint64_t lost;	  /* pieces of damage that were told */
};

/* -ENOENT: no store.  -ENODATA: nothing could be rescued, perhaps it is not a store.  Other errors
 * as backend_open(). */
int backend_repair(const char *store, const char *new_store, const struct backend_repair *repair,
		   struct backend_repaired *ret_repaired, char **ret_why);
/* Remove a store that was made in vain; no process may have it open. */
void backend_discard(const char *store);

/*
 * The table of an older layout that clients have left behind, one row a session without a key and
 * an index: read once, where it lies, to be taken into a store.  database is a SQLite file or a
 * URL; table NULL: the one that the URL names, or agentscope_sessions.  updated is 0 where it is
 * not known.  fn may return -errno to stop with that error.  -EMEDIUMTYPE: there is no such table,
 * or the file is not a database; *ret_why says so, as backend_open() does.
 */
typedef int backend_older_fn(void *arg, struct bytes session, struct bytes data, int64_t updated);
int backend_read_older(const char *database, const char *table, backend_older_fn *fn, void *arg,
		       char **ret_why);
/* For a store's half of it.  The columns that a table has: 0, or -EMEDIUMTYPE with a sentence. */
enum backend_older {
	BACKEND_OLDER_SESSION = 1 << 0, /* session_id */
	BACKEND_OLDER_DATA = 1 << 1,	/* state_data */
	BACKEND_OLDER_UPDATED = 1 << 2, /* updated_at */
	BACKEND_OLDER_INDEX = 1 << 3,	/* item_index, which only the present layout has */
};
int backend_judge_older(const char *database, const char *table, unsigned columns, char **ret_why);

/* Give a store that nobody has open the name of another, or a free one, whole or not at all and
 * durably; what the other has left beside itself goes.  -EEXIST: there is one and replace is not
 * set.  -EBUSY: it is owned.  *ret_why as in backend_open(). */
int backend_install(const char *new_store, const char *store, bool replace, char **ret_why);

void backend_node_done(struct backend_node *node);
/* A copy that owns its bytes. */
int backend_node_copy(const struct backend_node *node, struct backend_node *ret_node);

/* What was found; the request stays. */
void backend_looked_done(struct backend_looked *looked, size_t count);

/* Apply an array of operations. */
static inline int backend_commit(struct backend *backend, const struct backend_op *ops,
				 size_t count, unsigned flags)
{
	struct backend_batch batch = { .ops = ops, .count = count };

	return backend->ops->commit(backend, &batch, flags);
}

#endif
