/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/sqlite/repair/salvage-parts.h"
#include "backend/base/cleanup.h"

enum { DEPTH_MOST = 64 };

bool salvage_is_free(struct salvage *salvage, uint32_t page)
{
	uint32_t parent;

	return (salvage->bits[page] & BIT_FREE) &&
	       image_use(&salvage->image, page, &parent) == IMAGE_FREE;
}

int salvage_walk(struct salvage *salvage, enum salvage_table table, uint32_t number, unsigned depth)
{
	const struct image *image = &salvage->image;
	const bool there = image_has_page(image, number);
	_cleanup_(freep) uint8_t *bytes = NULL;
	struct image_page page;
	bool any;
	int r = 0;

	if (there && (salvage->bits[number] & BIT_LIVE))
		return 0;
	bytes = malloc(image->page_size);
	if (!bytes)
		return -ENOMEM;
	if (!there || depth > DEPTH_MOST || image_is_special(image, number) ||
	    salvage_is_free(salvage, number) ||
	    !image_page_read(&salvage->image, number, bytes, &page) ||
	    !salvage_page_is_of(salvage, table, &page, &any)) {
		salvage_tell(salvage, "page %" PRIu32 ", of %s, cannot be read", number,
			     salvage_name_of(salvage, table));
		return 0;
	}
	salvage->bits[number] |= BIT_LIVE;
	salvage->use[number] = table;
	for (unsigned i = 0; r == 0 && image_is_interior(&page) && i <= page.cells; i++) {
		unsigned at = i < page.cells ? image_cell(&page, i) : 0;

		/* The page below a cell whose place is wrong is found by its shape. */
		if (at || i == page.cells)
			r = salvage_walk(salvage, table, at ? image_u32(bytes + at) : page.right,
					 depth + 1);
	}
	return r;
}

void salvage_walk_freelist(struct salvage *salvage)
{
	struct image *image = &salvage->image;
	uint32_t trunk = image->freelist;

	while (image_has_page(image, trunk) && !(salvage->bits[trunk] & (BIT_FREE | BIT_LIVE)) &&
	       image_read(image, trunk, salvage->page) == 0) {
		uint32_t leaves = MIN(image_u32(salvage->page + 4), image->usable / 4 - 2);

		salvage->bits[trunk] |= BIT_FREE;
		for (uint32_t i = 0; i < leaves; i++) {
			uint32_t leaf = image_u32(salvage->page + 8 + (size_t)4 * i);

			if (image_has_page(image, leaf))
				salvage->bits[leaf] |= BIT_FREE;
		}
		trunk = image_u32(salvage->page);
	}
}

/* The schema. */

/* One row of the schema: type, name, tbl_name, rootpage, sql. */
static int on_schema(void *arg, unsigned cell, sqlite3_stmt *row)
{
	struct salvage *salvage = arg;
	int64_t root = row ? sqlite3_column_int64(row, SALVAGE_FIRST + 3) : 0;
	struct bytes name, sql;

	if (root < 1 || root > salvage->image.pages)
		return 0;
	name = salvage_text(row, 1);
	sql = salvage_text(row, 4);
	salvage->bits[root] |= BIT_ROOT;
	for (int i = 0; i < SALVAGE_TABLES; i++)
		if (salvage_shapes[i].name && bytes_equal(name, bytes_str(salvage_shapes[i].name)))
			salvage->roots[i] = (uint32_t)root;
	if (name.size != strlen(salvage->table) ||
	    strncasecmp(name.data, salvage->table, name.size) != 0)
		return 0;
	salvage->roots[SALVAGE_ROW] = (uint32_t)root;
	/* Not a view, nor a table of a module that would be run. */
	if (sql.size < 12 || strncasecmp(sql.data, "CREATE TABLE", 12) != 0)
		return 0;
	free(salvage->rows_sql);
	salvage->rows_sql = bytes_dup(sql);
	return salvage->rows_sql ? 0 : -ENOMEM;
}

static int on_meta(void *arg, unsigned cell, sqlite3_stmt *row)
{
	struct salvage *salvage = arg;

	if (row && bytes_equal(salvage_text(row, 0), BYTES("made")))
		salvage->foreign = bytes_equal(salvage_text(row, 1), BYTES("0"));
	if (row && !salvage->table_found && bytes_equal(salvage_text(row, 0), BYTES("table")))
		salvage->table_found = bytes_dup(salvage_text(row, 1));
	return 0;
}

static int visit(struct salvage *salvage, enum salvage_table table, salvage_cell_fn *fn)
{
	struct image_page page;
	int r = 0;

	for (uint32_t i = 1; r == 0 && i <= salvage->image.pages; i++)
		if (salvage->use[i] == table &&
		    image_page_read(&salvage->image, i, salvage->page, &page))
			r = salvage_cells(salvage, table, &page, true, fn, salvage);
	return r;
}

/* Names of tables first, since the rows' may be any. */
int salvage_learn_schema(struct salvage *salvage)
{
	int r = salvage_walk(salvage, SALVAGE_SCHEMA, 1, 0);

	if (r == 0)
		r = visit(salvage, SALVAGE_SCHEMA, on_schema);
	if (r == 0 && salvage->roots[SALVAGE_META])
		r = salvage_walk(salvage, SALVAGE_META, salvage->roots[SALVAGE_META], 0);
	if (r == 0)
		r = visit(salvage, SALVAGE_META, on_meta);
	if (r == 0 && salvage->table_found && strcmp(salvage->table, salvage->table_found) != 0) {
		salvage->table = salvage->table_found;
		r = visit(salvage, SALVAGE_SCHEMA, on_schema);
	}
	if (r < 0 || !salvage->rows_sql)
		return r;
	r = salvage_leaf_open(salvage);
	if (r != -ENODATA)
		return r;
	/* They are damaged, so the rows may be as we would have made them. */
	free(salvage->rows_sql);
	salvage->rows_sql = NULL;
	return salvage_leaf_open(salvage);
}
