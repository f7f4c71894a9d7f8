/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_FIELDS_H
#define BACKEND_FIELDS_H

#include <stddef.h>

#include "backend/backend.h"

/* The fields of an operation, a letter each, and what they are in SQL. */
static const struct op_field {
	char letter;
	enum { AS_TEXT, AS_BLOB, AS_TIME, AS_SIGNED, AS_UNSIGNED } as;
	size_t offset;
} op_fields[] = {
	{ 's', AS_TEXT, offsetof(struct backend_op, session) },
	{ 'k', AS_TEXT, offsetof(struct backend_op, key) },
	{ 'S', AS_TEXT, offsetof(struct backend_op, session_to) },
	{ 'K', AS_TEXT, offsetof(struct backend_op, key_to) },
	{ 'D', AS_TEXT, offsetof(struct backend_op, data) },
	{ 'd', AS_BLOB, offsetof(struct backend_op, data) },
	{ 'n', AS_BLOB, offsetof(struct backend_op, name) },
	{ 'C', AS_TIME, offsetof(struct backend_op, created) },
	{ 'U', AS_TIME, offsetof(struct backend_op, updated) },
	{ 'v', AS_SIGNED, offsetof(struct backend_op, version) },
	{ '@', AS_SIGNED, offsetof(struct backend_op, at) },
	{ 't', AS_SIGNED, offsetof(struct backend_op, to) },
	{ 'q', AS_SIGNED, offsetof(struct backend_op, seq) },
	{ 'i', AS_UNSIGNED, offsetof(struct backend_op, ino) },
	{ 'p', AS_UNSIGNED, offsetof(struct backend_op, parent) },
	{ 'o', AS_UNSIGNED, offsetof(struct backend_op, offset) },
};

#endif
