/* SPDX-License-Identifier: MIT */
/* Reads that join others: what a look-up, a listing and an open want to know, in one answer. */
#include <errno.h>
#include <stdlib.h>

#include "backend/sql/read.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"

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
		sql_cursor_open(snapshot, SQL_TAIL,
				SQL_VALUES(sql_id(node->ino), sql_number(node->kind),
					   sql_text(node->session), sql_text(node->key)));

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

/* Of a key: a statement for each thing that is wanted, in the order of these. */
static int say_key(struct buf *buf, const struct sql_texts *texts,
		   const struct backend_key_looked *looked, size_t *asked)
{
	const struct backend_node node = {
		.kind = looked->key.data ? BACKEND_LIST : BACKEND_SESSION,
		.nlink = 1,
		.session = looked->session,
		.key = looked->key,
	};
	const struct sql_value session = sql_blob(looked->session), key = sql_blob(looked->key);
	_cleanup_(buf_done) struct buf slot = { 0 };
	int r = sql_slot(&node, &slot);

	if (r == 0 && (looked->wanted & BACKEND_KEY_ROWS) && ++*asked)
		r = sql_say(buf, texts, SQL_KEY_STAT,
			    SQL_VALUES(sql_text(looked->session), sql_text(looked->key)));
	if (r == 0 && (looked->wanted & BACKEND_KEY_NODE) && ++*asked)
		r = sql_say(buf, texts, SQL_NODE_FIND,
			    SQL_VALUES(session, sql_blob(buf_bytes(&slot))));
	if (r == 0 && (looked->wanted & BACKEND_KEY_ORPHAN) && ++*asked)
		r = sql_say(buf, texts, SQL_ORPHAN_FIND, SQL_VALUES(session, key));
	return r;
}

int sql_key_look(struct backend *backend, struct backend_snapshot *snapshot,
		 struct backend_key_looked *looked, size_t count)
{
	struct sql *store = sql_of(backend);
	_cleanup_(freep) struct sql_answer **answers =
		calloc(3 * count + 1, sizeof(struct sql_answer *));
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct bytes columns[SQL_COLUMNS];
	size_t asked = 0, at = 0;
	int r = answers ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = say_key(&buf, &store->texts, &looked[i], &asked);
	if (r == 0 && asked)
		r = sql_snapshot_ask(snapshot, buf_bytes(&buf), answers, asked);
	for (size_t i = 0; r == 0 && i < count; i++) {
		looked[i].found = 0;
		for (unsigned bit = 1; bit <= BACKEND_KEY_ORPHAN; bit <<= 1) {
			if (!(looked[i].wanted & bit))
				continue;
			if (sql_row(store, answers[at], columns)) {
				looked[i].found |= bit;
				if (bit == BACKEND_KEY_ROWS)
					looked[i].stat = sql_key_stat_at(columns);
			}
			store->texts.driver->answer_done(answers[at++]);
		}
	}
	return r;
}

/* A page of entries, and what is known of the files: documents by a second answer of the same
 * question, lists by another question, each by itself. */
struct listing {
	struct backend_snapshot *snapshot;
	struct sql_answer *entries;
	struct backend_entry *list; /* of the page, borrowing from the answer */
	struct backend_node *nodes;
	struct backend_tail *tails;
	size_t count, most;
	uint64_t parent;
	backend_wanted_fn *wanted;
	void *arg;
};

static int take_entries(struct listing *listing)
{
	struct sql *store = listing->snapshot->store;
	struct bytes columns[SQL_COLUMNS];

	listing->list = calloc(listing->most, sizeof(*listing->list));
	listing->nodes = calloc(listing->most, sizeof(*listing->nodes));
	listing->tails = calloc(listing->most, sizeof(*listing->tails));
	if (!listing->list || !listing->nodes || !listing->tails)
		return -ENOMEM;
	while (listing->count < listing->most && sql_row(store, listing->entries, columns)) {
		struct backend_node *node = &listing->nodes[listing->count];

		*node = sql_node_at(columns);
		listing->list[listing->count] = (struct backend_entry){
			.parent = listing->parent,
			.id = (uint64_t)sql_int(columns[SQL_NODE_COLUMNS]),
			.name = columns[SQL_NODE_COLUMNS + 1],
			.ino = node->ino,
		};
		if (listing->wanted(listing->arg, node) & BACKEND_TAIL)
			listing->tails[listing->count] = no_tail;
		listing->count++;
	}
	return 0;
}

