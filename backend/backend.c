/* SPDX-License-Identifier: MIT */
#include "backend/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/defaults.h"
#include "backend/slots.h"

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

/* ---- What a store need not have ---- */

/* A table of functions and nothing else. */
static void fill(void *table, const void *given, const void *defaults, size_t size)
{
	static void (*const none)(void);

	for (size_t at = 0; at < size; at += sizeof(none)) {
		bool has = given && memcmp((const char *)given + at, &none, sizeof(none)) != 0;

		memcpy((char *)table + at, (const char *)(has ? given : defaults) + at,
		       sizeof(none));
	}
}

#define FILL(capability)                                                                           \
	fill(&backend->capability, ops->capability, &default_##capability,                         \
	     sizeof(backend->capability))

void backend_init(struct backend *backend, const struct backend_ops *ops)
{
	backend->ops = ops;
	FILL(scans);
	FILL(joined);
	FILL(changes);
	FILL(shared);
	FILL(snapshots);
	FILL(upkeep);
	FILL(history);
	sem_init(&backend->woken, 0, 0);
}

bool backend_has_quota(const struct backend *backend)
{
	/* A plugin fills in defaults of its own. */
	return backend->ops->upkeep && backend->ops->upkeep->set_quota;
}

void backend_set_quota(struct backend *backend, uint64_t max_size)
{
	backend->upkeep.set_quota(backend, max_size);
}

int backend_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			   backend_begun_fn *fn, void *arg)
{
	return backend->snapshots.snapshot_begun(backend, snapshot, fn, arg);
}

/* clang-format off */
#define OTHER(type, capability, slot, parameters, arguments)                                       \
	type backend_##slot(struct backend *backend SLOTS_BEHIND parameters)                       \
	{                                                                                          \
		return backend->capability.slot(backend SLOTS_BEHIND arguments);                   \
	}
BACKEND_OTHERS
#define READ SLOTS_READ
#define READ_ROWS READ
#define CALL(slot, parameters, arguments) OTHER(int, scans, slot, parameters, arguments)
BACKEND_SCANS
#undef CALL
#define CALL(slot, parameters, arguments) OTHER(int, joined, slot, parameters, arguments)
BACKEND_JOINED
#undef CALL
#define CALL(slot, parameters, arguments) OTHER(int, changes, slot, parameters, arguments)
BACKEND_CHANGES
#undef CALL
#define CALL(slot, parameters, arguments) OTHER(int, shared, slot, parameters, arguments)
BACKEND_SHARED
#undef CALL
#define CALL(slot, parameters, arguments) OTHER(int, upkeep, slot, parameters, arguments)
BACKEND_UPKEEP
#undef CALL
#define CALL(slot, parameters, arguments) OTHER(int, history, slot, parameters, arguments)
BACKEND_HISTORY
/* clang-format on */
