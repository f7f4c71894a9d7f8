/* SPDX-License-Identifier: MIT */
/* Reads that join others: what a look-up, a listing and an open want to know, in one answer. */
#include <errno.h>
#include <stdlib.h>

#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "src/base/cleanup.h"

enum { LISTED = 1024, LOOKS = 4 };

static struct backend_tail tail_at(const struct bytes *columns)
{
	return (struct backend_tail){
		.known = true,
		.mark = { .offset = (uint64_t)sql_int(columns[1]), .index = sql_int(columns[2]) },
		.rows = (uint64_t)sql_int(columns[3]),
		.bytes = (uint64_t)sql_int(columns[4]),
		.last = sql_int(columns[5]),
		.last_bytes = sql_int(columns[3]) ? (uint64_t)sql_int(columns[6]) : 0,
		.pieces = sql_int(columns[7]),
	};
}

static const struct backend_tail no_tail = { .known = true, .mark = { .index = INT64_MIN } };

int sql_tail_get(struct backend *backend, struct backend_snapshot *snapshot,
		 const struct backend_node *node, struct backend_tail *ret_tail)
{
	struct sql_cursor cursor =
		sql_cursor_open(snapshot, SQL_TAIL, SQL_VALUES(sql_id(node->ino)));

	(void)backend;
	*ret_tail = no_tail;
	if (sql_cursor_next(&cursor))
		*ret_tail = tail_at(cursor.columns);
	return sql_cursor_end(&cursor);
}

static int say_look(struct buf *buf, const struct sql_texts *texts,
		    const struct backend_looked *looked)
{
	static const struct {
		enum sql_text text;
		int64_t most;
	} looks[LOOKS] = {
		{ SQL_ENTRY_FIND, 0 },
		{ SQL_ENTRY_TAIL, 0 },
		{ SQL_ENTRY_WHOLE, BACKEND_ITEM_LEAST },
		{ SQL_ENTRY_CHUNK, BACKEND_CHUNK },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < (looked->wanted ? LOOKS : 1); i++)
		r = sql_say(buf, texts, looks[i].text,
			    SQL_VALUES(sql_id(looked->parent), sql_blob(looked->name),
				       sql_number(looks[i].most)));
	return r;
}

static int take_bytes(struct sql *store, struct sql_answer *answer, struct buf *bytes, bool *whole)
{
	struct bytes columns[SQL_COLUMNS];

	if (!sql_row(store, answer, columns))
		return 0;
	*whole = true;
	return buf_append_bytes(bytes, columns[0]);
}

/* What the answers say beside the node. */
static int take_wanted(struct sql *store, struct sql_answer **answers,
		       struct backend_looked *looked)
{
	const struct backend_node *node = &looked->node;
	unsigned wanted = looked->wanted(looked->arg, node);
	bool one_row = node->kind == BACKEND_SINGLE || node->kind == BACKEND_HASH;
	bool chunk = node->kind == BACKEND_ORDINARY && node->size <= BACKEND_CHUNK;
	struct bytes columns[SQL_COLUMNS];
	int r = 0;

	if ((wanted & BACKEND_TAIL) || ((wanted & BACKEND_WHOLE) && one_row))
		looked->tail = sql_row(store, answers[1], columns) ? tail_at(columns) : no_tail;
	if ((wanted & BACKEND_WHOLE) && one_row)
		r = take_bytes(store, answers[2], &looked->bytes, &looked->whole);
	if ((wanted & BACKEND_WHOLE) && chunk) {
		r = take_bytes(store, answers[3], &looked->bytes, &looked->whole);
		looked->whole = r == 0;
	}
	return r;
}

static int take_look(struct sql *store, struct sql_answer **answers, struct backend_looked *looked)
{
	struct bytes columns[SQL_COLUMNS];
	struct backend_node node;
	int r;

	looked->error = -ENOENT;
	if (!sql_row(store, answers[0], columns))
		return 0;
	node = sql_node_at(columns);
	r = backend_node_copy(&node, &looked->node);
	if (r < 0)
		return r;
	looked->error = 0;
	looked->id = (uint64_t)sql_int(columns[SQL_NODE_COLUMNS]);
	return looked->wanted ? take_wanted(store, answers, looked) : 0;
}

