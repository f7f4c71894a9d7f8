/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_CURSOR_H
#define BACKEND_SQL_CURSOR_H

/*
 * Questions: in a snapshot, which begins with the first of them, or on another connection.
 *
 * An answer is read as a whole before anything of it is handed out, so a callback may ask in the
 * same snapshot.  Long answers are asked for in pages: values ?1 (and ?2) say where one begins,
 * and ?3, which is filled in, how many rows it has at the most.
 */

#include "backend/sql/conn.h"

struct sql_cursor {
	const struct sql *store;
	struct sql_answer *answer;
	struct bytes columns[SQL_COLUMNS];
	int r; /* 0, or why it ends */
};

struct sql_cursor sql_cursor_open(struct backend_snapshot *snapshot, enum sql_text text,
				  const struct sql_value *values, size_t count);
/* link: NULL for a question aside. */
struct sql_cursor sql_cursor_ask(struct sql *store, struct sql_link *link, enum sql_text text,
				 const struct sql_value *values, size_t count);
bool sql_cursor_next(struct sql_cursor *cursor);
/* The only row; without one the cursor ends with this error. */
bool sql_cursor_only(struct sql_cursor *cursor, int missing);
int sql_cursor_end(struct sql_cursor *cursor);

static inline int64_t sql_cursor_number(const struct sql_cursor *cursor, int column)
{
	return sql_int(cursor->columns[column]);
}

/* The first number that a question has for an answer; without a row it stays. */
int sql_ask_number(struct sql *store, struct sql_link *link, enum sql_text text,
		   const struct sql_value *values, size_t count, int64_t *ret_number);

/* Statements that go together, and their answers in turn: NULL for one without rows. */
int sql_snapshot_ask(struct backend_snapshot *snapshot, struct bytes statements,
		     struct sql_answer **ret_answers, size_t count);
int sql_snapshot_begin_now(struct backend_snapshot *snapshot);

struct sql_pages;

/* Where the next page begins: sets values[0] and [1] by the last row of one; false: there is
 * nothing behind it. */
typedef bool sql_pages_next_fn(const struct bytes *columns, struct sql_value *values);
/* Hand a row over; as a callback of backend.h. */
typedef int sql_pages_row_fn(const struct sql_pages *pages, const struct bytes *columns);

bool sql_pages_rising(const struct bytes *columns, struct sql_value *values);
bool sql_pages_falling(const struct bytes *columns, struct sql_value *values);
int sql_pages_timed(const struct sql_pages *pages, const struct bytes *columns);

struct sql_pages {
	enum sql_text text;
	uint64_t most;		 /* rows of all pages; 0: any */
	sql_pages_next_fn *next; /* NULL: sql_pages_rising */
	sql_pages_row_fn *row;
	/* What that calls. */
	union {
		backend_node_fn *node;
		backend_entry_fn *entry;
		backend_chunk_fn *chunk;
		backend_chunk_size_fn *size;
		backend_piece_fn *piece;
		backend_row_time_fn *timed;
	};
	void *arg;
	uint64_t parent;
	struct sql *store;
};

/* Its first values: where the first page begins. */
#define SQL_PAGE(first, second) sql_number(first), sql_number(second), sql_number(0)

int sql_pages_read(struct backend_snapshot *snapshot, const struct sql_pages *pages,
		   const struct sql_value *values, size_t count);

#endif
