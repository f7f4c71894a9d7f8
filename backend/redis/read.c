/* SPDX-License-Identifier: MIT */
#include "backend/redis/mounts.h"
#include "backend/redis/read.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/redis/pack.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"

enum { PAGE = 256, PAGE_BIG = 32, FIRST_ANSWER = 2 };

struct reading reading_in(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct redis *store = redis_of(backend);

	return (struct reading){ .store = store,
				 .snapshot = snapshot,
				 .call = { .store = store, .script = REDIS_READ } };
}

void reading_done(struct reading *reading)
{
	call_done(&reading->call);
	reply_done(&reading->reply);
}

static int read_once(struct reading *reading)
{
	const struct backend_snapshot *snapshot = reading->snapshot;
	struct redis *store = reading->store;
	struct words *head = &reading->call.head;
	const int64_t known =
		redis_is_mount(store) ? (int64_t)store->state.known : INT64_C(1) << 53;
	char flags[4] = "-";
	int r;

	words_done(head);
	reply_done(&reading->reply);
	if (snapshot->flags & BACKEND_ANYWAY)
		strcat(flags, "y");
	if (snapshot->flags & BACKEND_PAST)
		strcat(flags, "p");
	words_str(head, "read");
	words_number(head, (int64_t)store->number);
	words_str(head, flags);
	words_number(head, snapshot->n);
	words_number(head, known);
	words_number(head, (int64_t)reading->call.gate_count);
	for (size_t i = 0; i < reading->call.gate_count; i++)
		words_number(head, reading->call.gates[i]);
	r = redis_call(store, &reading->call, &reading->reply);
	return r < 0 ? r : redis_status(store, &reading->reply);
}

int reading_ask(struct reading *reading)
{
	struct backend_snapshot *snapshot = reading->snapshot;
	const bool latest = snapshot->flags & BACKEND_LATEST;
	backend_begun_fn *begin = snapshot->begin;
	int r = snapshot->error < 0 ? snapshot->error : read_once(reading);

	if (r == -ESTALE && latest && !reading->goes_on) {
		snapshot->n = -1;
		snapshot->clip_count = 0;
		r = read_once(reading);
	}
	if (r == -ESTALE && !latest)
		snapshot->error = r;
	if (r < 0 || snapshot->n >= 0)
		return r;
	/* It has begun with this answer. */
	snapshot->n = reply_number(reply_at(&reading->reply, 1));
	snapshot->begin = NULL;
	if (begin)
		snapshot->error = begin(snapshot->arg);
	return snapshot->error;
}

const struct reply *reading_answer(const struct reading *reading, size_t i)
{
	return reply_at(&reading->reply, FIRST_ANSWER + i);
}

int reading_one(struct reading *reading, const char *form, const struct backend_op *op, int missing,
		struct bytes *ret_value)
{
	int r;

	call_say(&reading->call, form, op);
	r = reading_ask(reading);
	if (!ret_value)
		return r;
	*ret_value = reply_bytes(reading_answer(reading, 0));
	return r < 0 || ret_value->data ? r : missing;
}

/* Snapshots. */

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
	if (flags & (BACKEND_BEGUN | BACKEND_AT_ONCE))
		r = reading_ask(&reading);
	reading_done(&reading);
	if (r < 0)
		redis_snapshot_end(backend, snapshot);
	else
		*ret_snapshot = snapshot;
	return r;
}

void names_done(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		buf_done(&names->items[i]);
	free(names->items);
	*names = (struct names){ 0 };
}

/* A list that goes on is one of a snapshot of its own, perhaps. */
static void keep_sessions(struct redis *store, struct names *sessions)
{
	struct names old = *sessions;

	pthread_mutex_lock(&store->state.lock);
	if (sessions->count) {
		old = store->state.sessions;
		store->state.sessions = *sessions;
	}
	pthread_mutex_unlock(&store->state.lock);
	names_done(&old);
}

void redis_snapshot_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	keep_sessions(redis_of(backend), &snapshot->sessions);
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

int64_t snapshot_clip(const struct backend_snapshot *snapshot, struct bytes session,
		      struct bytes key)
{
	const uint64_t name = call_key_hash(session, key);

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
		(struct redis_clip){ call_key_hash(session, key), end };
	return end;
}

/* Single values. */