int sql_entry_look(struct backend *backend, struct backend_snapshot *snapshot,
		   struct backend_looked *looked, size_t count)
{
	struct sql *store = sql_of(backend);
	_cleanup_(buf_done) struct buf buf = { 0 };
	_cleanup_(freep) struct sql_answer **answers =
		calloc(LOOKS * count + 1, sizeof(struct sql_answer *));
	size_t all = 0, at = 0;
	int r = answers ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++) {
		all += looked[i].wanted ? LOOKS : 1;
		r = say_look(&buf, &store->texts, &looked[i]);
	}
	if (r == 0)
		r = sql_snapshot_ask(snapshot, buf_bytes(&buf), answers, all);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = take_look(store, answers + at, &looked[i]);
		at += looked[i].wanted ? LOOKS : 1;
	}
	for (size_t i = 0; i < all; i++)
		store->texts.driver->answer_done(answers[i]);
	if (r < 0)
		backend_looked_done(looked, count);
	return r;
}

/* The entries of a page, and their tails, which may leave some out, in the same order. */
struct listing {
	struct sql_cursor entries;
	struct sql_cursor tails;
	bool tail; /* the second is at a row */
	uint64_t parent;
	backend_wanted_fn *wanted;
	backend_tail_fn *fn;
	void *arg;
};

static int list_one(struct listing *listing)
{
	const struct bytes *columns = listing->entries.columns;
	const struct backend_node node = sql_node_at(columns);
	const struct backend_entry entry = {
		.parent = listing->parent,
		.id = (uint64_t)sql_int(columns[SQL_NODE_COLUMNS]),
		.name = columns[SQL_NODE_COLUMNS + 1],
		.ino = node.ino,
	};
	struct backend_tail tail = { 0 };

	while (listing->tail && sql_int(listing->tails.columns[8]) < (int64_t)entry.id)
		listing->tail = sql_cursor_next(&listing->tails);
	if (listing->wanted(listing->arg, &node) & BACKEND_TAIL) {
		tail = no_tail;
		if (listing->tail && sql_int(listing->tails.columns[8]) == (int64_t)entry.id)
			tail = tail_at(listing->tails.columns);
	}
	return listing->fn(listing->arg, &entry, &node, &tail);
}

/* 1: fn wants no more. */
static int list_page(struct backend_snapshot *snapshot, struct listing *listing, int64_t *from,
		     bool *more)
{
	const struct sql_value values[] = { sql_number(*from), sql_number(0), sql_number(LISTED),
					    sql_id(listing->parent) };
	struct sql_cursor *tails = &listing->tails;
	unsigned count = 0;
	int r;

	listing->entries = sql_cursor_open(snapshot, SQL_ENTRY_LIST, values, ARRAY_SIZE(values));
	*tails = sql_cursor_open(snapshot, SQL_ENTRY_TAILS, values, ARRAY_SIZE(values));
	listing->tail = sql_cursor_next(tails);
	while (sql_cursor_next(&listing->entries)) {
		count++;
		*from = sql_int(listing->entries.columns[SQL_NODE_COLUMNS]);
		listing->entries.r = list_one(listing);
	}
	*more = count == LISTED && !listing->entries.r && *from < INT64_MAX;
	*from += *from < INT64_MAX;
	r = sql_cursor_end(tails);
	return r < 0 ? (sql_cursor_end(&listing->entries), r) : sql_cursor_end(&listing->entries);
}

int sql_entry_list_tails(struct backend *backend, struct backend_snapshot *snapshot,
			 uint64_t parent, uint64_t after, backend_wanted_fn *wanted,
			 backend_tail_fn *fn, void *arg)
{
	struct listing listing = { .parent = parent, .wanted = wanted, .fn = fn, .arg = arg };
	int64_t from = (int64_t)MIN(after, (uint64_t)INT64_MAX - 1) + 1;
	bool more = true;
	int r = 0;

	(void)backend;
	while (r == 0 && more)
		r = list_page(snapshot, &listing, &from, &more);
	return r;
}
