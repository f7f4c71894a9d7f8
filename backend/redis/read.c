/* SPDX-License-Identifier: MIT */
#include "backend/redis/read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "backend/feed/gates.h"
#include "backend/redis/keys.h"
#include "backend/redis/pack.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"

enum { PAGE = 256 };

struct reading reading_in(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct reading reading = { .store = redis_of(backend), .snapshot = snapshot };

	reading.call.store = reading.store;
	reading.call.script = REDIS_READ;
	return reading;
}

void reading_done(struct reading *reading)
{
	call_done(&reading->call);
	reply_done(&reading->reply);
}

static void needs(struct reading *reading, unsigned gate)
{
	if (reading->gate_count < READ_GATES)
		reading->gates[reading->gate_count++] = gate;
}

void reading_needs_node(struct reading *reading, uint64_t ino)
{
	needs(reading, feed_gate_of_node(ino));
}

void reading_needs_key(struct reading *reading, struct bytes session, struct bytes key)
{
	needs(reading, feed_gate_of_key(session, key));
}

void reading_group(struct reading *reading, struct bytes session, struct bytes key)
{
	reading_needs_key(reading, session, key);
	call_number(&reading->call, (int64_t)call_group(&reading->call, session, key, "c"));
}

/* It has begun with this answer. */
static int snapshot_start(struct backend_snapshot *snapshot, int64_t n)
{
	backend_begun_fn *begin = snapshot->begin;

	snapshot->n = n;
	snapshot->begin = NULL;
	if (begin)
		snapshot->error = begin(snapshot->arg);
	return snapshot->error;
}

int reading_ask(struct reading *reading)
{
	struct backend_snapshot *snapshot = reading->snapshot;
	struct redis *store = reading->store;
	struct words *head = &reading->call.head;
	char flags[4] = "-";
	uint64_t known;
	int r;

	if (snapshot->error < 0)
		return snapshot->error;
	pthread_mutex_lock(&store->state.lock);
	known = redis_is_mount(store) ? store->state.known : INT64_C(1) << 53;
	pthread_mutex_unlock(&store->state.lock);
	if (snapshot->flags & BACKEND_ANYWAY)
		strcat(flags, "y");
	if (snapshot->flags & BACKEND_PAST)
		strcat(flags, "p");
	words_str(head, "read");
	words_number(head, (int64_t)store->number);
	words_str(head, flags);
	words_number(head, snapshot->n);
	words_number(head, (int64_t)known);
	words_number(head, (int64_t)reading->gate_count);
	for (size_t i = 0; i < reading->gate_count; i++)
		words_number(head, reading->gates[i]);
	r = redis_call(store, &reading->call, &reading->reply);
	if (r == 0)
		r = redis_status(store, &reading->reply);
	if (r == -ESTALE)
		snapshot->error = r;
	if (r < 0)
		return r;
	return snapshot->n < 0 ?
		       snapshot_start(snapshot, reply_number(reply_at(&reading->reply, 1))) :
		       0;
}

const struct reply *reading_answer(const struct reading *reading, size_t i)
{
	return reply_at(&reading->reply, READ_ANSWERS + i);
}

int redis_snapshot_begin(struct backend *backend, unsigned flags,
			 struct backend_snapshot **ret_snapshot)
{
	struct backend_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct reading reading = reading_in(backend, snapshot);
	int r = 0;

	if (!snapshot)
		return -ENOMEM;
	snapshot->flags = flags;
	snapshot->n = -1;
	if (flags & (BACKEND_BEGUN | BACKEND_AT_ONCE | BACKEND_ORPHANS))
		r = reading_ask(&reading);
	reading_done(&reading);
	if (r < 0)
		redis_snapshot_end(backend, snapshot);
	else
		*ret_snapshot = snapshot;
	return r;
}

void redis_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	(void)backend;
	keys_found_free(snapshot->keys);
	free(snapshot);
}

int redis_snapshot_begun(struct backend *backend, struct backend_snapshot *snapshot,
			 backend_begun_fn *fn, void *arg)
{
	(void)backend;
	if (snapshot->n >= 0)
		return snapshot->error < 0 ? snapshot->error : fn(arg);
	snapshot->begin = fn;
	snapshot->arg = arg;
	return 0;
}

uint64_t redis_key_hash(struct bytes session, struct bytes key)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < session.size; i++)
		hash = (hash ^ (unsigned char)session.data[i]) * UINT64_C(1099511628211);
	hash = (hash ^ 0xff) * UINT64_C(1099511628211);
	for (size_t i = 0; i < key.size; i++)
		hash = (hash ^ (unsigned char)key.data[i]) * UINT64_C(1099511628211);
	return hash;
}

