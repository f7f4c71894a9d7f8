/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend/sqlite/repair/salvage-parts.h"
#include "backend/base/cleanup.h"

const struct salvage_shape salvage_shapes[SALVAGE_TABLES] = {
	[SALVAGE_NODE] = { "sessfs_node", "niiiiiiiiiiiiiiTTBi", BY_ROWID, true },
	[SALVAGE_ENTRY] = { "sessfs_entry", "iibi", BY_KEY, true },
	[SALVAGE_XATTR] = { "sessfs_xattr", "ibb", BY_KEY, true },
	[SALVAGE_CHUNK] = { "sessfs_chunk", "iib", BY_KEY | BY_ROWID, true },
	[SALVAGE_PIECE] = { "sessfs_piece", "iiib", BY_KEY, true },
	[SALVAGE_TRASH] = { "sessfs_trash", "iivvvv", BY_ROWID, true },
	[SALVAGE_ROW] = { NULL, "ttitvvv", 0, true },
	[SALVAGE_MARK] = { "sessfs_mark", "iii", BY_KEY, false },
	[SALVAGE_NODE_KEY] = { "sessfs_node_key", "tti", BY_KEY, true },
	[SALVAGE_ENTRY_NAME] = { "sqlite_autoindex_sessfs_entry_2", "ibi", BY_KEY, true },
	[SALVAGE_META] = { "sessfs_meta", "tv", BY_KEY, false },
};

const char *salvage_name_of(const struct salvage *salvage, enum salvage_table table)
{
	if (table == SALVAGE_ROW)
		return salvage->table;
	return salvage_shapes[table].name ? salvage_shapes[table].name : "another table";
}

/* Records. */

enum { NODE_COLUMNS_3 = 18, TRASH_COLUMNS_4 = 5 };

static bool fits(char letter, const struct btree_value *value)
{
	switch (letter) {
	case 'i':
		return value->type == BTREE_INTEGER;
	case 't':
		return value->type == BTREE_TEXT;
	case 'b':
		return value->type == BTREE_BLOB;
	case 'n':
		return value->type == BTREE_NULL || value->type == BTREE_INTEGER;
	case 'T':
		return value->type == BTREE_NULL || value->type == BTREE_TEXT;
	case 'B':
		return value->type == BTREE_NULL || value->type == BTREE_BLOB;
	default:
		return true;
	}
}

static bool may_be_on(const struct salvage *salvage, enum salvage_table table, enum btree_type type)
{
	unsigned by = table == SALVAGE_ROW ? salvage->rows_by : salvage_shapes[table].by;

	return by & (type == BTREE_TABLE_LEAF || type == BTREE_TABLE_INTERIOR ? BY_ROWID : BY_KEY);
}

/* Put the columns of a row where the rest of the program looks for them. */
static void arrange_row(const struct salvage *salvage, struct btree_value *values, int count)
{
	struct btree_value row[ROW_COLUMNS] = { 0 };

	for (int i = 0; i < ROW_COLUMNS; i++)
		if (salvage->columns[i] >= 0 && salvage->columns[i] < count)
			row[i] = values[salvage->columns[i]];
	memcpy(values, row, sizeof(row));
	/* What the other program put there as bytes is told as text. */
	if (row[ROW_DATA].type == BTREE_BLOB)
		values[ROW_DATA].type = BTREE_TEXT;
}

/* In a column of another program's, that need be neither text nor anything: but in an index, a
 * change that is logged would look like such a row. */
static bool has_odd_data(const struct salvage *salvage, const struct btree_value *row)
{
	return salvage->foreign && salvage->rows_by == BY_ROWID && row[ROW_DATA].type != BTREE_TEXT;
}

/* Whether count values are those of a record of this table; arranged; how many, or -1. */
static int arrange(const struct salvage *salvage, enum salvage_table table,
		   struct btree_value *values, int count)
{
	const char *columns = salvage_shapes[table].columns;

