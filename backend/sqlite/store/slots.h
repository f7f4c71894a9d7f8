/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SLOTS_H
#define BACKEND_SQLITE_SLOTS_H

/* What the table of slots is filled with (open.c); backend.h describes each. */

#include "backend/slots.h"

int sqlite_snapshot_begin(struct backend *backend, unsigned flags,
			  struct backend_snapshot **ret_snapshot);
void sqlite_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot);
bool sqlite_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg);
/* Each slot that reads: sqlite_node_get(), sqlite_row_read() and the others. */
#define READ(slot, parameters, ...)                                                                \
	int sqlite_##slot(struct backend *backend,                                                 \
			  struct backend_snapshot *snapshot SLOTS_BEHIND parameters);
#define READ_ROWS READ
BACKEND_READS
BACKEND_SCANS
BACKEND_SHARED
BACKEND_HISTORY
#define CALL(...)
BACKEND_CHANGES
#undef CALL
#undef READ
#undef READ_ROWS
int sqlite_commit(struct backend *backend, struct backend_batch *batch, unsigned flags);
int sqlite_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest);
int sqlite_change_wait(struct backend *backend, int timeout_ms);
void sqlite_wake(struct backend *backend);
bool sqlite_change_seen(struct backend *backend, int64_t stamp);
void sqlite_set_quota(struct backend *backend, uint64_t max_size);
int sqlite_sync(struct backend *backend);
int sqlite_space(struct backend *backend, struct backend_space *ret_space);
int sqlite_check(struct backend *backend, backend_report_fn *report, void *arg,
		 uint64_t *ret_damage);
bool sqlite_is_shared(struct backend *backend);
bool sqlite_on_duty(struct backend *backend);
void sqlite_turn(struct backend *backend, bool take);
int sqlite_hold(struct backend *backend, bool untold);
int sqlite_use(struct backend *backend, uint64_t ino, bool on);
void sqlite_feed_done(struct backend *backend, uint64_t n);
int sqlite_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy);

#endif
