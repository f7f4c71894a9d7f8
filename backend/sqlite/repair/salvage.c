/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sqlite/repair/salvage-parts.h"
#include "backend/base/cleanup.h"

static const char default_table[] = "agentscope_sessions";

/* In which order tables are handed out. */
static const enum salvage_table order[] = {
	SALVAGE_NODE,	    SALVAGE_ENTRY, SALVAGE_XATTR, SALVAGE_CHUNK,
	SALVAGE_PIECE,	    SALVAGE_TRASH, SALVAGE_ROW,	  SALVAGE_NODE_KEY,
	SALVAGE_ENTRY_NAME, SALVAGE_MARK,  SALVAGE_META,
};

/* A page that no tree leads to: is it of one whose upper pages are damaged? */
static bool may_be_cut_off(struct salvage *salvage, uint32_t page)
{
	uint32_t parent;
	enum image_use use;

	if ((salvage->bits[page] & BIT_LIVE) || image_is_special(&salvage->image, page))
		return false;
	use = image_use(&salvage->image, page, &parent);
	if (use == IMAGE_ROOT || use == IMAGE_BTREE)
		return true;
	/* Where the map says nothing, the list of free pages does. */
	return use != IMAGE_FREE && !(salvage->bits[page] & BIT_FREE);
}

static void sort_found(struct salvage *salvage, uint32_t number)
{
	struct btree_page page;

	if (!may_be_cut_off(salvage, number) ||
	    image_read(&salvage->image, number, salvage->page) < 0 ||
	    !btree_page_read(salvage->page, salvage->image.usable, number == 1, &page) ||
	    !btree_page_whole(&page) || page.type == BTREE_TABLE_INTERIOR)
		return;
	for (int table = SALVAGE_NODE; table < SALVAGE_OTHER; table++) {
		/* The indexes of another program may have the shape of ours. */
		if (!salvage_shapes[table].alone ||
		    (salvage->foreign &&
		     (table == SALVAGE_NODE_KEY || table == SALVAGE_ENTRY_NAME)) ||
		    !salvage_page_is_of(salvage, table, &page))
			continue;
		salvage->use[number] = (uint8_t)table;
		return;
	}
}

/* Handing out. */

enum source { SOURCE_LIVE_LOG, SOURCE_LIVE, SOURCE_FOUND_LOG, SOURCE_FOUND, SOURCE_OLD, SOURCES };

static enum source source_of(const struct salvage *salvage, uint32_t page)
{
	bool live = salvage->bits[page] & BIT_LIVE;

	if (salvage->image.stale[page])
		return SOURCE_OLD;
	if (salvage->image.frame[page])
		return live ? SOURCE_LIVE_LOG : SOURCE_FOUND_LOG;
	return live ? SOURCE_LIVE : SOURCE_FOUND;
}

/* Bytes that two cells share: then at least one of the two is none. */
static void cover_page(struct salvage *salvage, const struct btree_page *page)
{
	struct btree_cell cell;

	memset(salvage->cover, 0, salvage->image.page_size);
	for (unsigned i = 0; i < page->cells; i++)
		if (btree_cell_read(page, i, &cell))
			for (unsigned at = cell.begin; at < cell.end; at++)
				salvage->cover[at] += salvage->cover[at] < 2;
}

static bool overlaps(const struct salvage *salvage, const struct btree_cell *cell)
{
	return memchr(salvage->cover + cell->begin, 2, cell->end - cell->begin);
}

static int hand_out_cell(struct salvage *salvage, enum salvage_table table, uint32_t number,
			 const struct btree_page *page, unsigned i)
{
	struct btree_value values[SALVAGE_COLUMNS];
	struct salvage_record record = { .table = table, .values = values };
	struct btree_cell cell;
	int r;

	if (!btree_cell_read(page, i, &cell) || overlaps(salvage, &cell))
		return -ENODATA;
	r = salvage_record_read(salvage, table, number, &cell, values, &record.count);
	if (r < 0)
		return r;
	record.rowid = cell.rowid;
	record.found = !(salvage->bits[number] & BIT_LIVE);
	record.old = salvage->image.stale[number];
	return salvage->record(salvage->record_arg, &record);
}

