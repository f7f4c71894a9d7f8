/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_FIELDS_H
#define BACKEND_FIELDS_H

#include <stddef.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/values.h"

/* The fields of an operation, a letter each, and what they are in SQL. */
static const struct op_field {
	char letter;
	enum {
		AS_TEXT,
		AS_BLOB,
		AS_TIME,
		AS_SIGNED,
		AS_UNSIGNED,
		AS_MICROSECONDS,
		AS_UNTIL,
		AS_PROCESS,
		AS_ZERO
	} as;
	size_t offset;
} op_fields[] = {
	{ 's', AS_TEXT, offsetof(struct backend_op, session) },
	{ 'k', AS_TEXT, offsetof(struct backend_op, key) },
	{ 'S', AS_TEXT, offsetof(struct backend_op, session_to) },
	{ 'K', AS_TEXT, offsetof(struct backend_op, key_to) },
	{ 'x', AS_BLOB, offsetof(struct backend_op, session) },
	{ 'y', AS_BLOB, offsetof(struct backend_op, key) },
	{ 'X', AS_BLOB, offsetof(struct backend_op, session_to) },
	{ 'Y', AS_BLOB, offsetof(struct backend_op, key_to) },
	{ 'D', AS_TEXT, offsetof(struct backend_op, data) },
	{ 'd', AS_BLOB, offsetof(struct backend_op, data) },
	{ 'n', AS_BLOB, offsetof(struct backend_op, name) },
	{ 'N', AS_TEXT, offsetof(struct backend_op, name) },
	{ 'C', AS_TIME, offsetof(struct backend_op, created) },
	{ 'U', AS_TIME, offsetof(struct backend_op, updated) },
	{ 'c', AS_SIGNED, offsetof(struct backend_op, created) },
	{ 'f', AS_MICROSECONDS, offsetof(struct backend_op, created) },
	{ 'v', AS_SIGNED, offsetof(struct backend_op, version) },
	{ '@', AS_SIGNED, offsetof(struct backend_op, at) },
	{ 't', AS_SIGNED, offsetof(struct backend_op, to) },
	{ 'q', AS_SIGNED, offsetof(struct backend_op, seq) },
	{ 'i', AS_UNSIGNED, offsetof(struct backend_op, ino) },
	{ 'p', AS_UNSIGNED, offsetof(struct backend_op, parent) },
	{ 'o', AS_UNSIGNED, offsetof(struct backend_op, offset) },
	/* Of none. */
	{ 'u', AS_UNTIL, 0 },
	{ 'P', AS_PROCESS, 0 },
	{ '0', AS_ZERO, 0 },
};

static inline struct sql_value op_value(char letter, const struct backend_op *op)
{
	const struct op_field *field = op_fields;
	const void *at;

	while (field->letter != letter)
		field++;
	at = (const char *)op + field->offset;
	switch (field->as) {
	case AS_TEXT:
		return sql_text(bytes_given(*(const struct bytes *)at));
	case AS_BLOB:
		return sql_blob(bytes_given(*(const struct bytes *)at));
	case AS_TIME:
		return sql_time(*(const int64_t *)at);
	case AS_SIGNED:
		return sql_number(*(const int64_t *)at);
	case AS_MICROSECONDS:
		return sql_number(*(const int64_t *)at / 1000);
	case AS_UNTIL:
		return (struct sql_value){ .is = SQL_UNTIL };
	case AS_PROCESS:
		return sql_number(getpid());
	case AS_ZERO:
		return sql_number(0);
	case AS_UNSIGNED:
		break;
	}
	return sql_id(*(const uint64_t *)at);
}

/* Of all these letters; how many. */
static inline size_t op_values(const char *letters, const struct backend_op *op,
			       struct sql_value *values)
{
	size_t count = 0;

	for (; letters[count]; count++)
		values[count] = op_value(letters[count], op);
	return count;
}

#endif
