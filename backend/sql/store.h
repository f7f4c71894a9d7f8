/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_STORE_H
#define BACKEND_SQL_STORE_H

/*
 * A store on an SQL server.  commit.c, mounts.c and changes.h explain how it works; what each file
 * does is said in sql.h.  It has no limit of size (a server says itself how much room there is), no
 * reader snapshot, no repair.
 *
 * Lock order: queue.lock (or being the writer), aside.lock, listing, state.lock, pool.lock.
 * writer.link is the writer's, watch.link the watching thread's, aside.link under aside.lock.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/feed/feed.h"
#include "backend/sql/lanes.h"
#include "backend/sql/text.h"
#include "backend/uses.h"
#include "backend/base/log-pause.h"

enum {
	SQL_FORMAT = 6,	       /* of our tables */
	SQL_FORMAT_OLDEST = 2, /* of those that are upgraded */
	SQL_READERS = 16,      /* connections that the pool keeps */
	SQL_LEASE_S = 15,      /* that a mount may be silent */
	SQL_FRESH_S = 5,       /* since the server heard of a mount that judges others, at most */
	SQL_PACKET = 1 << 20,  /* bytes of statements that are sent at once, about */
};

struct sql_request; /* a batch that waits for its turn: commit.c */

struct sql {
	struct backend backend; /* must be first */
	struct sql_texts texts;
	struct url *url;
	char *database; /* for sentences */
	char *owner;	/* what to tell others; NULL: a guest */
	bool guest;	/* changes of rows are other programs' for the mounts */
	bool rows_only;
	_Atomic bool triggers;		   /* other programs' changes are logged */
	bool counts_triggers;		   /* and whether there are all of them can be seen */
	_Atomic bool barred;		   /* the server took no writes when it was asked to */
	bool tables;			   /* all that it needs has been there */
	const struct backend_setup *setup; /* it is only made, or NULL */
	/* Whether the rows' table has AgentScope's column version, by which services compare and
	 * swap, and how high it can rise.  The writer's: the column may come and go. */
	enum sql_versions {
		SQL_VERSIONS_NONE,
		SQL_VERSIONS_RISE,
		SQL_VERSIONS_OTHER, /* one of that name that does not count */
	} versions;
	int64_t version_most;
	/* In sessfs_mount, another one after each end of the lease; 0: none, this handle only
	 * reads. */
	_Atomic uint64_t number;
	unsigned timeout;
	uint64_t most_packet;	    /* bytes that the server takes at once */
	_Atomic int64_t gave_up_at; /* when a call did last, if nobody has come through since */

	struct {
		pthread_mutex_t lock;
		struct backend_snapshot *idle;
		unsigned count;
	} pool;

	struct {
		pthread_mutex_t lock;
		pthread_cond_t moved;
		struct sql_request *first;
		struct sql_request **last;
		bool writing;
		unsigned waiting; /* requests in the queue */
		/* gather(): */
		pthread_cond_t came;
		unsigned expected; /* as many were there when the last transaction ended, */
		int64_t ended;	   /* by tick_now(), */
		int64_t took;	   /* after so long */
	} queue;
	/* The writer's. */
	struct {
		struct sql_link *link;
		_Atomic int64_t lane; /* the last transaction of which is known what became of it */
		uint64_t ino;	      /* as far as numbers are leased, to any mount */
		uint64_t entry;
		bool unsure; /* whether the last transaction was committed: there is no link */
		int silent;  /* whether the triggers are off on it: -1 not known */
		/* Appends that have to find where their rows come, until one expects that; and
		 * whether the last transaction had one that did. */
		unsigned crowded;
		bool placed;
	} writer;

	/* What is known of the others. */
	struct {
		pthread_mutex_t lock;
		pthread_cond_t moved;
		uint64_t epoch;		 /* of the newest list of the mounts on which this one is */
		struct sql_lanes seen;	 /* notes so far were read, */
		struct sql_lanes known;	 /* and so far were digested; between the two: waiting */
		struct sql_lanes listed; /* so far were told to be digested */
		uint64_t listed_n;	 /* the last one, as it was told */
		bool lost_notes;	 /* some are missing, so anything may have changed */
		bool listed_loss;
		bool untold_known; /* others do not know how far that is */
		uint64_t settings;
		uint64_t turn;
		bool changes; /* other programs' changes wait */
		bool stirred; /* there is news for change_wait() */
		struct feed_notes waiting;
		bool alone;	  /* no other mount is on that list */
		uint64_t lost;	  /* the number under which this one was found to have ended */
		unsigned turns;	  /* threads that have the turn, which the mount has then */
		struct uses uses; /* here, */
		bool untold;	  /* of which the server does not know, as it knows */
		bool stale_uses;  /* it takes some to be in use that are so no longer */
		/* The number of this mount when it came to be on duty. */
		_Atomic uint64_t duty;
		struct log_pause failing; /* of what goes on by itself */
	} state;

	/* Small questions beside the snapshots. */
	struct {
		pthread_mutex_t lock;
		struct sql_link *link;
	} aside;

	/* Before state.lock: of two answers about other mounts the one that was asked for last
	 * counts. */
	pthread_mutex_t listing;

	/* Before state.lock: what is in use here is added, told and ended one after the other.  A
	 * transaction does not take it, since the thread that announces a use waits for the
	 * transaction. */
	pthread_mutex_t telling;

	struct {
		pthread_t thread;
		bool running;
		pthread_mutex_t lock;
		pthread_cond_t stopped;
		bool stop;
		struct sql_link *link;
		struct sql_link *still; /* with a snapshot from the last heartbeat */
		bool waking;
		_Atomic int64_t looked_at; /* tick_ms() of its last look that succeeded */
	} watch;

	/* What change_list() has told last of changes by anybody: what of it is digested. */
	struct {
		pthread_mutex_t lock;
		int64_t stamp;
		int64_t *ids;
		size_t count;
		size_t room;
	} everything;
};

struct backend_snapshot {
	struct sql *store;
	struct sql_link *link;
	unsigned flags;
	bool begun;
	bool unchanged; /* other programs have changed nothing that is in the log */
	int error;	/* what became of that */
	backend_begun_fn *begin;
	void *arg;
	bool open;	  /* the connection has a transaction that is to end first */
	int64_t ended_at; /* in the pool: since when its transaction is of no use; 0: it has none */
	struct backend_snapshot *next; /* in the pool */
};

static inline struct sql *sql_of(struct backend *backend)
{
	return (struct sql *)backend;
}

/* Others know this handle as a mount. */
static inline bool sql_is_mount(const struct sql *store)
{
	return store->number && !store->guest;
}

#endif
