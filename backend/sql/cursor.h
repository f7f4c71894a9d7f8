/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_CURSOR_H
#define BACKEND_SQL_CURSOR_H

/*
 * Questions in a snapshot, which begins with the first of them.
 *
 * An answer is read as a whole before anything of it is handed out, so a callback may ask in the
 * same snapshot.  Long answers are asked for in pages: values ?1 (and ?2) say where one begins,
 * and ?3 how many rows it has at the most.
 */

#include "backend/sql/conn.h"

struct sql_cursor {
	struct backend_snapshot *snapshot;
	struct sql_answer *answer;
	struct bytes columns[SQL_COLUMNS];
	int r; /* 0, or why it ends */
};

struct sql_cursor sql_cursor_open(struct backend_snapshot *snapshot, enum sql_text text,
				  const struct sql_value *values, size_t count);
bool sql_cursor_next(struct sql_cursor *cursor);
/* The only row; without one the cursor ends with this error. */
bool sql_cursor_only(struct sql_cursor *cursor, int missing);
int sql_cursor_end(struct sql_cursor *cursor);

static inline int64_t sql_cursor_number(const struct sql_cursor *cursor, int column)
{
	return sql_int(cursor->columns[column]);
}

/* Statements that go together, and their answers in turn: NULL for one without rows. */
int sql_snapshot_ask(struct backend_snapshot *snapshot, struct bytes statements,
		     struct sql_answer **ret_answers, size_t count);
int sql_snapshot_begin_now(struct backend_snapshot *snapshot);

/* Where the next page begins: sets values[0] and [1] by the last row of one; false: there is
 * nothing behind it. */
typedef bool sql_cursor_next_fn(const struct bytes *columns, struct sql_value *values);
/* Hand a row over; as a callback of backend.h. */
typedef int sql_cursor_row_fn(void *arg, const struct bytes *columns);

bool sql_cursor_rising(const struct bytes *columns, struct sql_value *values);
bool sql_cursor_falling(const struct bytes *columns, struct sql_value *values);

struct sql_pages {
	enum sql_text text;
	struct sql_value values[6];
	size_t count;  /* of these */
	uint64_t most; /* rows of all pages; 0: any */
	sql_cursor_next_fn *next;
	sql_cursor_row_fn *fn;
	void *arg;
};

int sql_cursor_pages(struct backend_snapshot *snapshot, struct sql_pages *pages);

#endif
