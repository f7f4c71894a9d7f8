/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_TREE_H
#define FS_INODE_TREE_H

/* The tree itself.  Comments name the locks; a field without one that is not atomic does not change
 * while requests are served. */

#include "fs/events/log/log.h"
#include "fs/inode/state.h"
#include "fs/inode/view.h"
#include "fs/inode/window.h"
#include "fs/inode/writing.h"

struct batch;

/* reader-snapshot.h; the lock is taken under inode.lock, and the store is called under it. */
enum { SNAPSHOT_WHOLE, SNAPSHOT_PAST, SNAPSHOTS };
struct reader_snapshot {
	struct view view;
	uint64_t changes; /* that it has, at least */
};
struct reader_snapshots {
	pthread_mutex_t lock;
	struct reader_snapshot held[SNAPSHOTS];
	uint32_t flags; /* what reader_snapshot_seen() gives back */
	uint64_t size;
	bool may_be;	       /* the store allows it */
	_Atomic bool unwanted; /* it wants none for now */
	bool used;	       /* since reader_snapshot_renew() */
	_Atomic unsigned readers;
};

/* waiting.h; the lock is a leaf. */
struct taker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	_Atomic bool runs;
	_Atomic bool late;
	_Atomic bool stuck; /* late, and it has come no further for a second */
	uint64_t asked;	    /* times; and for which of them it has taken in everything */
	uint64_t taken;
	uint64_t steps; /* so far */
	int result;	/* of the last time */
	bool roused;	/* tree_rouse() since the last tree_doze() */
	struct wanted *wanted;
};

/* quota.h; the lock is a leaf; the counting lock is held while the store is read. */
struct quotas {
	_Atomic bool on;	  /* some session may have one */
	_Atomic bool any;	  /* of its own */
	_Atomic uint64_t each;	  /* for all others; 0: none */
	_Atomic uint64_t voided;  /* counts were given up so often */
	_Atomic uint64_t left;	  /* files that were unlinked and count as long as they are */
	_Atomic uint64_t freed;	  /* so many of them have gone */
	_Atomic uint64_t stores;  /* what was held began to be stored so often, */
	_Atomic unsigned storing; /* and just now so often */
	_Atomic uint64_t others_all;
	_Atomic uint64_t others[256]; /* changes of others, by sessions */
	pthread_mutex_t lock;
	pthread_mutex_t counting;
	/* A batch is about to be committed: 0, or -EDQUOT and it may not be, or -errno.
	 * Under tree.lock.  And it was, or was not if r is negative. */
	int (*take)(struct tree *tree, struct batch *batch);
	void (*settle)(struct tree *tree, struct batch *batch, int r);
};

/* commit.h: changes that the store may show already, and memory does not. */
struct applying {
	_Atomic bool pending;	/* that of tree.changer */
	_Atomic unsigned files; /* those of single files */
	_Atomic uint64_t done;
	_Atomic unsigned waiters;
	pthread_mutex_t lock; /* a leaf */
	pthread_cond_t changed;
};

/* inodes.h: those in memory, by number; under tree.table_lock. */
struct inodes_table {
	struct inode **slots;
	size_t size; /* a power of two */
	size_t count;
};

/* numbers.c: the last that were given, and the last that are leased; tree.lock for writing. */
struct numbers {
	uint64_t ino;
	uint64_t entry;
	uint64_t end_ino;
	uint64_t end_entry;
};

/* trashed.h */
struct trash_state {
	struct {
		uint64_t name; /* called_hash() */
		uint64_t ino;
		int64_t until;
	} removed[256];		/* a moment ago; tree.lock for writing */
	_Atomic bool any;	/* the trash was made */
	_Atomic bool returning; /* something comes back, and the trash gives no room */
};

struct tree {
	struct backend *backend;
	struct tree_options options;
	/* By the store's settings or the options (fs/upkeep/settings.c). */
	uint64_t layout; /* which path is which session: a set of layouts (fs/base/layout.h) */
	_Atomic int64_t ttl;
	_Atomic int64_t grace;
	_Atomic int64_t history; /* how long what is removed or replaced is kept; 0: not */
	_Atomic unsigned pause;
	_Atomic bool ttls_changed; /* another mount has set a ttl, perhaps */
	_Atomic uint64_t changes;  /* of content, by all mounts, in memory or not */

	/* What rooms behind this one do for those before them. */
	const struct views *views;			    /* window.h */
	int (*take_in)(struct tree *tree);		    /* tree_reconcile() */
	int (*digest_now)(struct tree *tree, bool patient); /* tree_digest_now() */
	int (*give_room)(struct tree *tree, size_t count);  /* trash_give() (trashed.h) */

	/* locks.h */
	pthread_mutex_t turn; /* recursive */
	pthread_rwlock_t change;
	pthread_rwlock_t lock;
	pthread_mutex_t table_lock;
	pthread_mutex_t times_lock;
	/* commit.h: the thread that holds tree.change for writing (pthread_self(); 0: none), and
	 * the number of its change; set under tree.lock for writing. */
	_Atomic pthread_t changer;
	uint64_t change_number;
	_Atomic bool stopping;

	/* fs/inode/ */
	struct inodes_table inodes;
	struct inode *root;
	struct inode *shown; /* as the root: that, or a window of it, which is in no table */
	struct applying applying;
	struct reader_snapshots reader_snapshots;
	struct taker taker;
	struct quotas quota;
	struct numbers numbers;
	struct trash_state trashed;
	struct windows windows;	       /* window.h; table_lock */
	_Atomic uint64_t called[4096]; /* inode numbers by names; called.h */
	_Atomic uint64_t list_end;     /* the last id of entries; UINT64_MAX: not known */
	struct inode *times_first;     /* their times are newer than the store's; times_lock */
	struct apart *aparts;	       /* aparts.h; tree.lock for writing */
	void *aparts_by_key;
	_Atomic bool has_orphans;  /* there may be some to be reaped */
	_Atomic bool direct_mmap;  /* the kernel can map files that bypass the page cache */
	_Atomic unsigned buffered; /* chunks with small writes; fs/content/file.c */

	/* Of the rooms behind it. */
	struct documents_cache *documents; /* fs/content/documents.c */
	struct cache *cache;		   /* fs/cache/state.h */
	struct events events;		   /* fs/events/log/log.h */
	struct writing *savers;		   /* that have staged something; times_lock */
	_Atomic uint64_t saves;		   /* by temporary names: opens, syncs and closes */
	_Atomic unsigned aways;		   /* open files that were renamed away beside others */
	struct ghost *ghosts;		   /* fs/tree/ghost.c; tree.lock for writing */
	struct {
		_Atomic bool any;	/* rows of before the store may have no files yet */
		_Atomic bool listed;	/* but each session has its directory */
		struct rest_walk *walk; /* the taker's */
		int64_t made;		/* files, by the walk */
	} rest;
	struct {
		struct inode *first;	/* tree.lock for writing */
		_Atomic unsigned count; /* of them */
		_Atomic bool all;	/* they are to be settled */
		/* tick_now() when the tree was opened, or other programs have last changed
		 * something; 0 where the store lets no change stay. */
		_Atomic int64_t at;
	} unsettled;		      /* fs/share/unsettled.c */
	_Atomic int reconcile_failed; /* why changes could not be taken in the last time, or 0 */
	struct upkeep *upkeep;	      /* fs/upkeep/upkeep.h */
};

#endif
