/* SPDX-License-Identifier: MIT */
#ifndef BASE_JSON_H
#define BASE_JSON_H

/*
 * Is this text valid JSON?  One pass over the bytes, no allocation, no tree, no recursion.
 *
 * Valid means RFC 8259: exactly one value with white space (blank, tab, CR, LF) around it, valid
 * UTF-8 (RFC 3629: no surrogates, nothing overlong, nothing above U+10FFFF), escapes as listed
 * there, no byte-order mark.  As in the RFC's grammar, a lone surrogate escape ("\uD800"), a number
 * of any size and equal keys in one object are valid.
 *
 * Arrays and objects nested more than JSON_DEPTH_MAX deep are refused: SQLite's json_valid() gives
 * up at 1,000 (2,000 in versions before 3.42), and what we call valid must satisfy it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "backend/base/buf.h"

enum { JSON_DEPTH_MAX = 1000 };

/* Where and why a text is not JSON. */
struct json_error {
	size_t offset; /* byte of the text, from 0; its size when the text ends too early */
	/* Static: "unexpected end", "expected a value", "expected a key", "expected ':'",
	 * "expected ',' or ']'", "expected ',' or '}'", "invalid number", "invalid escape",
	 * "control character in a string", "invalid UTF-8", "nested too deeply", "more than one
	 * value".  A UTF-8 sequence that the end of the text cuts is "invalid UTF-8", at its start.
	 */
	const char *reason;
};

/* error may be NULL; written only when the answer is false. */
bool json_valid(struct bytes text, struct json_error *error);

/* Append a valid text without the white space outside its strings: what is left is one line, and
 * means the same, with numbers and strings as they are spelled and keys in their order.  Any other
 * bytes are safe.  0 or -ENOMEM. */
int json_compact(struct bytes text, struct buf *out);

#endif
