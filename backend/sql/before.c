/* SPDX-License-Identifier: MIT */
#include "backend/sql/before.h"

#include <errno.h>

#include "backend/sql/cursor.h"
#include "backend/sql/read.h"
#include "backend/base/cleanup.h"

/* What is to be asked for, as two lists. */
static int list_wanted(struct before *before, struct buf *nodes, struct buf *entries)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < before->node_count; i++) {
		struct before_node *node = &before->nodes[i];

		if (!node->asked)
			r = buf_printf(nodes, "%s%lld", nodes->size ? ", " : "",
				       (long long)sql_id(node->ino).number);
		node->asked = true;
	}
	for (size_t i = 0; r == 0 && i < before->entry_count; i++) {
		struct before_entry *entry = &before->entries[i];

		if (!entry->asked)
			r = buf_printf(entries, "%s(%llu, %lld)", entries->size ? ", " : "",
				       (unsigned long long)entry->parent, (long long)entry->id);
		entry->asked = true;
	}
	return r;
}

/* Those of a list; an empty one is not asked for. */
static struct sql_cursor ask_list(struct sql *store, struct sql_link *link, enum sql_text text,
				  const struct buf *list)
{
	struct sql_cursor cursor = { .store = store };
	_cleanup_(buf_done) struct buf buf = { 0 };

	if (list->size)
		cursor.r = buf_join(&buf, bytes_str(store->texts.text[text]), buf_bytes(list),
				    BYTES(")"));
	if (cursor.r == 0 && list->size)
		cursor.r = sql_ask(store, link, buf_bytes(&buf), &cursor.answer);
	return cursor;
}

int sql_before_ask(struct sql *store, struct before *before, struct sql_link *link,
		   const struct backend_batch *const *batches, size_t count)
{
	_cleanup_(buf_done) struct buf nodes = { 0 };
	_cleanup_(buf_done) struct buf entries = { 0 };
	struct sql_cursor cursor;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = before_want(before, batches[i]->ops, batches[i]->count);
	if (r == 0)
		r = list_wanted(before, &nodes, &entries);
	if (r < 0)
		return r;
	cursor = ask_list(store, link, SQL_NODES_BEFORE, &nodes);
	while (sql_cursor_next(&cursor)) {
		const struct backend_node node = sql_node_at(cursor.columns);

		cursor.r = before_take_node(before, node.ino, &node);
	}
	r = sql_cursor_end(&cursor);
	if (r < 0)
		return r;
	cursor = ask_list(store, link, SQL_ENTRIES_BEFORE, &entries);
	while (sql_cursor_next(&cursor))
		cursor.r = before_take_entry(before, (uint64_t)sql_cursor_number(&cursor, 0),
					     sql_cursor_number(&cursor, 1), cursor.columns[2],
					     (uint64_t)sql_cursor_number(&cursor, 3), true);
	return sql_cursor_end(&cursor);
}
