/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_ENTRIES_H
#define FS_BASE_ENTRIES_H

#include "backend/backend.h"

/*
 * Entries of directories with their nodes, kept until the store may be asked again: a callback of
 * entry_list() must not change it.  They own their bytes.
 */
struct entry_copy {
	uint64_t parent;
	uint64_t id;
	char *name;
	size_t name_size;
	struct backend_node node;
	bool noted; /* for use by the caller */
};

struct entries {
	struct entry_copy *item;
	size_t count;
	size_t room;
};

static inline struct bytes entry_name(const struct entry_copy *entry)
{
	return bytes_make(entry->name, entry->name_size);
}
void entry_done(struct entry_copy *entry);

/* 0 or -ENOMEM.  entry NULL: of the node alone. */
int entries_add(struct entries *entries, const struct backend_entry *entry,
		const struct backend_node *node);
/* A backend_entry_fn; arg is a struct entries.  A directory has one name; in a damaged store
 * another one may seem to lead to it, and is left out. */
int entries_keep(void *arg, const struct backend_entry *entry, const struct backend_node *node);
void entries_done(struct entries *entries);
/* A backend_node_fn; arg is a struct backend_node, which becomes a copy.  Ends the listing. */
int node_keep(void *arg, const struct backend_node *node);

#endif
