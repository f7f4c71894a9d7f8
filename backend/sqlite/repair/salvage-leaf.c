/* SPDX-License-Identifier: MIT */
/*
 * Records of one page, read by SQLite.
 *
 * SQLite is shown a database of as many pages as the image has and one behind them, the root, where
 * all tables begin.  Page 1 is ours.  The root is a copy of the page that is to be read, made a
 * leaf.  All others are those of the image, so a record goes on in its overflow pages.  As the
 * counter of changes in page 1 moves with each page that is shown, SQLite keeps none in its cache;
 * as the schema's number stays, statements stay prepared.
 *
 * The schema is read before that, from a database that SQLite has made in memory.
 *
 * At a cell that it cannot read SQLite ends the statement; then the page is shown once more, with
 * the cells behind that one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sqlite/repair/salvage-parts.h"
#include "backend/base/cleanup.h"

/* The four ways to read a page: with a rowid or without, of any table or of rows. */
enum { SET_ROWID = 1, SET_ROWS = 2 };

enum {
	COUNTER_AT = 24, /* in page 1: of changes, */
	PAGES_AT = 28,	 /* the pages of the database, */
	VALID_AT = 92,	 /* and the counter for which that holds */
};

struct leaf_file {
	sqlite3_file file;
	struct salvage *salvage;
};

static void put_u16(uint8_t *bytes, unsigned value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
	put_u16(bytes, value >> 16);
	put_u16(bytes + 2, value & 0xffff);
}

/* The file. */

/* A page that a record goes on in: not one of a tree, nor one that the map gives to another page.
 */
static bool may_overflow(struct salvage *salvage, uint32_t page)
{
	uint32_t parent;
	enum image_use use = image_use(&salvage->image, page, &parent);

	return !image_is_special(&salvage->image, page) && !(salvage->bits[page] & BIT_LIVE) &&
	       !salvage_is_free(salvage, page) &&
	       !(use == IMAGE_OVERFLOW_FIRST && parent != salvage->number &&
		 image_has_page(&salvage->image, parent) && (salvage->bits[parent] & BIT_LIVE));
}

static int file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
	struct salvage *salvage = ((struct leaf_file *)(void *)file)->salvage;
	uint32_t page = (uint32_t)(offset / salvage->image.page_size) + 1;
	const uint8_t *bytes = salvage->other;

	if (!salvage->read_schema || page == 1) {
		if ((uint64_t)offset + (uint64_t)size > salvage->schema_size)
			return SQLITE_CORRUPT;
		memcpy(data, salvage->schema + offset, (size_t)size);
		return SQLITE_OK;
	}
	if (page == salvage->root)
		bytes = salvage->leaf;
	else if (!image_has_page(&salvage->image, page) || !may_overflow(salvage, page) ||
		 image_read(&salvage->image, page, salvage->other) < 0)
		return SQLITE_CORRUPT;
	memcpy(data, bytes + offset % salvage->image.page_size, (size_t)size);
	return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	const struct salvage *salvage = ((struct leaf_file *)(void *)file)->salvage;

	*ret_size = (sqlite3_int64)salvage->root * salvage->image.page_size;
	return SQLITE_OK;
}

static int file_close(sqlite3_file *file)
{
	return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int lock)
{
	return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int operation, void *arg)
{
	return SQLITE_NOTFOUND;
}

static int file_characteristics(sqlite3_file *file)
{
	return 0;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		    int *ret_flags)
{
	/* Of what is opened for reading and has no journal nothing else is called. */
	static const sqlite3_io_methods methods = { .iVersion = 1,
						    .xClose = file_close,
						    .xRead = file_read,
						    .xFileSize = file_size,
						    .xLock = file_lock,
						    .xUnlock = file_lock,
						    .xFileControl = file_control,
						    .xDeviceCharacteristics =
							    file_characteristics };
	struct leaf_file *opened = (struct leaf_file *)(void *)file;

	opened->file.pMethods = NULL;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return SQLITE_CANTOPEN;
	opened->file.pMethods = &methods;
	opened->salvage = vfs->pAppData;
	if (ret_flags)
		*ret_flags = flags;
	return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_there)
{
	*ret_there = 0;
	return SQLITE_OK;
}

static int vfs_full_name(sqlite3_vfs *vfs, const char *name, int size, char *full)
{
	sqlite3_snprintf(size, full, "%s", name);
	return SQLITE_OK;
}

/* The schema. */

#define ALL "a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t"
#define ROWS "session_id, state_key, item_index, state_data, created_at, updated_at, version"

