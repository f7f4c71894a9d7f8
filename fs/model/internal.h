/* SPDX-License-Identifier: MIT */
#ifndef FS_MODEL_INTERNAL_H
#define FS_MODEL_INTERNAL_H

/*
 * Inside the model: what its files share.
 *
 * What is where
 *
 *   The store is the truth for names, nodes and content.  In memory are the inodes that somebody
 *   counts (the kernel, an open handle, a child directory, the list of unwritten times), each with
 *   a copy of its node, and what was learnt about its content: sizes, the end of a list.  Nothing
 *   in memory is needed to open the store again.
 *
 * Locks, in the order in which they are taken
 *
 *   tree.trash_lock   orders of the trash (trash.c), one at a time.
 *   tree.lock    read: anything that uses content, attributes or names; write: anything that
 *                changes which name leads where, which key a file has, or that takes in changes of
 *                others.  Who holds it for writing is alone: no inode lock is needed then.
 *                Taking it puts removals that were held back into the store (removal.c).
 *   inode.lock   one at a time, under tree.lock for reading: the node copy and content of one file,
 *                and all handles of it.
 *   tree.table_lock, tree.times_lock, tree.tell_lock   leaves, held for a few instructions, never
 *                over a call of the store.
 *   tree.kept_lock   who may hold what was written (file.c).
 *   the store's own locks.
 *
 *   The watcher (tree.watcher) is called with none of them held, since the kernel may wait for a
 *   page that only another request of ours can fill: changes are collected in a struct
 *   notes and told when the locks are free.
 *
 * Changes of others
 *
 *   A call of the store that answers -ESTALE means that other programs changed rows.  The call is
 *   given up (nothing in memory has changed by then), tree_reconcile() takes the changes in, and
 *   the whole operation runs again: every operation is a function that can be run again, wrapped in
 *   TREE_RETRY.
 *
 * Times
 *
 *   An append changes no table but the rows': its times stay in memory and are written within
 *   a second (tree_write_times), at fsync, and at the end; or with the append that follows an
 *   fsync.  All other changes of a node are written with what caused them.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "fs/model/batch.h"
#include "fs/model/stage.h"
#include "fs/model/tree.h"
#include "src/base/cleanup.h"

/* What is known of a list's end and size; valid while loaded. */
struct list_state {
	uint64_t size;
	int64_t next;	      /* index of the next row */
	int64_t piece_seq;    /* seq of the next piece before row next */
	uint64_t mark_offset; /* the last mark, or 0 and the first index */
	int64_t mark_index;
	uint64_t mark_rows; /* rows behind it */
	/* The bytes behind the last newline: a row, or pieces from tail_seq on before row next. */
	uint64_t tail_size; /* 0: the list is empty or ends in a newline */
	bool tail_is_row;
	int64_t tail_row;
	int64_t tail_row_seq; /* seq of the next piece before that row */
	int64_t tail_seq;
	uint64_t piece_lines; /* newlines in pieces, for line numbers; while pieces_counted */
	bool pieces_counted;
};

enum face_kind { FACE_READ, FACE_WRITE, FACE_KINDS };

/* One nodeid of a file; see face.h. */
struct face {
	struct face *next;
	unsigned number;
	unsigned open[FACE_KINDS]; /* handles */
	bool filled;		   /* the kernel may have pages */
	bool shown;		   /* and attributes, or is about to take them in */
	bool changed;		   /* since somebody began to read it */
	unsigned untold;	   /* changes whose pages it has yet to forget */
	uint64_t bound;		   /* shown as no larger than this, while a change is told */
	struct version *old;	   /* what it shows, if that is not the newest */
	int64_t old_used;	   /* time of the last question about an old one */
	bool renewing;		   /* the kernel is being told that it is old no longer */
};

/* A thread that was told ESTALE and looks the name up again. */
struct led {
	struct led *next;
	struct face *face;
	enum face_kind kind;
	pid_t pid;
	int64_t until;
};

/* A thread that was told so lately; until 0: nobody. */
struct told_again {
	pid_t pid;
	enum face_kind kind;
	int64_t until;
};

