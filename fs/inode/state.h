/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_STATE_H
#define FS_INODE_STATE_H

/* What is in memory of files.  A field without another lock is guarded by inode.lock, or by
 * tree.lock for writing; locks.h has the order of the locks. */

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
	int64_t tail_row;
	int64_t tail_row_seq; /* seq of the next piece before that row */
	int64_t tail_seq;
	uint64_t piece_lines; /* newlines in pieces, for line numbers; while pieces_counted */
	bool pieces_counted;
	bool tail_is_row;
	/* Learnt of a tail of pieces, so that not each append reads it: tail_spoilt: no bytes
	 * behind it can make it valid JSON; otherwise its first byte that is not blank, or 0: not
	 * known. */
	bool tail_spoilt;
	char tail_opens;
};

/* The content of a file, as it was or is; counted by the faces that show it, the handles that read
 * it and the documents that are kept. */
struct version {
	_Atomic unsigned count;
	bool replaced; /* by a save that was published; inode.lock */
	struct stage stage;
	struct window_past *past; /* or its bytes are read as in fs/views/past.h; owned */
};

/* How a handle counts on its face; FACE_ASKS: a thread only asks for attributes. */
enum face_kind { FACE_READ, FACE_WRITE, FACE_KINDS, FACE_ASKS = FACE_KINDS };

enum { FACE_NONE = FACE_ANY }; /* the name must be looked up again */

/* One nodeid of a file; see fs/cache/cache.h.  Lives as long as its inode. */
struct face {
	struct face *_Atomic next; /* in the inode's list */
	_Atomic uint64_t lookups;  /* that the kernel has got and not forgotten */
	struct writing *writing;   /* what is written here, by the handle that came first */
	struct version *old;	   /* what it shows, counted; NULL: the newest content */
	_Atomic unsigned answers;  /* under way with this nodeid, which will be lookups */
	unsigned number;	   /* in the upper bits of the nodeid; 0: the first face */
	unsigned open[FACE_KINDS]; /* handles, by what they count as */
	unsigned stale;		   /* changes whose pages the kernel has yet to forget */
	_Atomic bool gone;	   /* the kernel did not hold it when it was asked last */
	bool pinned;		   /* it was held before the name led there */
	bool filled;		   /* the kernel may have pages */
	bool shown;		   /* the kernel has attributes, or is about to take them in */
	bool changed;		   /* the content, since a reader opened this face */
	/* The size that the kernel has may differ from what the face shows. */
	bool doubted;
	bool traced;   /* the kernel has the size that its writer sees */
	bool promised; /* to a thread that looked the name up and cannot be seen */
	/* It shows what the handles of that writing see, and the name leads elsewhere. */
	bool own;
	bool renewing; /* a notice is under way by which it is old no longer */
};

/* A thread that got ESTALE and looks the name up again; a face is reserved for it. */
struct led {
	struct led *next;
	struct face *face;
	enum face_kind kind; /* as which the thread will open it */
	pid_t pid;
	int64_t until; /* by tick_now(): a thread that does not come loses the face */
};

/* When appends to a list last wrote its times beside other mounts. */
struct shared_times {
	_Atomic unsigned appends; /* beside other mounts, since its last close */
	int64_t at;		  /* tick_now() of the last that wrote them; inode.lock */
};

/* A whole save by a temporary name that another has replaced before it was renamed. */
struct kept_save {
	struct kept_save *next; /* which is older */
	pid_t process;
	uint64_t at; /* tree.saves */
	struct stage stage;
};

