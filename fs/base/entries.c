/* SPDX-License-Identifier: MIT */
#include "fs/base/entries.h"
#include "backend/base/array.h"

#include <sys/stat.h>

void entry_done(struct entry_copy *entry)
{
	free(entry->name);
	backend_node_done(&entry->node);
}

int entries_add(struct entries *entries, const struct backend_entry *entry,
		const struct backend_node *node)
{
	static const struct backend_entry nowhere = { .name = BYTES("") };
	struct entry_copy *item;

	entry = entry ? entry : &nowhere;
	if (ARRAY_ROOM(entries->item, entries->count, entries->room) < 0)
		return -ENOMEM;
	item = &entries->item[entries->count];
	*item = (struct entry_copy){ .parent = entry->parent,
				     .id = entry->id,
				     .name = bytes_dup(entry->name),
				     .name_size = entry->name.size };
	if (!item->name)
		return -ENOMEM;
	if (backend_node_copy(node, &item->node) < 0) {
		free(item->name);
		return -ENOMEM;
	}
	entries->count++;
	return 0;
}

int entries_keep(void *arg, const struct backend_entry *entry, const struct backend_node *node)
{
	if (S_ISDIR(node->mode) && (node->parent != entry->parent || node->entry != entry->id))
		return 0;
	return entries_add(arg, entry, node);
}

void entries_done(struct entries *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		entry_done(&entries->item[i]);
	free(entries->item);
	*entries = (struct entries){ 0 };
}

int node_keep(void *arg, const struct backend_node *node)
{
	int r = backend_node_copy(node, arg);

	return r < 0 ? r : 1;
}
