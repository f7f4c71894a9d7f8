/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_WRITING_H
#define FS_INODE_WRITING_H

/* What is in memory of open files.  Fields say which lock guards them; locks.h has their order. */

#include "fs/inode/state.h"

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
