/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SALVAGE_PARTS_H
#define BACKEND_SQLITE_SALVAGE_PARTS_H

/*
 * What the parts of a salvage share; nobody else includes it.  salvage-schema.c learns which tables
 * there are, salvage-tree.c follows the trees, salvage-record.c reads records, and salvage.c finds
 * the pages that no tree leads to and hands all out.
 */

#include "backend/sqlite/store/error.h"
#include "backend/sqlite/repair/salvage.h"

/* Of a page, in salvage->bits. */
enum {
	BIT_LIVE = 1,	/* a tree leads to it */
	BIT_FREE = 2,	/* on the list of free pages */
	BIT_SPOILT = 4, /* something of it cannot be read, and was told */
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

/* Whether a pointer from one page to another is known to be false: the pointer map says otherwise,
 * and so does the page that it names.  Uses salvage->other. */
bool salvage_is_false(struct salvage *salvage, uint32_t from, uint32_t page,
		      enum image_use expected);
/* The whole payload of a cell of a page: in the page, or put together in salvage->payload.
 * -ENODATA: it is not whole. */
int salvage_payload(struct salvage *salvage, uint32_t page, const struct btree_cell *cell,
		    struct bytes *ret_payload);
/* The values of a record, as salvage.h has them, and how many.  -ENODATA: it is not whole. */
int salvage_record_read(struct salvage *salvage, enum salvage_table table, uint32_t page,
			const struct btree_cell *cell, struct btree_value *values, int *ret_count);
/* "session s, key k, item 7": for the limits of what is lost. */
void salvage_show_row(struct salvage *salvage, const struct btree_page *page, uint32_t number,
		      int cell_number, char text[512]);
/* Whether the records of a page, as far as they are whole, are of this table. */
bool salvage_page_is_of(const struct salvage *salvage, enum salvage_table table,
			const struct btree_page *page);

/* Mark the pages of the tree below a root as those of a table; tell what cannot be read. */
int salvage_walk(struct salvage *salvage, enum salvage_table table, uint32_t root);
/* Mark the pages that the list of free ones has. */
void salvage_walk_freelist(struct salvage *salvage);

/* Learn from the schema where each table begins and what the rows' table is. */
int salvage_learn_schema(struct salvage *salvage);
/* Walk the trees that are of none of our tables. */
int salvage_walk_others(struct salvage *salvage);

#endif
