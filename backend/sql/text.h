/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TEXT_H
#define BACKEND_SQL_TEXT_H

/* Statements, and values in them. */

#include "backend/backend.h"
#include "backend/sql/driver.h"
#include "backend/values.h"

enum sql_text {
#define SQL(name, text) name,
#include "backend/sql/texts.h"
#undef SQL
	SQL_TEXTS,
};

/* The rows' table, as it was found. */
struct sql_layout {
	char *name;
	char *quoted;
	char *collation; /* of its ids */
	bool exact;	 /* which has one spelling of each */
	bool has_created;
	bool has_updated;
	bool whole_seconds;
	uint64_t most; /* characters of the data of a row */
};

void sql_layout_done(struct sql_layout *layout);

struct sql_texts {
	const struct sql_driver *driver;
	struct sql_layout layout;
	char *text[SQL_TEXTS];
};

/* Fill in the words.  0 or -ENOMEM. */
int sql_texts_make(struct sql_texts *texts);
void sql_texts_done(struct sql_texts *texts);
/* Another text with its words filled in, owned by the caller; NULL: no memory. */
char *sql_texts_expand(const struct sql_texts *texts, const char *text);

/* Append a statement with its values; with a ";" in front unless it is the first. */
int sql_say(struct buf *buf, const struct sql_texts *texts, enum sql_text text,
	    const struct sql_value *values, size_t count);
int sql_say_text(struct buf *buf, const struct sql_texts *texts, const char *text,
		 const struct sql_value *values, size_t count);
/* The same as a part of the statement before it. */
int sql_say_on(struct buf *buf, const struct sql_texts *texts, enum sql_text text,
	       const struct sql_value *values, size_t count);
int sql_say_value(struct buf *buf, const struct sql_texts *texts, const struct sql_value *value);

/* A name of a table, quoted. */
int sql_quote_name(const struct sql_driver *driver, struct buf *buf, const char *name);

#endif
