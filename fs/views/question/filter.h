/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_QUESTION_FILTER_H
#define FS_VIEWS_QUESTION_FILTER_H

/* The part of a question about the bytes of a line, as fits.c uses it. */

#include <stdint.h>

#include "fs/base/look.h"
#include "fs/views/question/question.h"

enum side {
	INCLUDES,
	EXCLUDES,
};

enum asks_for {
	ASKS_ROLE,
	ASKS_AGENT,
	ASKS_MEMBER,
	ASKS,
};

/* A clause: any of the values.  Texts of the filter: from the first on the keys of a member's path,
 * and behind them the values. */
struct wanted {
	enum asks_for what;
	enum side side;
	size_t first;
	size_t keys;
	size_t values;
};

enum { BYTE_CLASSES = 32 };

/* A word in lower case, and how far to go on from a place whose last byte is of this class. */
struct word {
	struct bytes text;
	uint8_t skip[BYTE_CLASSES];
};

struct question_filter {
	struct buf decoded; /* parts of the question; never moves */
	struct wanted *wanted;
	size_t wanted_count, wanted_room;
	struct bytes *texts;
	size_t text_count, text_room;
	struct word *words;
	size_t word_count, word_room;
	bool asks[ASKS];
	bool asks_items; /* items=, which does not depend on the line */
};

/* For a question whose text has so many bytes; NULL: no memory. */
struct question_filter *filter_new(size_t size);
void filter_free(struct question_filter *filter);

/* 0 or -ENOMEM.  The bytes are the filter's, or static. */

/* Begin a clause, of which the next keys and then the values are.  Those of a role are in lower
 * case. */
int filter_clause(struct question_filter *filter, enum asks_for what, enum side side);
int filter_key(struct question_filter *filter, struct bytes key);
int filter_value(struct question_filter *filter, struct bytes value);
/* A word is in lower case and has 1 to QUESTION_WORD_MAX bytes. */
int filter_word(struct question_filter *filter, struct bytes text);

/* Letters in either case are of one class. */
static inline unsigned char byte_class(char byte)
{
	return (unsigned char)byte % BYTE_CLASSES;
}

#endif