int64_t snapshot_clip(const struct backend_snapshot *snapshot, struct bytes session,
		      struct bytes key)
{
	const uint64_t name = redis_key_hash(session, key);

	for (unsigned i = 0; i < MIN(snapshot->clip_count, (unsigned)REDIS_CLIPS); i++)
		if (snapshot->clips[i].key == name)
			return snapshot->clips[i].end;
	return -1;
}

int64_t snapshot_see(struct backend_snapshot *snapshot, struct bytes session, struct bytes key,
		     int64_t end)
{
	const int64_t seen = snapshot_clip(snapshot, session, key);

	if (seen >= 0)
		return MIN(seen, end);
	snapshot->clips[snapshot->clip_count++ % REDIS_CLIPS] =
		(struct redis_clip){ redis_key_hash(session, key), end };
	return end;
}

/* The map. */

struct key key_end(struct key key)
{
	while (key.error == 0 && (unsigned char)key.buf.data[key.buf.size - 1] == 0xff)
		key.buf.size--;
	if (key.error == 0)
		key.buf.data[key.buf.size - 1]++;
	return key;
}

static void add_bound(struct call *call, char how, struct bytes key)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	int r = buf_append_byte(&buf, how);

	if (r == 0)
		r = buf_append_bytes(&buf, key);
	call_words(call, buf_bytes(&buf));
	call->error = r < 0 ? r : call->error;
}

static int ask_range(struct reading *reading, const struct range *range, bool behind, unsigned most,
		     bool back)
{
	struct call *call = &reading->call;

	if (range->ino)
		reading_needs_node(reading, range->ino);
	call_request(call, "range");
	add_bound(call, behind ? '(' : '[', key_bytes(&range->from));
	add_bound(call, '(', key_bytes(&range->end));
	call_number(call, most);
	call_str(call, back ? "1" : "0");
	if (range->from.error < 0 || range->end.error < 0)
		call->error = -ENOMEM;
	return reading_ask(reading);
}

void reading_range(struct reading *reading, struct bytes from, struct bytes end, unsigned most)
{
	call_request(&reading->call, "range");
	add_bound(&reading->call, '[', from);
	add_bound(&reading->call, '(', end);
	call_number(&reading->call, most);
	call_str(&reading->call, "0");
}

int redis_range(struct backend *backend, struct backend_snapshot *snapshot, struct range *range,
		range_fn *fn, void *arg)
{
	const unsigned page = range->page ? range->page : PAGE;
	bool behind = false;
	size_t count = 0;
	int r;

	do {
		struct reading reading = reading_in(backend, snapshot);
		const struct reply *found;

		r = ask_range(&reading, range, behind, page, false);
		found = reading_answer(&reading, 0);
		count = r < 0 ? 0 : found->count / 2;
		if (count == page) {
			buf_clear(&range->from.buf);
			r = buf_append_bytes(&range->from.buf,
					     reply_bytes(reply_at(found, 2 * count - 2)));
			behind = true;
		}
		for (size_t i = 0; r == 0 && i < count; i++)
			r = fn(arg, reply_bytes(reply_at(found, 2 * i)),
			       reply_bytes(reply_at(found, 2 * i + 1)));
		reading_done(&reading);
	} while (r == 0 && count == page);
	key_done(&range->from);
	key_done(&range->end);
	return MIN(r, 0);
}

int redis_range_last(struct backend *backend, struct backend_snapshot *snapshot,
		     struct range *range, struct reply *ret_pair)
{
	struct reading reading = reading_in(backend, snapshot);
	int r = ask_range(&reading, range, false, 1, true);

	if (r == 0 && reading_answer(&reading, 0)->count == 2) {
		*ret_pair = reading.reply.items[READ_ANSWERS];
		reading.reply.items[READ_ANSWERS] = (struct reply){ 0 };
		r = 1;
	}
	reading_done(&reading);
	key_done(&range->from);
	key_done(&range->end);
	return r;
}

/* Nodes. */

int redis_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		   struct backend_node *ret_node)
{
	struct reading reading = reading_in(backend, snapshot);
	struct bytes value;
	int r;

	reading_needs_node(&reading, ino);
	call_request(&reading.call, "get");
	call_key(&reading.call, key_of_node(KEY_NODE, ino));
	r = reading_ask(&reading);
	value = reply_bytes(reading_answer(&reading, 0));
	if (r == 0)
		r = value.data ? unpack_node(value, ret_node) : -ENOENT;
	reading_done(&reading);
	return r;
}

