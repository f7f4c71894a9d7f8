/* SPDX-License-Identifier: MIT */
/* Reads that join others. */
#include <errno.h>
#include <stdlib.h>

#include "backend/redis/pack.h"
#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"

enum { PAGE = 256 };

/* The rows of a list that end where this snapshot has seen it end: 0, or -ESTALE. */
static int take_tail(struct backend_snapshot *snapshot, const struct backend_node *node,
		     const struct reply *found, struct backend_tail *ret_tail)
{
	struct bytes offset = reply_bytes(reply_at(found, 0));
	struct bytes index = reply_bytes(reply_at(found, 1));
	const int64_t last = reply_number(reply_at(found, 6));
	struct backend_tail tail = {
		.known = true,
		.pieces = reply_is(reply_at(found, 2), "1"),
		.mark = { .index = INT64_MIN },
		.rows = (uint64_t)reply_number(reply_at(found, 3)),
		.bytes = (uint64_t)reply_number(reply_at(found, 4)),
		.last_bytes = (uint64_t)reply_number(reply_at(found, 5)),
		.last = last,
	};

	if (offset.size == 8 && index.size == 8) {
		tail.mark.offset = (uint64_t)key_take_number(&offset);
		tail.mark.index = key_take_number(&index);
	}
	if (node->kind == BACKEND_LIST &&
	    snapshot_see(snapshot, node->session, node->key, last + 1) != last + 1)
		return snapshot->error = -ESTALE;
	*ret_tail = tail;
	return 0;
}

static void ask_tail(struct reading *reading, const struct backend_node *node)
{
	call_say(&reading->call,
		 node->kind == BACKEND_LIST ? "tail ^i ^k @c =i 0" : "tail ^i ^k @c =i 1",
		 OP(.ino = node->ino, .session = node->session, .key = node->key));
}

int redis_tail_get(struct backend *backend, struct backend_snapshot *snapshot,
		   const struct backend_node *node, struct backend_tail *ret_tail)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	int r;

	ask_tail(&reading, node);
	r = reading_ask(&reading);
	return r < 0 ? r : take_tail(snapshot, node, reading_answer(&reading, 0), ret_tail);
}

/* What the answer to a look has of a file, or more questions. */
static int take_looked(struct backend *backend, struct backend_snapshot *snapshot,
		       const struct reply *found, struct backend_looked *looked)
{
	struct bytes id = reply_bytes(reply_at(found, 0));
	const struct reply *tail = reply_at(found, 2), *whole = reply_at(found, 3);
	unsigned wanted;
	int r;

	looked->error = id.data ? 0 : -ENOENT;
	if (looked->error < 0)
		return 0;
	looked->id = (uint64_t)key_take_number(&id);
	r = unpack_node(reply_bytes(reply_at(found, 1)), &looked->node);
	if (r < 0)
		return r;
	wanted = looked->wanted ? looked->wanted(looked->arg, &looked->node) : 0;
	if (looked->node.kind >= BACKEND_SINGLE && wanted)
		r = tail->type == REPLY_LIST ?
			    take_tail(snapshot, &looked->node, tail, &looked->tail) :
			    redis_tail_get(backend, snapshot, &looked->node, &looked->tail);
	if (r == 0 && (wanted & BACKEND_WHOLE) && whole->type == REPLY_TEXT &&
	    !(looked->node.flags & BACKEND_DRAFT)) {
		r = buf_append_bytes(&looked->bytes, reply_bytes(whole));
		looked->whole = r == 0;
	}
	return r;
}

int redis_entry_look(struct backend *backend, struct backend_snapshot *snapshot,
		     struct backend_looked *looked, size_t count)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	int r;

	for (size_t i = 0; i < count; i++)
		call_say(&reading.call, "look ^p [Lpn] [Ep] #t",
			 OP(.parent = looked[i].parent, .name = looked[i].name,
			    .to = looked[i].wanted ? 1 : 0));
	r = reading_ask(&reading);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = take_looked(backend, snapshot, reading_answer(&reading, i), &looked[i]);
	if (r < 0)
		backend_looked_done(looked, count);
	return r;
}

int redis_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct backend_looked one = { .parent = parent, .name = name };
	int r = redis_entry_look(backend, snapshot, &one, 1);

	r = r < 0 ? r : one.error;
	if (r == 0) {
		*ret_id = one.id;
		*ret_node = one.node;
	}
	return r;
}