struct inode {
	struct inode *next; /* in the table's chain */
	uint64_t ino;	    /* never changes, so it needs no lock */
	uint64_t count;	    /* tree.table_lock */
	_Atomic bool state; /* a view over rows; follows node.kind */
	pthread_mutex_t lock;
	struct backend_node node;
	struct inode *parent; /* of a directory, counted; NULL for the root */
	char *name;	      /* of a directory */
	struct handle *open;  /* its handles */
	bool gone;	      /* its node was deleted from the store */
	bool nameless;	      /* made without a name, and not linked since */
	bool orphaned;	      /* gone, and orphan has the bytes of the state file */
	struct stage orphan;
	bool inherited;	  /* new, with the rows of the file that it follows; see ghost.c */
	struct face face; /* the first; its list has all */
	unsigned face_count;
	_Atomic bool locked; /* somebody has asked for a lock of it */
	unsigned lookup;     /* number of the face that the name leads to */
	struct led *led;
	uint64_t changes;      /* of content that were to be told; see change.c */
	uint64_t changes_told; /* tree.tell_lock */
	bool loaded;	       /* the following are known */
	uint64_t size;	       /* bytes of a single or hash that is no draft */
	struct list_state list;
	uint64_t version; /* moves with every change of content that is not an append */
	bool stored_known;
	uint64_t stored;       /* bytes in the chunks of an ordinary file with holes */
	struct held *held;     /* what was written and is not in the store yet; file.c */
	int64_t written_chunk; /* that the last write was in, or -1 */
	/* Somebody has synced it, and is likely to do so after the next append as well: then that
	 * writes the times, instead of a transaction of their own. */
	_Atomic bool synced;
	_Atomic bool sync_soon; /* the same, for its data alone */
	bool times_dirty; /* tree.times_lock: counted by, and in, the list of unwritten times */
	struct inode *times_next;
};

enum handle_mode {
	HANDLE_PLAIN,  /* nothing held back: reads, and writes of ordinary files */
	HANDLE_APPEND, /* whole lines become rows at once; piece holds the unfinished one */
	HANDLE_SAVE,   /* stage holds the new content until flush */
};

struct handle {
	struct inode *inode;
	int flags;     /* of open(2) */
	pid_t writer;  /* thread that wrote last, or opened it */
	pid_t process; /* its process */
	enum handle_mode mode;
	bool dirty;	       /* the stage was changed since it was published */
	int refused;	       /* a write was, and its bytes are missing in the stage: why */
	uint64_t refused_at;   /* where */
	int failed;	       /* why the last flush failed */
	uint64_t version;      /* inode.version that the stage was published as */
	struct stage stage;    /* HANDLE_SAVE */
	int64_t written;       /* time of the last write into the stage */
	bool times_set;	       /* an explicit time was set since that write */
	struct stage piece;    /* HANDLE_APPEND: begins behind a newline, holds none */
	bool owns_tail;	       /* the list's tail is this writer's own (it was flushed by fsync) */
	uint64_t tail_end;     /* then: the size that the list had */
	bool streams;	       /* writes at the end of a list that was empty when opened */
	uint64_t stream_end;   /* where its next write is expected */
	struct face *face;     /* that it was opened on */
	enum face_kind kind;   /* as which it counts there */
	bool direct;	       /* its reads bypass the page cache */
	bool fills;	       /* but not all do: the kernel may have pages for it */
	bool middle;	       /* its last direct read was not told that the file ends there */
	struct version *old;   /* what it reads, if that is not the newest */
	struct stage whole;    /* a large row, for the reads that follow the first */
	uint64_t whole_offset; /* where it stands in the file */
	uint64_t whole_version;
	bool whole_valid;
	bool pinned;		/* whole is a document, as it was at the last read of its start */
	uint64_t cursor_offset; /* a list position that the last read came to */
	int64_t cursor_index;	/* and what is there, as in struct segment_place */
	int64_t cursor_seq;
	uint64_t cursor_version;
	bool cursor_valid;
	struct handle *next; /* the inode's other handles */
	/* tree.times_lock: the list of handles that have staged something. */
	struct handle *saver_next;
	struct handle **saver_link;
	bool is_saver;	   /* it is in it */
	int64_t paused_at; /* time of the write after which a pause was looked at */
};

