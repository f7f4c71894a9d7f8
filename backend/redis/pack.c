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
	size_t offset;
	size_t size;
} fields[] = {
#define FIELD(name)                                                                                \
	{                                                                                          \
		offsetof(struct backend_node, name), sizeof(((struct backend_node *)0)->name)      \
	}
	FIELD(ino),   FIELD(parent), FIELD(entry), FIELD(kind),	      FIELD(flags), FIELD(mode),
	FIELD(uid),   FIELD(gid),    FIELD(nlink), FIELD(rdev),	      FIELD(size),  FIELD(atime),
	FIELD(mtime), FIELD(ctime),  FIELD(btime), FIELD(generation),
#undef FIELD
};

static const size_t texts[NODE_TEXTS] = {
	offsetof(struct backend_node, session),
	offsetof(struct backend_node, key),
	offsetof(struct backend_node, target),
};

/* A field of one size in another size, most significant byte first. */
static void field_put(const void *field, size_t size, char *bytes)
{
	uint64_t number = 0;
	uint32_t half = 0;

	if (size == sizeof(number)) {
		memcpy(&number, field, size);
		number = htobe64(number);
		memcpy(bytes, &number, size);
	} else {
		memcpy(&half, field, size);
		half = htobe32(half);
		memcpy(bytes, &half, size);
	}
}

static void field_get(const char *bytes, size_t size, void *field)
{
	uint64_t number;
	uint32_t half;

	if (size == sizeof(number)) {
		number = unpack_number(bytes);
		memcpy(field, &number, size);
	} else {
		memcpy(&half, bytes, size);
		half = be32toh(half);
		memcpy(field, &half, size);
	}
}

void pack_number(uint64_t number, char bytes[8])
{
	field_put(&number, sizeof(number), bytes);
}

uint64_t unpack_number(const char *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));
	return be64toh(number);
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

	field_put(&size, sizeof(size), bytes);
	r = buf_append(buf, bytes, sizeof(bytes));
	return r < 0 ? r : buf_append_bytes(buf, text);
}

/* 0 or -EIO. */
static int text_get(struct bytes *rest, struct bytes *ret_text)
{
	int32_t size;

	if (rest->size < sizeof(size))
		return -EIO;
	field_get(rest->data, sizeof(size), &size);
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
		r = text_put(buf, bytes_make(index.buf.data ? index.buf.data : "", index.buf.size));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fields); i++) {
		char bytes[8];

		field_put((const char *)node + fields[i].offset, fields[i].size, bytes);
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
		field_get(value.data, fields[i].size, (char *)&node + fields[i].offset);
		value = bytes_make(value.data + fields[i].size, value.size - fields[i].size);
	}
	for (size_t i = 0; r == 0 && i < NODE_TEXTS; i++)
		r = text_get(&value, (struct bytes *)(void *)((char *)&node + texts[i]));
	return r < 0 ? r : backend_node_copy(&node, ret_node);
}

size_t pack_fields(const struct backend_node *node, unsigned at, struct pack_field ret_fields[7])
{
	static const struct {
		unsigned field;
		size_t offset;
	} set[] = {
		{ BACKEND_ATIME, offsetof(struct backend_node, atime) },
		{ BACKEND_MTIME, offsetof(struct backend_node, mtime) },
		{ BACKEND_CTIME, offsetof(struct backend_node, ctime) },
		{ BACKEND_MODE, offsetof(struct backend_node, mode) },
		{ BACKEND_UID, offsetof(struct backend_node, uid) },
		{ BACKEND_GID, offsetof(struct backend_node, gid) },
		{ BACKEND_GENERATION, offsetof(struct backend_node, generation) },
	};
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(set); i++) {
		struct pack_field *field = &ret_fields[count];
		unsigned place = 0;

		for (size_t j = 0; fields[j].offset != set[i].offset; j++)
			place += (unsigned)fields[j].size;
		if (!(at & set[i].field))
			continue;
		field->place = place;
		field->size = set[i].field & (BACKEND_MODE | BACKEND_UID | BACKEND_GID) ? 4 : 8;
		field_put((const char *)node + set[i].offset, field->size, field->bytes);
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
