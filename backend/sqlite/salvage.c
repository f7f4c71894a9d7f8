/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/salvage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/sqlite/internal.h"
#include "src/base/cleanup.h"

enum {
	BIT_LIVE = 1,	/* a tree leads to it */
	BIT_FREE = 2,	/* on the list of free pages */
	BIT_SPOILT = 4, /* something of it cannot be read, and was told */
	DEPTH_MOST = 64,
};

/* How a table keeps its records. */
enum { BY_KEY = 1, BY_ROWID = 2 };

static const char default_table[] = "agentscope_sessions";

/*
 * The shape of records: a letter a column.  i integer, t text, b blob, n null or integer, T and B
 * also null, v anything.  Tables without a rowid keep their records in the pages of an index; some
 * of ours have one in newer stores only.
 */
struct shape {
	const char *name;
	const char *columns;
	unsigned by;
	bool alone; /* no other table or index of ours has this shape */
};

static const struct shape shapes[SALVAGE_TABLES] = {
	[SALVAGE_NODE] = { "sessfs_node", "niiiiiiiiiiiiiiTTB", BY_ROWID, true },
	[SALVAGE_ENTRY] = { "sessfs_entry", "iibi", BY_KEY, true },
	[SALVAGE_XATTR] = { "sessfs_xattr", "ibb", BY_KEY, true },
	[SALVAGE_CHUNK] = { "sessfs_chunk", "iib", BY_KEY | BY_ROWID, true },
	[SALVAGE_PIECE] = { "sessfs_piece", "iiib", BY_KEY, true },
	[SALVAGE_TRASH] = { "sessfs_trash", "iivvv", BY_ROWID, true },
	[SALVAGE_ROW] = { NULL, "ttitvv", 0, true },
	[SALVAGE_MARK] = { "sessfs_mark", "iii", BY_KEY, false },
	[SALVAGE_NODE_KEY] = { "sessfs_node_key", "tti", BY_KEY, true },
	[SALVAGE_ENTRY_NAME] = { "sqlite_autoindex_sessfs_entry_2", "ibi", BY_KEY, true },
	[SALVAGE_META] = { "sessfs_meta", "tv", BY_KEY, false },
};

/* In which order tables are handed out. */
static const enum salvage_table order[] = {
	SALVAGE_NODE,  SALVAGE_ENTRY, SALVAGE_XATTR,	SALVAGE_CHUNK,	    SALVAGE_PIECE,
	SALVAGE_TRASH, SALVAGE_ROW,   SALVAGE_NODE_KEY, SALVAGE_ENTRY_NAME, SALVAGE_MARK,
};

