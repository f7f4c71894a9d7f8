/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_LINES_H
#define FS_BASE_LINES_H

/*
 * Lines: bytes of a list to rows and back.
 *
 * The bytes of a list are cut at '\n' and nowhere else.  A line whose text (without the newline) is
 * valid JSON is a row, and the row's data is exactly that text: a '\r' before the newline, or
 * blanks around the value, are JSON white space and stay.  All other lines - blank, torn, garbage -
 * are not rows; they are kept as pieces with their newline.  Joining the segments in order gives
 * the bytes again, exactly.
 *
 * A row that another program wrote may hold newlines (pretty-printed JSON).  In a list it is shown
 * with each '\n' replaced by a blank, which in JSON means the same and keeps the size; such a row
 * counts as equal to the line that it is shown as.
 */

#include <stdbool.h>

#include "backend/base/buf.h"
#include "fs/base/json.h"

struct line {
	struct bytes text; /* without the newline; borrowed */
	size_t size;	   /* bytes in the file: text.size, and 1 for the newline if there is one */
	bool newline;
};

/* Cut the next line off the front of *rest.  False when nothing is left. */
bool lines_next(struct bytes *rest, struct line *ret_line);

/* The whole lines at the start, up to the last newline and with it; and what lies behind them. */
struct bytes lines_whole(struct bytes data);
struct bytes lines_tail(struct bytes data);

/* Whether a line is a row; error as json_valid(). */
bool lines_is_row(struct bytes text, struct json_error *error);
/* Only JSON white space, or nothing: not worth a log entry. */
bool lines_is_blank(struct bytes text);

/* Append a row as it is shown in a list, without a newline behind it. */
int lines_show_row(struct bytes row, struct buf *out);
/* Whether the row is shown as this line. */
bool lines_row_equals(struct bytes row, struct bytes text);

#endif
