/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_BTREE_H
#define BACKEND_SQLITE_BTREE_H

/*
 * Pages and records of SQLite's file format, read without SQLite: for what is left of a database
 * that SQLite cannot open any more.
 *
 * The format is documented at https://www.sqlite.org/fileformat2.html; names are as there.  All of
 * it is untrusted input: nothing outside the page or the payload is ever looked at, and what does
 * not fit exactly is no cell and no record.  Pure functions; nothing is allocated.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum { FILE_HEADER = 100 }; /* bytes of the database, before what is in its first page */

enum btree_type {
	BTREE_INDEX_INTERIOR = 2,
	BTREE_TABLE_INTERIOR = 5,
	BTREE_INDEX_LEAF = 10,
	BTREE_TABLE_LEAF = 13,
};

/* A page of a b-tree.  bytes are borrowed. */
struct btree_page {
	const uint8_t *bytes;
	uint32_t usable; /* bytes of a page without those reserved for extensions */
	enum btree_type type;
	unsigned cells;	   /* as the header says; their places may be wrong */
	unsigned pointers; /* where the array of places begins */
	uint32_t right;	   /* interior pages: the last child */
};

/* A cell: a child, a payload, or both. */
struct btree_cell {
	unsigned begin, end; /* its bytes in the page */
	uint32_t child;	     /* interior pages */
	int64_t rowid;	     /* table pages */
	bool has_payload;
	uint64_t size;	    /* of the whole payload */
	struct bytes local; /* what of it is in the page */
	uint32_t overflow;  /* the page where it goes on; 0: nowhere */
};

/* Whether the bytes can be a page of a b-tree, and its header. */
bool btree_page_read(const uint8_t *bytes, uint32_t usable, bool first, struct btree_page *page);
/* The cell with this number. */
bool btree_cell_read(const struct btree_page *page, unsigned number, struct btree_cell *cell);
/* How many of its cells are whole: a page that is one by chance has none or few. */
unsigned btree_page_whole(const struct btree_page *page);

static inline bool btree_is_interior(const struct btree_page *page)
{
	return page->type == BTREE_INDEX_INTERIOR || page->type == BTREE_TABLE_INTERIOR;
}

enum btree_value_type { BTREE_NULL, BTREE_INTEGER, BTREE_REAL, BTREE_BLOB, BTREE_TEXT };

struct btree_value {
	enum btree_value_type type;
	int64_t integer;
	double real;
	struct bytes bytes; /* borrowed from the payload */
};

/* The values of a record: how many, or -1 when the payload is not exactly one record of at most
 * room values. */
int btree_record_read(struct bytes payload, struct btree_value *values, int room);
/* The same when only the beginning of a payload of this size is known: types alone. */
int btree_record_types(struct bytes begin, uint64_t size, struct btree_value *values, int room);

static inline uint32_t btree_u16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static inline uint32_t btree_u32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

#endif
