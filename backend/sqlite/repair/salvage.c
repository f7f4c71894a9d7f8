/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sqlite/repair/salvage-parts.h"
#include "backend/base/cleanup.h"

static const char default_table[] = "agentscope_sessions";

const struct salvage_shape salvage_shapes[SALVAGE_TABLES] = {
	[SALVAGE_NODE] = { "sessfs_node", "niiiiiiiiiiiiiiTTBi", BY_ROWID, true },
	[SALVAGE_ENTRY] = { "sessfs_entry", "iibi", BY_KEY, true },
	[SALVAGE_XATTR] = { "sessfs_xattr", "ibb", BY_KEY, true },
	[SALVAGE_CHUNK] = { "sessfs_chunk", "iib", BY_KEY | BY_ROWID, true },
	[SALVAGE_PIECE] = { "sessfs_piece", "iiib", BY_KEY, true },
	[SALVAGE_TRASH] = { "sessfs_trash", "iivvvv", BY_ROWID, true },
	[SALVAGE_ROW] = { NULL, "ttitvvv", BY_KEY | BY_ROWID, true },
	[SALVAGE_MARK] = { "sessfs_mark", "iii", BY_KEY, false },
	[SALVAGE_NODE_KEY] = { "sessfs_node_key", "tti", BY_KEY, true },
	[SALVAGE_ENTRY_NAME] = { "sqlite_autoindex_sessfs_entry_2", "ibi", BY_KEY, true },
	[SALVAGE_META] = { "sessfs_meta", "tv", BY_KEY, false },
	[SALVAGE_SCHEMA] = { NULL, "tttiT", BY_ROWID, false },
};

const char *salvage_name_of(const struct salvage *salvage, enum salvage_table table)
{
	if (table == SALVAGE_ROW)
		return salvage->table;
	if (table == SALVAGE_SCHEMA)
		return "the schema";
	return salvage_shapes[table].name ? salvage_shapes[table].name : "another table";
}

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
	struct image_page page;
	bool any;

	if (!may_be_cut_off(salvage, number) ||
	    !image_page_read(&salvage->image, number, salvage->page, &page) ||
	    page.type == IMAGE_TABLE_INTERIOR)
		return;
	for (int table = SALVAGE_NODE; table < SALVAGE_OTHER; table++) {
		/* The indexes of another program may have the shape of ours. */
		if (!salvage_shapes[table].alone ||
		    (salvage->foreign &&
		     (table == SALVAGE_NODE_KEY || table == SALVAGE_ENTRY_NAME)) ||
		    !salvage_page_is_of(salvage, table, &page, &any) || !any)
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

struct handing_out {
	struct salvage *salvage;
	enum salvage_table table;
	const struct image_page *page;
	unsigned lost;
	int first, last; /* of these */
};

static int hand_out_cell(void *arg, unsigned cell, sqlite3_stmt *row)
{
	struct handing_out *handing_out = arg;
	struct salvage *salvage = handing_out->salvage;
	const uint32_t number = handing_out->page->number;
	const enum salvage_table table = handing_out->table;
	int r = -ENODATA;

	if (row && salvage_fits(salvage, table, handing_out->page, row, true)) {
		struct salvage_record record = {
			.table = table,
			.row = row,
			.count = (int)strlen(salvage_shapes[table].columns),
			.rowid = sqlite3_column_int64(row, 0),
			.found = !(salvage->bits[number] & BIT_LIVE),
			.old = salvage->image.stale[number],
		};

		r = salvage->record(salvage->record_arg, &record);
	}
	if (r != -ENODATA)
		return r;
	handing_out->first = handing_out->lost++ ? handing_out->first : (int)cell;
	handing_out->last = (int)cell;
	return 0;
}

static void tell_lost_cells(const struct handing_out *handing_out)
{
	struct salvage *salvage = handing_out->salvage;
	const struct image_page *page = handing_out->page;
	char before[512], behind[512];

	if (handing_out->table != SALVAGE_ROW) {
		salvage_tell(salvage, "page %" PRIu32 ", of %s: %u of %u records are damaged",
			     page->number, salvage_name_of(salvage, handing_out->table),
			     handing_out->lost, page->cells);
		return;
	}
	salvage_show_row(salvage, page, handing_out->first - 1, before);
	salvage_show_row(salvage, page, handing_out->last + 1, behind);
	salvage_tell(salvage,
		     "page %" PRIu32 ": %u of %u rows are damaged, those between %s and %s",
		     page->number, handing_out->lost, page->cells, before, behind);
}

static int hand_out_page(struct salvage *salvage, enum salvage_table table, uint32_t number)
{
	struct image_page page;
	struct handing_out handing_out = { salvage, table, &page, 0, -1, -1 };
	int r;

	if (!image_page_read(&salvage->image, number, salvage->page, &page))
		return 0;
	r = salvage_cells(salvage, table, &page, true, hand_out_cell, &handing_out);
	if (r == 0 && handing_out.lost)
		tell_lost_cells(&handing_out);
	return r;
}

int salvage_run(struct salvage *salvage, salvage_fn *fn, void *arg)
{
	int r = 0;

	salvage->record = fn;
	salvage->record_arg = arg;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (enum source source = 0; r == 0 && source < SOURCES; source++)
			for (uint32_t page = 1; r == 0 && page <= salvage->image.pages; page++)
				if (salvage->use[page] == order[i] &&
				    source_of(salvage, page) == source)
					r = hand_out_page(salvage, order[i], page);
	return r;
}

static int sort_pages(struct salvage *salvage)
{
	int r;

	salvage_walk_freelist(salvage);
	r = salvage_learn_schema(salvage);
	for (int table = SALVAGE_NODE; r == 0 && table < SALVAGE_OTHER; table++)
		if (salvage->roots[table])
			r = salvage_walk(salvage, table, salvage->roots[table], 0);
	for (uint32_t page = 2; r == 0 && page <= salvage->image.pages; page++)
		if ((salvage->bits[page] & (BIT_ROOT | BIT_LIVE)) == BIT_ROOT)
			r = salvage_walk(salvage, SALVAGE_OTHER, page, 0);
	for (uint32_t page = 2; r == 0 && page <= salvage->image.pages; page++)
		sort_found(salvage, page);
	return r;
}

int salvage_open(const char *path, const char *table, backend_report_fn *report, void *arg,
		 struct salvage *salvage, char **ret_why)
{
	int r;

	*salvage = (struct salvage){ .report = report,
				     .arg = arg,
				     .table = table ? table : default_table };
	r = image_open(path, report, arg, &salvage->image, ret_why);
	if (r < 0)
		return r;
	salvage->use = calloc((size_t)salvage->image.pages + 1, 1);
	salvage->bits = calloc((size_t)salvage->image.pages + 1, 1);
	salvage->page = malloc(salvage->image.page_size);
	salvage->other = malloc(salvage->image.page_size);
	salvage->leaf = malloc(salvage->image.page_size);
	r = salvage->use && salvage->bits && salvage->page && salvage->other && salvage->leaf ?
		    salvage_leaf_open(salvage) :
		    -ENOMEM;
	if (r == 0)
		r = sort_pages(salvage);
	if (r < 0)
		salvage_close(salvage);
	return r;
}

void salvage_close(struct salvage *salvage)
{
	salvage_leaf_close(salvage);
	image_close(&salvage->image);
	free(salvage->use);
	free(salvage->bits);
	free(salvage->page);
	free(salvage->other);
	free(salvage->leaf);
	free(salvage->rows_sql);
	free(salvage->table_found);
}
