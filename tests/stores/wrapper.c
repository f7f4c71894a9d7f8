/* SPDX-License-Identifier: MIT */
#include "tests/stores/wrapper.h"

void wrapper_init(struct wrapper *wrapper, struct backend *inner, const struct backend_ops *ops)
{
	wrapper->backend = *inner;
	wrapper->backend.ops = ops;
	wrapper->inner = inner;
}

void wrapper_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct backend *inner = wrapper_inner(backend);

	inner->ops->snapshot_end(inner, snapshot);
}

int wrapper_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_begun_fn *fn, void *arg)
{
	return backend_snapshot_begun(wrapper_inner(backend), snapshot, fn, arg);
}

bool wrapper_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg)
{
	return backend_snapshot_keep(wrapper_inner(backend), keep, arg);
}

int wrapper_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest)
{
	return backend_change_waiting(wrapper_inner(backend), ret_oldest, ret_newest);
}

void wrapper_wake(struct backend *backend)
{
	struct backend *inner = wrapper_inner(backend);

	inner->ops->wake(inner);
}

void wrapper_set_quota(struct backend *backend, uint64_t max_size)
{
	struct backend *inner = wrapper_inner(backend);

	backend_set_quota(inner, max_size);
	backend->max_item = (uint64_t)inner->max_item;
}

bool wrapper_on_duty(struct backend *backend)
{
	return backend_on_duty(wrapper_inner(backend));
}

bool wrapper_is_shared(struct backend *backend)
{
	return backend_is_shared(wrapper_inner(backend));
}

uint64_t wrapper_lease(struct backend *backend)
{
	return backend_lease(wrapper_inner(backend));
}

void wrapper_turn(struct backend *backend, bool take)
{
	backend_turn(wrapper_inner(backend), take);
}

bool wrapper_hold(struct backend *backend, bool untold)
{
	return backend_hold(wrapper_inner(backend), untold);
}

int wrapper_use(struct backend *backend, uint64_t ino, bool on)
{
	return backend_use(wrapper_inner(backend), ino, on);
}

void wrapper_feed_done(struct backend *backend, uint64_t n)
{
	backend_feed_done(wrapper_inner(backend), n);
}

int wrapper_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy)
{
	return backend_copy(wrapper_inner(backend), new_store, copy);
}
