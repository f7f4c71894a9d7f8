/* SPDX-License-Identifier: MIT */
#include "backend/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/cleanup.h"

void backend_close(struct backend *backend)
{
	if (backend)
		backend->ops->close(backend);
}

void backend_node_done(struct backend_node *node)
{
	if (!node)
		return;
	free(node->owned);
	*node = (struct backend_node){ 0 };
}

/* Bytes that are there stay there: an empty key is not "no key". */
static struct bytes place(struct bytes from, char **room)
{
	struct bytes placed = { from.data ? *room : NULL, from.size };

	if (from.size)
		memcpy(*room, from.data, from.size);
	*room += from.size;
	return placed;
}

int backend_node_copy(const struct backend_node *node, struct backend_node *ret_node)
{
	size_t size = node->session.size + node->key.size + node->target.size;
	struct backend_node copy = *node;
	char *room;

	copy.owned = NULL;
	if (node->session.data || node->key.data || node->target.data) {
		copy.owned = malloc(size + 1);
		if (!copy.owned)
			return -ENOMEM;
		room = copy.owned;
		copy.session = place(node->session, &room);
		copy.key = place(node->key, &room);
		copy.target = place(node->target, &room);
	}
	*ret_node = copy;
	return 0;
}

bool backend_snapshot_keep(struct backend *backend, backend_keep_fn *keep, void *arg)
{
	return backend->ops->snapshot_keep && backend->ops->snapshot_keep(backend, keep, arg);
}

int backend_change_waiting(struct backend *backend, int64_t *ret_oldest, int64_t *ret_newest)
{
	return backend->ops->change_waiting ?
		       backend->ops->change_waiting(backend, ret_oldest, ret_newest) :
		       -EOPNOTSUPP;
}

int backend_copy(struct backend *backend, const char *new_store, const struct backend_copy *copy)
{
	return backend->ops->copy ? backend->ops->copy(backend, new_store, copy) : -EOPNOTSUPP;
}