static void tell(struct salvage *salvage, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void tell(struct salvage *salvage, const char *format, ...)
{
	char sentence[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	salvage->report(salvage->arg, sentence);
}

static const char *name_of(const struct salvage *salvage, enum salvage_table table)
{
	if (table == SALVAGE_ROW)
		return salvage->table;
	return shapes[table].name ? shapes[table].name : "another table";
}

/* Records. */

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
	unsigned by = table == SALVAGE_ROW ? salvage->rows_by : shapes[table].by;

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
	/* What the other program put there as a number or as bytes is told as text. */
	if (row[ROW_DATA].type == BTREE_BLOB)
		values[ROW_DATA].type = BTREE_TEXT;
}

/* Whether count values are those of a record of this table; arranged; how many, or -1. */
static int arrange(const struct salvage *salvage, enum salvage_table table,
		   struct btree_value *values, int count)
{
	const char *columns = shapes[table].columns;

	if (count < 0 || !columns)
		return -1;
	if (table == SALVAGE_ROW) {
		if (count <= salvage->columns[ROW_INDEX] || count <= salvage->columns[ROW_DATA])
			return -1;
		arrange_row(salvage, values, count);
		count = ROW_COLUMNS;
	}
	if (count != (int)strlen(columns))
		return -1;
	for (int i = 0; i < count; i++)
		if (!fits(columns[i], &values[i]))
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

/* Whether a pointer from one page to another is known to be false: the pointer map says otherwise,
 * and so does the page that it names. */
static bool is_false(struct salvage *salvage, uint32_t from, uint32_t page, enum image_use expected)
{
	uint32_t parent;
	enum image_use use = image_use(&salvage->image, page, &parent);

	if (use == IMAGE_UNKNOWN || (use == expected && parent == from))
		return false;
	if (use == IMAGE_FREE)
		return salvage->bits[page] & BIT_FREE;
	return use != IMAGE_ROOT && parent != from && leads_to(salvage, parent, use, page);
}

/* The whole payload of a cell: in the page, or put together in salvage->payload. */
static int read_payload(struct salvage *salvage, uint32_t page, const struct btree_cell *cell,
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
		    (salvage->bits[next] & BIT_LIVE) || is_false(salvage, from, next, use) ||
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

/* -ENODATA: not whole. */
static int read_record(struct salvage *salvage, enum salvage_table table, uint32_t page,
		       const struct btree_cell *cell, struct btree_value *values, int *ret_count)
{
	struct bytes payload;
	int r = cell->has_payload ? read_payload(salvage, page, cell, &payload) : -ENODATA;

	if (r < 0)
		return r;
	*ret_count = arrange(salvage, table, values,
			     btree_record_read(payload, values, SALVAGE_COLUMNS));
	return *ret_count < 0 ? -ENODATA : 0;
}

/* "session s, key k, item 7": for the limits of what is lost. */
static void show_row(struct salvage *salvage, const struct btree_page *page, uint32_t number,
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
	    read_record(salvage, SALVAGE_ROW, number, &cell, values, &count) < 0)
		return;
	snprintf(text, 512, "session %.*s, key %.*s, item %" PRId64,
		 (int)MIN(values[ROW_SESSION].bytes.size, 200), values[ROW_SESSION].bytes.data,
		 (int)MIN(values[ROW_KEY].bytes.size, 200), values[ROW_KEY].bytes.data,
		 values[ROW_INDEX].integer);
}

/* Whether the records of a page, as far as they are whole, are of this table. */
static bool page_is_of(const struct salvage *salvage, enum salvage_table table,
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
		if (!btree_cell_read(page, i, &cell))
			continue;
		whole++;
		fit += arrange(salvage, table, values,
			       btree_record_types(cell.local, cell.size, values,
						  SALVAGE_COLUMNS)) >= 0;
	}
	return fit * 2 >= whole;
}

/* Walking the trees. */

struct step {
	uint32_t page;
	uint32_t from;
	unsigned depth;
	unsigned cell; /* of the page above */
};

struct steps {
	struct step *step;
	size_t count, room;
};

static int steps_push(struct steps *steps, const struct step *step)
{
	if (steps->count == steps->room) {
		size_t room = steps->room ? steps->room * 2 : 64;
		struct step *more = reallocarray(steps->step, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		steps->step = more;
		steps->room = room;
	}
	steps->step[steps->count++] = *step;
	return 0;
}

/* What lies between two keys cannot be reached through a page. */
static void tell_lost_child(struct salvage *salvage, enum salvage_table table,
			    const struct step *step)
{
	struct btree_page above;
	char before[512], behind[512];
	uint8_t *bytes;

	salvage->damaged_pages++;
	bytes = step->from ? malloc(salvage->image.page_size) : NULL;
	if (table != SALVAGE_ROW || !bytes || image_read(&salvage->image, step->from, bytes) < 0 ||
	    !btree_page_read(bytes, salvage->image.usable, step->from == 1, &above) ||
	    above.type != BTREE_INDEX_INTERIOR) {
		tell(salvage, "page %" PRIu32 ", of %s, cannot be read", step->page,
		     name_of(salvage, table));
	} else {
		show_row(salvage, &above, step->from, (int)step->cell - 1, before);
		show_row(salvage, &above, step->from, (int)step->cell, behind);
		tell(salvage,
		     "page %" PRIu32 " cannot be read: rows behind %s and before %s may be lost",
		     step->page, before, behind);
	}
	free(bytes);
}

static int walk_children(struct salvage *salvage, const struct btree_page *page,
			 const struct step *step, struct steps *steps)
{
	struct btree_cell cell;
	int r = 0;

	/* The last is pushed first, so that the first is walked first. */
	for (unsigned i = page->cells + 1; r == 0 && i-- > 0;) {
		struct step child = { .from = step->page, .depth = step->depth + 1, .cell = i };

		if (i == page->cells)
			child.page = page->right;
		else if (btree_cell_read(page, i, &cell))
			child.page = cell.child;
		else
			continue; /* told when its records are read */
		r = steps_push(steps, &child);
	}
	(void)salvage;
	return r;
}

static bool can_be_child(struct salvage *salvage, const struct step *step)
{
	const struct image *image = &salvage->image;

	return image_has_page(image, step->page) && !image_is_special(image, step->page) &&
	       step->depth < DEPTH_MOST && !is_false(salvage, step->from, step->page, IMAGE_BTREE);
}

static int walk_tree(struct salvage *salvage, enum salvage_table table, uint32_t root)
{
	struct steps steps = { 0 };
	int r = steps_push(&steps, &(struct step){ .page = root });

	while (r == 0 && steps.count) {
		struct step step = steps.step[--steps.count];
		struct btree_page page;

		if (image_has_page(&salvage->image, step.page) &&
		    (salvage->bits[step.page] & BIT_LIVE))
			continue;
		if (!can_be_child(salvage, &step) ||
		    image_read(&salvage->image, step.page, salvage->page) < 0 ||
		    !btree_page_read(salvage->page, salvage->image.usable, step.page == 1, &page) ||
		    !page_is_of(salvage, table, &page)) {
			tell_lost_child(salvage, table, &step);
			continue;
		}
		salvage->bits[step.page] |= BIT_LIVE;
		salvage->use[step.page] = table;
		if (btree_is_interior(&page))
			r = walk_children(salvage, &page, &step, &steps);
	}
	free(steps.step);
	return r;
}

/* The list of free pages. */
static void walk_freelist(struct salvage *salvage)
{
	struct image *image = &salvage->image;
	uint32_t trunk = image->freelist;

	while (image_has_page(image, trunk) && !(salvage->bits[trunk] & (BIT_FREE | BIT_LIVE)) &&
	       image_read(image, trunk, salvage->page) == 0) {
		uint32_t leaves = MIN(btree_u32(salvage->page + 4), image->usable / 4 - 2);

		salvage->bits[trunk] |= BIT_FREE;
		for (uint32_t i = 0; i < leaves; i++) {
			uint32_t leaf = btree_u32(salvage->page + 8 + (size_t)4 * i);

			if (image_has_page(image, leaf))
				salvage->bits[leaf] |= BIT_FREE;
		}
		trunk = btree_u32(salvage->page);
	}
}

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
		if (!shapes[table].alone ||
		    (salvage->foreign &&
		     (table == SALVAGE_NODE_KEY || table == SALVAGE_ENTRY_NAME)) ||
		    !page_is_of(salvage, table, &page))
			continue;
		salvage->use[number] = (uint8_t)table;
		salvage->found_pages++;
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
	r = read_record(salvage, table, number, &cell, values, &record.count);
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

	salvage->damaged_pages++;
	salvage->damaged_records += lost;
	if (table != SALVAGE_ROW) {
		tell(salvage, "page %" PRIu32 ", of %s: %u of %u records are damaged", number,
		     name_of(salvage, table), lost, page->cells);
		return;
	}
	show_row(salvage, page, number, first - 1, before);
	show_row(salvage, page, number, last + 1, behind);
	tell(salvage, "page %" PRIu32 ": %u of %u rows are damaged, those behind %s and before %s",
	     number, lost, page->cells, before, behind);
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

/* The schema. */

/* In which order the columns of the rows' table stand in its records: asked from SQLite, by making
 * an empty table with the same words.  Nothing but that is allowed. */
static int allow_only_a_table(void *arg, int action, const char *a, const char *b, const char *c,
			      const char *d)
{
	(void)arg, (void)a, (void)b, (void)c, (void)d;
	switch (action) {
	case SQLITE_CREATE_TABLE:
	case SQLITE_CREATE_INDEX:
	case SQLITE_INSERT:
	case SQLITE_UPDATE:
	case SQLITE_READ:
	case SQLITE_FUNCTION:
	case SQLITE_PRAGMA:
	case SQLITE_SELECT:
	case SQLITE_REINDEX:
		return SQLITE_OK;
	default:
		return SQLITE_DENY;
	}
}

static void note_column(struct salvage *salvage, int columns[ROW_COLUMNS], const char *name,
			int place)
{
	static const char *const names[ROW_COLUMNS] = { "session_id", "state_key",  "item_index",
							"state_data", "created_at", "updated_at" };

	(void)salvage;
	for (int i = 0; name && i < ROW_COLUMNS; i++)
		if (strcasecmp(names[i], name) == 0)
			columns[i] = place;
}

/* The columns in the order of one statement's rows. */
static bool read_columns(struct salvage *salvage, sqlite3 *db, const char *format,
			 int columns[ROW_COLUMNS])
{
	char *text = sqlite3_mprintf(format, salvage->table);
	sqlite3_stmt *statement = NULL;
	int place = 0;

	for (int i = 0; i < ROW_COLUMNS; i++)
		columns[i] = -1;
	if (text && sqlite3_prepare_v2(db, text, -1, &statement, NULL) == SQLITE_OK)
		while (sqlite3_step(statement) == SQLITE_ROW)
			note_column(salvage, columns,
				    (const char *)sqlite3_column_text(statement, 0), place++);
	sqlite3_finalize(statement);
	sqlite3_free(text);
	return columns[ROW_SESSION] >= 0 && columns[ROW_KEY] >= 0 && columns[ROW_INDEX] >= 0 &&
	       columns[ROW_DATA] >= 0;
}

static void learn_columns(struct salvage *salvage, struct bytes sql)
{
	static const char by_key[] = "SELECT name FROM pragma_index_xinfo("
				     "(SELECT name FROM pragma_index_list(%Q) WHERE origin = 'pk')"
				     ") ORDER BY seqno";
	static const char by_rowid[] = "SELECT name FROM pragma_table_xinfo(%Q) WHERE hidden <> 2 "
				       "ORDER BY cid";
	int columns[ROW_COLUMNS];
	char *text = bytes_dup(sql);
	sqlite3 *db = NULL;
	bool without = false;

	if (text && strncasecmp(text, "CREATE TABLE", 12) == 0 &&
	    sqlite3_open_v2(":memory:", &db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY,
			    NULL) == SQLITE_OK) {
		sqlite3_set_authorizer(db, allow_only_a_table, NULL);
		sqlite3_exec(db, text, NULL, NULL, NULL);
		/* Only the index of a table without a rowid has all its columns. */
		without = read_columns(salvage, db, by_key, columns);
		if (without || read_columns(salvage, db, by_rowid, columns)) {
			memcpy(salvage->columns, columns, sizeof(columns));
			salvage->rows_by = without ? BY_KEY : BY_ROWID;
		}
	}
	sqlite3_close(db);
	free(text);
}

/* One row of the schema: type, name, tbl_name, rootpage, sql. */
static void learn_table(struct salvage *salvage, const struct btree_value *values)
{
	struct bytes name = values[1].bytes;
	int64_t root = values[3].integer;

	if (values[3].type != BTREE_INTEGER || root < 1 || root > salvage->image.pages)
		return;
	if (name.size == strlen(salvage->table) &&
	    strncasecmp(name.data, salvage->table, name.size) == 0) {
		salvage->roots[SALVAGE_ROW] = (uint32_t)root;
		if (values[4].type == BTREE_TEXT)
			learn_columns(salvage, values[4].bytes);
		return;
	}
	for (int i = 0; i < SALVAGE_TABLES; i++)
		if (shapes[i].name && bytes_equal(name, bytes_str(shapes[i].name)))
			salvage->roots[i] = (uint32_t)root;
}

/* A character of UTF-16; how many bytes it takes. */
static size_t read_utf16(const uint8_t *bytes, size_t size, bool big, uint32_t *ret_code)
{
	uint32_t first = big ? btree_u16(bytes) : (uint32_t)bytes[1] << 8 | bytes[0], second;

	*ret_code = first;
	if (first < 0xd800 || first > 0xdbff || size < 4)
		return 2;
	second = big ? btree_u16(bytes + 2) : (uint32_t)bytes[3] << 8 | bytes[2];
	if (second < 0xdc00 || second > 0xdfff)
		return 2;
	*ret_code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
	return 4;
}

static int append_utf8(struct buf *text, uint32_t code)
{
	char bytes[4];
	size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

	for (size_t i = size - 1; i > 0; i--, code >>= 6)
		bytes[i] = (char)(0x80 | (code & 0x3f));
	bytes[0] = (char)(size == 1 ? code : (0xf00u >> size & 0xf0) | code);
	return buf_append(text, bytes, size);
}

/* Texts of the schema, as everything here wants them; text keeps them. */
static int make_utf8(const struct salvage *salvage, struct btree_value *values, int count,
		     struct buf *text)
{
	size_t whole = 0;
	int r;

	buf_clear(text);
	for (int i = 0; i < count; i++)
		whole += values[i].bytes.size;
	r = buf_reserve(text, whole * 2 + 1);
	for (int i = 0; r == 0 && i < count && salvage->image.encoding != 1; i++) {
		const uint8_t *bytes = (const uint8_t *)values[i].bytes.data;
		size_t begin = text->size, size = values[i].bytes.size;
		uint32_t code;

		for (size_t at = 0; r == 0 && values[i].type == BTREE_TEXT && at + 2 <= size;) {
			at += read_utf16(bytes + at, size - at, salvage->image.encoding == 3,
					 &code);
			r = append_utf8(text, code);
		}
		if (values[i].type == BTREE_TEXT)
			values[i].bytes = bytes_make(text->data + begin, text->size - begin);
	}
	return r;
}

typedef int schema_fn(struct salvage *salvage, const struct btree_value *values);

/* Visit the records of a tree that was walked as another table's. */
static int visit(struct salvage *salvage, int wanted, schema_fn *fn, uint32_t page)
{
	struct btree_value values[SALVAGE_COLUMNS];
	struct btree_page leaf;
	struct btree_cell cell;
	_cleanup_(buf_done) struct buf text = { 0 };
	struct bytes payload;
	uint8_t *bytes = malloc(salvage->image.page_size);
	int r = 0;

	if (!bytes)
		return -ENOMEM;
	if (image_read(&salvage->image, page, bytes) == 0 &&
	    btree_page_read(bytes, salvage->image.usable, page == 1, &leaf) &&
	    leaf.type != BTREE_TABLE_INTERIOR) {
		for (unsigned i = 0; r == 0 && i < leaf.cells; i++)
			if (btree_cell_read(&leaf, i, &cell) && cell.has_payload &&
			    read_payload(salvage, page, &cell, &payload) == 0 &&
			    btree_record_read(payload, values, SALVAGE_COLUMNS) == wanted) {
				r = make_utf8(salvage, values, wanted, &text);
				if (r == 0)
					r = fn(salvage, values);
			}
	}
	free(bytes);
	return r;
}

static int on_schema(struct salvage *salvage, const struct btree_value *values)
{
	learn_table(salvage, values);
	return 0;
}

static int on_root(struct salvage *salvage, const struct btree_value *values)
{
	int64_t root = values[3].integer;

	if (values[3].type != BTREE_INTEGER || root < 2 || root > salvage->image.pages)
		return 0;
	for (int i = 0; i < SALVAGE_TABLES; i++)
		if (salvage->roots[i] == root)
			return 0;
	return walk_tree(salvage, SALVAGE_OTHER, (uint32_t)root);
}

static int on_meta(struct salvage *salvage, const struct btree_value *values)
{
	bool is_table = values[0].type == BTREE_TEXT && values[1].type == BTREE_TEXT &&
			bytes_equal(values[0].bytes, BYTES("table"));

	if (values[0].type == BTREE_TEXT && bytes_equal(values[0].bytes, BYTES("made")))
		salvage->foreign =
			values[1].type == BTREE_TEXT && bytes_equal(values[1].bytes, BYTES("0"));
	if (is_table && !salvage->table_found)
		salvage->table_found = bytes_dup(values[1].bytes);
	return 0;
}

/* The pages of the schema's own tree. */
static int visit_schema(struct salvage *salvage, schema_fn *fn)
{
	int r = 0;

	for (uint32_t page = 1; r == 0 && page <= salvage->image.pages; page++)
		if (salvage->use[page] == SALVAGE_NONE && (salvage->bits[page] & BIT_LIVE))
			r = visit(salvage, 5, fn, page);
	return r;
}

/* Names of tables first, since the rows' may be any. */
static int learn_schema(struct salvage *salvage)
{
	int r;

	/* It has the number of none, so that its pages are not handed out. */
	r = walk_tree(salvage, SALVAGE_OTHER, 1);
	for (uint32_t page = 1; page <= salvage->image.pages; page++)
		if (salvage->use[page] == SALVAGE_OTHER)
			salvage->use[page] = SALVAGE_NONE;
	if (r == 0)
		r = visit_schema(salvage, on_schema);
	if (r == 0 && salvage->roots[SALVAGE_META])
		r = visit(salvage, 2, on_meta, salvage->roots[SALVAGE_META]);
	if (r == 0 && salvage->table_found && strcmp(salvage->table, salvage->table_found) != 0) {
		salvage->table = salvage->table_found;
		r = visit_schema(salvage, on_schema);
	}
	return r;
}

static int sort_pages(struct salvage *salvage)
{
	int r;

	walk_freelist(salvage);
	r = learn_schema(salvage);
	for (int table = SALVAGE_NODE; r == 0 && table < SALVAGE_OTHER; table++)
		if (salvage->roots[table])
			r = walk_tree(salvage, table, salvage->roots[table]);
	if (r == 0)
		r = visit_schema(salvage, on_root);
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
	buf_done(&salvage->payload);
}