static void tell_lost_cells(struct salvage *salvage, enum salvage_table table, uint32_t number,
			    const struct btree_page *page, unsigned lost, int first, int last)
{
	char before[512], behind[512];

	if (table != SALVAGE_ROW) {
		salvage_tell(salvage, "page %" PRIu32 ", of %s: %u of %u records are damaged",
			     number, salvage_name_of(salvage, table), lost, page->cells);
		return;
	}
	salvage_show_row(salvage, page, number, first - 1, before);
	salvage_show_row(salvage, page, number, last + 1, behind);
	salvage_tell(salvage,
		     "page %" PRIu32 ": %u of %u rows are damaged, those between %s and %s", number,
		     lost, page->cells, before, behind);
}

static int hand_out_page(struct salvage *salvage, enum salvage_table table, uint32_t number)
{
	unsigned lost = 0;
	int first = -1, last = -1, r = 0;
	struct btree_page page;

	if (image_read(&salvage->image, number, salvage->page) < 0 ||
	    !btree_page_read(salvage->page, salvage->image.usable, number == 1, &page) ||
	    page.type == BTREE_TABLE_INTERIOR)
		return 0;
	cover_page(salvage, &page);
	for (unsigned i = 0; i < page.cells; i++) {
		r = hand_out_cell(salvage, table, number, &page, i);
		if (r < 0 && r != -ENODATA)
			return r;
		if (r != -ENODATA)
			continue;
		first = lost++ ? first : (int)i;
		last = (int)i;
	}
	if (lost && !(salvage->bits[number] & BIT_SPOILT)) {
		salvage->bits[number] |= BIT_SPOILT;
		tell_lost_cells(salvage, table, number, &page, lost, first, last);
	}
	return 0;
}

static int hand_out(struct salvage *salvage, enum salvage_table table, enum source source)
{
	int r = 0;

	for (uint32_t page = 1; r == 0 && page <= salvage->image.pages; page++)
		if (salvage->use[page] == table && source_of(salvage, page) == source)
			r = hand_out_page(salvage, table, page);
	return r;
}

int salvage_run(struct salvage *salvage, salvage_fn *fn, void *arg)
{
	int r = 0;

	salvage->record = fn;
	salvage->record_arg = arg;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (int source = 0; r == 0 && source < SOURCES; source++)
			r = hand_out(salvage, order[i], source);
	return r;
}

static int sort_pages(struct salvage *salvage)
{
	int r;

	salvage_walk_freelist(salvage);
	r = salvage_learn_schema(salvage);
	for (int table = SALVAGE_NODE; r == 0 && table < SALVAGE_OTHER; table++)
		if (salvage->roots[table])
			r = salvage_walk(salvage, table, salvage->roots[table]);
	if (r == 0)
		r = salvage_walk_others(salvage);
	for (uint32_t page = 2; r == 0 && page <= salvage->image.pages; page++)
		sort_found(salvage, page);
	return r;
}

int salvage_open(const char *path, const char *table, backend_report_fn *report, void *arg,
		 struct salvage *salvage, char **ret_why)
{
	static const int ordinary[ROW_COLUMNS] = { 0, 1, 2, 3, 4, 5 };
	int r;

	*salvage = (struct salvage){ .report = report,
				     .arg = arg,
				     .table = table ? table : default_table };
	salvage->rows_by = BY_KEY | BY_ROWID;
	memcpy(salvage->columns, ordinary, sizeof(ordinary));
	r = image_open(path, report, arg, &salvage->image, ret_why);
	if (r < 0)
		return r;
	salvage->use = calloc((size_t)salvage->image.pages + 1, 1);
	salvage->bits = calloc((size_t)salvage->image.pages + 1, 1);
	salvage->page = malloc(salvage->image.page_size);
	salvage->other = malloc(salvage->image.page_size);
	salvage->cover = malloc(salvage->image.page_size);
	r = salvage->use && salvage->bits && salvage->page && salvage->other && salvage->cover ?
		    0 :
		    -ENOMEM;
	if (r == 0)
		r = sort_pages(salvage);
	if (r < 0)
		salvage_close(salvage);
	return r;
}

void salvage_close(struct salvage *salvage)
{
	image_close(&salvage->image);
	free(salvage->use);
	free(salvage->bits);
	free(salvage->page);
	free(salvage->other);
	free(salvage->cover);
	free(salvage->table_found);
	sqlite3_finalize(salvage->text);
	sqlite3_close(salvage->db);
	buf_done(&salvage->payload);
}
