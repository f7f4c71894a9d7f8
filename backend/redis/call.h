/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_CALL_H
#define BACKEND_REDIS_CALL_H

/*
 * Calls of the script (store.lua): what it is given, in the order in which it reads it.
 *
 *	name, words of its own, groups, what is done with each of these, requests
 *
 * Groups are keys of sessions, with the four keys of Redis that each has; a call has each once.
 */

#include "backend/backend.h"
#include "backend/memory/key.h"
#include "backend/redis/wire.h"

struct redis;

enum redis_script {
	REDIS_OF_MOUNTS,
	REDIS_READ,
	REDIS_COMMIT,
	REDIS_COMMIT_FULL, /* the same, that a full server runs: for what only takes away */
	REDIS_SCRIPTS,
};

struct call_group {
	struct bytes session, key; /* in owned */
	char *owned;
	uint64_t hidden; /* or the node whose hidden rows it is */
	/* "c": it is read, "n": named, "p": a file is made for it, "a": rows come behind, "r": rows
	 * are changed. */
	const char *touches;
};

struct call {
	const struct redis *store;
	enum redis_script script;
	struct words head;     /* before the groups */
	struct words requests; /* behind them */
	size_t request_count;
	struct call_group *groups;
	size_t group_count, group_room;
	int error;
};

void call_done(struct call *call);
/* The number of a key's group, from 1 on; 0: out of memory, which is remembered. */
size_t call_group(struct call *call, struct bytes session, struct bytes key, const char *touches);
size_t call_hidden(struct call *call, uint64_t ino);
/* Words of a request. */
void call_request(struct call *call, const char *name);
void call_words(struct call *call, struct bytes word);
void call_str(struct call *call, const char *word);
void call_number(struct call *call, int64_t number);
/* A key of the map, which is ended. */
void call_key(struct call *call, struct key key);
/* The end of a range of keys that begin with one, which is ended: the first behind them. */
void call_end(struct call *call, struct key key);
/* The command, to be sent; rest: what comes behind the requests, or NULL. */
int call_command(const struct call *call, const struct words *rest, struct buf *buf);

/* A name of the group in the server: session and key (KEY_ROW); and back. */
struct key call_name(struct bytes session, struct bytes key);
int call_unname(struct bytes name, struct buf *session, struct buf *key);
bool call_is_sidecar(struct bytes key);

#endif
