/* SPDX-License-Identifier: MIT */
#ifndef STORES_WRAPPER_H
#define STORES_WRAPPER_H

/*
 * What wrappers have in common: the head of their structs, and the slots that they pass on to the
 * store inside as they are.
 */

#include "backend/slots.h"

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
void wrapper_set_quota(struct backend *backend, uint64_t max_size);
#define OTHER(type, capability, slot, parameters, ...)                                             \
	type wrapper_##slot(struct backend *backend SLOTS_BEHIND parameters);
BACKEND_OTHERS
#undef OTHER

/* For the tables of slots. */
#define WRAPPER_CHANGES                                                                            \
	.change_waiting = wrapper_change_waiting, .wake = wrapper_wake,                            \
	.change_seen = wrapper_change_seen, .session_names = wrapper_session_names
#define WRAPPER_SHARED                                                                             \
	.is_shared = wrapper_is_shared, .on_duty = wrapper_on_duty, .turn = wrapper_turn,          \
	.hold = wrapper_hold, .lease = wrapper_lease, .use = wrapper_use,                          \
	.feed_done = wrapper_feed_done
#define WRAPPER_UPKEEP .set_quota = wrapper_set_quota, .copy = wrapper_copy

#endif
