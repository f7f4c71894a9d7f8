/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_VALUES_H
#define BACKEND_VALUES_H

/* Values of a statement, from ?1 on. */

#include <stdint.h>

#include "backend/base/buf.h"

struct sql_value {
	enum { SQL_NUMBER, SQL_TEXT, SQL_BLOB, SQL_TIME, SQL_KEPT_AT, SQL_UNTIL, SQL_WORDS } is;
	/* SQL_UNTIL: until when there was what a transaction takes away. */
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

/* A number behind this one; the last one has none behind it. */
static inline int64_t sql_behind(uint64_t id)
{
	return id < INT64_MAX ? (int64_t)id + 1 : INT64_MAX;
}

static inline struct sql_value sql_text(struct bytes bytes)
{
	return (struct sql_value){ .is = SQL_TEXT, .bytes = bytes };
}

/* Text that is there, be it none. */
static inline struct sql_value sql_given(struct bytes bytes)
{
	return sql_text(bytes_given(bytes));
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

/* The time of what a transaction keeps, on a server. */
static inline struct sql_value sql_kept_at(void)
{
	return (struct sql_value){ .is = SQL_KEPT_AT };
}

#define SQL_VALUES(...)                                                                            \
	(const struct sql_value[]){ __VA_ARGS__ },                                                 \
		sizeof((const struct sql_value[]){ __VA_ARGS__ }) / sizeof(struct sql_value)
#define SQL_NO_VALUES NULL, 0

#endif
