/* SPDX-License-Identifier: MIT */
#include "backend/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"

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

int backend_judge_older(const char *database, const char *table, unsigned columns, char **ret_why)
{
	const unsigned needed = BACKEND_OLDER_SESSION | BACKEND_OLDER_DATA;

	if (!columns)
		return str_explain(ret_why, -EMEDIUMTYPE, "there is no table %s in %s", table,
				   database);
	if (columns & BACKEND_OLDER_INDEX)
		return str_explain(
			ret_why, -EMEDIUMTYPE,
			"the table %s in %s has the layout of a store; use %s itself as one", table,
			database, database);
	if ((columns & needed) != needed)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "the table %s in %s has no columns session_id and state_data",
				   table, database);
	return 0;
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

int backend_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_begun_fn *fn, void *arg)
{
	return backend->ops->snapshot_begun ?
		       backend->ops->snapshot_begun(backend, snapshot, fn, arg) :
		       fn(arg);
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

void backend_set_quota(struct backend *backend, uint64_t max_size)
{
	if (backend->ops->set_quota)
		backend->ops->set_quota(backend, max_size);
}

bool backend_is_shared(struct backend *backend)
{
	return backend->ops->is_shared && backend->ops->is_shared(backend);
}

bool backend_on_duty(struct backend *backend)
{
	return !backend->ops->on_duty || backend->ops->on_duty(backend);
}

uint64_t backend_lease(struct backend *backend)
{
	return backend->ops->lease ? backend->ops->lease(backend) : 0;
}

void backend_turn(struct backend *backend, bool take)
{
	if (backend->ops->turn)
		backend->ops->turn(backend, take);
}

bool backend_hold(struct backend *backend, bool untold)
{
	return backend->ops->hold && backend->ops->hold(backend, untold);
}

int backend_use(struct backend *backend, uint64_t ino, bool on)
{
	return backend->ops->use ? backend->ops->use(backend, ino, on) : on;
}

int backend_lock_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		      const struct backend_lock *lock, struct backend_lock *ret_lock)
{
	return backend->ops->lock_find ?
		       backend->ops->lock_find(backend, snapshot, ino, lock, ret_lock) :
		       -ENOENT;
}

/* Whether one that another mount holds is in the way of one that is asked for. */
static bool clash(const struct backend_lock *held, const struct backend_lock *lock)
{
	if (held->whole != lock->whole && held->whole != BACKEND_MAPPED)
		return false;
	if (!(held->exclusive || lock->exclusive))
		return false;
	return held->whole || (held->start <= lock->end && lock->start <= held->end);
}

bool backend_lock_in(struct bytes locks, const struct backend_lock *lock,
		     struct backend_lock *ret_lock)
{
	for (size_t i = 0; i + sizeof(*ret_lock) <= locks.size; i += sizeof(*ret_lock)) {
		memcpy(ret_lock, locks.data + i, sizeof(*ret_lock));
		if (clash(ret_lock, lock))
			return true;
	}
	return false;
}

bool backend_locks_clash(struct bytes locks, struct bytes others)
{
	struct backend_lock lock, other;

	for (size_t i = 0; i + sizeof(lock) <= locks.size; i += sizeof(lock)) {
		memcpy(&lock, locks.data + i, sizeof(lock));
		if (backend_lock_in(others, &lock, &other))
			return true;
	}
	return false;
}

int backend_feed_list(struct backend *backend, struct backend_snapshot *snapshot,
		      backend_feed_fn *fn, void *arg)
{
	return backend->ops->feed_list ? backend->ops->feed_list(backend, snapshot, fn, arg) : 0;
}

void backend_feed_done(struct backend *backend, uint64_t n)
{
	if (backend->ops->feed_done)
		backend->ops->feed_done(backend, n);
}

int backend_orphan_list(struct backend *backend, struct backend_snapshot *snapshot,
			backend_node_fn *fn, void *arg)
{
	return backend->ops->orphan_list ? backend->ops->orphan_list(backend, snapshot, fn, arg) :
					   0;
}

int backend_orphan_find(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	return backend->ops->orphan_find ?
		       backend->ops->orphan_find(backend, snapshot, session, key, ret_node) :
		       -ENOENT;
}
