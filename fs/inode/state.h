/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_STATE_H
#define FS_INODE_STATE_H

/* What is in memory of files.  Fields say which lock guards them; locks.h has their order. */

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "fs/base/dates.h"
#include "fs/base/stage.h"
#include "fs/api/tree.h"

/* What is known of a list's end and size; valid while loaded. */
struct list_state {
	uint64_t size;
	int64_t next;	      /* index of the next row */
	int64_t piece_seq;    /* seq of the next piece before row next */
	uint64_t mark_offset; /* of the last mark, or 0 */
	uint64_t mark_rows;   /* rows behind it */
	/* The bytes behind the last newline: a row, or pieces from tail_seq on before row next. */
	uint64_t tail_size; /* 0: the list is empty or ends in a newline */
	bool tail_is_row;
	int64_t tail_row;
	int64_t tail_row_seq; /* seq of the next piece before that row */
	int64_t tail_seq;
	/* What was learnt of a tail of pieces, so that it is not read for each line that meets it:
	 * no bytes behind it make JSON of it, and otherwise its first byte that is not blank, or 0:
	 * not known. */
	bool tail_spoilt;
	char tail_opens;
	uint64_t piece_lines; /* newlines in pieces, for line numbers; while pieces_counted */
	bool pieces_counted;
};

/* The content of a file before a save, for those who are in the middle of it; counted under
 * inode.lock. */
struct version {
	unsigned count;
	struct stage stage;
};

enum face_kind { FACE_READ, FACE_WRITE, FACE_KINDS, FACE_ASKS = FACE_KINDS };

enum { FACE_NONE = FACE_ANY }; /* the name is to be looked up again */

/* One nodeid of a file; see fs/cache/cache.h. */
struct face {
	struct face *_Atomic next;
	_Atomic uint64_t lookups; /* that the kernel has been told and has not forgotten */
	unsigned number;
	unsigned open[FACE_KINDS]; /* handles */
	bool filled;		   /* the kernel may have pages */
	pid_t told;		   /* thread that was told its size by a name, since it changed */
	bool shown;		   /* and attributes, or is about to take them in */
	bool changed;		   /* since somebody began to read it */
	unsigned stale;		   /* changes whose pages it has yet to forget */
	struct writing *writing;   /* of those who write here */
	bool own;	     /* theirs alone: it shows what they see, and no name leads here */
	struct version *old; /* what it shows, if that is not the newest */
	bool renewing;	     /* the kernel is being told that it is old no longer */
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
struct retrying {
	pid_t pid;
	enum face_kind kind;
	uint64_t nodeid; /* for which it was told so */
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
	struct dates dates;   /* of rows that are written to the state file; dates.h */
	bool gone;	      /* its node was deleted from the store */
	bool nameless;	      /* made without a name, and not linked since */
	bool orphaned;	      /* gone, and orphan has the bytes of the state file */
	struct stage orphan;
	bool inherited;	  /* its first handle is to begin as a save of nothing; see ghost.c */
	bool inherits;	  /* its rows are those of the file that it follows, until it is saved */
	bool apart;	  /* its key is set apart; see aparts.h */
	struct face face; /* the first; its list has all */
	unsigned face_count;
	_Atomic bool locked;	/* somebody has asked for a lock of it */
	unsigned lookup;	/* number of the face that the name leads to, or FACE_NONE */
	bool name_kept;		/* by the kernel, which remembers where it leads */
	int64_t name_forgotten; /* tick_now() when it was notified to forget that, or 0 */
	struct led *led;
	uint64_t changed;	   /* tree.changes when its content changed last, or later */
	uint64_t changes;	   /* of content that were to be told; see fs/cache/notify.c */
	uint64_t replaced;	   /* how many there were when the content was replaced */
	uint64_t bound;		   /* shown as no larger than this, while it is told that it grew */
	uint64_t changes_notified; /* tree.notify_lock */
	bool loaded;		   /* the following are known */
	uint64_t size;		   /* bytes of a single or hash that is no draft */
	struct list_state list;
	uint64_t version; /* moves with every change of content that is not an append */
	bool stored_known;
	uint64_t stored;	   /* bytes in the chunks of an ordinary file with holes */
	struct buffered *buffered; /* what was written and is not in the store yet; file.c */
	int64_t written_chunk;	   /* that the last write was in, or -1 */
	/* Somebody has synced it and is likely to again: the next append writes its times. */
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

/* What was written to an open file, or through /proc to the same, and is not published yet. */
struct writing {
	pthread_mutex_t lock; /* of this, and of what its handles read */
	unsigned count;	      /* handles; inode.lock */
	unsigned writers;     /* of them may write */
	struct inode *inode;
	struct face *face; /* that its handles are open on */
	pid_t writer;	   /* thread that wrote last, or opened it */
	pid_t process;	   /* its process */
	enum handle_mode mode;
	bool dirty;	     /* the stage was changed since it was published */
	bool only_cut;	     /* and that only to nothing, by opening or truncating it */
	bool only_adds;	     /* and all that was written was added at its end, behind kept bytes */
	uint64_t kept;	     /* of what there was, when the stage was begun */
	uint64_t seen;	     /* bytes of the list then, if only_cut */
	int refused;	     /* a write was, and its bytes are missing in the stage: why */
	uint64_t refused_at; /* where */
	int failed;	     /* why the last flush failed */
	uint64_t version;    /* inode.version that the stage was begun or published as */
	struct stage stage;  /* HANDLE_SAVE */
	uint64_t line_start; /* of it: the last line begins there, or before */
	int64_t written;     /* time of the last write into the stage */
	bool times_set;	     /* an explicit time was set since that write */
	struct stage piece;  /* HANDLE_APPEND: begins behind a newline, holds none */
	bool owns_tail;	     /* the list's tail is this writer's own (it was flushed by fsync) */
	uint64_t tail_end;   /* then: the size that the list had */
	bool streams;	     /* writes at the end of a list that was empty when opened */
	uint64_t stream_end; /* where its next write is expected */
	/* tree.times_lock: the list of those that have staged something. */
	struct writing *saver_next;
	struct writing **saver_link;
	bool is_saver;	   /* it is in it */
	int64_t busy;	   /* when that was, by tick_now() */
	int64_t paused_at; /* time of the write after which a pause was looked at */
};

struct handle {
	struct inode *inode;
	int flags;    /* of open(2) */
	pid_t opener; /* process, if it may write */
	struct writing *writing;
	struct face *face;     /* that it was opened on */
	enum face_kind kind;   /* as which it counts there */
	bool direct;	       /* its reads bypass the page cache */
	bool keeps;	       /* it counts in tree.kept.readers */
	bool fills;	       /* but not all do: the kernel may have pages for it */
	bool fresh;	       /* not read directly since it was opened */
	bool middle;	       /* its last direct read was not told that the file ends there */
	uint64_t read_end;     /* of that read */
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
	struct handle **link;
};

#endif
