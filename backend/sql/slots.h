/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_SLOTS_H
#define BACKEND_SQL_SLOTS_H

/* What the table of slots is filled with (open.c); backend.h describes each. */

#include "backend/slots.h"

struct sql;

int sql_snapshot_begin(struct backend *backend, unsigned flags,
		       struct backend_snapshot **ret_snapshot);
void sql_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot);
int sql_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_begun_fn *fn, void *arg);
/* Each slot that reads: sql_node_get(), sql_row_read() and the others. */
#define READ(slot, parameters, ...)                                                                \
	int sql_##slot(struct backend *backend,                                                    \
		       struct backend_snapshot *snapshot SLOTS_BEHIND parameters);
#define READ_ROWS READ
BACKEND_READS
BACKEND_SCANS
BACKEND_SHARED
BACKEND_HISTORY
#define CALL(...)
BACKEND_CHANGES
#undef CALL
BACKEND_JOINED
#undef READ
#undef READ_ROWS
int sql_commit(struct backend *backend, struct backend_batch *batch, unsigned flags);
int sql_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest);
int sql_change_wait(struct backend *backend, int timeout_ms);
void sql_wake(struct backend *backend);
int sql_sync(struct backend *backend);
int sql_space(struct backend *backend, struct backend_space *ret_space);
int sql_check(struct backend *backend, backend_report_fn *report, void *arg, uint64_t *ret_damage);
bool sql_is_shared(struct backend *backend);
bool sql_on_duty(struct backend *backend);
uint64_t sql_lease(struct backend *backend);
void sql_turn(struct backend *backend, bool take);
int sql_hold(struct backend *backend, bool untold);
int sql_use(struct backend *backend, uint64_t ino, bool on);
void sql_feed_done(struct backend *backend, uint64_t n);

/* Of the pool (snapshot.c), at the end. */
void sql_pool_done(struct sql *store);
/* Now and then: transactions do not outlive their snapshots by much. */
void sql_pool_rest(struct sql *store);
/* Become the writer (commit.c), and give that up. */
void sql_writer_take(struct sql *store);
void sql_writer_give(struct sql *store);

#endif