int redis_key_look(struct backend *backend, struct backend_snapshot *snapshot,
		   struct backend_key_looked *looked, size_t count)
{
	static const struct {
		unsigned wanted;
		const char *key, *session; /* how it is asked */
	} what[] = {
		{ BACKEND_KEY_ROWS, "stat @c", "stat @c" },
		{ BACKEND_KEY_NODE, "get [Fk]", "get [SS]" },
		{ BACKEND_KEY_ORPHAN, "orphan [Qk] [Qk>", "orphan [Qk] [Qk>" },
	};
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	size_t answer = 0;
	int r;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < ARRAY_SIZE(what); j++)
			if (looked[i].wanted & what[j].wanted)
				call_say(&reading.call,
					 looked[i].key.data ? what[j].key : what[j].session,
					 OP(.session = looked[i].session, .key = looked[i].key));
	r = reading_ask(&reading);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct backend_key_looked *one = &looked[i];

		one->found = 0;
		for (size_t j = 0; j < ARRAY_SIZE(what); j++) {
			const struct reply *found = reading_answer(&reading, answer);

			if (!(one->wanted & what[j].wanted))
				continue;
			answer++;
			if (what[j].wanted == BACKEND_KEY_ROWS ?
				    redis_take_stat(snapshot, found, one->session, one->key,
						    &one->stat) :
				    found->type == REPLY_TEXT)
				one->found |= what[j].wanted;
		}
	}
	return r;
}

/* Listing. */

struct listed {
	struct backend_entry entry;
	struct backend_node node;
	bool there, tail;
};

static int tell_listed(struct backend_snapshot *snapshot, const struct reading *tails,
		       const struct listed *listed, size_t *at, backend_tail_fn *fn, void *arg)
{
	struct backend_tail tail = { 0 };
	int r = 0;

	if (!listed->there)
		return 0;
	if (listed->tail)
		r = take_tail(snapshot, &listed->node, reading_answer(tails, (*at)++), &tail);
	return r < 0 ? r : fn(arg, &listed->entry, &listed->node, &tail);
}

/* One of the entries of an answer to "list", which borrows from it. */
static int entry_at(const struct reply *list, size_t i, uint64_t parent,
		    struct backend_entry *ret_entry, struct backend_node *ret_node)
{
	struct bytes id = reply_bytes(reply_at(list, 3 * i));
	const struct bytes value = reply_bytes(reply_at(list, 3 * i + 1));
	const struct bytes node = reply_bytes(reply_at(list, 3 * i + 2));

	if (id.size < 8 || value.size < 8)
		return -EIO;
	*ret_entry = (struct backend_entry){
		.parent = parent,
		.id = (uint64_t)key_take_number(&id),
		.name = bytes_make(value.data + 8, value.size - 8),
		.ino = unpack_number(value.data),
	};
	return node.data ? unpack_node(node, ret_node) : -ENOENT;
}

/* A page of entries, then the tails of those that are wanted. */
static int list_page(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     uint64_t *after, unsigned most, size_t *ret_count, backend_wanted_fn *wanted,
		     backend_tail_fn *fn, void *arg)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	_cleanup_(reading_done) struct reading tails = reading_in(backend, snapshot);
	struct listed listed[PAGE] = { 0 };
	const struct reply *list;
	size_t at = 0;
	int r = reading_one(&reading, "list ^p [Epa] [Ep> #t",
			    OP(.parent = parent, .at = (int64_t)*after, .to = most), 0, NULL);

	list = reading_answer(&reading, 0);
	*ret_count = r < 0 ? 0 : MIN(list->count / 3, (size_t)PAGE);
	for (size_t i = 0; r == 0 && i < *ret_count; i++) {
		r = entry_at(list, i, parent, &listed[i].entry, &listed[i].node);
		listed[i].there = r == 0;
		r = r == -ENOENT ? 0 : r;
		*after = listed[i].entry.id;
		if (r == 0 && listed[i].there)
			listed[i].tail = wanted && wanted(arg, &listed[i].node) & BACKEND_TAIL;
		if (listed[i].tail)
			ask_tail(&tails, &listed[i].node);
	}
	if (r == 0 && tails.call.request_count)
		r = reading_ask(&tails);
	for (size_t i = 0; r == 0 && i < *ret_count; i++)
		r = tell_listed(snapshot, &tails, &listed[i], &at, fn, arg);
	for (size_t i = 0; i < *ret_count; i++)
		backend_node_done(&listed[i].node);
	return r;
}

int redis_entry_list_tails(struct backend *backend, struct backend_snapshot *snapshot,
			   uint64_t parent, uint64_t after, uint64_t most,
			   backend_wanted_fn *wanted, backend_tail_fn *fn, void *arg)
{
	size_t count = 0;
	unsigned page;
	int r = 0;

	do {
		page = (unsigned)MIN(most, (uint64_t)PAGE);
		if (page)
			r = list_page(backend, snapshot, parent, &after, page, &count, wanted, fn,
				      arg);
		most -= count;
	} while (r == 0 && page && count == page);
	return MIN(r, 0);
}

struct entries {
	backend_entry_fn *fn;
	void *arg;
};

static int tell_entry(void *arg, const struct backend_entry *entry, const struct backend_node *node,
		      const struct backend_tail *tail)
{
	const struct entries *entries = arg;

	(void)tail;
	return entries->fn(entries->arg, entry, node);
}

int redis_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     uint64_t after, backend_entry_fn *fn, void *arg)
{
	return redis_entry_list_tails(backend, snapshot, parent, after, UINT64_MAX, NULL,
				      tell_entry, &(struct entries){ fn, arg });
}
