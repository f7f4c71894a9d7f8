/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "backend/sql/before.h"
#include "backend/sql/read.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

void before_done(struct before *before)
{
	for (size_t i = 0; i < before->node_count; i++)
		backend_node_done(&before->nodes[i].node);
	for (size_t i = 0; i < before->entry_count; i++)
		buf_done(&before->entries[i].name);
	free(before->nodes);
	free(before->entries);
	*before = (struct before){ 0 };
}

static struct before_node *find_node(const struct before *before, uint64_t ino)
{
	for (size_t i = before->node_count; i; i--)
		if (before->nodes[i - 1].ino == ino)
			return &before->nodes[i - 1];
	return NULL;
}

const struct backend_node *before_node(const struct before *before, uint64_t ino)
{
	const struct before_node *known = find_node(before, ino);

	return known && known->there ? &known->node : NULL;
}

static struct before_entry *find_entry(const struct before *before, uint64_t parent, int64_t id)
{
	for (size_t i = before->entry_count; i; i--)
		if (before->entries[i - 1].parent == parent && before->entries[i - 1].id == id)
			return &before->entries[i - 1];
	return NULL;
}

static struct before_node *make_node(struct before *before, uint64_t ino)
{
	struct before_node *known = find_node(before, ino);

	if (known)
		return known;
	if (ARRAY_ROOM(before->nodes, before->node_count, before->node_room) < 0)
		return NULL;
	known = &before->nodes[before->node_count++];
	*known = (struct before_node){ .ino = ino };
	return known;
}

static struct before_entry *make_entry(struct before *before, uint64_t parent, int64_t id)
{
	struct before_entry *known = find_entry(before, parent, id);

	if (known)
		return known;
	if (ARRAY_ROOM(before->entries, before->entry_count, before->entry_room) < 0)
		return NULL;
	known = &before->entries[before->entry_count++];
	*known = (struct before_entry){ .parent = parent, .id = id };
	return known;
}

static int set_node(struct before *before, uint64_t ino, const struct backend_node *node)
{
	struct before_node *known = make_node(before, ino);

	if (!known)
		return -ENOMEM;
	backend_node_done(&known->node);
	known->there = node;
	return node ? backend_node_copy(node, &known->node) : 0;
}

static int set_entry(struct before *before, uint64_t parent, int64_t id, struct bytes name,
		     uint64_t ino, bool there)
{
	struct before_entry *known = make_entry(before, parent, id);

	if (!known)
		return -ENOMEM;
	known->there = there;
	known->ino = ino;
	buf_clear(&known->name);
	return buf_append_bytes(&known->name, name);
}

uint64_t before_needs(const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_NODE_PUT:
		return op->node->ino;
	case BACKEND_NODE_DELETE:
	case BACKEND_XATTR_PUT:
	case BACKEND_XATTR_DELETE:
	case BACKEND_CHUNK_PUT:
	case BACKEND_CHUNK_DELETE:
	case BACKEND_PIECE_PUT:
	case BACKEND_PIECE_DELETE:
	case BACKEND_MARK_DELETE:
	case BACKEND_HIDDEN_DELETE:
	case BACKEND_ROWS_SHIFT:
		return op->ino;
	default:
		return 0;
	}
}

/* What is not known, as two lists; it is known as missing until the answer says otherwise. */
static int collect(struct before *before, const struct backend_op *ops, size_t count,
		   struct buf *nodes, struct buf *entries)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		uint64_t ino = before_needs(&ops[i]);

		if (ino && !find_node(before, ino)) {
			r = set_node(before, ino, NULL);
			if (r == 0)
				r = buf_printf(nodes, "%s%lld", nodes->size ? ", " : "",
					       (long long)sql_id(ino).number);
		}
		if (r == 0 && ops[i].type == BACKEND_ENTRY_DELETE &&
		    !find_entry(before, ops[i].parent, ops[i].at)) {
			r = set_entry(before, ops[i].parent, ops[i].at, BYTES(""), 0, false);
			if (r == 0)
				r = buf_printf(entries, "%s(%llu, %lld)", entries->size ? ", " : "",
					       (unsigned long long)ops[i].parent,
					       (long long)ops[i].at);
		}
	}
	return r;
}

static int take_nodes(struct before *before, struct sql_answer *answer)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(before->store, answer, columns)) {
		const struct backend_node node = sql_node_at(columns);

		r = set_node(before, node.ino, &node);
	}
	return r;
}

static int take_entries(struct before *before, struct sql_answer *answer)
{
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	while (r == 0 && sql_row(before->store, answer, columns))
		r = set_entry(before, (uint64_t)sql_int(columns[0]), sql_int(columns[1]),
			      columns[2], (uint64_t)sql_int(columns[3]), true);
	return r;
}

static int ask_list(struct before *before, struct sql_link *link, enum sql_text text,
		    const struct buf *list, int (*take)(struct before *, struct sql_answer *))
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_answer *answer = NULL;
	int r = list->size ? buf_append_str(&buf, before->store->texts.text[text]) : 0;

	if (r < 0 || !list->size)
		return r;
	r = buf_append_bytes(&buf, buf_bytes(list));
	if (r == 0)
		r = buf_append_byte(&buf, ')');
	if (r == 0)
		r = sql_ask(before->store, link, buf_bytes(&buf), &answer);
	if (r == 0)
		r = take(before, answer);
	before->store->texts.driver->answer_done(answer);
	return r;
}

int before_ask(struct before *before, struct sql_link *link,
	       const struct backend_batch *const *batches, size_t count)
{
	_cleanup_(buf_done) struct buf nodes = { 0 };
	_cleanup_(buf_done) struct buf entries = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = collect(before, batches[i]->ops, batches[i]->count, &nodes, &entries);
	if (r == 0)
		r = ask_list(before, link, SQL_NODES_BEFORE, &nodes, take_nodes);
	return r < 0 ? r : ask_list(before, link, SQL_ENTRIES_BEFORE, &entries, take_entries);
}

int before_apply(struct before *before, const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_NODE_PUT:
		return set_node(before, op->node->ino, op->node);
	case BACKEND_NODE_DELETE:
		return set_node(before, op->ino, NULL);
	case BACKEND_ENTRY_PUT:
		return set_entry(before, op->parent, op->at, op->name, op->ino, true);
	case BACKEND_ENTRY_DELETE:
		return set_entry(before, op->parent, op->at, BYTES(""), 0, false);
	default:
		return 0;
	}
}

/* For the notes. */

static int node_before(void *arg, uint64_t ino, struct backend_node *ret_node)
{
	const struct backend_node *node = before_node(arg, ino);

	return node ? backend_node_copy(node, ret_node) : -ENOENT;
}

static int entry_before(void *arg, uint64_t parent, int64_t id, struct buf *name,
			uint64_t *ret_node)
{
	const struct before_entry *known = find_entry(arg, parent, id);

	if (!known || !known->there)
		return -ENOENT;
	*ret_node = known->ino;
	return buf_append_bytes(name, buf_bytes(&known->name));
}

static int change_before(void *arg, const struct backend_op *op, struct backend_change *ret_change)
{
	const struct before *before = arg;

	(void)op;
	if (!before->change)
		return -ENOENT;
	*ret_change = *before->change;
	return 0;
}

struct feed_state before_state(struct before *before)
{
	return (struct feed_state){
		.node = node_before,
		.entry = entry_before,
		.change = change_before,
		.arg = before,
	};
}
