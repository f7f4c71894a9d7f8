/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_CALL_H
#define BACKEND_REDIS_CALL_H

/*
 * Calls of the scripts (store.lua): what they are given, in the order in which they read it.
 *
 *	which store, name, words of its own, groups, how many requests, words in front of these,
 *	requests
 *
 * Groups are keys of sessions.  Of the script for mounts a call has one request, whose first word
 * is the name, and nothing else.
 *
 * A request is written as a form, whose words are filled from the fields of an operation:
 *
 *	#F	a number, as text		=F	a number, as it stands in keys
 *	$d $n	data, name, also $s $k		[TF...]	a key of table T; a > instead of its end:
 *						the first one behind all that begin with it
 *	@X	the group of session and key	&X	that of session_to and key_to
 *	!	the hidden rows of ino		^F	nothing, but a gate (i p k) is needed
 *
 * All else stands for itself.  F is a field by its first letter: ino, parent, at, to, offset, seq,
 * version, name, k for session and key, S for the session alone, m for this mount's number.  X is
 * what is done with the group (call_touches()).
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

/* A key of a session, or hidden rows: where its gate and its name stand among the words. */
struct call_group {
	size_t at, size;
	uint64_t hash; /* call_key_hash() */
};

enum { CALL_GATES = 512 };

struct call {
	struct redis *store;
	enum redis_script script;
	struct words head, front, requests;
	size_t request_count;
	struct words group_words;
	struct call_group *groups;
	size_t group_count, group_room;
	unsigned gates[CALL_GATES]; /* that a read depends on */
	size_t gate_count;
	int error;
};

#define OP(...) (&(const struct backend_op){ __VA_ARGS__ })

void call_done(struct call *call);
/* A number of a key, that tells it from others well enough for what is only looked at sooner. */
uint64_t call_key_hash(struct bytes session, struct bytes key);
/* The number of a key's group, from 1 on; 0: out of memory, which is remembered. */
size_t call_group(struct call *call, struct bytes session, struct bytes key, char touches);
/* What is done with it: h hidden rows, c read, n named, p gets a file, a rows come behind,
 * r changed. */
char *call_touches(const struct call *call, const struct call_group *group);
void call_say(struct call *call, const char *form, const struct backend_op *op);
/* Words of a form, in the middle of a request. */
void call_words(struct call *call, const char *form, const struct backend_op *op);
/* The command, to be sent; rest: what comes behind the requests, or NULL. */
int call_command(const struct call *call, const struct words *rest, struct buf *buf);

#endif
