/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SQL_TEXT_H
#define BACKEND_SQL_TEXT_H

/* Statements, and values in them. */

#include "backend/backend.h"
#include "backend/sql/driver.h"

enum sql_text {
#define SQL(name, text) name,
#include "backend/sql/texts.h"
#undef SQL
	SQL_TEXTS,
};

struct sql_value {
	enum { SQL_NUMBER, SQL_TEXT, SQL_BLOB, SQL_TIME, SQL_KEPT_AT, SQL_WORDS } is;
	int64_t number;	    /* of SQL_TIME: nanoseconds since 1970; 0: now */
	struct bytes bytes; /* data NULL: NULL */
};

static inline struct sql_value sql_number(int64_t number)
{
	return (struct sql_value){ .is = SQL_NUMBER, .number = number };
}

/* Numbers that SQL has no room for are of nothing that is there. */
static inline struct sql_value sql_id(uint64_t id)
{
	return sql_number((int64_t)(id < INT64_MAX ? id : INT64_MAX));
}

static inline struct sql_value sql_text(struct bytes bytes)
{
	return (struct sql_value){ .is = SQL_TEXT, .bytes = bytes };
}

static inline struct sql_value sql_blob(struct bytes bytes)
{
	return (struct sql_value){ .is = SQL_BLOB, .bytes = bytes };
}

/* A part of a statement, as it is. */
static inline struct sql_value sql_words(struct bytes bytes)
{
	return (struct sql_value){ .is = SQL_WORDS, .bytes = bytes };
}

static inline struct sql_value sql_time(int64_t time)
{
	return (struct sql_value){ .is = SQL_TIME, .number = time };
}

/* The time of what a transaction keeps. */
static inline struct sql_value sql_kept_at(void)
{
	return (struct sql_value){ .is = SQL_KEPT_AT };
}

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
