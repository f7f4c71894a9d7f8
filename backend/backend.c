/* SPDX-License-Identifier: MIT */
#include "backend/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/memory/memory.h"
#include "backend/sqlite/sqlite.h"
#include "src/base/cleanup.h"

int backend_open(const char *store, const struct backend_options *options,
		 struct backend **ret_backend, char **ret_why)
{
	if (ret_why)
		*ret_why = NULL;
	if (strcmp(store, "memory:") == 0)
		return memory_backend_open(options, ret_backend);
	return sqlite_backend_open(store, options, ret_backend, ret_why);
}

int backend_repair(const char *store, const char *new_store, const struct backend_repair *repair,
		   struct backend_repaired *ret_repaired, char **ret_why)
{
	if (ret_why)
		*ret_why = NULL;
	if (strcmp(store, "memory:") == 0)
		return -EOPNOTSUPP;
	return sqlite_backend_repair(store, new_store, repair, ret_repaired, ret_why);
}

void backend_discard(const char *store)
{
	if (strcmp(store, "memory:") != 0)
		sqlite_backend_discard(store);
}

int backend_read_older(const char *file, const char *table, backend_older_fn *fn, void *arg,
		       char **ret_why)
{
	*ret_why = NULL;
	return sqlite_backend_read_older(file, table, fn, arg, ret_why);
}

int backend_install(const char *new_store, const char *store, bool replace, char **ret_why)
{
	*ret_why = NULL;
	return sqlite_backend_install(new_store, store, replace, ret_why);
}

bool backend_has_kept(const char *store)
{
	return strcmp(store, "memory:") != 0 && sqlite_backend_has_kept(store);
}

bool backend_is_owned(const char *store)
{
	return strcmp(store, "memory:") != 0 && sqlite_backend_is_owned(store);
}

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

const char *backend_op_name(enum backend_op_type type)
{
	static const char *const names[BACKEND_OP_TYPES] = {
		[BACKEND_ROW_INSERT] = "row-insert",	   [BACKEND_ROW_PUT] = "row-put",
		[BACKEND_ROW_DELETE] = "row-delete",	   [BACKEND_KEY_MOVE] = "key-move",
		[BACKEND_KEY_HIDE] = "key-hide",	   [BACKEND_KEY_SHOW] = "key-show",
		[BACKEND_HIDDEN_DELETE] = "hidden-delete", [BACKEND_NODE_PUT] = "node-put",
		[BACKEND_NODE_DELETE] = "node-delete",	   [BACKEND_ENTRY_PUT] = "entry-put",
		[BACKEND_ENTRY_DELETE] = "entry-delete",   [BACKEND_XATTR_PUT] = "xattr-put",
		[BACKEND_XATTR_DELETE] = "xattr-delete",   [BACKEND_CHUNK_PUT] = "chunk-put",
		[BACKEND_CHUNK_DELETE] = "chunk-delete",   [BACKEND_PIECE_PUT] = "piece-put",
		[BACKEND_PIECE_DELETE] = "piece-delete",   [BACKEND_MARK_PUT] = "mark-put",
		[BACKEND_MARK_DELETE] = "mark-delete",	   [BACKEND_CHANGE_DONE] = "change-done",
	};

	if ((unsigned)type >= ARRAY_SIZE(names))
		return "unknown";
	return names[type];
}
