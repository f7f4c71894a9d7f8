/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQLITE_SALVAGE_H
#define BACKEND_SQLITE_SALVAGE_H

/*
 * What is left of a damaged database: every record that is whole, by the table that it belongs to.
 *
 * The trees are walked from the roots that the schema names.  A page above others that is damaged
 * cuts off those below it: such a page is found again by looking at all pages of the file, and
 * sorted to its table by the shape of its records, which differs from table to table.  Pages that
 * are free hold what was deleted and are no data: the list of free pages and the pointer map, of
 * which the first may be damaged, say which.
 *
 * The pages that the log has are newer than those of the file, and those that a tree leads to are
 * surer than those that were found; so records are handed out in the order of their worth, and of
 * two with the same key the first counts:
 *
 *   1. pages that a tree leads to: those in the log, then those in the file
 *   2. pages that were found: likewise
 *   3. the file's version of pages of which the log had a newer one that is damaged
 *
 * A record is whole when its cell lies within its page and overlaps no other, when its payload and
 * all its overflow pages are there in the length that they should have and no other page claims
 * them with better reason, and when it has the columns of its table with their types.  SQLite keeps
 * no checksums of pages: a byte that has changed inside of a text cannot be seen here.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/sqlite/repair/btree.h"
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
	SALVAGE_OTHER, /* any other table or index */
	SALVAGE_TABLES,
};

enum { SALVAGE_COLUMNS = 64 };

/* Where the columns of the rows' table stand in its records; -1: nowhere. */
enum {
	ROW_SESSION,
	ROW_KEY,
	ROW_INDEX,
	ROW_DATA,
	ROW_CREATED,
	ROW_UPDATED,
	ROW_VERSION,
	ROW_COLUMNS
};

struct salvage_record {
	enum salvage_table table;
	const struct btree_value *values; /* of rows: in the order of the enum above */
	int count;
	int64_t rowid;
	bool found; /* on a page that no tree leads to */
	bool old;   /* of an older version of its page */
};
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
	int columns[ROW_COLUMNS];	/* of the rows' table, as the enum above says */
	unsigned rows_by;		/* how that keeps its records: BY_KEY or BY_ROWID */
	bool foreign;			/* made by another program, as far as is known */
	struct buf payload;		/* of a record that goes on in overflow pages */
	uint8_t *page;			/* that is being read */
	uint8_t *other;			/* a second page */
	sqlite3 *db;			/* in memory, makes UTF-8 of other texts */
	sqlite3_stmt *text;		/* of that: hands its parameters out again */
	uint8_t *cover; /* how many cells have a byte of the page: 0, 1, 2 or more */
};

/* The path is absolute; table: what the user says, or NULL. */
int salvage_open(const char *path, const char *table, backend_report_fn *report, void *arg,
		 struct salvage *salvage, char **ret_why);
/* Hand out the records of all tables: first nodes, entries, attributes, chunks and pieces, then
 * rows, then marks and indexes. */
int salvage_run(struct salvage *salvage, salvage_fn *fn, void *arg);
void salvage_close(struct salvage *salvage);
/* Bind a value as SQLite has it, until the next page is read; an error of SQLite's. */
int salvage_bind(const struct salvage *salvage, sqlite3_stmt *statement, int place,
		 const struct btree_value *value);
/* Make UTF-8 of up to SALVAGE_TEXTS values in place, until the next call. */
enum { SALVAGE_TEXTS = 5 };
int salvage_utf8(struct salvage *salvage, struct btree_value *values, int count);

#endif
