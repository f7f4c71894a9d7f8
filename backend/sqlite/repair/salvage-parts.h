/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SALVAGE_PARTS_H
#define BACKEND_SQLITE_SALVAGE_PARTS_H

/*
 * What the parts of a salvage share; nobody else includes it.  salvage-tree.c learns which tables
 * there are and follows the trees, salvage-leaf.c has SQLite read the records of a page, and
 * salvage.c finds the pages that no tree leads to and hands all out.
 */

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/repair/salvage.h"

/* Of a page, in salvage->bits. */
enum {
	BIT_LIVE = 1, /* a tree leads to it */
	BIT_FREE = 2, /* on the list of free pages */
	BIT_ROOT = 4, /* the schema says that a tree begins there */
};

/* How a table keeps its records. */
enum { BY_KEY = 1, BY_ROWID = 2 };

/*
 * The shape of records: a letter a column.  i integer, t text, b blob, n null or integer, T and B
 * also null, v anything.  Tables without a rowid keep their records in the pages of an index; some
 * of ours have one in newer stores only.
 */
struct salvage_shape {
	const char *name;
	const char *columns;
	unsigned by;
	bool alone; /* no other table or index of ours has this shape */
};
extern const struct salvage_shape salvage_shapes[SALVAGE_TABLES];

#define salvage_tell(salvage, ...) sqlite_tell((salvage)->report, (salvage)->arg, __VA_ARGS__)
/* The table's, for sentences. */
const char *salvage_name_of(const struct salvage *salvage, enum salvage_table table);

/* salvage-leaf.c */

/* Open the database that SQLite reads, or open it again since rows_sql is another one.  -ENODATA:
 * the rows' table cannot be one that rows_sql makes. */
int salvage_leaf_open(struct salvage *salvage);
void salvage_leaf_close(struct salvage *salvage);
/* Visit the cells of a page as records of a table; row is NULL for one that cannot be read.
 * Without values it has their types instead, as typeof() says them. */
typedef int salvage_cell_fn(void *arg, unsigned cell, sqlite3_stmt *row);
int salvage_cells(struct salvage *salvage, enum salvage_table table, const struct image_page *page,
		  bool with_values, salvage_cell_fn *fn, void *arg);
/* Whether a record has the columns of its table with their types. */
bool salvage_fits(const struct salvage *salvage, enum salvage_table table,
		  const struct image_page *page, sqlite3_stmt *row, bool with_values);
/* "session s, key k, item 7": for the limits of what is lost. */
void salvage_show_row(struct salvage *salvage, const struct image_page *page, int cell,
		      char text[512]);
/* Whether the records of a page are of this table, at least half of them; *ret_any: are there any?
 */
bool salvage_page_is_of(struct salvage *salvage, enum salvage_table table,
			const struct image_page *page, bool *ret_any);

/* salvage-tree.c */

/* Mark a page and those below it as those of a table, and tell which cannot be read; a root has the
 * depth 0. */
int salvage_walk(struct salvage *salvage, enum salvage_table table, uint32_t number,
		 unsigned depth);
/* Mark the pages that the list of free ones has. */
void salvage_walk_freelist(struct salvage *salvage);
/* Whether both the map and the list say that a page is free. */
bool salvage_is_free(struct salvage *salvage, uint32_t page);
/* Learn from the schema where each table begins and what the rows' table is. */
int salvage_learn_schema(struct salvage *salvage);

#endif
