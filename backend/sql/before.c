/* SPDX-License-Identifier: MIT */
#include "backend/sql/before.h"

#include <errno.h>

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

static int take_nodes(struct sql *store, struct before *before, struct sql_answer *answer)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(store, answer, columns)) {
		const struct backend_node node = sql_node_at(columns);

		r = before_take_node(before, node.ino, &node);
	}
	return r;
}

static int take_entries(struct sql *store, struct before *before, struct sql_answer *answer)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(store, answer, columns))
		r = before_take_entry(before, (uint64_t)sql_int(columns[0]), sql_int(columns[1]),
				      columns[2], (uint64_t)sql_int(columns[3]), true);
	return r;
}

static int ask_list(struct sql *store, struct before *before, struct sql_link *link,
		    enum sql_text text, const struct buf *list,
		    int (*take)(struct sql *, struct before *, struct sql_answer *))
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_answer *answer = NULL;
	int r = list->size ? buf_append_str(&buf, store->texts.text[text]) : 0;

	if (r < 0 || !list->size)
		return r;
	r = buf_append_bytes(&buf, buf_bytes(list));
	if (r == 0)
		r = buf_append_byte(&buf, ')');
	if (r == 0)
		r = sql_ask(store, link, buf_bytes(&buf), &answer);
	if (r == 0)
		r = take(store, before, answer);
	store->texts.driver->answer_done(answer);
	return r;
}

int sql_before_ask(struct sql *store, struct before *before, struct sql_link *link,
		   const struct backend_batch *const *batches, size_t count)
{
	_cleanup_(buf_done) struct buf nodes = { 0 };
	_cleanup_(buf_done) struct buf entries = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = before_want(before, batches[i]->ops, batches[i]->count);
	if (r == 0)
		r = list_wanted(before, &nodes, &entries);
	if (r == 0)
		r = ask_list(store, before, link, SQL_NODES_BEFORE, &nodes, take_nodes);
	return r < 0 ? r :
		       ask_list(store, before, link, SQL_ENTRIES_BEFORE, &entries, take_entries);
}