/* Two tables for pages of any table, with more columns than any of ours has, and two of rows as we
 * would have made them: without a rowid, and with one. */
static const char tables[] = "CREATE TABLE sessfs_0 (" ALL ", PRIMARY KEY (a)) WITHOUT ROWID;"
			     "CREATE TABLE sessfs_1 (" ALL ");"
			     "CREATE TABLE sessfs_2 (" ROWS ", PRIMARY KEY (session_id)) "
			     "WITHOUT ROWID;"
			     "CREATE TABLE sessfs_3 (" ROWS ")";

static const char *const all_columns[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
					   "k", "l", "m", "n", "o", "p", "q", "r", "s", "t" };
static const char *const row_columns[ROW_COLUMNS] = { "session_id", "state_key",  "item_index",
						      "state_data", "created_at", "updated_at",
						      "version" };

/* The words that made the rows' table are parsed as those of any schema, and run nothing. */
static int make_schema(struct salvage *salvage)
{
	static const char *const encodings[] = { "", "UTF-8", "UTF-16le", "UTF-16be" };
	char *text = sqlite3_mprintf(
		"PRAGMA page_size = %u; PRAGMA encoding = '%s'; PRAGMA auto_vacuum = NONE; %s;"
		"PRAGMA writable_schema = ON;"
		"INSERT INTO sqlite_schema SELECT 'table', %Q, %Q, 0, %Q WHERE %Q NOT NULL;"
		"UPDATE sqlite_schema SET rootpage = %lld",
		salvage->image.page_size, encodings[salvage->image.encoding], tables,
		salvage->table, salvage->table, salvage->rows_sql, salvage->rows_sql,
		(sqlite3_int64)salvage->root);
	int reserved = (int)(salvage->image.page_size - salvage->image.usable);
	sqlite3_int64 size = 0;
	sqlite3 *db = NULL;

	sqlite3_free(salvage->schema);
	salvage->schema = NULL;
	if (text && sqlite3_open(":memory:", &db) == SQLITE_OK &&
	    sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved) == SQLITE_OK &&
	    sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK)
		salvage->schema = sqlite3_serialize(db, "main", &size, 0);
	sqlite3_free(text);
	sqlite3_close(db);
	if (!salvage->schema)
		return -ENOMEM;
	salvage->schema_size = (uint64_t)size;
	put_u32(salvage->schema + PAGES_AT, salvage->root);
	return 0;
}

/* Statements. */

static bool can_select(struct salvage *salvage, const char *column, const char *table)
{
	char *text = sqlite3_mprintf("SELECT %s FROM \"%w\"", column, table);
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(salvage->db, text, -1, &statement, NULL);

	sqlite3_finalize(statement);
	sqlite3_free(text);
	return code == SQLITE_OK;
}

/* Of the values behind the rowid all, or only their types.  What another program put in the place
 * of a text as bytes is told as text; what was added to its table later, or never, is null. */
static int prepare(struct salvage *salvage, unsigned set, bool with_values, const char *table)
{
	const char *const *columns = set & SET_ROWS ? row_columns : all_columns;
	const int count = set & SET_ROWS ? ROW_COLUMNS : (int)ARRAY_SIZE(all_columns);
	sqlite3_str *str = sqlite3_str_new(NULL);
	char *text;
	int code;

	sqlite3_str_appendf(str, "SELECT %s", set & SET_ROWID ? "rowid" : "0");
	for (int i = 0; i < count; i++) {
		const char *format = with_values ? ", %s" : ", typeof(%s)";
		const char *column = columns[i];

		if (set & SET_ROWS && i > ROW_DATA && !can_select(salvage, column, table))
			column = "NULL";
		if (set & SET_ROWS && i == ROW_DATA)
			format = with_values ? ", CASE typeof(%s) WHEN 'blob' THEN CAST(%s AS "
					       "TEXT) ELSE %s END" :
					       ", replace(typeof(%s), 'blob', 'text')";
		sqlite3_str_appendf(str, format, column, column, column);
	}
	sqlite3_str_appendf(str, " FROM \"%w\"", table);
	text = sqlite3_str_finish(str);
	code = text ? sqlite3_prepare_v2(salvage->db, text, -1,
					 &salvage->statements[set][with_values], NULL) :
		      SQLITE_NOMEM;
	sqlite3_free(text);
	return code == SQLITE_OK ? 0 : code == SQLITE_NOMEM ? -ENOMEM : -ENODATA;
}

