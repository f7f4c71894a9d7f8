/* SPDX-License-Identifier: MIT */
#include "tests/stores/wrapper.h"

void wrapper_init(struct wrapper *wrapper, struct backend *inner, const struct backend_ops *ops)
{
	wrapper->backend.max_item = (uint64_t)inner->max_item;
	wrapper->backend.read_only = (bool)inner->read_only;
	wrapper->inner = inner;
	backend_init(&wrapper->backend, ops);
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

void wrapper_set_quota(struct backend *backend, uint64_t max_size)
{
	struct backend *inner = wrapper_inner(backend);

	backend_set_quota(inner, max_size);
	backend->max_item = (uint64_t)inner->max_item;
}

/* clang-format off */
#define OTHER(type, capability, slot, parameters, arguments)                                       \
	type wrapper_##slot(struct backend *backend SLOTS_BEHIND parameters)                       \
	{                                                                                          \
		return backend_##slot(wrapper_inner(backend) SLOTS_BEHIND arguments);              \
	}
BACKEND_OTHERS
/* clang-format on */
