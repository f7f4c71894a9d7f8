/* SPDX-License-Identifier: MIT */
#ifndef STORES_WRAPPER_H
#define STORES_WRAPPER_H

/*
 * What wrappers have in common: the head of their structs, and the slots that they pass on to the
 * store inside as they are.
 */

#include "backend/backend.h"

struct wrapper {
	struct backend backend; /* must be first */
	struct backend *inner;	/* owned */
};

static inline struct backend *wrapper_inner(struct backend *backend)
{
	return ((struct wrapper *)backend)->inner;
}

/* To be seen as the store inside, with other slots. */
void wrapper_init(struct wrapper *wrapper, struct backend *inner, const struct backend_ops *ops);

void wrapper_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot);
int wrapper_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_begun_fn *fn, void *arg);
bool wrapper_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg);
int wrapper_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest);
void wrapper_wake(struct backend *backend);
void wrapper_set_quota(struct backend *backend, uint64_t max_size);
bool wrapper_is_shared(struct backend *backend);
void wrapper_turn(struct backend *backend, bool take);
bool wrapper_on_duty(struct backend *backend);
bool wrapper_hold(struct backend *backend, bool untold);
uint64_t wrapper_lease(struct backend *backend);
int wrapper_use(struct backend *backend, uint64_t ino, bool on);
void wrapper_feed_done(struct backend *backend, uint64_t n);
int wrapper_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy);

/* For the table of slots: all of these but snapshot_end() and snapshot_begun(). */
/* clang-format off */
#define WRAPPER_SLOTS                                                                              \
	.snapshot_keep = wrapper_snapshot_keep,                                                    \
	.change_waiting = wrapper_change_waiting,                                                  \
	.wake = wrapper_wake,                                                                      \
	.set_quota = wrapper_set_quota,                                                            \
	.is_shared = wrapper_is_shared,                                                            \
	.on_duty = wrapper_on_duty,                                                                \
	.turn = wrapper_turn,                                                                      \
	.hold = wrapper_hold,                                                                      \
	.lease = wrapper_lease,                                                                    \
	.use = wrapper_use,                                                                        \
	.feed_done = wrapper_feed_done,                                                            \
	.copy = wrapper_copy
/* clang-format on */

#endif
