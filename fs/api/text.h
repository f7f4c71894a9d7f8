/* SPDX-License-Identifier: MIT */
#ifndef FS_API_TEXT_H
#define FS_API_TEXT_H

/*
 * How lines read: what programs have written in JSON, as text for people.
 *
 *	#12  2026-01-31 18:30:05  assistant (planner)
 *	    What was said, as it was said.
 *	    -> bash {"command":"make check"}
 *	    <- PASS: 812 tests ... (40 lines, 2.1K)
 *	    [image image/png, 140K]
 *
 * - A heading begins in the first column, everything else with four blanks, and an empty line
 *   stands behind all of it.  The number is the item's.  The time is the one that the record names,
 *   or else the row's, in UTC.
 * - Role and agent are found as questions find them (fs/views/question/question.h), but roles are
 *   called by one name each, and an item with nothing but results of tools has the role "tool",
 *   also if its record names another.
 * - A call of a tool, a result and a thought are folded to one line each; images and other blobs
 *   are named.  A document with a list of messages is these messages.  A line of which only the
 *   role is known is folded to one; what has no role is indented JSON.
 * - What could do something to a terminal, or turn text around, is spelled: "^[", "\u202e", "\xff".
 *
 * - Of the clients that are known (fs/views/question/records.c), only what a person, a model or a
 *   tool has said is shown, once: nothing is appended for other records.
 * - In HTML, an item is an element <article>, with <details> for what is folded, and no byte of a
 *   record is markup.
 *
 * These functions know nothing of the store, and have no state but a reader.  Any bytes are safe;
 * bytes that are not JSON are shown as text.  The time is proportional to the bytes.  0 or -ENOMEM.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

struct text_place {
	int64_t index; /* of the item; below 0: it is a document */
	int64_t time;  /* of the row, in nanoseconds since 1970; 0: not known */
};

/* Zeroed but for how it reads; for the lines of a list in their order. */
struct text_reader {
	bool all;      /* also what is not a message */
	bool html;     /* not text */
	uint64_t last; /* private: the message that was read last */
	int calls;     /* private */
};

/* Append how a line, or a document, reads. */
int text_show(struct text_reader *reader, struct bytes line, const struct text_place *place,
	      struct buf *out);
/* Whether anything is appended unless everything is read; index: the item's, or below 0. */
bool text_is_talk(struct bytes line, int64_t index);

/* Append bytes, with those that must not reach a terminal spelled; newlines and tabs stay. */
int text_tame(struct bytes bytes, struct buf *out);

/* The same for HTML: nothing of it is markup. */
int text_html(struct bytes bytes, struct buf *out);

/* Append the strings of a line, a line each, without keys and what encodes bytes; letters of
 * scripts without blanks get blanks around them.  A text that is not JSON is one string. */
int text_said(struct bytes line, struct buf *out);
/* The same of a text that is taken as one string, even if it looks like JSON. */
int text_said_by(struct bytes text, struct buf *out);

/* The same without these blanks, for people to read; each string ends in a NUL. */
int text_strings(struct bytes line, struct buf *out);
/* Append a text in one line, tame. */
int text_fold(struct bytes text, struct buf *out);

/* Append the first words that a person wrote, at most so many bytes in one line; nothing if a
 * person wrote none of it. */
int text_title(struct bytes line, size_t most, struct buf *out);

/* Append the role, in lower case and as questions call it, and the agent; nothing: there is
 * none.  1: it is talk, as text_is_talk() says; or 0. */
int text_made_by(struct bytes line, int64_t index, struct buf *role, struct buf *agent);
/* Append the role, as text_made_by() calls it, that a client's word for it means. */
int text_role(struct bytes word, struct buf *out);

/* When it was made: as the record says, or else the row. */
int64_t text_time(struct bytes line, int64_t row);

#endif
