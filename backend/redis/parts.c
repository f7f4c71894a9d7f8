/* SPDX-License-Identifier: MIT */
/* What belongs to a node, and what the store says of itself. */
#include <errno.h>
#include <stdlib.h>

#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/cleanup.h"

enum { PAGE_BIG = 32 };

int redis_xattr_get(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    struct bytes name, struct buf *ret_value)
{
	struct reading reading = reading_in(backend, snapshot);
	struct key key = key_of_node(KEY_XATTR, ino);
	struct bytes value;
	int r;

	key_add_text(&key, name);
	reading_needs_node(&reading, ino);
	call_request(&reading.call, "get");
	call_key(&reading.call, key);
	r = reading_ask(&reading);
	value = reply_bytes(reading_answer(&reading, 0));
	if (r == 0)
		r = value.data ? buf_append_bytes(ret_value, value) : -ENODATA;
	reading_done(&reading);
	return r;
}

/* One of a table, of which the columns behind the node's number are handed on. */
struct columns {
	union {
		backend_name_fn *name;
		backend_chunk_fn *chunk;
		backend_piece_fn *piece;
		backend_setting_fn *setting;
	} fn;
	void *arg;
};

static struct bytes skip(struct bytes key, size_t size)
{
	return bytes_make(key.data + size, key.size - size);
}

static int hand_name(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	struct columns *columns = arg;
	int r;

	(void)value;
	key = skip(key, 9);
	r = key_take_text(&key, &name);
	return r < 0 ? r : columns->fn.name(columns->arg, buf_bytes(&name));
}

int redis_xattr_list(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     backend_name_fn *fn, void *arg)
{
	struct range range = { .from = key_of_node(KEY_XATTR, ino),
			       .end = key_end(key_of_node(KEY_XATTR, ino)),
			       .ino = ino };

	return redis_range(backend, snapshot, &range, hand_name,
			   &(struct columns){ .fn.name = fn, .arg = arg });
}

static int hand_chunk(void *arg, struct bytes key, struct bytes value)
{
	struct columns *columns = arg;

	key = skip(key, 9);
	return columns->fn.chunk(columns->arg, key_take_number(&key), value);
}

int redis_chunk_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     int64_t first, int64_t last, backend_chunk_fn *fn, void *arg)
{
	struct range range = { .from = key_of_node(KEY_CHUNK, ino),
			       .end = key_of_node(KEY_CHUNK, ino),
			       .ino = ino,
			       .page = PAGE_BIG };

	key_add_number(&range.from, first);
	key_add_number(&range.end, last);
	range.end = key_end(range.end);
	return redis_range(backend, snapshot, &range, hand_chunk,
			   &(struct columns){ .fn.chunk = fn, .arg = arg });
}

static int hand_piece(void *arg, struct bytes key, struct bytes value)
{
	struct columns *columns = arg;
	int64_t index;

	key = skip(key, 9);
	index = key_take_number(&key);
	return columns->fn.piece(columns->arg, index, key_take_number(&key), value);
}

int redis_piece_read(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		     int64_t first, int64_t first_seq, backend_piece_fn *fn, void *arg)
{
	struct range range = { .from = key_of_node(KEY_PIECE, ino),
			       .end = key_end(key_of_node(KEY_PIECE, ino)),
			       .ino = ino,
			       .page = PAGE_BIG };

	key_add_number(&range.from, first);
	key_add_number(&range.from, first_seq);
	return redis_range(backend, snapshot, &range, hand_piece,
			   &(struct columns){ .fn.piece = fn, .arg = arg });
}

static int hand_setting(void *arg, struct bytes key, struct bytes value)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	struct columns *columns = arg;
	int r;

	key = skip(key, 1);
	r = key_take_text(&key, &name);
	return r < 0 ? r : columns->fn.setting(columns->arg, buf_bytes(&name), value);
}

int redis_setting_list(struct backend *backend, struct backend_snapshot *snapshot,
		       backend_setting_fn *fn, void *arg)
{
	struct range range = { .from = key_make(KEY_SETTING),
			       .end = key_end(key_make(KEY_SETTING)) };

	return redis_range(backend, snapshot, &range, hand_setting,
			   &(struct columns){ .fn.setting = fn, .arg = arg });
}

int redis_mark_find(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
		    uint64_t offset, struct backend_mark *ret_mark)
{
	struct range range = { .from = key_of_node(KEY_MARK, ino),
			       .end = key_of_node(KEY_MARK, ino),
			       .ino = ino };
	_cleanup_(reply_done) struct reply pair = { 0 };
	struct bytes key, value;
	int r;

	key_add_number(&range.end, (int64_t)MIN(offset, (uint64_t)INT64_MAX));
	range.end = key_end(range.end);
	r = redis_range_last(backend, snapshot, &range, &pair);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	key = skip(reply_bytes(reply_at(&pair, 0)), 9);
	value = reply_bytes(reply_at(&pair, 1));
	*ret_mark = (struct backend_mark){ .offset = (uint64_t)key_take_number(&key),
					   .index = key_take_number(&value) };
	return 0;
}

int redis_mark_find_index(struct backend *backend, struct backend_snapshot *snapshot, uint64_t ino,
			  int64_t index, struct backend_mark *ret_mark)
{
	struct range range = { .from = key_of_node(KEY_MARK_INDEX, ino),
			       .end = key_of_node(KEY_MARK_INDEX, ino),
			       .ino = ino };
	_cleanup_(reply_done) struct reply pair = { 0 };
	struct bytes key;
	int r;

	key_add_number(&range.end, index);
	range.end = key_end(range.end);
	r = redis_range_last(backend, snapshot, &range, &pair);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	key = skip(reply_bytes(reply_at(&pair, 0)), 9);
	ret_mark->index = key_take_number(&key);
	ret_mark->offset = (uint64_t)key_take_number(&key);
	return 0;
}

int redis_last_ids(struct backend *backend, struct backend_snapshot *snapshot, uint64_t *ret_ino,
		   uint64_t *ret_entry)
{
	struct reading reading = reading_in(backend, snapshot);
	const struct reply *found;
	int r;

	call_request(&reading.call, "meta");
	r = reading_ask(&reading);
	found = reading_answer(&reading, 0);
	if (r == 0) {
		const char *ino = reply_at(found, 0)->text.data;
		const char *entry = reply_at(found, 1)->text.data;

		*ret_ino = ino ? strtoull(ino, NULL, 16) : 0;
		*ret_entry = entry ? strtoull(entry, NULL, 16) : 0;
	}
	reading_done(&reading);
	return r;
}