static int read_node(struct backend *backend, struct backend_snapshot *snapshot, const char *form,
		     const struct backend_op *op, struct backend_node *ret_node)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	struct bytes value;
	int r = reading_one(&reading, form, op, -ENOENT, &value);

	return r < 0 ? r : unpack_node(value, ret_node);
}

int redis_node_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		   struct backend_node *ret_node)
{
	return read_node(backend, snapshot, "get ^i [Ni]", OP(.ino = ino), ret_node);
}

int redis_node_find(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	return read_node(backend, snapshot, key.data ? "by ^k [Fk]" : "by ^k [SS]",
			 OP(.session = session, .key = key), ret_node);
}

int redis_orphan_find(struct backend *backend, struct backend_snapshot *snapshot,
		      struct bytes session, struct bytes key, struct backend_node *ret_node)
{
	return read_node(backend, snapshot, "orphan [Qk] [Qk>", OP(.session = session, .key = key),
			 ret_node);
}

int redis_entry_name(struct backend *backend, struct backend_snapshot *snapshot, uint64_t parent,
		     uint64_t id, struct buf *name)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	struct bytes value;
	int r = reading_one(&reading, "get ^p [Epa]", OP(.parent = parent, .at = (int64_t)id),
			    -ENOENT, &value);

	return r < 0 ? r : value.size < 8 ? -EIO : buf_append(name, value.data + 8, value.size - 8);
}

int redis_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct bytes name, struct buf *ret_value)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	struct bytes value;
	int r = reading_one(&reading, "get ^i [Xin]", OP(.ino = ino, .name = name), -ENODATA,
			    &value);

	return r < 0 ? r : buf_append_bytes(ret_value, value);
}

/* The last mark of a table that is before another: two numbers behind the node, of which the second
 * may stand in the value, and the first is the index or the offset. */
static int find_mark(struct backend *backend, struct backend_snapshot *snapshot, const char *form,
		     const struct backend_op *op, bool by_index, struct backend_mark *ret_mark)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	struct bytes key, value;
	int64_t numbers[2];
	int r = reading_one(&reading, form, op, 0, NULL);

	key = reply_bytes(reply_at(reading_answer(&reading, 0), 0));
	value = reply_bytes(reply_at(reading_answer(&reading, 0), 1));
	if (r < 0 || key.size < 17)
		return r < 0 ? r : -ENOENT;
	key = bytes_make(key.data + 9, key.size - 9);
	numbers[0] = key_take_number(&key);
	numbers[1] = key_take_number(key.size ? &key : &value);
	*ret_mark = (struct backend_mark){ .offset = (uint64_t)numbers[by_index],
					   .index = numbers[!by_index] };
	return 0;
}

int redis_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    uint64_t offset, struct backend_mark *ret_mark)
{
	return find_mark(backend, snapshot, "last ^i [Mi] [Mio>", OP(.ino = ino, .offset = offset),
			 false, ret_mark);
}

int redis_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  int64_t index, struct backend_mark *ret_mark)
{
	return find_mark(backend, snapshot, "last ^i [Ii] [Iia>", OP(.ino = ino, .at = index), true,
			 ret_mark);
}

int redis_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		   uint64_t *ret_entry)
{
	_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
	uint64_t *const ids[] = { ret_ino, ret_entry };
	int r = reading_one(&reading, "meta", OP(.ino = 0), 0, NULL);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(ids); i++) {
		struct bytes id = reply_bytes(reply_at(reading_answer(&reading, 0), i));

		*ids[i] = id.size == 8 ? (uint64_t)key_take_number(&id) : 0;
	}
	return r;
}

/* Lists. */

int redis_range(struct backend *backend, struct backend_snapshot *snapshot,
		const struct range *range, range_fn *fn, void *arg)
{
	const unsigned page = range->page ? range->page : PAGE;
	const size_t before = range->from[2] == 'i' ? 9 : 1; /* a table, and a node */
	_cleanup_(buf_done) struct buf last = { 0 };
	size_t count = page;
	int r = 0;

	for (bool first = true; r == 0 && count == page; first = false) {
		_cleanup_(reading_done) struct reading reading = reading_in(backend, snapshot);
		const struct reply *found;

		call_say(&reading.call, range->how, &range->op);
		call_words(&reading.call, range->needs, &range->op);
		call_words(&reading.call, "#a #t", OP(.at = page, .to = first));
		if (first)
			call_words(&reading.call, range->from, &range->op);
		else
			call_words(&reading.call, "$d", OP(.data = buf_bytes(&last)));
		call_words(&reading.call, range->to, &range->op);
		r = reading_ask(&reading);
		found = reading_answer(&reading, 0);
		count = r < 0 ? 0 : found->count / 2;
		buf_clear(&last);
		if (count)
			r = buf_append_bytes(&last, reply_bytes(reply_at(found, 2 * count - 2)));
		for (size_t i = 0; r == 0 && i < count; i++) {
			const struct bytes key = reply_bytes(reply_at(found, 2 * i));
			const struct reply *value = reply_at(found, 2 * i + 1);

			if (value->type == REPLY_TEXT)
				r = fn(arg, bytes_make(key.data + before, key.size - before),
				       reply_bytes(value));
		}
	}
	return MIN(r, 0);
}