	if (count < 0 || !columns)
		return -1;
	if (table == SALVAGE_ROW) {
		if (count <= salvage->columns[ROW_INDEX] || count <= salvage->columns[ROW_DATA])
			return -1;
		arrange_row(salvage, values, count);
		count = ROW_COLUMNS;
	}
	/* Before the fourth version, no node had the last one. */
	if (table == SALVAGE_NODE && count == NODE_COLUMNS_3)
		values[count++] = (struct btree_value){ .type = BTREE_INTEGER };
	/* And before the fifth, nothing in the trash. */
	if (table == SALVAGE_TRASH && count == TRASH_COLUMNS_4)
		values[count++] = (struct btree_value){ .type = BTREE_NULL };
	if (count != (int)strlen(columns))
		return -1;
	for (int i = 0; i < count; i++)
		if (!fits(columns[i], &values[i]) &&
		    !(table == SALVAGE_ROW && i == ROW_DATA && has_odd_data(salvage, values)))
			return -1;
	return count;
}

/* Overflow pages. */

/* Whether the page named by the pointer map as the one that leads here really does. */
static bool leads_to(struct salvage *salvage, uint32_t from, enum image_use use, uint32_t page)
{
	struct btree_page above;
	struct btree_cell cell;

	if (image_read(&salvage->image, from, salvage->other) < 0)
		return false;
	if (use == IMAGE_OVERFLOW)
		return btree_u32(salvage->other) == page;
	if (!btree_page_read(salvage->other, salvage->image.usable, from == 1, &above))
		return false;
	if (use == IMAGE_BTREE && btree_is_interior(&above) && above.right == page)
		return true;
	for (unsigned i = 0; i < above.cells; i++) {
		if (!btree_cell_read(&above, i, &cell))
			continue;
		if (use == IMAGE_BTREE ? cell.child == page : cell.overflow == page)
			return true;
	}
	return false;
}

bool salvage_is_false(struct salvage *salvage, uint32_t from, uint32_t page,
		      enum image_use expected)
{
	uint32_t parent;
	enum image_use use = image_use(&salvage->image, page, &parent);

	if (use == IMAGE_UNKNOWN || (use == expected && parent == from))
		return false;
	if (use == IMAGE_FREE)
		return salvage->bits[page] & BIT_FREE;
	return use != IMAGE_ROOT && parent != from && leads_to(salvage, parent, use, page);
}

int salvage_payload(struct salvage *salvage, uint32_t page, const struct btree_cell *cell,
		    struct bytes *ret_payload)
{
	struct image *image = &salvage->image;
	uint64_t left = cell->size - cell->local.size, room = image->usable - 4;
	uint32_t next = cell->overflow, from = page;
	enum image_use use = IMAGE_OVERFLOW_FIRST;

	if (!left) {
		*ret_payload = cell->local;
		return 0;
	}
	if (left / room >= image->pages)
		return -ENODATA;
	buf_clear(&salvage->payload);
	if (buf_reserve(&salvage->payload, cell->size + 1) < 0 ||
	    buf_append_bytes(&salvage->payload, cell->local) < 0)
		return -ENOMEM;
	while (left) {
		uint64_t part = MIN(left, room);

		if (!image_has_page(image, next) || image_is_special(image, next) ||
		    (salvage->bits[next] & BIT_LIVE) ||
		    salvage_is_false(salvage, from, next, use) ||
		    image_read(image, next, salvage->other) < 0)
			return -ENODATA;
		if (buf_append(&salvage->payload, salvage->other + 4, part) < 0)
			return -ENOMEM;
		left -= part;
		from = next;
		next = btree_u32(salvage->other);
		use = IMAGE_OVERFLOW;
	}
	/* A chain that goes on is another one's, or its last page is damaged. */
	*ret_payload = buf_bytes(&salvage->payload);
	return next ? -ENODATA : 0;
}

int salvage_record_read(struct salvage *salvage, enum salvage_table table, uint32_t page,
			const struct btree_cell *cell, struct btree_value *values, int *ret_count)
{
	struct bytes payload;
	int r = cell->has_payload ? salvage_payload(salvage, page, cell, &payload) : -ENODATA;

	if (r < 0)
		return r;
	*ret_count = arrange(salvage, table, values,
			     btree_record_read(payload, values, SALVAGE_COLUMNS));
	return *ret_count < 0 ? -ENODATA : 0;
}