struct inode {
	struct inode *next;	/* in the table's chain; tree.table_lock */
	uint64_t ino;		/* never changes, so it needs no lock */
	uint64_t count;		/* tree.table_lock */
	pthread_mutex_t change; /* locks.h has both */
	pthread_mutex_t lock;
	struct backend_node node; /* as the store has it, but for times that are newer here */
	struct window *window;	  /* it is one: window.h; never changes */
	struct inode *parent;	  /* of a directory, counted; NULL for the root; tree.lock */
	char *name;		  /* of a directory; tree.lock */
	/* The name of anything else when it was last known, and its place; called.h. */
	char *called;
	uint64_t called_parent;
	uint64_t called_entry;
	struct quota *quota;	/* of a session's directory, or NULL; quota.h */
	uint64_t left_dir;	/* where another name lies, or the last one lay, or 0; likewise */
	struct handle *open;	/* its handles */
	struct dates dates;	/* of rows that are written to the state file; dates.h */
	unsigned uses;		/* handles, and those that are just being opened */
	unsigned left_faces;	/* face_count when another mount removed a name of it (face.c) */
	_Atomic bool state;	/* a view over rows; follows node.kind */
	_Atomic bool unapplied; /* memory does not have yet what the store may show; commit.h */
	_Atomic bool bare;	/* true: it has no extended attributes; false: not known */
	bool whole;		/* a session, all of whose rows have files (waiting.h) */
	bool gone;		/* its node was deleted from the store */
	bool opening;		/* it was made to be opened, is in use, and not open yet */
	bool nameless;		/* made without a name, and not linked since */
	/* tree.change_number of the change that takes its content away or replaces it. */
	uint64_t leaving;
	uint64_t replacing;
	struct stage orphan;
	/* Of a temporary name (write/temporary.h). */
	struct kept_save *saves; /* owned */
	uint64_t saved_at;	 /* tree.saves when it was closed or synced, or begun */
	pid_t saver;		 /* process whose save it has, or -1 */
	bool saved;		 /* which was closed or synced */
	bool orphaned;		 /* gone, and orphan has the bytes of the state file, */
	bool lost;		 /* or has not: nobody opens it any more */
	bool inherited;		 /* its first handle begins as a save of nothing; see ghost.c */
	bool inherits; /* its rows are those of the file that it follows, until it is saved */
	bool untold;   /* rows that another program has inserted; reconcile-key.c */
	bool apart;    /* its key is quarantined; see aparts.h */
	/* What another program has changed is known, and stays in the store's log
	 * (share/unsettled.c): counted by, and in, the list of such files. */
	struct {
		struct inode *next;
		int64_t stamp;
		int64_t end; /* of a list: the index behind its last row */
	} unsettled;
	bool is_unsettled;
	_Atomic bool locked; /* a process has asked for a lock of it */
	bool name_kept;	     /* by the kernel, which remembers where it leads */
	struct face face;    /* the first; its list has all */
	unsigned face_count;
	unsigned lookup, led_to; /* faces that the name leads to, or FACE_NONE; and did last */
	int64_t name_forgotten;	 /* tick_now() when it was notified to forget that, or 0 */
	struct led *led;	 /* threads that a face is reserved for */
	uint64_t changed;	 /* tree.changes when its content changed last, or later */
	uint64_t replaced_at;	 /* the same, but for what was added behind it */
	uint64_t changes;  /* notices of its content, each with the next number; cache/notify.c */
	uint64_t replaced; /* how many there were when the content was replaced */
	uint64_t bound;	   /* shown as no larger than this, until the kernel is notified that it
			      grew */
	uint64_t changes_notified; /* number of the last notice that was sent; tree.cache.lock */
	_Atomic bool loaded;	   /* size and list are known */
	bool grown;		   /* or not loaded: others have added whole lines behind list */
	bool list_known; /* readers saw exactly list.size, and since then it has only grown */
	bool grew;	 /* in what is being digested, behind grew_at bytes */
	bool stored_known;
	/* It was synced and probably will be again: the next append writes its times. */
	_Atomic bool synced;
	_Atomic bool sync_soon; /* the same, for its data alone */
	bool times_dirty; /* tree.times_lock: counted by, and in, the list of unwritten times */
	uint64_t size;	  /* bytes of a single or hash that is not a draft */
	struct list_state list;
	uint64_t grew_at;
	uint64_t version;     /* moves with every change of content but an append to a list */
	struct version *kept; /* content of that version, or its beginning: content/kept.c */
	uint64_t kept_version;
	uint64_t stored;	   /* bytes in the chunks of an ordinary file with holes */
	struct buffered *buffered; /* what was written and is not in the store yet; file.c */
	_Atomic uint64_t held;	   /* of it, bytes that were charged (quota.h) */
	int64_t written_chunk;	   /* that the last write was in, or -1 */
	struct inode *times_next;
	struct inode **times_link;
	struct shared_times shared_times;
};

#endif