/* Each row of a table is told by a function of its own. */
struct told {
	union {
		backend_node_fn *node;
		backend_name_fn *name;
		backend_chunk_fn *chunk;
		backend_piece_fn *piece;
		backend_setting_fn *setting;
	} fn;
	void *arg;
};

#define TELL(kind) (&(struct told){ .fn.kind = fn, .arg = arg })

static int tell_node(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(backend_node_done) struct backend_node node = { 0 };
	const struct told *told = arg;
	int r = unpack_node(value, &node);

	(void)key;
	return r < 0 ? r : told->fn.node(told->arg, &node);
}

int redis_node_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t after,
		    bool orphans_only, backend_node_fn *fn, void *arg)
{
	const struct range range = { .how = orphans_only ? "through" : "range",
				     .needs = "",
				     .from = orphans_only ? "[Oi]" : "[Ni]",
				     .to = orphans_only ? "[O>" : "[N>",
				     .op.ino = after + 1 };

	return redis_range(backend, snapshot, &range, tell_node, TELL(node));
}

struct listing {
	struct redis *store;
	backend_node_fn *fn;
	void *arg;
};

static int tell_unused(void *arg, const struct backend_node *node)
{
	const struct listing *listing = arg;

	return redis_uses_here(listing->store, node->ino) ? 0 : listing->fn(listing->arg, node);
}

int redis_orphan_list(struct backend *backend, struct backend_snapshot *snapshot,
		      backend_node_fn *fn, void *arg)
{
	const struct range range = { "orphans", "", "[O]", "[O>", 0, { 0 } };
	struct listing listing = { redis_of(backend), fn, arg };
	struct told told = { .fn.node = tell_unused, .arg = &listing };

	return redis_range(backend, snapshot, &range, tell_node, &told);
}

static int tell_setting(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	const struct told *told = arg;
	int r = key_take_text(&key, &name);

	return r < 0 ? r : told->fn.setting(told->arg, buf_bytes(&name), value);
}

static int tell_name(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	const struct told *told = arg;
	int r = key_take_text(&key, &name);

	(void)value;
	return r < 0 ? r : told->fn.name(told->arg, buf_bytes(&name));
}

int redis_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     backend_name_fn *fn, void *arg)
{
	const struct range range = { "range", "^i", "[Xi]", "[Xi>", 0, { .ino = ino } };

	return redis_range(backend, snapshot, &range, tell_name, TELL(name));
}

int redis_setting_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_setting_fn *fn, void *arg)
{
	const struct range range = { "range", "", "[T]", "[T>", 0, { 0 } };

	return redis_range(backend, snapshot, &range, tell_setting, TELL(setting));
}

static int tell_chunk(void *arg, struct bytes key, struct bytes value)
{
	const struct told *told = arg;

	return told->fn.chunk(told->arg, key_take_number(&key), value);
}

int redis_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	const struct range range = { "range", "^i",	"[Cia]",
				     "[Cit>", PAGE_BIG, { .ino = ino, .at = first, .to = last } };

	return redis_range(backend, snapshot, &range, tell_chunk, TELL(chunk));
}

static int tell_piece(void *arg, struct bytes key, struct bytes value)
{
	const struct told *told = arg;
	const int64_t index = key_take_number(&key);

	return told->fn.piece(told->arg, index, key_take_number(&key), value);
}

int redis_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	const struct range range = { "range",  "^i",
				     "[Pias]", "[Pi>",
				     PAGE_BIG, { .ino = ino, .at = first, .seq = first_seq } };

	return redis_range(backend, snapshot, &range, tell_piece, TELL(piece));
}