/* Those of documents: id, index and size, in the order of the entries. */
static void take_documents(struct listing *listing, struct sql_answer *answer)
{
	struct bytes columns[SQL_COLUMNS];
	size_t at = 0;

	while (sql_row(listing->snapshot->store, answer, columns)) {
		uint64_t id = (uint64_t)sql_int(columns[0]);

		while (at < listing->count && listing->list[at].id < id)
			at++;
		if (at == listing->count || listing->list[at].id != id ||
		    !listing->tails[at].known || listing->tails[at].rows)
			continue;
		listing->tails[at].rows = 1;
		listing->tails[at].last = sql_int(columns[1]);
		listing->tails[at].bytes = listing->tails[at].last_bytes =
			(uint64_t)sql_int(columns[2]);
	}
}

static bool is_list(const struct listing *listing, size_t i)
{
	return listing->tails[i].known && listing->nodes[i].kind == BACKEND_LIST;
}

static int ask_lists(struct listing *listing)
{
	struct sql *store = listing->snapshot->store;
	_cleanup_(freep) struct sql_answer **answers =
		calloc(listing->count + 1, sizeof(struct sql_answer *));
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct bytes columns[SQL_COLUMNS];
	size_t asked = 0, at = 0;
	int r = answers ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < listing->count; i++)
		if (is_list(listing, i)) {
			r = sql_say(&buf, &store->texts, SQL_TAIL,
				    SQL_VALUES(sql_id(listing->nodes[i].ino),
					       sql_number(BACKEND_LIST),
					       sql_text(listing->nodes[i].session),
					       sql_text(listing->nodes[i].key)));
			asked++;
		}
	if (r < 0 || !asked)
		return r;
	r = sql_snapshot_ask(listing->snapshot, buf_bytes(&buf), answers, asked);
	for (size_t i = 0; r == 0 && i < listing->count; i++)
		if (is_list(listing, i)) {
			if (sql_row(store, answers[at], columns))
				listing->tails[i] = tail_at(columns);
			store->texts.driver->answer_done(answers[at++]);
		}
	return r;
}

static int ask_page(struct listing *listing, uint64_t from)
{
	const struct sql_value values[] = { sql_id(from), sql_number(0), sql_id(listing->most),
					    sql_id(listing->parent) };
	struct sql *store = listing->snapshot->store;
	_cleanup_(buf_done) struct buf buf = { 0 };
	struct sql_answer *answers[2];
	int r = sql_say(&buf, &store->texts, SQL_ENTRY_LIST, values, ARRAY_SIZE(values));

	if (r == 0)
		r = sql_say(&buf, &store->texts, SQL_ENTRY_DOCUMENTS, values, ARRAY_SIZE(values));
	if (r == 0)
		r = sql_snapshot_ask(listing->snapshot, buf_bytes(&buf), answers, 2);
	if (r < 0)
		return r;
	listing->entries = answers[0];
	r = take_entries(listing);
	if (r == 0)
		take_documents(listing, answers[1]);
	store->texts.driver->answer_done(answers[1]);
	return r < 0 ? r : ask_lists(listing);
}

int sql_entry_list_tails(struct backend *backend, struct backend_snapshot *snapshot,
			 uint64_t parent, uint64_t after, uint64_t most, backend_wanted_fn *wanted,
			 backend_tail_fn *fn, void *arg)
{
	bool more = true;
	int r = 0;

	while (r == 0 && more && most && after < INT64_MAX) {
		struct listing listing = {
			.snapshot = snapshot,
			.most = MIN(most, (uint64_t)LISTED),
			.parent = parent,
			.wanted = wanted,
			.arg = arg,
		};

		r = ask_page(&listing, after + 1);
		for (size_t i = 0; r == 0 && i < listing.count; i++) {
			after = listing.list[i].id;
			r = fn(arg, &listing.list[i], &listing.nodes[i], &listing.tails[i]);
		}
		more = listing.count == listing.most;
		most -= listing.count;
		if (listing.entries)
			snapshot->store->texts.driver->answer_done(listing.entries);
		free(listing.list);
		free(listing.nodes);
		free(listing.tails);
	}
	return MIN(r, 0);
}