struct tree {
	struct backend *backend;
	struct tree_options options;
	pthread_rwlock_t lock;
	pthread_mutex_t table_lock;
	struct inode **table;
	size_t table_size; /* a power of two */
	size_t table_count;
	struct inode *root;
	_Atomic uint64_t last_ino;
	_Atomic uint64_t last_entry;
	pthread_mutex_t times_lock;
	struct inode *times_first;
	struct tree_watcher watcher;
	struct handle *savers;	      /* tree.times_lock */
	struct told_again again[128]; /* table_lock; face.c */
	_Atomic unsigned again_count;
	_Atomic unsigned old_faces;
	/* file.c */
	pthread_mutex_t kept_lock;
	struct kept *kept;  /* kept.h; NULL: not yet, or */
	bool kept_never;    /* there can be none */
	unsigned held_used; /* a bit for each place in kept->held that is taken */
	/* removal.c; tree.lock for writing */
	struct removal *removal;
	_Atomic unsigned removals;
	_Atomic bool removing;	    /* the last that was done was to remove a name */
	int removals_failed;	    /* why they could not be settled */
	int64_t removals_again;	    /* then: when to try again */
	_Atomic bool direct_mmap;   /* the kernel can map files that bypass the page cache */
	pthread_mutex_t trash_lock; /* one order of the trash at a time; before lock */
	/* expire.c; the lock is a leaf. */
	pthread_t expirer;
	pthread_mutex_t expire_lock;
	pthread_cond_t expire_changed;
	int64_t expire_at;    /* when sessions are looked at again */
	struct ghost *ghosts; /* ghost.c; tree.lock for writing */
	pthread_t keeper;     /* takes in others' changes, writes times */
	_Atomic bool stopping;
	/* change.c: what the teller tells, and who waits for its turn. */
	pthread_mutex_t tell_lock;
	pthread_cond_t tell_changed;
	pthread_t teller;
	struct tell_job *jobs;
	struct tell_job **jobs_end;
	bool teller_busy;
	bool teller_stops;
	unsigned telling;      /* callers that tell by themselves */
	struct missed *missed; /* the newest first */
};

/* What is to be told to the watcher once the locks are free. */
struct note {
	bool is_entry;
	uint64_t number; /* the directory's, or a nodeid */
	int64_t offset;
	char *name;
	size_t name_size;
	struct telling *telling; /* instead: a change of a file with faces */
};

struct notes {
	struct note *note;
	size_t count;
	size_t room;
	size_t told; /* the first so many are told already */
};

/* change.c */

enum change {
	CHANGE_ATTR,	 /* attributes only */
	CHANGE_GREW,	 /* bytes were added behind those that were there */
	CHANGE_REPLACED, /* anything else */
};
/* The content or attributes of a file have changed.  size_before: what it had, or UINT64_MAX when
 * that is not known.  by: the face through which the kernel changed it and so knows, or NULL.
 * Under inode.lock, or tree.lock for writing. */
void notes_change(struct notes *notes, struct tree *tree, struct inode *inode, enum change change,
		  uint64_t size_before, const struct face *by);
/* The same for what was written or cut from offset on without being held back, when the file was a
 * state file and has several faces (handle.c). */
void notes_plain(struct notes *notes, struct tree *tree, struct inode *inode, uint64_t size_before,
		 uint64_t offset, const struct face *by);