static int prepare_all(struct salvage *salvage)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < 2 * SALVAGE_SETS; i++) {
		unsigned set = i / 2;
		char name[] = "sessfs_0";

		name[7] = (char)('0' + set);
		if (!(set & SET_ROWS) || !salvage->rows_sql)
			r = prepare(salvage, set, i % 2, name);
		else if (can_select(salvage, "rowid", salvage->table) == !!(set & SET_ROWID))
			r = prepare(salvage, set, i % 2, salvage->table);
	}
	return r;
}

static void close_database(struct salvage *salvage)
{
	for (int i = 0; i < 2 * SALVAGE_SETS; i++)
		sqlite3_finalize(salvage->statements[i / 2][i % 2]);
	memset(salvage->statements, 0, sizeof(salvage->statements));
	sqlite3_close(salvage->db);
	salvage->db = NULL;
}

static int register_vfs(struct salvage *salvage)
{
	const sqlite3_vfs *real = sqlite3_vfs_find(NULL);

	if (salvage->vfs.xOpen)
		return 0;
	if (!real)
		return -ENOMEM;
	memcpy(&salvage->vfs, real, offsetof(sqlite3_vfs, xSetSystemCall));
	snprintf(salvage->vfs_name, sizeof(salvage->vfs_name), "salvage %p", (void *)salvage);
	salvage->vfs.iVersion = MIN(real->iVersion, 2);
	salvage->vfs.zName = salvage->vfs_name;
	salvage->vfs.pAppData = salvage;
	salvage->vfs.szOsFile = sizeof(struct leaf_file);
	salvage->vfs.xOpen = vfs_open;
	salvage->vfs.xAccess = vfs_access;
	salvage->vfs.xFullPathname = vfs_full_name;
	return sqlite3_vfs_register(&salvage->vfs, 0) == SQLITE_OK ? 0 : -ENOMEM;
}