int redis_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	const struct backend_node node = { .kind = key.data ? BACKEND_LIST : BACKEND_SESSION,
					   .nlink = 1,
					   .session = session,
					   .key = key };
	struct reading reading = reading_in(backend, snapshot);
	struct bytes value;
	int r;

	reading_needs_key(&reading, session, key);
	call_request(&reading.call, "by");
	call_key(&reading.call, pack_index(&node));
	r = reading_ask(&reading);
	value = reply_bytes(reading_answer(&reading, 0));
	if (r == 0)
		r = value.data ? unpack_node(value, ret_node) : -ENOENT;
	reading_done(&reading);
	return r;
}

struct listing {
	struct backend *backend;
	struct backend_snapshot *snapshot;
	backend_node_fn *fn;
	void *arg;
};

static int list_node(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	struct listing *listing = arg;
	int r = unpack_node(value, &node);

	(void)key;
	return r < 0 ? r : listing->fn(listing->arg, &node);
}

static int list_orphan(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	struct listing *listing = arg;
	int r;

	(void)value;
	key = bytes_make(key.data + 1, key.size - 1);
	r = redis_node_get(listing->backend, listing->snapshot, (uint64_t)key_take_number(&key),
			   &node);
	return r == -ENOENT ? 0 : r < 0 ? r : listing->fn(listing->arg, &node);
}

int redis_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		    bool orphans_only, backend_node_fn *fn, void *arg)
{
	const enum key_table table = orphans_only ? KEY_ORPHAN : KEY_NODE;
	struct listing listing = { backend, snapshot, fn, arg };
	struct range range = { .from = key_of_node(table, after + 1),
			       .end = key_end(key_make(table)) };

	return redis_range(backend, snapshot, &range, orphans_only ? list_orphan : list_node,
			   &listing);
}

/* Entries. */

int redis_entry_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     struct bytes name, uint64_t *ret_id, struct backend_node *ret_node)
{
	struct reading reading = reading_in(backend, snapshot);
	struct key key = key_of_node(KEY_NAME, parent);
	const struct reply *found;
	struct bytes id;
	int r;

	key_add_text(&key, name);
	reading_needs_node(&reading, parent);
	call_request(&reading.call, "name");
	call_key(&reading.call, key);
	call_key(&reading.call, key_of_node(KEY_ENTRY, parent));
	r = reading_ask(&reading);
	found = reading_answer(&reading, 0);
	id = reply_bytes(reply_at(found, 0));
	if (r == 0)
		r = !id.data || !reply_bytes(reply_at(found, 1)).data ?
			    -ENOENT :
			    unpack_node(reply_bytes(reply_at(found, 1)), ret_node);
	if (r == 0)
		*ret_id = (uint64_t)key_take_number(&id);
	reading_done(&reading);
	return r;
}

int redis_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     uint64_t id, struct buf *name)
{
	struct reading reading = reading_in(backend, snapshot);
	struct key key = key_of_node(KEY_ENTRY, parent);
	struct bytes value;
	int r;

	key_add_number(&key, (int64_t)id);
	reading_needs_node(&reading, parent);
	call_request(&reading.call, "get");
	call_key(&reading.call, key);
	r = reading_ask(&reading);
	value = reply_bytes(reading_answer(&reading, 0));
	if (r == 0)
		r = value.size < 8 ? -ENOENT : buf_append(name, value.data + 8, value.size - 8);
	reading_done(&reading);
	return r;
}

int redis_entry_page(struct reading *reading, uint64_t parent, uint64_t after, unsigned most)
{
	struct range range = { .from = key_of_node(KEY_ENTRY, parent),
			       .end = key_end(key_of_node(KEY_ENTRY, parent)) };

	key_add_number(&range.from, (int64_t)after);
	reading_needs_node(reading, parent);
	call_request(&reading->call, "list");
	add_bound(&reading->call, '(', key_bytes(&range.from));
	add_bound(&reading->call, '(', key_bytes(&range.end));
	call_number(&reading->call, most);
	key_done(&range.from);
	key_done(&range.end);
	return reading_ask(reading);
}

int redis_entry_at(const struct reply *list, size_t i, uint64_t parent,
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

int redis_entry_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     uint64_t after, backend_entry_fn *fn, void *arg)
{
	size_t count;
	int r;

	do {
		struct reading reading = reading_in(backend, snapshot);
		const struct reply *list;

		r = redis_entry_page(&reading, parent, after, PAGE);
		list = reading_answer(&reading, 0);
		count = list->count / 3;
		for (size_t i = 0; r == 0 && i < count; i++) {
			_cleanup_(backend_node_done) struct backend_node node = { 0 };
			struct backend_entry entry;

			r = redis_entry_at(list, i, parent, &entry, &node);
			after = entry.id;
			r = r == -ENOENT ? 0 : r < 0 ? r : fn(arg, &entry, &node);
		}
		reading_done(&reading);
	} while (r == 0 && count == PAGE);
	return MIN(r, 0);
}