/* A directory's entries have changed. */
void notes_dir(struct notes *notes, uint64_t ino);
void notes_entry(struct notes *notes, uint64_t parent, struct bytes name);
/* The name of a state file shall be looked up again. */
void notes_own_entry(struct notes *notes, struct tree *tree, const struct inode *inode);
/* The kernel shall forget all of an old face, which is old no longer then. */
void notes_renew(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* The kernel shall forget the pages of a face that nobody reads. */
void notes_forget(struct notes *notes, struct tree *tree, struct inode *inode, struct face *face);
/* The kernel shall ask again for the attributes of a face.  It waits for nothing to do that, so no
 * turn is waited for; no lock of the tree may be held. */
void tell_attr(struct tree *tree, const struct inode *inode, unsigned face);
/* Tell and free.  now: the caller waits until the kernel knows; otherwise the tree's teller does
 * it. */
void notes_tell(struct notes *notes, struct tree *tree, bool now);
void *tree_tell(void *arg);
/* Tell once more what the kernel did not know a second ago. */
void tell_missed(struct tree *tree);

/* tree.c */

/* Run an operation again as long as changes of others come in between. */
#define TREE_RETRY(tree, call)                                                                     \
	({                                                                                         \
		__typeof__(call) r_;                                                               \
		unsigned tries_ = 0;                                                               \
		while ((r_ = (call)) == -ESTALE) {                                                 \
			int caught_up_ = tree_catch_up((tree), &tries_);                           \
			if (caught_up_ < 0) {                                                      \
				r_ = caught_up_;                                                   \
				break;                                                             \
			}                                                                          \
		}                                                                                  \
		r_;                                                                                \
	})
/* Reconcile, unless it was tried too often (-EBUSY). */
int tree_catch_up(struct tree *tree, unsigned *tries);

int64_t time_now(void);
struct timespec time_split(int64_t time);
int64_t time_join(struct timespec time);

static inline void tree_unlockp(struct tree **tree)
{
	if (*tree)
		pthread_rwlock_unlock(&(*tree)->lock);
}
/* removal.c: names that were removed and that the store still has.  Taking the lock settles them,
 * so only who takes it with what is held ever sees any. */

/* Under tree.lock for writing.  0, or why it is to be tried again later. */
int removals_settle(struct tree *tree);
/* The same for who has it for reading, and lets go of it meanwhile. */
int removals_pass(struct tree *tree);
/* Note a removal instead of committing it, if it may be.  Under tree.lock for writing. */
bool removal_hold(struct tree *tree, struct inode *dir, uint64_t entry, struct inode *inode);
bool removals_have(const struct tree *tree, uint64_t entry);
/* Before the tree is used: what a killed process has held back. */
void removals_recover(struct tree *tree);
void removals_done(struct tree *tree);
/* All that was removed is in the store, or -errno.  No lock of the tree is held. */
int tree_settle(struct tree *tree);

static inline struct tree *tree_read_lock(struct tree *tree)
{
	pthread_rwlock_rdlock(&tree->lock);
	if (tree->removing || tree->removals)
		removals_pass(tree);
	return tree;
}
static inline struct tree *tree_write_lock(struct tree *tree)
{
	pthread_rwlock_wrlock(&tree->lock);
	removals_settle(tree);
	tree->removing = false;
	return tree;
}
static inline struct tree *tree_read_lock_held(struct tree *tree)
{
	pthread_rwlock_rdlock(&tree->lock);
	return tree;
}
static inline struct tree *tree_write_lock_held(struct tree *tree)
{
	pthread_rwlock_wrlock(&tree->lock);
	return tree;
}
static inline void inode_unlockp(struct inode **inode)
{
	if (*inode)
		pthread_mutex_unlock(&(*inode)->lock);
}
static inline struct inode *inode_lock(struct inode *inode)
{
	pthread_mutex_lock(&inode->lock);
	return inode;
}
#define WITH_READ_LOCK(of)                                                                         \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *read_locked_ =                \
		tree_read_lock(of)
#define WITH_WRITE_LOCK(of)                                                                        \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *write_locked_ =               \
		tree_write_lock(of)
/* While names that were removed may be held back. */
#define WITH_READ_LOCK_HELD(of)                                                                    \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *read_locked_ =                \
		tree_read_lock_held(of)
#define WITH_WRITE_LOCK_HELD(of)                                                                   \
	__attribute__((unused)) _cleanup_(tree_unlockp) struct tree *write_locked_ =               \
		tree_write_lock_held(of)
#define WITH_INODE_LOCK(of)                                                                        \
	__attribute__((unused)) _cleanup_(inode_unlockp) struct inode *inode_locked_ =             \
		inode_lock(of)

/* A snapshot that ends with its scope. */
struct view {
	struct backend *backend;
	struct backend_snapshot *snapshot;
};
int view_begin(struct tree *tree, unsigned flags, struct view *view);
void view_end(struct view *view);

/* Inode cache.  inode_of_node() takes the node over (also on failure) and counts the inode. */
int inode_of_node(struct tree *tree, struct view *view, struct backend_node *node,
		  struct inode **ret_inode);
/* An inode for a node that is new; parent and name are a directory's. */
int inode_create(struct tree *tree, struct backend_node *node, struct inode *parent,
		 struct bytes name, struct inode **ret_inode);
/* Replace the copy of the node by this one, which owns its bytes; takes it over. */
void inode_set_node(struct inode *inode, struct backend_node *node);
/* After node.kind was changed in place. */
void inode_node_changed(struct inode *inode);
/* The inode if somebody counts it, counted once more; or NULL. */
struct inode *inode_known(struct tree *tree, uint64_t ino);
/* The inode of a number, from the store if need be. */
int inode_get(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode);
/* The directory of that number; -EIO: there is none that has a place, so the store is damaged. */
int inode_get_dir(struct tree *tree, struct view *view, uint64_t ino, struct inode **ret_inode);
static inline struct inode *inode_ref(struct tree *tree, struct inode *inode)
{
	pthread_mutex_lock(&tree->table_lock);
	inode->count++;
	pthread_mutex_unlock(&tree->table_lock);
	return inode;
}
/* Counted inodes. */
struct inodes {
	struct inode **inode;
	size_t count;
};
/* Those that somebody counts; wanted may be NULL.  None when there is no memory. */
struct inodes inodes_get(struct tree *tree, bool (*wanted)(const struct inode *inode));
void inodes_forget(struct tree *tree, struct inodes *inodes);
/* Remember that the times in memory are newer than in the store. */
void inode_times_dirty(struct tree *tree, struct inode *inode);
int tree_write_times(struct tree *tree);

static inline bool inode_is_dir(const struct inode *inode)
{
	return S_ISDIR(inode->node.mode);
}
static inline bool inode_is_draft(const struct inode *inode)
{
	return inode->node.flags & BACKEND_DRAFT;
}
/* A state file or a session that is in the trash (trash.c). */
static inline bool node_is_trashed(const struct backend_node *node)
{
	return node->kind == BACKEND_ORDINARY && node->session.data;
}
static inline bool kind_is_state(uint32_t kind)
{
	return kind == BACKEND_SINGLE || kind == BACKEND_LIST || kind == BACKEND_HASH;
}
/* The session that a directory belongs to, or NULL. */
struct inode *inode_session(struct inode *dir);
/* Appends the decoded names of the directories below the session, each with '/' behind it. */
int inode_key_dirs(struct inode *dir, struct buf *dirs);

/* attr.c */

/* Under inode.lock, or tree.lock for writing. */
int inode_stat(struct tree *tree, struct view *view, struct inode *inode, struct stat *ret_stat);
/* In a view of its own, if one is needed. */
int inode_stat_fresh(struct tree *tree, struct inode *inode, struct stat *ret_stat);
/* What a lookup by thread pid is answered with; under tree.lock for reading.  NOBODY: any. */
int inode_show(struct tree *tree, struct inode *inode, pid_t pid, struct shown *shown);
enum { NOBODY = -1 };

/* place.c */

/* What a file is by its place: the kind, and the session and key, which the buffers get. */
struct place {
	uint32_t kind;
	struct buf session;
	struct buf key;
};
void place_done(struct place *place);
/* For a file of this type under a name in dir.  A key that the node except has counts as free. */
int place_find(struct view *view, struct inode *dir, struct bytes name, mode_t mode,
	       uint64_t except, struct place *place);
/* Let a node refer to the place's bytes. */
void place_apply(const struct place *place, struct backend_node *node);

/* Files that keep their content but get another session or key. */
struct relocation {
	struct backend_node old; /* owns its bytes; so does */
	struct backend_node new;
};
struct relocations {
	struct relocation *item;
	size_t count;
	size_t room;
};
int relocations_add(struct relocations *list, const struct backend_node *old,
		    const struct backend_node *new);
/* All state files below a directory that moves to dir_to under name_to and will belong to
 * session. */
int relocations_below(struct view *view, struct inode *dir, struct bytes session, struct bytes dirs,
		      struct bytes dirs_to, struct relocations *list);
void relocations_emit(const struct relocations *list, struct batch *batch);
/* Two lists whose keys may be each other's. */
void relocations_emit_exchange(const struct relocations *a, const struct relocations *b,
			       struct batch *batch);
/* After the commit: let the inodes in memory know. */
void relocations_apply(struct tree *tree, struct relocations *list);
void relocations_done(struct relocations *list);

/* content.c: bytes of a file, whatever keeps them.  Under inode.lock, or tree.lock for writing. */

/* Make size (and for a list its end) known. */
int content_load(struct tree *tree, struct view *view, struct inode *inode);
int content_size(struct tree *tree, struct view *view, struct inode *inode, uint64_t *ret_size);
/* handle may be NULL; it remembers where sequential reads are. */
int content_read(struct tree *tree, struct view *view, struct inode *inode, struct handle *handle,
		 uint64_t offset, size_t size, struct buf *out);
int content_to_stage(struct tree *tree, struct view *view, struct inode *inode,
		     struct stage *stage);
/* Operations that remove all content of a file from the store: rows, chunks, pieces, marks. */
void content_remove(const struct inode *inode, struct batch *batch);

/* Keep a row that stands at offset for later reads, as it is shown. */
int handle_keep_row(struct handle *handle, uint64_t offset, struct bytes row);
/* Whether the row that is kept holds this byte of the present content. */
bool handle_has_row(const struct handle *handle, uint64_t offset);

/* file.c: ordinary files and drafts, in chunks. */
uint64_t file_size(const struct inode *inode);
int file_read(struct view *view, const struct inode *inode, uint64_t offset, size_t size,
	      struct buf *out);
/* Holes stay holes: a damaged store may say any size. */
int file_to_stage(struct view *view, const struct inode *inode, struct stage *stage);
/* Put what is held back into the store. */
int file_settle(struct tree *tree, struct inode *inode);
/* Before the tree is used, and when all is settled: what a killed process has held back. */
void files_recover(struct tree *tree);
void files_forget(struct tree *tree);
/* Bytes that are stored of a file with holes. */
int file_stored(struct view *view, struct inode *inode, uint64_t *ret_stored);
int file_write(struct tree *tree, struct inode *inode, uint64_t offset, struct bytes data);
int file_truncate(struct tree *tree, struct inode *inode, uint64_t size);
int file_allocate(struct tree *tree, struct inode *inode, int mode, uint64_t offset, uint64_t size);
int file_seek(struct tree *tree, struct inode *inode, uint64_t offset, int whence,
	      uint64_t *ret_offset);

/* list.c */

/* One segment of a list: a row, or a piece when is_row is false. */
struct segment {
	bool is_row;
	int64_t index;
	int64_t seq;
	struct bytes data;
};
/* Returns 0 to go on, 1 to stop, -errno. */
typedef int segment_fn(void *arg, const struct segment *segment);
/* A place between two segments: before the piece seq that stands before row index, or before the
 * first one behind that. */
struct segment_place {
	int64_t index;
	int64_t seq;
};
#define LIST_START ((struct segment_place){ INT64_MIN, INT64_MIN })
/* Visit the segments in the order of the file, from a place on. */
int list_walk(struct view *view, const struct inode *inode, struct segment_place from,
	      segment_fn *fn, void *arg);

int list_load(struct tree *tree, struct view *view, struct inode *inode);
int list_read(struct view *view, struct inode *inode, struct handle *handle, uint64_t offset,
	      size_t size, struct buf *out);
/* The bytes of the tail, appended to out. */
int list_read_tail(struct view *view, struct inode *inode, struct buf *out);
/* When a mark is due behind so many bytes and rows. */
bool list_mark_due(uint64_t bytes, uint64_t rows);

/* append.c */

/* Append bytes to a list: whole lines, and with closing an unfinished one at the end.  own_tail:
 * the list's tail was written by the same writer.  mtime is the time of change.  by: the face
 * through which the kernel knows, or NULL.  Committed when it returns. */
int append_lines(struct tree *tree, struct inode *inode, struct bytes data, bool own_tail,
		 int64_t mtime, const struct face *by, struct notes *notes);
/* Whether a line (without its newline) would be JSON, or blank, if append_lines() appended it: 1;
 * 0 when it would not, which the log knows then; -errno. */
int append_judge(struct tree *tree, struct inode *inode, struct bytes line, bool own_tail);

/* save.c */

/*
 * Where content is published: the same file, or what a rename makes of it.
 *
 * node is the node as it shall be: ino, kind, session, key and times are the caller's; flags and
 * size are set by the plan.  same: ino already was the file of this key, so its pieces and marks
 * belong to the rows that are there.  had_chunks: ino has chunks to be dropped or overwritten.
 */
struct save_target {
	struct backend_node *node;
	bool same;
	bool had_chunks;
	bool fresh; /* rows that the key has now are another file's: do not compare with them */
};

/* A save that was planned: what differs between a stage and the store.  The stage is borrowed. */
struct save;
int save_plan(struct tree *tree, struct view *view, const struct save_target *target,
	      struct stage *stage, struct save **ret_save);
/* Add about limit operations at most; 1 when there are more, 0 when all are there, -errno. */
int save_emit(struct save *save, struct batch *batch, size_t limit);
void save_free(struct save *save);
static inline void save_freep(struct save **save)
{
	save_free(*save);
}
/* Commit the operations in batch and then all of the save, as one transaction. */
int save_commit(struct tree *tree, struct save *save, struct batch *batch, unsigned flags);

/* Replace the content of a file by a stage, with this time of change; saver is the handle that
 * does it, or NULL.  A state file that is gone gets it too: who has it open goes on. */
int save_publish(struct tree *tree, struct inode *inode, struct handle *saver, struct stage *stage,
		 int64_t mtime, struct notes *notes);
/* The same by a stage that begins with the present content: to readers that is an append. */
int save_extend(struct tree *tree, struct inode *inode, struct stage *stage, int64_t mtime,
		struct notes *notes);

/* shed.c, for full disks: deleting in parts what cannot be deleted in one transaction.  When they
 * return 0, what is left is small enough for one. */

/* Of a file without a name: all. */
int shed_hidden(struct tree *tree, const struct backend_node *node);
/* Of a file that is about to be cut to size (a list: to 0), which others see getting shorter. */
int shed_content(struct tree *tree, struct inode *inode, uint64_t size);
/* All files that were without a name when the last mount ended. */
int shed_orphans(struct tree *tree);

/* ghost.c, all under tree.lock for writing */

struct ghost;
/* Make a ghost of a state file that has lost its name; after the commit.  Takes over a count. */
int ghost_add(struct tree *tree, struct inode *inode, uint64_t parent);
/* The ghost that has the rows of a key, or NULL. */
struct ghost *ghost_find(struct tree *tree, struct bytes session, struct bytes key);
/* Whether it was a file of this kind: another kind's rows are not to be taken over. */
bool ghost_was(const struct ghost *ghost, uint32_t kind);
/* Operations that end a ghost: its node goes, its rows too unless somebody takes them over.  Those
 * who have it open keep its bytes. */
struct ghost_end;
int ghost_end_begin(struct tree *tree, struct view *view, struct ghost *ghost, bool keep_rows,
		    struct batch *batch, struct ghost_end **ret_end);
/* After the commit; frees. */
void ghost_end_apply(struct tree *tree, struct ghost_end *end);
/* Instead, when there was none; frees.  NULL is fine. */
void ghost_end_free(struct ghost_end *end);
static inline void ghost_end_freep(struct ghost_end **end)
{
	ghost_end_free(*end);
}
/* End ghosts whose time has come; with now all of them; parent != 0: those of a directory. */
int ghosts_end(struct tree *tree, bool now, uint64_t parent);
/* Milliseconds until the next one's time has come, at most limit. */
int ghosts_wait(struct tree *tree, int limit);
/* Free those that the store did not let end. */
void ghosts_done(struct tree *tree);

/* expire.c */

/* The thread that removes what has lived for long enough; the tree is stopping when it is stopped.
 * */
int expire_start(struct tree *tree);
void expire_stop(struct tree *tree);
/* Somebody has set a ttl. */
void expire_soon(struct tree *tree);

/* handle.c, publish.c */

/* The size that a process sees that holds back content of the file, if pid is a thread of one. */
bool handles_own_size(const struct inode *inode, const struct face *face, pid_t pid,
		      uint64_t published, uint64_t *ret_size);
/* Publish what writers hold back that have paused for about a second, if it is whole. */
void handles_publish_paused(struct tree *tree);
/* An explicit time was set: saves that are under way shall not move it. */
void handles_times_set(struct inode *inode);
/* Whether a handle has something that is not published: it may, of a file that was renamed since
 * and is ordinary now. */
bool handle_holds_back(const struct handle *handle);
/* Set the size of a state file by one of its handles, or as a save of its own when handle is
 * NULL. */
int handle_truncate(struct tree *tree, struct inode *inode, struct handle *handle, uint64_t size,
		    struct notes *notes);

/* reconcile.c */

/* Take in what others changed. */
int tree_reconcile(struct tree *tree);
/* Make a file for each key that has rows and none: how many, or -errno. */
int64_t tree_adopt(struct tree *tree);

#endif
