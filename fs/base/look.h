/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_LOOK_H
#define FS_BASE_LOOK_H

/*
 * Looking into JSON, from one place to the next: no tree, no recursion, no memory.  What is found
 * means something in valid JSON; any other bytes are safe.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

const char *look_blanks(const char *at, const char *end);
/* at: behind the opening quote.  The closing one, or the end. */
const char *look_string(const char *at, const char *end);
/* at: on the bracket that opens it.  Behind the one that closes it. */
const char *look_container(const char *at, const char *end);
/* at: on a number or a literal. */
const char *look_token(const char *at, const char *end);
/* *at: on a backslash; behind the escape afterwards.  The bytes that it stands for: 1 to 4, and no
 * more than it has. */
size_t look_unescape(const char **at, const char *end, char ret[4]);
/* Behind the value that begins here. */
const char *look_behind(const char *at, const char *end);
/* Whether the inside of a string stands for this text, which is in lower case if any case will
 * do. */
bool look_says(struct bytes inside, struct bytes text, bool any_case);
static inline char byte_fold(char byte)
{
	return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

/* What is in an object or an array, in its order; of anything else nothing. */
struct look {
	const char *at;
	const char *end;
	bool object;
};
struct look look_into(struct bytes value);
/* The key is what is between its quotes, or empty; the value is as it is spelled. */
bool look_next(struct look *look, struct bytes *ret_key, struct bytes *ret_value);

/* The value at a path of keys with '.' between them; no data if missing. */
struct bytes look_at(struct bytes value, const char *path);
/* Take the value at the first of these paths that has one which can be taken; NULL ends them.  All
 * are looked for at once: one that is taken later comes in the place of the one before. */
typedef bool look_take_fn(struct bytes value, void *arg);
void look_first(struct bytes object, const char *const *paths, look_take_fn *take, void *arg);

static inline bool look_is(struct bytes value, char first)
{
	return value.size && *value.data == first;
}

/* The text between the quotes of a string; no data if it is not a string. */
static inline struct bytes look_inside(struct bytes value)
{
	return value.size >= 2 && *value.data == '"' ? bytes_make(value.data + 1, value.size - 2) :
						       bytes_make(NULL, 0);
}

#endif
