/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_SLOTS_H
#define BACKEND_REDIS_SLOTS_H

/* The slots of a store on Redis. */

#include "backend/redis/store.h"
#include "backend/slots.h"

#define READ(slot, parameters, ...)                                                                \
	int redis_##slot(struct backend *backend,                                                  \
			 struct backend_snapshot *snapshot SLOTS_BEHIND parameters);
#define READ_ROWS READ
#define CALL(slot, parameters, ...)                                                                \
	int redis_##slot(struct backend *backend SLOTS_BEHIND parameters);
BACKEND_READS
BACKEND_SHARED
BACKEND_JOINED
BACKEND_CHANGES
#undef READ
#undef READ_ROWS
#undef CALL

int redis_snapshot_begin(struct backend *backend, unsigned flags,
			 struct backend_snapshot **ret_snapshot);
void redis_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot);
int redis_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			 backend_begun_fn *fn, void *arg);
int redis_commit(struct backend *backend, struct backend_batch *batch, unsigned flags);
bool redis_is_shared(struct backend *backend);
bool redis_on_duty(struct backend *backend);
void redis_turn(struct backend *backend, bool take);
int redis_hold(struct backend *backend, bool untold);
int redis_use(struct backend *backend, uint64_t ino, bool on);
uint64_t redis_lease(struct backend *backend);
void redis_feed_done(struct backend *backend, uint64_t n);
int redis_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest);
int redis_session_names(struct backend *backend, backend_name_fn *fn, void *arg);
void redis_wake(struct backend *backend);

#endif
