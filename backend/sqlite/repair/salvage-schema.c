/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/sqlite/repair/salvage-parts.h"

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

static void note_column(int columns[ROW_COLUMNS], const char *name, int place)
{
	static const char *const names[ROW_COLUMNS] = { "session_id", "state_key",  "item_index",
							"state_data", "created_at", "updated_at",
							"version" };

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
			note_column(columns, (const char *)sqlite3_column_text(statement, 0),
				    place++);
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
		if (salvage_shapes[i].name && bytes_equal(name, bytes_str(salvage_shapes[i].name)))
			salvage->roots[i] = (uint32_t)root;
}

typedef int schema_fn(struct salvage *salvage, const struct btree_value *values);

/* Visit the records of a tree that was walked as another table's. */
static int visit(struct salvage *salvage, int wanted, schema_fn *fn, uint32_t page)
{
	struct btree_value values[SALVAGE_COLUMNS];
	struct btree_page leaf;
	struct btree_cell cell;
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
			    salvage_payload(salvage, page, &cell, &payload) == 0 &&
			    btree_record_read(payload, values, SALVAGE_COLUMNS) == wanted) {
				r = salvage_utf8(salvage, values, wanted);
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
	return salvage_walk(salvage, SALVAGE_OTHER, (uint32_t)root);
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
int salvage_learn_schema(struct salvage *salvage)
{
	int r;

	/* It has the number of none, so that its pages are not handed out. */
	r = salvage_walk(salvage, SALVAGE_OTHER, 1);
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

int salvage_walk_others(struct salvage *salvage)
{
	return visit_schema(salvage, on_root);
}
