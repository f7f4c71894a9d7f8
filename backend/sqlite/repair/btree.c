/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/repair/btree.h"

#include <string.h>

#include "backend/base/cleanup.h"

enum { LEAF_HEADER = 8, INTERIOR_HEADER = 12, VARINT_MAX = 9 };

/* A variable-length integer; how many bytes it takes, 0 when it does not end in time. */
static unsigned read_varint(const uint8_t *bytes, size_t room, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < VARINT_MAX && i < room; i++) {
		if (i == VARINT_MAX - 1) {
			*ret_value = value << 8 | bytes[i];
			return VARINT_MAX;
		}
		value = value << 7 | (bytes[i] & 0x7f);
		if (!(bytes[i] & 0x80)) {
			*ret_value = value;
			return i + 1;
		}
	}
	return 0;
}

bool btree_page_read(const uint8_t *bytes, uint32_t usable, bool first, struct btree_page *page)
{
	unsigned at = first ? FILE_HEADER : 0;
	uint8_t type = bytes[at];
	unsigned header, content;

	if (type != BTREE_INDEX_INTERIOR && type != BTREE_TABLE_INTERIOR &&
	    type != BTREE_INDEX_LEAF && type != BTREE_TABLE_LEAF)
		return false;
	*page = (struct btree_page){ .bytes = bytes, .usable = usable, .type = type };
	header = btree_is_interior(page) ? INTERIOR_HEADER : LEAF_HEADER;
	page->pointers = at + header;
	page->cells = btree_u16(bytes + at + 3);
	content = btree_u16(bytes + at + 5);
	if (content == 0)
		content = 65536;
	if (btree_is_interior(page))
		page->right = btree_u32(bytes + at + 8);
	/* A cell takes at least four bytes and its place. */
	if (page->cells > (usable - page->pointers) / 6)
		return false;
	/* An empty page must at least know where its cells would begin. */
	return page->cells || content <= usable;
}

/* How much of a payload is in the page itself. */
static uint32_t local_size(const struct btree_page *page, uint64_t size)
{
	uint32_t usable = page->usable;
	uint32_t least = (usable - 12) * 32 / 255 - 23;
	uint32_t most =
		page->type == BTREE_TABLE_LEAF ? usable - 35 : (usable - 12) * 64 / 255 - 23;
	uint64_t wanted;

	if (size <= most)
		return (uint32_t)size;
	wanted = least + (size - least) % (usable - 4);
	return wanted <= most ? (uint32_t)wanted : least;
}

static bool read_payload(const struct btree_page *page, unsigned at, struct btree_cell *cell)
{
	uint32_t local = local_size(page, cell->size);
	unsigned pointer = local < cell->size ? 4 : 0;

	if (cell->size > INT32_MAX || local + pointer > page->usable - at)
		return false;
	cell->has_payload = true;
	cell->local = bytes_make(page->bytes + at, local);
	if (pointer)
		cell->overflow = btree_u32(page->bytes + at + local);
	cell->end = at + local + pointer;
	/* No cell is shorter: freed, it must hold a free block's header. */
	if (cell->end - cell->begin < 4)
		cell->end = cell->begin + 4;
	return cell->end <= page->usable && (!pointer || cell->overflow);
}

bool btree_cell_read(const struct btree_page *page, unsigned number, struct btree_cell *cell)
{
	unsigned array_end = page->pointers + 2 * page->cells, at, got;
	uint64_t value = 0;

	if (number >= page->cells)
		return false;
	at = btree_u16(page->bytes + page->pointers + 2 * number);
	if (at < array_end || at + 4 > page->usable)
		return false;
	*cell = (struct btree_cell){ .begin = at };
	if (btree_is_interior(page)) {
		cell->child = btree_u32(page->bytes + at);
		at += 4;
	}
	if (page->type != BTREE_TABLE_INTERIOR) {
		got = read_varint(page->bytes + at, page->usable - at, &cell->size);
		if (!got)
			return false;
		at += got;
	}
	if (page->type == BTREE_TABLE_LEAF || page->type == BTREE_TABLE_INTERIOR) {
		got = read_varint(page->bytes + at, page->usable - at, &value);
		if (!got)
			return false;
		cell->rowid = (int64_t)value;
		at += got;
	}
	cell->end = at;
	return page->type == BTREE_TABLE_INTERIOR || read_payload(page, at, cell);
}

unsigned btree_page_whole(const struct btree_page *page)
{
	struct btree_cell cell;
	unsigned whole = 0;

	for (unsigned i = 0; i < page->cells; i++)
		whole += btree_cell_read(page, i, &cell);
	return whole;
}

/* Records. */

static int64_t read_integer(const uint8_t *bytes, unsigned size)
{
	uint64_t value = bytes[0] & 0x80 ? UINT64_MAX : 0;

	for (unsigned i = 0; i < size; i++)
		value = value << 8 | bytes[i];
	return (int64_t)value;
}

/* Bytes of a value by its serial type; false for the types that no file has. */
static bool value_size(uint64_t type, uint64_t *ret_size)
{
	static const uint8_t sizes[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };

	if (type == 10 || type == 11)
		return false;
	*ret_size = type < 10 ? sizes[type] : (type - 12) / 2;
	return true;
}

static enum btree_value_type value_type(uint64_t type)
{
	if (type >= 12)
		return type & 1 ? BTREE_TEXT : BTREE_BLOB;
	if (type == 7)
		return BTREE_REAL;
	return type ? BTREE_INTEGER : BTREE_NULL;
}

static void read_value(uint64_t type, const uint8_t *bytes, uint64_t size,
		       struct btree_value *value)
{
	*value = (struct btree_value){ .type = value_type(type) };
	if (type >= 12) {
		value->bytes = bytes_make(bytes, size);
	} else if (type == 7) {
		uint64_t bits = (uint64_t)read_integer(bytes, 8);

		memcpy(&value->real, &bits, sizeof(bits));
	} else if (type) {
		value->integer =
			type >= 8 ? (int64_t)type - 8 : read_integer(bytes, (unsigned)size);
	}
}

static int read_record(struct bytes payload, uint64_t whole, bool with_bodies,
		       struct btree_value *values, int room)
{
	const uint8_t *bytes = (const uint8_t *)payload.data;
	uint64_t header = 0, at, body, type, size;
	int count = 0;

	at = payload.size ? read_varint(bytes, payload.size, &header) : 0;
	if (!at || header < at || header > payload.size)
		return -1;
	for (body = header; at < header; count++) {
		unsigned got = read_varint(bytes + at, header - at, &type);

		if (!got || count == room || !value_size(type, &size) || size > whole - body)
			return -1;
		if (with_bodies)
			read_value(type, bytes + body, size, &values[count]);
		else
			values[count] = (struct btree_value){ .type = value_type(type) };
		at += got;
		body += size;
	}
	return body == whole ? count : -1;
}

int btree_record_read(struct bytes payload, struct btree_value *values, int room)
{
	return read_record(payload, payload.size, true, values, room);
}

int btree_record_types(struct bytes begin, uint64_t size, struct btree_value *values, int room)
{
	return read_record(begin, MAX(size, begin.size), false, values, room);
}
