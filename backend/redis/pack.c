/* SPDX-License-Identifier: MIT */
#include "backend/redis/pack.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/base/cleanup.h"
#include "backend/feed/feed.h"

enum { NODE_TEXTS = 3, NOTE_TEXTS = 3, NONE = -1 };

static const struct {
	size_t offset, size;
	unsigned set; /* by which of enum backend_fields, or 0 */
} fields[] = {
#define FIELD(name, set)                                                                           \
	{                                                                                          \
		offsetof(struct backend_node, name), sizeof(((struct backend_node *)0)->name), set \
	}
	FIELD(ino, 0),
	FIELD(parent, 0),
	FIELD(entry, 0),
	FIELD(kind, 0),
	FIELD(flags, 0),
	FIELD(mode, BACKEND_MODE),
	FIELD(uid, BACKEND_UID),
	FIELD(gid, BACKEND_GID),
	FIELD(nlink, 0),
	FIELD(rdev, 0),
	FIELD(size, 0),
	FIELD(atime, BACKEND_ATIME),
	FIELD(mtime, BACKEND_MTIME),
	FIELD(ctime, BACKEND_CTIME),
	FIELD(btime, 0),
	FIELD(generation, BACKEND_GENERATION),
#undef FIELD
};

static const size_t texts[NODE_TEXTS] = {
	offsetof(struct backend_node, session),
	offsetof(struct backend_node, key),
	offsetof(struct backend_node, target),
};

/* A field of four bytes or eight, most significant byte first; or back. */
static void turn(const void *from, size_t size, void *to)
{
	uint64_t number;
	uint32_t half;

	if (size == sizeof(number)) {
		memcpy(&number, from, size);
		number = htobe64(number);
		memcpy(to, &number, size);
	} else {
		memcpy(&half, from, size);
		half = htobe32(half);
		memcpy(to, &half, size);
	}
}

void pack_number(uint64_t number, char bytes[8])
{
	turn(&number, sizeof(number), bytes);
}

uint64_t unpack_number(const char *bytes)
{
	uint64_t number;

	turn(bytes, sizeof(number), &number);
	return number;
}

struct key pack_index(const struct backend_node *node)
{
	struct key key = { 0 };

	if (!node->session.data)
		return key;
	if (node->kind >= BACKEND_SINGLE && node->key.data) {
		key = key_make(node->nlink ? KEY_FILE : KEY_ORPHAN_FILE);
		key_add_text(&key, node->session);
		key_add_text(&key, node->key);
		if (!node->nlink)
			key_add_number(&key, (int64_t)node->ino);
	} else if (node->kind == BACKEND_SESSION && node->nlink) {
		key = key_make(KEY_SESSION);
		key_add_text(&key, node->session);
	}
	return key;
}

/* A length in front; that of no text is told apart from that of an empty one. */
static int text_put(struct buf *buf, struct bytes text)
{
	const int32_t size = text.data ? (int32_t)text.size : NONE;
	char bytes[4];
	int r;

	turn(&size, sizeof(size), bytes);
	r = buf_append(buf, bytes, sizeof(bytes));
	return r < 0 ? r : buf_append_bytes(buf, text);
}

/* 0 or -EIO. */
static int text_get(struct bytes *rest, struct bytes *ret_text)
{
	int32_t size;

	if (rest->size < sizeof(size))
		return -EIO;
	turn(rest->data, sizeof(size), &size);
	*rest = bytes_make(rest->data + sizeof(size), rest->size - sizeof(size));
	if (size > 0 && (size_t)size > rest->size)
		return -EIO;
	*ret_text = size < 0 ? (struct bytes){ 0 } : bytes_make(rest->data, (size_t)size);
	size = MAX(size, 0);
	*rest = bytes_make(rest->data + size, rest->size - (size_t)size);
	return 0;
}

int pack_node(const struct backend_node *node, struct buf *buf)
{
	_cleanup_(key_done) struct key index = pack_index(node);
	int r = index.error;

	if (r == 0)
		r = text_put(buf, buf_given(&index.buf));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
		char bytes[8];

		turn((const char *)node + fields[i].offset, fields[i].size, bytes);
		r = buf_append(buf, bytes, fields[i].size);
	}
	for (size_t i = 0; r == 0 && i < NODE_TEXTS; i++)
		r = text_put(buf,
			     *(const struct bytes *)(const void *)((const char *)node + texts[i]));
	return r;
}

int unpack_node(struct bytes value, struct backend_node *ret_node)
{
	struct backend_node node = { 0 };
	struct bytes index;
	int r = text_get(&value, &index);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
		if (value.size < fields[i].size)
			return -EIO;
		turn(value.data, fields[i].size, (char *)&node + fields[i].offset);
		value = bytes_make(value.data + fields[i].size, value.size - fields[i].size);
	}
	for (size_t i = 0; r == 0 && i < NODE_TEXTS; i++)
		r = text_get(&value, (struct bytes *)(void *)((char *)&node + texts[i]));
	return r < 0 ? r : backend_node_copy(&node, ret_node);
}

size_t pack_fields(const struct backend_node *node, unsigned at, struct pack_field ret_fields[7])
{
	size_t count = 0;
	unsigned place = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); place += (unsigned)fields[i++].size) {
		struct pack_field *field = &ret_fields[count];

		if (!(at & fields[i].set))
			continue;
		field->place = place;
		field->size = fields[i].size;
		turn((const char *)node + fields[i].offset, field->size, field->bytes);
		count++;
	}
	return count;
}

/* Notes: numbers as text, then the texts. */

int pack_note(const struct backend_feed *feed, struct buf *buf)
{
	int r = buf_printf(buf,
			   "%d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRId64 " %" PRId64
			   " %" PRIu64 " ",
			   (int)feed->what, feed->ino, feed_flags(feed), feed->first, feed->count,
			   feed->deleted, feed->end, feed->node);

	if (r == 0)
		r = text_put(buf, feed->session);
	if (r == 0)
		r = text_put(buf, feed->key);
	return r < 0 ? r : text_put(buf, feed->name);
}

int unpack_note(struct bytes value, struct backend_feed *ret_feed)
{
	struct backend_feed feed = { 0 };
	int64_t flags;
	int what, size = 0;
	int r = sscanf(value.data,
		       "%d %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNd64 " %" SCNd64
		       " %" SCNu64 "%n",
		       &what, &feed.ino, &flags, &feed.first, &feed.count, &feed.deleted, &feed.end,
		       &feed.node, &size);

	if (r != 8 || (size_t)size + 1 > value.size)
		return -EIO;
	value = bytes_make(value.data + size + 1, value.size - (size_t)size - 1);
	feed.what = (enum backend_feed_what)what;
	feed_set_flags(&feed, flags);
	r = text_get(&value, &feed.session);
	if (r == 0)
		r = text_get(&value, &feed.key);
	if (r == 0)
		r = text_get(&value, &feed.name);
	if (r == 0)
		*ret_feed = feed;
	return r;
}
