/* SPDX-License-Identifier: MIT */
#include "backend/memory/key.h"

#include <endian.h>

static void add(struct key *key, const void *data, size_t size)
{
	if (key->error == 0)
		key->error = buf_append(&key->buf, data, size);
}

struct key key_make(enum key_table table)
{
	const char letter = (char)table;
	struct key key = { 0 };

	add(&key, &letter, 1);
	return key;
}

struct key key_of_node(enum key_table table, uint64_t ino)
{
	struct key key = key_make(table);

	key_add_number(&key, (int64_t)ino);
	return key;
}

struct key key_of_state(enum key_table table, struct bytes session, struct bytes state)
{
	struct key key = key_make(table);

	key_add_text(&key, session);
	key_add_text(&key, state);
	return key;
}

/* The sign turned round, negative numbers are before the others. */
void key_add_number(struct key *key, int64_t number)
{
	uint64_t big = htobe64((uint64_t)number ^ (uint64_t)1 << 63);

	add(key, &big, sizeof(big));
}

void key_add_text(struct key *key, struct bytes text)
{
	size_t from = 0;

	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] == '\0') {
			add(key, text.data + from, i + 1 - from);
			add(key, "\xff", 1);
			from = i + 1;
		}
	if (from < text.size)
		add(key, text.data + from, text.size - from);
	add(key, "\0\0", 2);
}

void key_done(struct key *key)
{
	buf_done(&key->buf);
}

static void skip(struct bytes *bytes, size_t size)
{
	bytes->data += size;
	bytes->size -= size;
}

int64_t key_take_number(struct bytes *bytes)
{
	uint64_t big;

	memcpy(&big, bytes->data, sizeof(big));
	skip(bytes, sizeof(big));
	return (int64_t)(be64toh(big) ^ (uint64_t)1 << 63);
}

int key_take_text(struct bytes *bytes, struct buf *text)
{
	int r = 0;

	while (r == 0 && !(bytes->data[0] == '\0' && bytes->data[1] == '\0')) {
		r = buf_append_byte(text, bytes->data[0]);
		skip(bytes, bytes->data[0] == '\0' ? 2 : 1);
	}
	skip(bytes, 2);
	return r;
}
