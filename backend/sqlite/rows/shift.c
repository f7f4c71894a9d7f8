/* SPDX-License-Identifier: MIT */
/*
 * Rows of a list go to other indexes, and pieces and marks with them.
 *
 * SQLite wants a primary key to be unique after each row, and in what order one UPDATE comes to the
 * rows is its own affair.  So the rows are taken in blocks no longer than the way that they go:
 * those before have left the place that a block goes to, and no two rows of one block meet.  Each
 * row is written once.
 */
#include "backend/sqlite/rows/shift.h"

#include <errno.h>

#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"

/* What is numbered, and the statements of it: ?1 session, ?2 key, ?3 ino, ?4 and ?5 the lowest and
 * highest number that are meant, ?6 by how much, ?7 index of the first row, ?8 by how much rows
 * go. */
struct numbered {
	enum sqlite_sql lowest;
	enum sqlite_sql highest;
	enum sqlite_sql shift;
};

static const struct numbered rows = { SQL_ROWS_LOWEST, SQL_ROWS_HIGHEST, SQL_ROWS_SHIFT };
static const struct numbered pieces = { SQL_PIECES_LOWEST, SQL_PIECES_HIGHEST, SQL_PIECES_SHIFT };
static const struct numbered marks = { SQL_MARKS_LOWEST, SQL_MARKS_HIGHEST, SQL_MARKS_SHIFT };

struct block {
	const struct backend_op *op;
	int64_t low;
	int64_t high;
	int64_t by;
};

/* 1 and the number that was found, 0, -errno. */
static int block_ask(struct sqlite_conn *conn, enum sqlite_sql sql, const struct block *block,
		     int64_t *ret_number)
{
	const struct backend_op *op = block->op;

	return sqlite_conn_ask(conn, sql,
			       SQL_VALUES(sql_text(bytes_given(op->session)),
					  sql_text(bytes_given(op->key)), sql_id(op->ino),
					  sql_number(block->low), sql_number(block->high),
					  sql_number(block->by), sql_number(op->at),
					  sql_number(op->to)),
			       ret_number);
}

static int shift_block(struct sqlite_conn *conn, const struct numbered *what,
		       const struct block *block)
{
	return block_ask(conn, what->shift, block, NULL);
}

/* The numbers from the highest on go up. */
static int shift_up(struct sqlite_conn *conn, const struct numbered *what, struct block all)
{
	int64_t at = 0;
	int r;

	while ((r = block_ask(conn, what->highest, &all, &at)) > 0) {
		struct block block = all;

		if (at > INT64_MAX - all.by)
			return -EFBIG;
		block.high = at;
		block.low = at < INT64_MIN + all.by ? all.low : MAX(all.low, at - all.by + 1);
		r = shift_block(conn, what, &block);
		if (r < 0 || block.low == all.low)
			return r;
		all.high = block.low - 1;
	}
	return r;
}

/* Those from the lowest on go down. */
static int shift_down(struct sqlite_conn *conn, const struct numbered *what, struct block all)
{
	int64_t at = 0;
	int r;

	while ((r = block_ask(conn, what->lowest, &all, &at)) > 0) {
		struct block block = all;

		if (at < INT64_MIN - all.by)
			return -EFBIG;
		block.low = at;
		block.high = at > INT64_MAX + all.by ? all.high : MIN(all.high, at - all.by - 1);
		r = shift_block(conn, what, &block);
		if (r < 0 || block.high == all.high)
			return r;
		all.low = block.high + 1;
	}
	return r;
}

static int shift(struct sqlite_conn *conn, const struct numbered *what, struct block all)
{
	if (!all.by)
		return shift_block(conn, what, &all);
	return all.by > 0 ? shift_up(conn, what, all) : shift_down(conn, what, all);
}

int sqlite_shift(struct sqlite_conn *conn, const struct backend_op *op)
{
	const struct block indexes = { op, op->at, INT64_MAX, op->to };
	const struct block offsets = { op, 0, INT64_MAX, op->seq };
	int64_t lowest = 0;
	int r = op->to ? shift(conn, &rows, indexes) : 0;

	if (r == 0 && op->ino && op->to)
		r = shift(conn, &pieces, indexes);
	if (r == 0 && op->ino)
		r = block_ask(conn, marks.lowest, &offsets, &lowest);
	else
		return r;
	if (r <= 0)
		return r;
	/* Nothing is there at a negative offset. */
	return op->seq < 0 && lowest + op->seq < 0 ? -EFBIG : shift(conn, &marks, offsets);
}