int salvage_leaf_open(struct salvage *salvage)
{
	int r = register_vfs(salvage);

	close_database(salvage);
	salvage->read_schema = false;
	salvage->root = salvage->image.pages + 1;
	salvage->root += image_is_special(&salvage->image, salvage->root);
	if (r == 0)
		r = make_schema(salvage);
	if (r < 0)
		return r;
	if (sqlite3_open_v2("image", &salvage->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
			    salvage->vfs_name) != SQLITE_OK)
		return -ENOMEM;
	sqlite3_db_config(salvage->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	r = prepare_all(salvage);
	salvage->read_schema = r == 0;
	return r;
}

void salvage_leaf_close(struct salvage *salvage)
{
	close_database(salvage);
	if (salvage->vfs.xOpen)
		sqlite3_vfs_unregister(&salvage->vfs);
	sqlite3_free(salvage->schema);
}

/* Reading. */

/* Show count cells of a page from one on, up to one whose place is wrong; how many these are. */
static unsigned show_page(struct salvage *salvage, const struct image_page *page, unsigned cell,
			  unsigned count)
{
	/* Before the record of a page above others is the number of its child. */
	unsigned before = page->type == IMAGE_INDEX_INTERIOR ? 4 : 0, shown = 0;
	uint8_t *leaf = salvage->leaf;

	memcpy(leaf, page->bytes, salvage->image.page_size);
	for (; shown < count && cell + shown < page->cells; shown++) {
		unsigned at = image_cell(page, cell + shown);

		if (!at)
			break;
		put_u16(leaf + 8 + (size_t)2 * shown, at + before);
	}
	leaf[0] = before ? IMAGE_INDEX_LEAF : (uint8_t)page->type;
	put_u16(leaf + 1, 0);
	put_u16(leaf + 3, shown);
	put_u16(leaf + 5, page->first);
	leaf[7] = 0;
	salvage->number = page->number;
	put_u32(salvage->schema + COUNTER_AT, ++salvage->shown);
	put_u32(salvage->schema + VALID_AT, salvage->shown);
	return shown;
}

static bool letter_fits(char letter, char kind)
{
	switch (letter) {
	case 'n':
	case 'T':
	case 'B':
		return kind == 'n' || kind == (letter == 'n' ? 'i' : letter == 'T' ? 't' : 'b');
	case '\0': /* behind the last column */
		return kind == 'n';
	default:
		return letter == 'v' || kind == letter;
	}
}

/* A letter as in a shape; r for a real. */
static char kind_of(sqlite3_stmt *row, int i, bool with_values)
{
	const unsigned char *type;

	if (with_values)
		return "?irtbn"[sqlite3_column_type(row, SALVAGE_FIRST + i)];
	type = sqlite3_column_text(row, SALVAGE_FIRST + i);
	return type ? (char)*type : '?';
}

/* In a column of another program's, data need be neither text nor anything: but in an index, a
 * change that is logged would look like such a row. */
bool salvage_fits(const struct salvage *salvage, enum salvage_table table,
		  const struct image_page *page, sqlite3_stmt *row, bool with_values)
{
	const char *letter = salvage_shapes[table].columns;
	const bool any = table == SALVAGE_ROW && salvage->foreign && page->type == IMAGE_TABLE_LEAF;
	const int count = sqlite3_column_count(row) - SALVAGE_FIRST;

	for (int i = 0; i < count; i++) {
		if (!letter_fits(*letter, kind_of(row, i, with_values)) && !(any && i == ROW_DATA))
			return false;
		letter += *letter != 0;
	}
	return true;
}

static sqlite3_stmt *statement_for(struct salvage *salvage, enum salvage_table table,
				   enum image_type type, bool with_values)
{
	const bool by_rowid = type == IMAGE_TABLE_LEAF || type == IMAGE_TABLE_INTERIOR;
	const unsigned set = (by_rowid ? SET_ROWID : 0) | (table == SALVAGE_ROW ? SET_ROWS : 0);

	return salvage_shapes[table].by & (by_rowid ? BY_ROWID : BY_KEY) ?
		       salvage->statements[set][with_values] :
		       NULL;
}

int salvage_cells(struct salvage *salvage, enum salvage_table table, const struct image_page *page,
		  bool with_values, salvage_cell_fn *fn, void *arg)
{
	sqlite3_stmt *statement = statement_for(salvage, table, page->type, with_values);
	int r = 0, code = SQLITE_DONE;

	if (page->type == IMAGE_TABLE_INTERIOR)
		return 0;
	for (unsigned cell = 0; r == 0 && statement && cell < page->cells; cell++) {
		unsigned shown = show_page(salvage, page, cell, page->cells);

		for (; r == 0 && shown && (code = sqlite3_step(statement)) == SQLITE_ROW; cell++)
			r = fn(arg, cell, statement);
		sqlite3_reset(statement);
		if (code == SQLITE_NOMEM)
			r = -ENOMEM;
		if (r == 0 && cell < page->cells)
			r = fn(arg, cell, NULL);
	}
	return r;
}

void salvage_show_row(struct salvage *salvage, const struct image_page *page, int cell,
		      char text[512])
{
	sqlite3_stmt *row = statement_for(salvage, SALVAGE_ROW, page->type, true);

	snprintf(text, 512, "%s",
		 cell < 0		  ? "the beginning" :
		 cell >= (int)page->cells ? "the end" :
					    "somewhere");
	if (cell < 0 || cell >= (int)page->cells || !row ||
	    !show_page(salvage, page, (unsigned)cell, 1))
		return;
	if (sqlite3_step(row) == SQLITE_ROW && salvage_fits(salvage, SALVAGE_ROW, page, row, true))
		snprintf(text, 512, "session %.200s, key %.200s, item %" PRId64,
			 sqlite3_column_text(row, SALVAGE_FIRST + ROW_SESSION),
			 sqlite3_column_text(row, SALVAGE_FIRST + ROW_KEY),
			 (int64_t)sqlite3_column_int64(row, SALVAGE_FIRST + ROW_INDEX));
	sqlite3_reset(row);
}

struct counting {
	struct salvage *salvage;
	enum salvage_table table;
	const struct image_page *page;
	unsigned fit, all;
};

/* Zeros are a record to SQLite, of nulls and what stands for a column that is missing. */
static int count_cell(void *arg, unsigned cell, sqlite3_stmt *row)
{
	struct counting *counting = arg;

	if (!row || (kind_of(row, 0, false) == 'n' && kind_of(row, 1, false) == 'n'))
		return 0;
	counting->all++;
	counting->fit +=
		salvage_fits(counting->salvage, counting->table, counting->page, row, false);
	return 0;
}

bool salvage_page_is_of(struct salvage *salvage, enum salvage_table table,
			const struct image_page *page, bool *ret_any)
{
	struct counting counting = { salvage, table, page, 0, 0 };

	*ret_any = false;
	if (table == SALVAGE_OTHER)
		return true;
	if (!statement_for(salvage, table, page->type, false))
		return false;
	if (salvage_cells(salvage, table, page, false, count_cell, &counting) < 0)
		return false;
	*ret_any = counting.fit;
	return counting.fit * 2 >= counting.all;
}
