/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SALVAGE_H
#define BACKEND_SQLITE_SALVAGE_H

/*
 * What is left of a damaged database: every record that is whole, by the table that it belongs to.
 *
 * The trees are walked from the roots that the schema names.  A page above others that is damaged
 * cuts off those below it: such a page is found again by looking at all pages of the file, and
 * sorted to its table by the shape of its records, which differs from table to table.  Free pages
 * have deleted records, which must not come back: the list of free pages and the pointer map, of
 * which the first may be damaged, say which.  Records are read by SQLite, a page at a time
 * (salvage-leaf.c).
 *
 * The pages that the log has are newer than those of the file, and those that a tree leads to are
 * surer than those that were found; so records are handed out in the order of their worth, and of
 * two with the same key the first counts:
 *
 *   1. pages that a tree leads to: those in the log, then those in the file
 *   2. pages that were found: likewise
 *   3. the file's version of pages of which the log had a newer one that is damaged
 *
 * A record is whole when SQLite can read it, with its overflow pages, none of which is a page of a
 * tree, and when it has the columns of its table with their types.  SQLite keeps no checksums of
 * pages: a byte that has changed inside of a text cannot be seen here.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/sqlite/repair/image.h"

enum salvage_table {
	SALVAGE_NONE,
	SALVAGE_NODE,
	SALVAGE_ENTRY,
	SALVAGE_XATTR,
	SALVAGE_CHUNK,
	SALVAGE_PIECE,
	SALVAGE_TRASH,
	SALVAGE_ROW,
	SALVAGE_MARK,
	SALVAGE_NODE_KEY,   /* the index of nodes by key: session, key, ino */
	SALVAGE_ENTRY_NAME, /* the index of entries by name: parent, name, id */
	SALVAGE_META,
	SALVAGE_SCHEMA,
	SALVAGE_OTHER, /* any other table or index */
	SALVAGE_TABLES,
};

/* The columns of a row as they are handed out. */
enum { SALVAGE_SETS = 4 };
enum { ROW_SESSION, ROW_KEY, ROW_INDEX, ROW_DATA, ROW_COLUMNS = 7 };

struct salvage_record {
	enum salvage_table table;
	sqlite3_stmt *row; /* the values of the record are its columns, from SALVAGE_FIRST on */
	int count;	   /* of these */
	int64_t rowid;
	bool found; /* on a page that no tree leads to */
	bool old;   /* of an older version of its page */
};
enum { SALVAGE_FIRST = 1 };
/* A value of one, as text. */
static inline struct bytes salvage_text(sqlite3_stmt *row, int column)
{
	const void *text = sqlite3_column_text(row, SALVAGE_FIRST + column);

	return bytes_make(text ? text : "",
			  (size_t)sqlite3_column_bytes(row, SALVAGE_FIRST + column));
}
/* The record lives until this returns. */
typedef int salvage_fn(void *arg, const struct salvage_record *record);

struct salvage {
	struct image image;
	const char *table; /* that holds the rows */
	char *table_found; /* as the store names it; free() */
	backend_report_fn *report;
	void *arg;
	salvage_fn *record;
	void *record_arg;
	/* The rest is the salvage's own. */
	uint8_t *use;			/* [page]: enum salvage_table, whose records it has */
	uint8_t *bits;			/* [page]: BIT_LIVE and the others of salvage-parts.h */
	uint32_t roots[SALVAGE_TABLES]; /* the first page of each table; 0: not known */
	char *rows_sql;			/* how the rows' table was made; NULL: not known */
	bool foreign;			/* made by another program, as far as is known */
	uint8_t *page;			/* that is being read */
	/* What SQLite reads (salvage-leaf.c). */
	sqlite3_vfs vfs;
	char vfs_name[32];
	sqlite3 *db;
	sqlite3_stmt *statements[SALVAGE_SETS][2]; /* [in which way][with values] */
	uint8_t *schema;			   /* a database that has the tables */
	uint64_t schema_size;
	bool read_schema; /* it has all of it, and page 1 alone is still shown */
	uint32_t root;	  /* behind the pages of the image: where all tables begin */
	uint32_t number;  /* which page of the image is shown there */
	uint32_t shown;	  /* how often another one was */
	uint8_t *leaf;	  /* the page at root */
	uint8_t *other;	  /* an overflow page */
};

/* The path is absolute; table: what the user says, or NULL. */
int salvage_open(const char *path, const char *table, backend_report_fn *report, void *arg,
		 struct salvage *salvage, char **ret_why);
/* Hand out the records of all tables: first nodes, entries, attributes, chunks and pieces, then
 * rows, then marks and indexes. */
int salvage_run(struct salvage *salvage, salvage_fn *fn, void *arg);
void salvage_close(struct salvage *salvage);

#endif
