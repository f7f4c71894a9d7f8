/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "backend/feed/before.h"
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

int before_take_node(struct before *before, uint64_t ino, const struct backend_node *node)
{
	struct before_node *known = make_node(before, ino);

	if (!known)
		return -ENOMEM;
	known->asked = true;
	backend_node_done(&known->node);
	known->there = node;
	return node ? backend_node_copy(node, &known->node) : 0;
}

int before_take_entry(struct before *before, uint64_t parent, int64_t id, struct bytes name,
		      uint64_t ino, bool there)
{
	struct before_entry *known = make_entry(before, parent, id);

	if (!known)
		return -ENOMEM;
	known->asked = true;
	known->there = there;
	known->ino = ino;
	buf_clear(&known->name);
	return buf_append_bytes(&known->name, name);
}

uint64_t before_needs(const struct backend_op *op)
{
	if (op->type == BACKEND_NODE_PUT)
		return op->node->ino;
	return feed_is_below(op->type) || op->type == BACKEND_ROWS_SHIFT ? op->ino : 0;
}

int before_want(struct before *before, const struct backend_op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t ino = before_needs(&ops[i]);

		if (ino && !make_node(before, ino))
			return -ENOMEM;
		if (ops[i].type == BACKEND_ENTRY_DELETE &&
		    !make_entry(before, ops[i].parent, ops[i].at))
			return -ENOMEM;
	}
	return 0;
}

int before_apply(struct before *before, const struct backend_op *op)
{
	switch (op->type) {
	case BACKEND_NODE_PUT:
		return before_take_node(before, op->node->ino, op->node);
	case BACKEND_NODE_DELETE:
		return before_take_node(before, op->ino, NULL);
	case BACKEND_ENTRY_PUT:
		return before_take_entry(before, op->parent, op->at, op->name, op->ino, true);
	case BACKEND_ENTRY_DELETE:
		return before_take_entry(before, op->parent, op->at, BYTES(""), 0, false);
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