void salvage_show_row(struct salvage *salvage, const struct btree_page *page, uint32_t number,
		      int cell_number, char text[512])
{
	struct btree_value values[SALVAGE_COLUMNS];
	struct btree_cell cell;
	int count;

	snprintf(text, 512, "%s", cell_number < 0 ? "the beginning" : "the end");
	if (cell_number < 0 || cell_number >= (int)page->cells)
		return;
	snprintf(text, 512, "somewhere");
	if (!btree_cell_read(page, (unsigned)cell_number, &cell) ||
	    salvage_record_read(salvage, SALVAGE_ROW, number, &cell, values, &count) < 0)
		return;
	snprintf(text, 512, "session %.*s, key %.*s, item %" PRId64,
		 (int)MIN(values[ROW_SESSION].bytes.size, 200), values[ROW_SESSION].bytes.data,
		 (int)MIN(values[ROW_KEY].bytes.size, 200), values[ROW_KEY].bytes.data,
		 values[ROW_INDEX].integer);
}

bool salvage_page_is_of(const struct salvage *salvage, enum salvage_table table,
			const struct btree_page *page)
{
	struct btree_value values[SALVAGE_COLUMNS];
	struct btree_cell cell;
	unsigned fit = 0, whole = 0;

	if (table == SALVAGE_OTHER)
		return true;
	if (!may_be_on(salvage, table, page->type))
		return false;
	if (page->type == BTREE_TABLE_INTERIOR)
		return true;
	/* The types are at the beginning, so that no overflow page need be read. */
	for (unsigned i = 0; i < page->cells; i++) {
		/* A record has a byte at least: zeros are none, of whatever table. */
		if (!btree_cell_read(page, i, &cell) || !cell.size)
			continue;
		whole++;
		fit += arrange(salvage, table, values,
			       btree_record_types(cell.local, cell.size, values,
						  SALVAGE_COLUMNS)) >= 0;
	}
	return fit * 2 >= whole;
}

int salvage_bind(const struct salvage *salvage, sqlite3_stmt *statement, int place,
		 const struct btree_value *value)
{
	static const unsigned char encodings[] = { SQLITE_UTF8, SQLITE_UTF8, SQLITE_UTF16LE,
						   SQLITE_UTF16BE };

	switch (value->type) {
	case BTREE_INTEGER:
		return sqlite3_bind_int64(statement, place, value->integer);
	case BTREE_REAL:
		return sqlite3_bind_double(statement, place, value->real);
	case BTREE_BLOB:
		return sqlite3_bind_blob64(statement, place,
					   value->bytes.data ? value->bytes.data : "",
					   value->bytes.size, SQLITE_STATIC);
	case BTREE_TEXT:
		return sqlite3_bind_text64(statement, place,
					   value->bytes.data ? value->bytes.data : "",
					   value->bytes.size, SQLITE_STATIC,
					   encodings[salvage->image.encoding]);
	default:
		return sqlite3_bind_null(statement, place);
	}
}

int salvage_utf8(struct salvage *salvage, struct btree_value *values, int count)
{
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY;

	if (salvage->image.encoding == 1)
		return 0;
	if (!salvage->db && sqlite3_open_v2(":memory:", &salvage->db, flags, NULL) != SQLITE_OK)
		return -ENOMEM;
	if (!salvage->text && sqlite3_prepare_v2(salvage->db, "SELECT ?1, ?2, ?3, ?4, ?5", -1,
						 &salvage->text, NULL) != SQLITE_OK)
		return -ENOMEM;
	sqlite3_reset(salvage->text);
	sqlite3_clear_bindings(salvage->text);
	for (int i = 0; i < count; i++)
		salvage_bind(salvage, salvage->text, i + 1, &values[i]);
	if (sqlite3_step(salvage->text) != SQLITE_ROW)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		const void *data = sqlite3_column_text(salvage->text, i);

		values[i].bytes = bytes_make(data ? data : "",
					     (size_t)sqlite3_column_bytes(salvage->text, i));
	}
	return 0;
}
