/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_STORE_H
#define BACKEND_REDIS_STORE_H

/*
 * A store on Redis or Valkey.
 *
 * Rows are the keys of AgentScope's services, as these write them:
 *
 *	PREFIX SESSION:KEY		a single state, a string
 *	PREFIX SESSION:KEY:ver		its version, where services have one
 *	PREFIX SESSION:KEY:list		a list
 *	PREFIX SESSION:KEY:list:_hash	its sidecar, the key KEY:_hash here
 *	PREFIX SESSION:_keys		a set: KEY of each single, KEY:list of each list
 *
 * PREFIX is "agentscope:session:" unless the URL says otherwise.  All else is under sessfs:PREFIX:
 * an ordered map as that of the store in memory (o its keys in order, v their values), m what the
 * store says of itself, g gates (backend/feed/gates.h), f a print of each key's rows as we have
 * left them, c changes of others that were found by it, p those set apart, l lanes, w mounts, s
 * what mounts leave for each other, h:INO hidden rows.
 *
 * A server does one thing at a time, and each call of ours is one script (store.lua has them): so a
 * commit is whole, and commits have one order, which n numbers.  A commit fails if a gate that it
 * depends on was moved by one of another mount that this mount has not read.
 *
 * There are no snapshots.  The first read of one takes the number of the last commit; each further
 * one is -ESTALE if what it reads was changed by a later one, or begins the snapshot anew
 * (BACKEND_LATEST).  Rows that were only added since are cut off (snapshot_clip()).
 *
 * A commit whose connection was lost is sent again, as it was: each connection is a lane, whose
 * transactions are numbered, and the server remembers the last one of each with its answer.  So it
 * is done once, and one that is still on its way when its lane has gone on is not done any more.
 *
 * Other programs' changes are found by comparing a key with its print: when the server tells that
 * the key was written (watch.c), and when it is read or written.  A save compares all of it.
 *
 * A store has a random number, and the numbers of its mounts go on from there: so a mount of one
 * that was deleted (FLUSHALL) does nothing to another that is in its place.
 *
 * wire.c is the protocol, conn.c the connections, call.c calls of the scripts, server.c what server
 * it is and what it promises.
 *
 * Lock order: telling, state.lock, pool.lock.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "backend/backend.h"
#include "backend/feed/feed.h"
#include "backend/redis/call.h"
#include "backend/redis/wire.h"
#include "backend/uses.h"
#include "backend/base/log-pause.h"

enum {
	REDIS_FORMAT = 2, /* the one before is brought forward */
	REDIS_KEYS = 10,
	REDIS_LANES = 16, /* connections, at most */
	REDIS_LEASE_MS = 15000,
	REDIS_CLIPS = 8,
	REDIS_OWN = 256,
};

/* A connection, and its lane. */
struct redis_lane {
	struct wire *wire;
	bool busy;
	uint64_t seq; /* of its last commit */
	bool unsure;  /* whether that was done: it was given up */
};

struct names {
	struct buf *items;
	size_t count, room;
};

/* What a server says of itself. */
struct redis_server {
	char run[48]; /* another one after each start */
	bool aof, always, evicts;
	bool cluster, replica, known; /* known: how it syncs */
	uint64_t maxmemory, used, system;
	char policy[32], version[32];
};

struct redis {
	struct backend backend; /* must be first */
	struct url *url;
	char *prefix, *ours;
	char *keys[REDIS_KEYS];
	char *place;		      /* for sentences */
	char *owner;		      /* NULL: a guest */
	char shas[REDIS_SCRIPTS][41]; /* of the scripts, which each server is sent */
	_Atomic uint64_t number;      /* of the mount or guest; 0: this handle only reads */
	char born[24];		      /* which store it is, as a mount knows it; or "" */
	_Atomic bool gone;	      /* it is no longer there */
	struct redis_server server;

	struct {
		pthread_mutex_t lock;
		pthread_cond_t given;
		struct redis_lane lanes[REDIS_LANES];
	} pool;

	struct {
		pthread_mutex_t lock;
		pthread_cond_t moved;
		_Atomic uint64_t seen;	/* notes so far were read, */
		_Atomic uint64_t known; /* and so far digested; between the two: waiting */
		uint64_t heard;		/* and so far they were told to callers that wait */
		struct feed_notes waiting;
		bool lost_notes, listed_loss;
		_Atomic bool alone;
		bool stirred, waking;
		bool untold; /* others do not know what is in use here */
		bool stale;  /* they take something to be in use that is so no longer */
		uint64_t settings;
		unsigned turns;
		struct uses uses;
		struct names sessions; /* of the last list of all keys */
		_Atomic uint64_t duty;
		struct log_pause failing;
	} state;

	pthread_mutex_t telling; /* as in sql/store.h */

	/* Keys that this mount has written, and when; by a hash. */
	struct {
		_Atomic uint64_t key;
		_Atomic int64_t at;
	} own[REDIS_OWN];

	struct {
		pthread_t thread;
		bool running;
		_Atomic bool stop;
		bool first; /* nobody was told of changes before */
		int wake;   /* an eventfd: it is to stop, or to look */
	} watch;
};

static inline struct redis *redis_of(struct backend *backend)
{
	return (struct redis *)backend;
}

static inline bool redis_is_mount(const struct redis *store)
{
	return store->number && store->owner;
}

/* open.c */

/* Connect to a server that can hold a store; for redis_close(). */
int redis_store_meet(const struct url *url, const struct backend_options *options,
		     struct redis **ret_store, char **ret_why);
void redis_close(struct backend *backend);

/* conn.c */

/* Connect as the user of the URL, to its database. */
int redis_connect(struct redis *store, int64_t until, struct wire **ret_wire, char **ret_why);
int64_t redis_until(const struct redis *store);
struct redis_lane *redis_take(struct redis *store);
void redis_give(struct redis *store, struct redis_lane *lane);
/* Send a command, again after a lost connection, until it is answered.  An error of the server is
 * said to the log, and converted. */
int redis_send(struct redis *store, struct redis_lane *lane, struct bytes command, int64_t until,
	       struct reply *ret_reply);
/* The same on any connection, of a command whose words are a form's (call.h). */
int redis_ask(struct redis *store, struct reply *ret_reply, const char *form,
	      const struct backend_op *op);
/* Call the script; the answer's first item says how it went. */
int redis_call(struct redis *store, const struct call *call, struct reply *ret_reply);
int redis_error(struct redis *store, const struct reply *reply);
/* A word of the script's, as an error. */
int redis_status(struct redis *store, const struct reply *reply);
extern const char *const redis_scripts[REDIS_SCRIPTS];
int redis_load(struct redis *store, struct wire *wire, int64_t until);

/* server.c */

int redis_server_look(struct wire *wire, int64_t until, struct redis_server *ret_server);
/* Refuse what cannot hold a store, and say what it promises. */
int redis_server_judge(const struct redis *store, const struct redis_server *server,
		       char **ret_why);
/* One that has just started has to have its log rewritten before it is written to. */
int redis_server_settle(struct redis *store, struct wire *wire, int64_t until,
			const struct redis_server *server);

#endif
