/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_WRITING_H
#define FS_INODE_WRITING_H

/* What is in memory of open files: what was written through them, and their handles. */

#include "fs/inode/state.h"

/* The states of struct writing; the table in write/handle.c has the moves between them. */
enum handle_mode {
	HANDLE_PLAIN,  /* nothing held back: reads, and writes of ordinary files */
	HANDLE_APPEND, /* whole lines become rows at once; piece holds the unfinished one */
	HANDLE_SAVE,   /* stage holds the new content until flush */
};

/* As writing.version: the stage begins with content that had been replaced by then. */
#define VERSION_REPLACED UINT64_MAX

/* What was written to an open file, or through /proc to the same, and is not published yet.  Every
 * handle has one, which it may share.  mode, stage and piece change only while both the lock here
 * and inode.lock are held: with either of them they stay as they are. */
struct writing {
	pthread_mutex_t lock; /* of this, and of what its handles read */
	unsigned count;	      /* handles; inode.lock */
	unsigned writers;     /* of them may write; inode.lock */
	struct inode *inode;  /* counted by its handles */
	struct face *face;    /* the face of this writing; NULL: none */
	pid_t writer;	      /* thread that wrote last, or opened it */
	pid_t process;	      /* its process; 0: not looked up, for an ordinary file */
	enum handle_mode mode;
	bool dirty;	     /* the stage was changed since it was published */
	bool only_cut;	     /* and only its size was set, by opening or truncating it */
	bool only_adds;	     /* and all that was written was added at its end, behind kept bytes */
	uint64_t kept;	     /* bytes of the content that the stage began with and still has */
	uint64_t seen;	     /* size of the content then */
	int refused;	     /* error of a write whose bytes are missing in the stage; 0: none */
	uint64_t refused_at; /* where they are missing: such a stage is never published */
	uint64_t lease;	     /* of the mount when a lock that is held was granted; 0: no lock */
	int failed;	     /* error of the last flush; 0: none */
	/* Saves by one temporary name (write/temporary.h); inode.lock. */
	pid_t owner;	   /* process that has begun it, or -1; 0: it has joined one */
	bool apart;	   /* the stage is its own, not that of the file */
	bool parted;	   /* it has just become so: the stage begins with */
	struct stage base; /* this */
	bool settled;	   /* all of it is under the name, from which the file was renamed away */
	uint64_t saved_at; /* tree.saves when it was opened, synced or closed */
	struct inode *away_dir; /* the file was renamed away: there its bytes are from the close */
	char *away_name;	/* on; counted and owned */
	size_t away_size;
	uint64_t version;    /* inode.version that the stage was begun or published as */
	struct stage stage;  /* HANDLE_SAVE */
	uint64_t line_start; /* of it: the last line begins there, or before */
	int64_t written;     /* time of the last write into the stage or the piece */
	bool times_set;	     /* an explicit time was set since that write */
	struct stage piece;  /* HANDLE_APPEND: begins behind a newline, holds none */
	bool owns_tail;	     /* the list's tail is this writer's own (it was flushed by fsync) */
	uint64_t tail_end;   /* then: the size that the list had */
	bool streams;	     /* writes at the end of a list that was empty when opened, */
	uint64_t stream_end; /* where its next write is expected, until it saves */
	/* tree.times_lock: the list of those that have staged something. */
	struct writing *saver_next;
	struct writing **saver_link;
	bool is_saver;	   /* it is in it */
	int64_t busy;	   /* tick_now() of the last write */
	int64_t paused_at; /* busy when a pause was looked at last, so that it is looked at once */
};

/* The content of an inode has a new version, which begins with all of version from: a save that
 * began with from goes on as if it had begun with the new one, and finds what was added behind
 * writing.seen.  Under inode.lock, or tree.lock for writing. */
void inode_extended(struct inode *inode, uint64_t from);

/* An open window; a handle with this uses nothing else. */
struct event_reader;
struct through {
	struct inode *inode;	     /* the window, counted */
	struct handle *handle;	     /* of the file that it shows, to append to it or to read other
				  content than a list; or NULL */
	bool reads;		     /* it counts in window.open, */
	bool saves;		     /* it counts in window.saving.writers */
	pid_t opener;		     /* process, if it saves */
	struct event_reader *events; /* of a stream: then there is nothing else; owned */
};

/* An open file, as the kernel has it: one for each open(2). */
struct handle {
	struct through *through;
	struct inode *inode;	 /* counted */
	_Atomic int flags;	 /* of open(2) */
	pid_t opener;		 /* process, if it may write; 0: opened as an ordinary file */
	struct writing *writing; /* counted; never NULL */
	struct face *face;	 /* on which it was opened */
	uint64_t window;     /* through which it was opened, and which its descriptors show; or 0 */
	enum face_kind kind; /* how it counts there */
	bool closed;	     /* by a process, and not used since: inode.lock */
	bool outlives;	     /* it outlived that close, in a process that we do not know:
				inode.lock */
	bool finished;	     /* handle_finish() */
	bool direct;	     /* its reads and writes bypass the page cache */
	bool keeps;	     /* it counts in tree.reader_snapshots.readers */
	bool fills;	     /* the kernel has filled pages by it, whether it is direct or not */
	bool fresh;	     /* not read directly since it was opened */
	bool middle;	     /* its last direct read did not end with the file */
	bool ended;	     /* it has read all that there is, up to the end */
	bool again;	     /* it has read again behind that (read.c), or has got a lock */
	_Atomic pid_t reader;	/* thread that has opened it, or was the last to read by it */
	unsigned asked;		/* how often that thread has asked for attributes since */
	struct version *old;	/* the version that it reads, counted; NULL: the newest content.  Of
				   a document: the content at the last read of its start. */
	struct stage whole;	/* a large row, for the reads that follow the first */
	uint64_t whole_offset;	/* where it stands in the file */
	uint64_t whole_version; /* inode.version that it was read of */
	bool whole_valid;
	uint64_t cursor_offset; /* a list position that the last read came to */
	int64_t cursor_index;	/* and what is there, as in struct segment_place */
	int64_t cursor_seq;
	uint64_t cursor_version; /* inode.version that it is a place of */
	bool cursor_valid;
	struct handle *next; /* the inode's other handles */
	struct handle **link;
};

#endif
