/* SPDX-License-Identifier: MIT */
#ifndef FS_INODE_TREE_H
#define FS_INODE_TREE_H

/* The tree itself.  Comments name the locks; what has none and is not atomic stays as it is while
 * requests are served. */

#include "fs/api/settings.h"
#include "fs/events/log/log.h"
#include "fs/inode/state.h"
#include "fs/inode/view.h"
#include "fs/inode/window.h"
#include "fs/inode/writing.h"
#include "backend/base/log-news.h"
#include "backend/base/log-pause.h"

struct batch;

enum { NOTIFIER_FILES, NOTIFIER_NAMES, NOTIFIERS };

struct notifier {
	struct tree *tree;
	pthread_t thread;
	struct notify_job *jobs;
	struct notify_job **jobs_end;
	pthread_cond_t given; /* a job, where there was none */
	bool busy;
};

enum { KEPT_WHOLE, KEPT_PAST, KEPTS };

struct kept {
	struct view view;
	uint64_t changes; /* that it has, at least */
};

struct tree {
	struct backend *backend;
	struct tree_options options;
	/* settings.c: what the store says, as the taker has seen it last, and what counts now, by
	 * that or by the options. */
	struct settings settings;
	uint64_t layout; /* which path is which session: a set of layouts (fs/base/layout.h) */
	uint64_t max_size;
	_Atomic int64_t ttl;
	_Atomic int64_t grace;
	_Atomic int64_t trash; /* how long what is removed is kept; trashed.h */
	_Atomic unsigned pause;
	/* Another mount has set a ttl, perhaps. */
	_Atomic bool ttls_changed;
	_Atomic uint64_t changes; /* of content, by anybody, in memory or not */
	/* kept.h; its lock is taken under inode.lock, and calls of the store under it. */
	struct {
		pthread_mutex_t lock;
		struct kept kept[KEPTS];
		uint32_t flags; /* what kept_seen() gives back */
		uint64_t size;
		bool may_be; /* the store allows it */
		bool used;   /* since kept_renew() */
		_Atomic unsigned readers;
	} kept;
	/* What others have changed: tree_reconcile(), tree_digest_now(). */
	int (*take_in)(struct tree *tree);
	int (*digest_now)(struct tree *tree, bool patient);
	/* Room that a commit is short of: trash_give() (trashed.h). */
	int (*give_room)(struct tree *tree, size_t count);
	/* waiting.h; its lock is a leaf. */
	struct {
		pthread_t thread;
		pthread_mutex_t lock;
		pthread_cond_t changed;
		_Atomic bool runs;
		_Atomic bool late;
		uint64_t asked; /* times; and for which of them it has taken in everything */
		uint64_t taken;
		uint64_t steps; /* so far */
		int result;	/* of the last time */
		bool roused;	/* tree_rouse() since the last tree_doze() */
		struct wanted *wanted;
	} taker;
	/* Rows that were there before the store (waiting.h). */
	struct {
		_Atomic bool any;	/* some may have no files yet */
		struct rest_walk *walk; /* the taker's */
	} rest;
	/* quota.h; its lock is a leaf, that of who counts is held while the store is asked. */
	struct {
		_Atomic bool on;	 /* some session may have one */
		_Atomic bool any;	 /* of its own */
		_Atomic uint64_t each;	 /* that all others have; 0: none */
		_Atomic uint64_t voided; /* counts were given up so often */
		_Atomic uint64_t left;	/* files that were unlinked and count as long as they are */
		_Atomic uint64_t freed; /* so many of them have gone */
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
	} quota;
	pthread_mutex_t turn; /* recursive */
	pthread_rwlock_t change;
	pthread_rwlock_t lock;
	/* commit.h: who has the change to himself (pthread_self(), 0: nobody), and which one it is;
	 * set under tree.lock for writing. */
	_Atomic pthread_t changer;
	uint64_t change_number;
	/* Its commit may be seen in the store, but not yet in memory; and how many are in both. */
	_Atomic bool unapplied;
	_Atomic uint64_t applied;
	_Atomic unsigned files_unapplied; /* the same, of single files */
	_Atomic unsigned applied_waiters;
	pthread_mutex_t applied_lock; /* a leaf */
	pthread_cond_t applied_changed;
	pthread_mutex_t table_lock;
	struct inode **table; /* by number; table_lock */
	size_t table_size;    /* a power of two */
	size_t table_count;
	_Atomic uint64_t called[4096]; /* inode numbers by names; called.h */
	struct windows windows;	       /* table_lock */
	const struct views *views;     /* window.h */
	struct inode *root;
	struct inode *shown; /* as the root: that, or a window of it, which is in no table */
	/* numbers.c: those that were given last, and the last that are leased; tree.lock for
	 * writing. */
	uint64_t last_ino;
	uint64_t last_entry;
	uint64_t end_ino;
	uint64_t end_entry;
	_Atomic uint64_t list_end; /* no entry has an id behind it; UINT64_MAX: one may have */
	pthread_mutex_t times_lock;
	struct inode *times_first;   /* their times are newer than the store's; times_lock */
	struct tree_watcher watcher; /* notify_lock */
	struct writing *savers;	     /* that have staged something; times_lock */
	struct retrying again[128];  /* table_lock; face.c */
	_Atomic unsigned again_count;
	struct {
		pthread_mutex_t lock; /* a leaf */
		struct document kept[64];
		struct large large[4];
	} documents;
	_Atomic uint64_t saves;	    /* by temporary names: opens, syncs and closes */
	_Atomic unsigned aways;	    /* open files that were renamed away beside others */
	_Atomic unsigned buffered;  /* chunks with small writes; content/file.c */
	_Atomic bool direct_mmap;   /* the kernel can map files that bypass the page cache */
	pthread_mutex_t trash_lock; /* one order of the trash at a time; before lock */
	bool untold;		    /* a mount has not told what it has in use; trash_lock */
	struct {
		uint64_t name; /* called_hash() */
		uint64_t ino;
		int64_t until;
	} removed[256];		/* a moment ago; trashed.h; tree.lock for writing */
	_Atomic bool has_trash; /* it was made */
	_Atomic bool returning; /* something comes back, and the trash gives no room */
	/* expire.c; the lock is a leaf. */
	pthread_t expirer;
	pthread_mutex_t expire_lock;
	pthread_cond_t expire_changed;
	int64_t expire_at;	      /* when sessions are looked at again */
	struct ghost *ghosts;	      /* ghost.c; tree.lock for writing */
	struct log_pause ghosts_fail; /* of who ends them: the keeper, and then tree_close() */
	/* aparts.h; tree.lock for writing */
	struct apart *aparts;
	void *aparts_by_key;
	_Atomic int reconcile_failed; /* why changes could not be taken in the last time, or 0 */
	pthread_t keeper;	      /* writes times, ends ghosts ... */
	_Atomic bool has_orphans;     /* there may be some to be reaped */
	_Atomic bool stopping;
	/* Some who look names up are of other pid namespaces (face.c). */
	_Atomic bool unseen;
	/* fs/cache/notify.c: what the notifiers send, and the threads that wait for their turn; all
	 * of it under notify_lock. */
	pthread_mutex_t notify_lock;
	pthread_cond_t notify_changed;
	struct notifier notifier[NOTIFIERS];
	bool notifiers_stop;
	unsigned notifying;    /* callers that do so by themselves */
	struct missed *missed; /* the newest first */
	struct events events;
};

#endif
