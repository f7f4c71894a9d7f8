/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_MOUNTS_H
#define BACKEND_REDIS_MOUNTS_H

/*
 * Which mounts have the store: each says now and then that it lives, and one that was silent for
 * REDIS_LEASE_MS by the server's clock is ended by another.  One that was ended commits nothing
 * until it has joined again.
 */

#include "backend/redis/store.h"

/* Call the script for mounts. */
int mounts_call(struct redis *store, struct reply *ret_reply, const char *form,
		const struct backend_op *op);
/* To this format; -EBUSY: mounts of an older program have the store. */
int redis_bring_forward(struct redis *store, char **ret_why);
int redis_join(struct redis *store, bool shared, char **ret_why);
/* If it still is the mount that was ended. */
int redis_rejoin(struct redis *store, uint64_t number);
void redis_leave(struct redis *store);
/* Say that this mount lives, and hear of the others.  lease: end those that were silent for so
 * long; 0: none; -1: and trim no notes; REDIS_LOOK: and say nothing. */
enum { REDIS_LOOK = -2 };
int redis_beat(struct redis *store, int64_t lease);

void redis_set_alone(struct redis *store, bool alone);
bool redis_uses_here(struct redis *store, uint64_t ino);
/* Ask which mounts are there. */
void redis_look(struct redis *store);
/* Tell what is in use here, once there are others; and no more, once there are none. */
int redis_tell_uses(struct redis *store);
/* -EAGAIN when locks of others are in the way of these; what the others have is appended. */
int redis_locks_judge(struct redis *store, uint64_t ino, struct bytes locks, struct buf *others);

#endif
